package incremental

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Some servers forget a table that is added to a publication while a transaction is open
// that has written it: the process that sends the stream goes on as if the table were not
// published. A process that begins behind the end of that transaction does not. So a table
// that may have been forgotten is not copied before the stream has begun anew, behind its
// writer wait.

// unsure marks a table that the server may have forgotten.
func (r *Run) unsure(t *table) { t.unsure, t.passed, t.noted = r.set.Forgets, 0, 0 }

// kept is unsure for a table of a token, in a stream that begins now: the token of one that
// waited for this stream says where its writers had ended.
func (r *Run) kept(t *table, passed core.LSN) {
	if t.status == Pending && (passed == 0 || passed > r.set.From) {
		r.unsure(t)
	}
}

// written takes the end of the WAL behind a writer wait.
func (r *Run) written(t *table, end core.LSN) {
	if t.waited && t.unsure {
		r.version++
		t.passed, t.noted = end, r.version
	}
}

// noteUnsure reports that a token must say what a table waits for.
func (r *Run) noteUnsure() bool {
	for _, t := range r.tables {
		if t.unsure && t.waited && t.noted > r.covered {
			return true
		}
	}
	return false
}

// Restart reports that the stream is to begin anew, once all up to at is durable. A table
// whose writers are still open does not hold up the others.
func (r *Run) Restart() (at core.LSN, due bool) {
	for _, t := range r.tables {
		switch {
		case !t.unsure || t.status.Finished() || len(t.writers) > 0:
		case !t.waited || t.noted > r.durable:
			return 0, false
		default:
			at, due = max(at, t.passed), true
		}
	}
	return at, due
}
