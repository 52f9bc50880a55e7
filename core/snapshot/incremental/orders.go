package incremental

import (
	"fmt"
	"strings"
)

// What an operator asks for. It is carried out between two steps, and holds once a token
// that says so is durable: see Note.

// RefusedError says why nothing was done.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

func refuse(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// Settled reports that no step is on its way, the tables are known and the end of a run
// need not be told first: what is asked for may be carried out.
func (r *Run) Settled() bool {
	return r.step == nil && (r.state.Paused || r.state.Listed && (r.state.Complete || r.unfinished()))
}

// Paused reports that nothing is read until Resume.
func (r *Run) Paused() bool { return r.state.Paused }

// Again copies tables once more, in a run of its own whose id is next. With replace each is
// emptied at the sink first; without, rows that neither the copy nor the stream has touched
// are removed at its end. A table without a key is always replaced.
func (r *Run) Again(names []string, replace bool, next [16]byte) ([]Member, error) {
	again, err := r.named(names)
	switch {
	case err != nil:
		return nil, err
	case r.state.Paused:
		return nil, refuse("a copy is paused; resume or cancel it first")
	case !r.state.Complete:
		return nil, refuse("a copy of %s is running, and there is one at a time; wait for its end or cancel it", r.left())
	}
	for _, t := range again {
		if r.set.Standby && !t.keyed() {
			return nil, refuse("%s has no key: it can be copied from a primary, and the source is a standby", t.Quoted())
		}
	}
	r.state.RunID, r.state.Kind = next, KindAgain
	r.state.Generation++
	r.activate()
	var members []Member
	for _, t := range again {
		t.restart(replace)
		members = append(members, t.Member)
	}
	r.version++
	return members, nil
}

// restart makes a table one of which nothing was copied in this run.
func (t *table) restart(replace bool) {
	t.replace = replace || !t.keyed()
	t.sweep = !t.replace
	t.status, t.ranges, t.rows, t.earlier = Pending, fresh(t.Member).Ranges, 0, false
	t.repair, t.repairBytes, t.suspect = map[keyBytes]*wanted{}, 0, false
	t.shown, t.high, t.waited, t.asked, t.writers = Snapshot{}, 0, false, false, nil
	t.pause, t.putOffs = pause{}, 0
}

// Pause gives up what is being read, and reads nothing until Resume. A table without a key
// begins anew then. With a name the run must have that table alone left to copy.
func (r *Run) Pause(name string) error {
	switch err := r.alone(name); {
	case err != nil:
		return err
	case r.state.Complete:
		return refuse("no table is being copied")
	}
	r.again()
	r.state.Paused = true
	r.version++
	return nil
}

// Resume goes on. What was received meanwhile was not remembered, so every table waits for
// its writers again.
func (r *Run) Resume(name string) error {
	switch err := r.alone(name); {
	case err != nil:
		return err
	case !r.state.Paused:
		return refuse("no copy is paused")
	}
	r.state.Paused = false
	r.again()
	r.version++
	return nil
}

// Cancel ends the copy of tables. Their rows at the sink stay as they are, and the stream
// goes on changing them.
func (r *Run) Cancel(names []string) ([]Member, error) {
	list, err := r.named(names)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.status.Finished() {
			return nil, refuse("%s is not being copied", t.Quoted())
		}
	}
	var members []Member
	for _, t := range list {
		r.giveUp(t)
		t.status, t.ranges, t.replace, t.sweep = Cancelled, nil, false, false
		t.repair, t.repairBytes, t.suspect = map[keyBytes]*wanted{}, 0, false
		t.waited, t.asked, t.writers = false, false, nil
		members = append(members, t.Member)
	}
	r.state.Paused = r.state.Paused && r.unfinished()
	r.version++
	return members, nil
}

// alone checks that a name, where there is one, is of the only table that is left to copy.
func (r *Run) alone(name string) error {
	if name == "" {
		return nil
	}
	list, err := r.named([]string{name})
	if err != nil {
		return err
	}
	if list[0].status.Finished() {
		return refuse("%s is not being copied", list[0].Quoted())
	}
	for _, t := range r.tables {
		if t != list[0] && !t.status.Finished() {
			return refuse("the run copies %s too, and is paused and resumed as a whole: leave out the table", t.Quoted())
		}
	}
	return nil
}

// named are the tables of names, each once.
func (r *Run) named(names []string) ([]*table, error) {
	if len(names) == 0 {
		return nil, refuse("no table was named")
	}
	if !r.state.Listed {
		return nil, refuse("the tables of the publications are not known yet; ask again")
	}
	var members []Member
	for _, t := range r.tables {
		if t.status != Gone {
			members = append(members, t.Member)
		}
	}
	var list []*table
	seen := map[uint32]bool{}
	for _, name := range names {
		m, err := Resolve(name, members)
		if err != nil {
			return nil, err
		}
		if !seen[m.OID] {
			seen[m.OID] = true
			list = append(list, r.byOID[m.OID])
		}
	}
	return list, nil
}

// left names what is not finished.
func (r *Run) left() string {
	var names []string
	for _, t := range r.tables {
		if !t.status.Finished() {
			names = append(names, t.Quoted())
		}
	}
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
