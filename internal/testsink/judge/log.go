package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// LogReport is what the append log shows.
type LogReport struct {
	Entries int
	// Transactions are counted once, however often they stand there.
	Transactions int
	// Repeats are the times the log goes back to a transaction that stands there, in
	// order, each with the number of transactions that follow again.
	Repeats []int
	// Faults are gaps, torn and late transactions: never right, in any mode.
	Faults []string
	// Writers are the process numbers of the sinks, in the order of their first entry.
	Writers []int
	ledger  map[Mark]int // how often, by distinct transactions
}

// Log reads the log of a stream in the order in which it was written, and holds it
// against what a log must be: every transaction whole, with ordinals from 0 without a
// gap; commit LSNs rising; where it goes back, it goes on from there without leaving
// anything out.
func Log(ctx context.Context, sink, stream string) (*LogReport, error) {
	w := &walk{report: LogReport{ledger: map[Mark]int{}}, index: map[core.LSN]int{}}
	err := once(ctx, sink, `SELECT commit_lsn, ordinal, inserted_by, CASE WHEN op = 'insert' AND relation = $2 THEN payload::jsonb->>'new' END
FROM testsink.log WHERE stream = $1 AND op <> 'snapshot' ORDER BY seq`, w.entry, stream, LedgerRelation)
	if missing(err) {
		err = nil
	}
	w.close()
	w.end()
	w.report.Transactions = len(w.sizes)
	return &w.report, err
}

// Once is nil when everything stands there once.
func (r *LogReport) Once() error { return r.AtMost(0, 0) }

// AtMost is nil when there is no fault, and the log goes back at most so many times, by
// at most so many transactions each time.
func (r *LogReport) AtMost(times, transactions int) error {
	faults := r.Faults
	if len(r.Repeats) > times {
		faults = append(faults, fmt.Sprintf("DUP: the log goes back %d times, by %v transactions", len(r.Repeats), r.Repeats))
	}
	for _, n := range r.Repeats {
		if n > transactions && times > 0 {
			faults = append(faults, fmt.Sprintf("DUP: %d transactions again, at most %d may be", n, transactions))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &Breach{strings.Join(faults[:min(len(faults), 10)], "; ")}
}

// walk goes through the entries.
type walk struct {
	report LogReport
	// The transaction at hand.
	commit  core.LSN
	entries int
	marks   []Mark
	// The transactions so far, by first sight.
	index  map[core.LSN]int
	sizes  []int
	last   core.LSN
	cursor int // the last transaction seen, while going on from a repeat
}

func (w *walk) fault(format string, args ...any) {
	w.report.Faults = append(w.report.Faults, fmt.Sprintf(format, args...))
}

func (w *walk) entry(v [][]byte) error {
	commit, err := core.ParseLSN(string(v[0]))
	if err != nil {
		return err
	}
	ordinal, err := strconv.Atoi(string(v[1]))
	if err != nil {
		return err
	}
	w.report.Entries++
	w.writer(string(v[2]))
	if commit != w.commit || ordinal == 0 {
		w.close()
		w.commit = commit
	}
	if ordinal != w.entries {
		w.fault("ATOM: transaction %s goes from ordinal %d on to %d", commit, w.entries-1, ordinal)
		w.entries = ordinal
	}
	w.entries++
	if v[3] != nil {
		var m Mark
		if err := json.Unmarshal(v[3], &m); err != nil {
			return err
		}
		w.marks = append(w.marks, m)
	}
	return nil
}

func (w *walk) writer(text string) {
	pid, _ := strconv.Atoi(text)
	for _, known := range w.report.Writers {
		if known == pid {
			return
		}
	}
	w.report.Writers = append(w.report.Writers, pid)
}

// close ends the transaction at hand.
func (w *walk) close() {
	if w.entries == 0 {
		return
	}
	at, again := w.index[w.commit]
	switch {
	case again:
		w.again(at)
	case w.commit < w.last:
		w.fault("ORD: transaction %s came after %s", w.commit, w.last)
		w.first()
	default:
		w.end()
		w.first()
	}
	w.entries, w.marks = 0, nil
}

func (w *walk) first() {
	w.index[w.commit] = len(w.sizes)
	w.cursor = len(w.sizes)
	w.sizes = append(w.sizes, w.entries)
	w.last = max(w.last, w.commit)
	for _, m := range w.marks {
		w.report.ledger[m]++
		if m.Changes != w.entries {
			w.fault("ATOM: transaction %s has %d entries, its source wrote %d", w.commit, w.entries, m.Changes)
		}
	}
	if len(w.marks) > 1 {
		w.fault("ATOM: transaction %s holds %d transactions of the source", w.commit, len(w.marks))
	}
}

func (w *walk) again(at int) {
	if w.entries != w.sizes[at] {
		w.fault("ATOM: transaction %s has %d entries, and %d when it stands there again", w.commit, w.sizes[at], w.entries)
	}
	n := len(w.report.Repeats)
	if n > 0 && at == w.cursor+1 {
		w.report.Repeats[n-1]++
	} else {
		if at > w.cursor {
			w.fault("ORD: a repeat goes from transaction %d on to %d", w.cursor, at)
		}
		w.report.Repeats = append(w.report.Repeats, 1)
	}
	w.cursor = at
}

// end is passed when something new comes, or nothing more: a repeat must have reached
// the last transaction by then.
func (w *walk) end() {
	if w.cursor != len(w.sizes)-1 && len(w.sizes) > 0 {
		w.fault("ORD: a repeat ended %d transactions before the last", len(w.sizes)-1-w.cursor)
	}
}
