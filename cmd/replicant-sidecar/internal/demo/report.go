package demo

import (
	"context"
	"fmt"
	"sort"
	"time"
)

// The verdicts. VerdictExact is said only when every table was compared row by row, none
// is empty, and at least half of the promised rows are there.
const (
	VerdictExact       = "exact"
	VerdictDifferent   = "different"
	VerdictNotCompared = "not_compared"
)

// Report is the outcome of a demonstration, printed as one JSON line.
type Report struct {
	Verdict string `json:"verdict"`
	// Why says in words what stands against "exact"; empty when nothing does.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
	Rate    int     `json:"rate"`
	Seed    uint64  `json:"seed"`
	Chaos   bool    `json:"chaos"`
	// Written is what the shop's own transactions did at the source. Applied is what
	// the last sidecar process reports, so that with chaos it is a part.
	Written Work `json:"written"`
	Applied Work `json:"applied"`
	// Rows compared, over all tables, and those per table.
	Rows   int64            `json:"rows"`
	Tables map[string]int64 `json:"tables"`
	Lag    Lag              `json:"lag"`
	Kills  Kills            `json:"kills"`
}

// Work counts committed transactions and the row changes in them.
type Work struct {
	Transactions int64 `json:"transactions"`
	Rows         int64 `json:"rows"`
}

// Lag is how far behind the sink was.
type Lag struct {
	WorstSeconds float64 `json:"worst_seconds"`
	DrainSeconds float64 `json:"drain_seconds"`
	Bytes        int64   `json:"bytes_at_end"`
}

// Kills that landed.
type Kills struct {
	Sidecar int    `json:"sidecar"`
	Sink    int    `json:"sink"`
	Landed  []Kill `json:"landed"`
}

func (r *Report) kills(landed []Kill) {
	sort.Slice(landed, func(i, j int) bool { return landed[i].At.Before(landed[j].At) })
	r.Kills.Landed = append([]Kill{}, landed...)
	for _, k := range landed {
		if k.Who == "sidecar" {
			r.Kills.Sidecar++
		} else {
			r.Kills.Sink++
		}
	}
}

// count takes the numbers while the sidecar still answers.
func (r *Report) count(shop *shop, stage *stage) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if st, err := stage.status(ctx); err == nil {
		r.Applied = Work{st.Transactions, st.Changes}
	}
	r.Lag.WorstSeconds = stage.lagWorst
	r.Written = Work{shop.transactions.Load(), shop.rows.Load()}
}

// compare reads both sides and decides the verdict.
func (r *Report) compare(ctx context.Context, o Options, shop *shop) error {
	if len(o.ReadSink) == 0 {
		r.Verdict, r.Why = VerdictNotCompared, "nobody can read this sink: name a command with --read-sink"
		return nil
	}
	source, err := readSource(ctx, shop)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	sink, err := readSink(ctx, o.ReadSink)
	if err != nil {
		r.Verdict, r.Why = VerdictNotCompared, "the sink could not be read: "+err.Error()
		return nil
	}
	r.judge(source, sink)
	return nil
}

// judge compares what was read of both sides.
func (r *Report) judge(source, sink map[string]table) {
	r.Verdict = VerdictExact
	r.Tables = map[string]int64{}
	for _, name := range tables {
		rows := int64(len(source[name].rows))
		r.Tables[name], r.Rows = rows, r.Rows+rows
		if rows == 0 {
			r.reject("table %q is empty", name)
		}
		if why := difference(source[name], sink[name]); why != "" {
			r.reject("table %q: %s", name, why)
		}
	}
	if least := int64(float64(r.Rate) * r.Seconds / 2); r.Rows < least {
		r.reject("%d rows are there, the promise of %d a second asks for at least %d", r.Rows, r.Rate, least)
	}
}

func (r *Report) reject(format string, args ...any) {
	r.Verdict = VerdictDifferent
	if r.Why == "" {
		r.Why = fmt.Sprintf(format, args...)
	}
}

// Summary is the report for people.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%s: %d rows in %d tables compared, %d transactions written in %.0f s",
		r.Verdict, r.Rows, len(r.Tables), r.Written.Transactions, r.Seconds)
	if r.Chaos {
		text += fmt.Sprintf(", sidecar killed %d times, sink %d times", r.Kills.Sidecar, r.Kills.Sink)
	}
	if r.Why != "" {
		text += "\n" + r.Why
	}
	return text
}
