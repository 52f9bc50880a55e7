package badsinks

import (
	"errors"
	"fmt"
	"sync"
)

var (
	// errDead: the process that owned this handle was killed.
	errDead = errors.New("killed")
	// errLost: the write was done, and its answer never arrived. What was open is rolled back.
	errLost = errors.New("the answer was lost")
	// errAway: the disk, of another machine, cannot be reached.
	errAway = errors.New("away")
)

// write is one record of the disk: a value stored under a place, or the end of a store
// transaction.
type write struct {
	at            place
	value         any // nil removes
	commit, abort bool
}

// place is where a value is stored.
type place struct{ bucket, key string }

// disk is what outlives a kill: records in the order they were written.
type disk struct {
	mu      sync.Mutex
	records []write
	// life counts the processes that had this disk; only the last may write.
	life int
	// calls counts writes since it was armed; at is the one that kills, 0 for none.
	calls, at int
	hit       bool
	onHit     func()
	// cut is the write whose answer is lost, 0 for none; away refuses every write.
	cut  int
	away bool
}

// open gives the disk to a new process, and what is on it to read.
func (d *disk) open() (life int, records []write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	records = d.records[:len(d.records):len(d.records)]
	d.records = append(records, write{abort: true})
	return d.life, records
}

// kill takes the disk away from the process that has it.
func (d *disk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	d.at = 0
}

// append writes one record. It is the storage call that crash points are counted by.
func (d *disk) append(life int, w write) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if life != d.life {
		return errDead
	}
	if d.away {
		return errAway
	}
	d.calls++
	if d.at != 0 && d.calls == d.at {
		d.life++
		d.at, d.hit = 0, true
		go d.onHit()
		return errDead
	}
	d.records = append(d.records, w)
	if d.cut != 0 && d.calls == d.cut {
		d.cut, d.hit = 0, true
		d.records = append(d.records, write{abort: true})
		return errLost
	}
	return nil
}

// arm kills at the n-th write from now.
func (d *disk) arm(n int, onHit func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.at, d.hit, d.onHit = 0, n, false, onHit
}

// armCut loses the answer of the n-th write from now.
func (d *disk) armCut(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.cut, d.hit = 0, n, false
}

// shut takes the disk away, or brings it back.
func (d *disk) shut(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// gone reports whether the disk cannot be reached.
func (d *disk) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away
}

// read is what is committed now.
func (d *disk) read() map[string]map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return committed(d.records)
}

// disarm tells whether the armed write was reached, and how many there were.
func (d *disk) disarm() (hit bool, calls int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.cut = 0, 0
	return d.hit, d.calls
}

// committed is what the records say once recovered: whole transactions only.
func committed(records []write) map[string]map[string]any {
	state := map[string]map[string]any{}
	var open []write
	for _, w := range records {
		if w.abort {
			open = open[:0]
			continue
		}
		if !w.commit {
			open = append(open, w)
			continue
		}
		for _, o := range open {
			fold(state, o)
		}
		open = open[:0]
	}
	return state
}

func fold(state map[string]map[string]any, w write) {
	if w.value == nil {
		delete(state[w.at.bucket], w.at.key)
		return
	}
	if state[w.at.bucket] == nil {
		state[w.at.bucket] = map[string]any{}
	}
	state[w.at.bucket][w.at.key] = w.value
}

// String names a place, for the crash map.
func (p place) String() string { return fmt.Sprintf("%s write", bucketWord(p.bucket)) }

func bucketWord(bucket string) string {
	switch {
	case bucket == "":
		return "commit"
	case bucket[0] == 't':
		return "row"
	case bucket[0] == 'l':
		return "log"
	}
	return bucket
}
