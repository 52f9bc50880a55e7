package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// witness remembers what all calls of a run answered, for the cases that judge the
// answers of the others: their texts, codes and counts.
type witness struct {
	mu     sync.Mutex
	canary string
	seen   int
	// faults are found once each, as "IDM-004: HandleBatch: text above 1 KiB".
	texts, leaks, codes, counts []string
	counted                     int
}

// see judges how a call ended.
func (w *witness) see(id string, a *answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	where := id + ": " + a.Call + ": "
	if a.Code == codes.AlreadyExists {
		add(&w.codes, where+"ALREADY_EXISTS")
	}
	if a.Code == codes.OK {
		return
	}
	if !a.validText() {
		add(&w.texts, fmt.Sprintf("%sa status message of %d bytes", where, len(a.message)))
	}
	if a.size > 4096 {
		add(&w.texts, fmt.Sprintf("%sstatus details of %d bytes", where, a.size))
	}
	for _, d := range a.details {
		if name, known := knownDetail(d); !known {
			add(&w.texts, where+"status details of the type "+name)
		}
	}
	if w.leaksIn(a) {
		add(&w.leaks, where+a.Error())
	}
}

func (w *witness) leaksIn(a *answer) bool {
	if strings.Contains(a.message, w.canary) {
		return true
	}
	for _, d := range a.details {
		if strings.Contains(fmt.Sprint(d), w.canary) {
			return true
		}
	}
	for _, values := range a.trailers {
		for _, v := range values {
			if strings.Contains(v, w.canary) || bytes.Contains([]byte(v), []byte(w.canary)) {
				return true
			}
		}
	}
	return false
}

// knownDetail reports whether status details are of a type that the contract allows.
func knownDetail(d any) (string, bool) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", d), "*errdetails.")
	return name, slices.Contains([]string{"ErrorInfo", "RetryInfo", "BadRequest"}, name)
}

// count compares what an answer counted with what changed. Only what nobody can see in
// two ways is compared: replays, deletes and truncates, and the sum of the upserts.
func (w *witness) count(id, call string, want tally, have *sinkv1.Counts) {
	if have == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted++
	compare := func(what string, present bool, got, want uint64) {
		if present && got != want {
			add(&w.counts, fmt.Sprintf("%s: %s: %s is %d, should be %d", id, call, what, got, want))
		}
	}
	compare("deleted", have.Deleted != nil, have.GetDeleted(), want.deleted)
	compare("truncated", have.Truncated != nil, have.GetTruncated(), want.truncated)
	compare("replayed_transactions", have.ReplayedTransactions != nil, have.GetReplayedTransactions(), want.replayed)
	both := have.Inserted != nil && have.Updated != nil
	compare("inserted and updated", both, have.GetInserted()+have.GetUpdated(), want.inserted+want.updated)
}

// add keeps a fault, once, and 20 at most.
func add(list *[]string, fault string) {
	if len(*list) < 20 && !slices.Contains(*list, fault) {
		*list = append(*list, fault)
	}
}

// of is a copy of one list.
func (w *witness) of(list *[]string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(*list)
}
