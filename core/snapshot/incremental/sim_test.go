package incremental_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// The simulated source: one table with a TOAST column, a log of transactions, and what of it
// is flushed and visible.

var relation = &core.Relation{
	OID: 7, Schema: "public", Name: "t", Identity: core.IdentityDefault,
	Columns: []core.Column{{Name: "k", Identity: true, PrimaryKeyPosition: 1}, {Name: "plain"}, {Name: "toast"}},
}

var member = incremental.Member{OID: 7, Schema: "public", Name: "t", Key: []string{"k"}, KeyTypes: []uint32{23}, KeyCollations: []string{""}, Identity: core.IdentityDefault, Extent: incremental.Extent{Known: true, Rows: 100}}

type sourceRow struct{ plain, toast string }

type rows map[string]sourceRow

type op struct {
	kind     byte // u, U (with toast), m, d, i, x
	key, to  string
	streamed []core.Change
}

type tx struct {
	xid     uint32
	ops     []op
	end     core.LSN
	visible bool
}

const step = 100 // WAL between two commits

type source struct {
	rng     *rand.Rand
	moving  bool // mostly key changes
	log     []tx
	flushed int
	serial  int
	initial rows
}

func newSource(rng *rand.Rand, moving bool) *source {
	s := &source{rng: rng, moving: moving, initial: rows{}}
	for k := range coldKeys + rng.IntN(keySpace) { // the highest key may be a cold one
		k = keySpace + coldKeys - 1 - k
		s.initial[strconv.Itoa(k)] = sourceRow{"p" + strconv.Itoa(k), "t" + strconv.Itoa(k)}
	}
	return s
}

func (s *source) insertLSN() core.LSN { return core.LSN(step * (1 + len(s.log))) }

// at is the table as the transactions that pass leave it.
func (s *source) at(pass func(i int, t *tx) bool) rows {
	now := maps.Clone(s.initial)
	for i := range s.log {
		if pass(i, &s.log[i]) {
			for _, o := range s.log[i].ops {
				now.do(o)
			}
		}
	}
	return now
}

func (r rows) do(o op) {
	switch o.kind {
	case 'u', 'U', 'i':
		n := sourceRow{value(o, 1), r[o.key].toast}
		if o.kind != 'u' {
			n.toast = value(o, 2)
		}
		r[o.key] = n
	case 'm':
		r[o.to] = sourceRow{value(o, 1), r[o.key].toast}
		delete(r, o.key)
	case 'd':
		delete(r, o.key)
	case 'x':
		clear(r)
	}
}

// value of a column in the new row that the operation streams.
func value(o op, column int) string { return string(o.streamed[0].New.Value(column).Text) }

// keySpace keys are changed; those above them are only read.
const keySpace, coldKeys = 7, 2

// commit appends a random transaction that does not touch what invisible ones lock.
func (s *source) commit(limbo, async bool) {
	locked := map[string]bool{}
	for i := range s.log {
		for _, o := range s.log[i].ops {
			if !s.log[i].visible {
				locked[o.key], locked[o.to] = true, true
			}
		}
	}
	now := s.at(func(int, *tx) bool { return true })
	t := tx{xid: uint32(len(s.log) + 10), visible: !limbo || s.rng.IntN(2) == 0, end: s.insertLSN() + step}
	for range 1 + s.rng.IntN(3) {
		for _, o := range s.operation(now, len(locked) > 1) {
			if locked[o.key] || o.to != "" && locked[o.to] {
				break
			}
			now.do(o)
			t.ops = append(t.ops, o)
		}
	}
	if len(t.ops) == 0 {
		return
	}
	s.log = append(s.log, t)
	if !async {
		s.flushed = len(s.log)
	}
}

// operation is one or, where a key is freed first, two.
func (s *source) operation(now rows, someLocked bool) []op {
	s.serial++
	key, to := strconv.Itoa(s.rng.IntN(keySpace)), strconv.Itoa(s.rng.IntN(keySpace))
	plain, toast := core.Text(fmt.Sprint("P", s.serial)), core.Text(fmt.Sprint("T", s.serial))
	unchanged := core.Value{Kind: core.ValueUnchanged}
	old := keyImage(key)
	change := core.Change{Relation: relation}
	o := op{key: key}
	_, present := now[key]
	_, taken := now[to]
	choice := 1 + s.rng.IntN(19)
	switch {
	case s.rng.IntN(100) == 0:
		choice = 0
	case s.moving:
		choice = 9 + s.rng.IntN(9)
	}
	switch {
	case choice == 0 && !someLocked:
		o.kind, o.key = 'x', ""
		change = core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{relation}}}
	case !present:
		o.kind = 'i'
		change.Op, change.New = core.OpInsert, core.PackTuple(core.Text(key), plain, toast)
	case choice < 7:
		o.kind = 'u'
		change.Op, change.New = core.OpUpdate, core.PackTuple(core.Text(key), plain, unchanged)
	case choice < 9:
		o.kind = 'U'
		change.Op, change.New = core.OpUpdate, core.PackTuple(core.Text(key), plain, toast)
	case choice < 17 && to != key:
		o.kind, o.to = 'm', to
		change.Op, change.OldKind, change.Old = core.OpUpdate, core.OldKey, old
		change.New = core.PackTuple(core.Text(to), plain, unchanged)
		o.streamed = []core.Change{change}
		if taken {
			free := core.Change{Op: core.OpDelete, Relation: relation, OldKind: core.OldKey, Old: keyImage(to)}
			return []op{{kind: 'd', key: to, streamed: []core.Change{free}}, o}
		}
	case choice == 18 || choice == 17 && !s.moving:
		o.kind = 'd'
		change.Op, change.OldKind, change.Old = core.OpDelete, core.OldKey, old
	default:
		return nil
	}
	o.streamed = []core.Change{change}
	return []op{o}
}

func keyImage(key string) core.Tuple {
	return core.PackTuple(core.Text(key), core.Value{Kind: core.ValueAbsent}, core.Value{Kind: core.ValueAbsent})
}

// world is source, sink and the sidecar between them, with everything that may happen as a
// step of its own.
type world struct {
	rng          *rand.Rand
	limbo, async bool
	chunkRows    int
	chunkAge     time.Duration
	readers      int
	cuts         int
	source       *source

	// The sink: rows, token and checkpoint are one.
	mirror  sinktest.Mirror
	token   []byte
	durable int // transactions

	// The sidecar.
	run      *incremental.Run
	received int
	open     int // first transaction of the open batch
	queue    []unit
	flight   *unit
	jobs     []*job
	clock    int64
}

type unit struct {
	step *incremental.Step
	to   int // transactions up to here
	sent *core.SnapshotUnit
}

type job struct {
	incremental.Job
	found incremental.Read
	read  bool
}

func sortedKeys(r rows) []string { return slices.Sorted(maps.Keys(r)) }
