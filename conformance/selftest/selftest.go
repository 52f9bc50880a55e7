package selftest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
)

// Options says how much is run.
type Options struct {
	// Full runs every case against every mutant. Otherwise each mutant meets the cases
	// that must find it, and a tenth of the rest.
	Full bool
	// Leave are cases that are not run, unless a mutant names them.
	Leave []string
	// Only selects mutants by name; empty is all. The sinks without a defect are left out
	// then, unless Clean asks for them.
	Only  []string
	Clean bool
	// Parallel is how many sinks are tried at a time; 0 is 4.
	Parallel int
	Seed     uint64
	// Observe is told each row when it is there. It may be nil.
	Observe func(Row)
}

// Matrix is which case found which mutant.
type Matrix struct {
	// Clean has the failures of the sinks without a defect; empty is right.
	Clean []string `json:"clean"`
	// Passed counts the cases that the clean sinks passed.
	Passed int   `json:"passed"`
	Rows   []Row `json:"rows"`
	// Alone are the MUST cases, each with the mutants that it or its group alone finds.
	Alone map[string][]string `json:"alone"`
	// Unproven are MUST cases without such a mutant.
	Unproven []string `json:"unproven"`
}

// Row is one mutant.
type Row struct {
	Mutant string `json:"mutant"`
	Title  string `json:"title"`
	// Expected must find it, Found did. Silent are expected and did not, Surprising did
	// and are not expected.
	Expected   []string `json:"expected"`
	Found      []string `json:"found"`
	Silent     []string `json:"silent,omitempty"`
	Surprising []string `json:"surprising,omitempty"`
	// Tried counts the cases that were run.
	Tried int    `json:"tried"`
	Error string `json:"error,omitempty"`
}

// Survived reports whether no case found the mutant, or another than must.
func (r *Row) Survived() bool { return len(r.Found) == 0 || len(r.Silent) > 0 || r.Error != "" }

// OK reports whether the suite is worth its word: clean sinks pass, every mutant is found
// by the cases that must find it, and every MUST case is proven by a mutant.
func (m *Matrix) OK() bool {
	bad := slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Survived() || len(r.Surprising) > 0 })
	return len(m.Clean) == 0 && !bad && len(m.Unproven) == 0
}

// Run tries the clean sinks and the mutants, several at a time.
func Run(ctx context.Context, o Options) (*Matrix, error) {
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	m := &Matrix{}
	free := make(chan struct{}, o.Parallel)
	var all sync.WaitGroup
	var told sync.Mutex
	if len(o.Only) == 0 || o.Clean {
		for _, v := range badsinks.Variants() {
			free <- struct{}{}
			all.Go(func() {
				defer func() { <-free }()
				passed, failures := clean(ctx, v, o.Seed)
				told.Lock()
				defer told.Unlock()
				m.Passed, m.Clean = m.Passed+passed, append(m.Clean, failures...)
			})
		}
	}
	var mutants []badsinks.Mutant
	for _, mutant := range badsinks.Mutants() {
		if len(o.Only) == 0 || slices.Contains(o.Only, string(mutant.Defect)) {
			mutants = append(mutants, mutant)
		}
	}
	m.Rows = make([]Row, len(mutants))
	for i, mutant := range mutants {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			m.Rows[i] = try(ctx, mutant, o)
			if o.Observe != nil {
				told.Lock()
				defer told.Unlock()
				o.Observe(m.Rows[i])
			}
		})
	}
	all.Wait()
	m.prove()
	return m, ctx.Err()
}

func options(p *badsinks.Process, v badsinks.Variant, seed uint64) conformance.Options {
	o := conformance.Options{
		Target: p, Probe: p, Crashers: []conformance.Crasher{p}, CrashPoints: -1, TLS: p.Transport(),
		Effort: conformance.Quick, Seed: seed + 1, Patience: 20 * time.Second,
	}
	if v.Remote {
		o.Proxy = p.Network()
	}
	return o
}

// clean counts the cases that a sink without a defect passes, and says what it fails.
func clean(ctx context.Context, v badsinks.Variant, seed uint64) (passed int, failures []string) {
	p, err := badsinks.New(v, "")
	if err != nil {
		return 0, []string{v.Name + ": " + err.Error()}
	}
	defer p.Close()
	o := options(p, v, seed)
	o.Run = v.Cases
	sum, err := conformance.Run(ctx, o)
	if err != nil {
		return 0, []string{v.Name + ": " + err.Error()}
	}
	for _, r := range sum.Results {
		switch r.Verdict {
		case conformance.Pass:
			passed++
		case conformance.Skip:
		default:
			failures = append(failures, v.Name+": "+r.ID+": "+text(&r))
		}
	}
	return passed, failures
}

func text(r *conformance.Result) string {
	if r.Failure == nil {
		return r.Why
	}
	return strings.TrimSpace(r.Failure.What + " " + r.Failure.Expected + " " + r.Failure.Found)
}

// triesMax is how often a mutant is tried that a case of chance must find.
const triesMax = 4

// try runs one mutant; again where only cases of chance did not find it.
func try(ctx context.Context, mutant badsinks.Mutant, o Options) Row {
	row := once(ctx, mutant, o)
	for n := 1; n < triesMax && len(row.Silent) > 0 && row.Error == "" && chance(row.Silent); n++ {
		o.Seed++
		again := once(ctx, mutant, o)
		row.Silent = slices.DeleteFunc(row.Silent, func(id string) bool { return slices.Contains(again.Found, id) })
		for _, id := range again.Found {
			if !slices.Contains(row.Found, id) {
				row.Found = append(row.Found, id)
			}
		}
	}
	return row
}

// chance reports whether all these cases are a matter of moments.
func chance(ids []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(timing, id) })
}

// once runs one mutant.
func once(ctx context.Context, mutant badsinks.Mutant, o Options) Row {
	row := Row{Mutant: string(mutant.Defect), Title: mutant.Title, Expected: mutant.Caught}
	p, err := badsinks.New(mutant.Variant(), mutant.Defect)
	if err != nil {
		row.Error = err.Error()
		return row
	}
	defer p.Close()
	run := options(p, mutant.Variant(), o.Seed)
	if !o.Full {
		run.Run = selection(mutant, o.Seed)
	}
	for _, id := range o.Leave {
		if !slices.Contains(mutant.Caught, id) {
			run.Skip = append(run.Skip, conformance.UserSkip{Pattern: id, Reason: "left out of this selftest"})
		}
	}
	sum, err := conformance.Run(ctx, run)
	if err != nil {
		row.Error = err.Error()
		return row
	}
	for _, r := range sum.Results {
		if r.Verdict == conformance.Skip {
			continue
		}
		row.Tried++
		if r.Verdict != conformance.Pass {
			row.Found = append(row.Found, r.ID)
			if !slices.Contains(mutant.Caught, r.ID) && !slices.Contains(timing, r.ID) && r.ID != countsOfAll {
				row.Surprising = append(row.Surprising, r.ID)
			}
		}
	}
	for _, id := range mutant.Caught {
		if !slices.Contains(row.Found, id) {
			row.Silent = append(row.Silent, id)
		}
	}
	return row
}

// countsOfAll judges the answers of every case of a run, and so depends on which were run.
const countsOfAll = "OPR-002"

// timing are cases whose moment is random: they may find a defect that is not theirs.
var timing = []string{
	"IDM-007", "IDM-014", "ATM-007", "ATM-011", "FNC-007", "CNC-001", "CNC-002", "CNC-003", "DLN-001", "DLN-002", "DLN-003",
}

// selection is the cases that must find a mutant, and a random tenth of the rest, but for
// those that take long or are a matter of moments.
func selection(mutant badsinks.Mutant, seed uint64) []string {
	ids := slices.Clone(mutant.Caught)
	dice := rand.New(rand.NewPCG(seed, uint64(len(mutant.Title))))
	for _, c := range conformance.Cases() {
		costly := c.Group() == "BIG" || slices.Contains(timing, c.ID)
		if c.LeftOut == "" && !costly && !slices.Contains(ids, c.ID) && dice.IntN(10) == 0 {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// prove finds for each MUST case the mutants that it or its group alone finds.
func (m *Matrix) prove() {
	m.Alone = map[string][]string{}
	for _, c := range conformance.Cases() {
		if c.LeftOut != "" || c.Level != conformance.Must {
			continue
		}
		for _, mutant := range badsinks.Mutants() {
			other := slices.ContainsFunc(mutant.Caught, func(id string) bool {
				group, _, _ := strings.Cut(id, "-")
				return group != c.Group()
			})
			if !other && slices.Contains(mutant.Caught, c.ID) {
				m.Alone[c.ID] = append(m.Alone[c.ID], string(mutant.Defect))
			}
		}
		if len(m.Alone[c.ID]) == 0 {
			m.Unproven = append(m.Unproven, c.ID)
		}
	}
}
