package windows

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func init() { add(anyMajor, casesMoved) }

// casesMoved: a row goes to a key that another one has just left, and leaves its large
// column where it was.
var casesMoved = []window{
	{"N10", 0, "UP, Q delete b, move a to b", "VAL ACK MONO CLEAN", moved(1, false)},
	{"N10", 0, "UP, Q delete b, move a to b, in two", "VAL ACK MONO CLEAN", moved(2, false)},
	{"N10", 0, "UP, Q delete b, move a to b; SC, B call.after", "again, VAL ACK MONO CLEAN", moved(1, true)},
	{"N10", 0, "UP, Q delete b, move a to b, in two; SC, B call.after", "both again, VAL ACK MONO CLEAN", moved(2, true)},
}

// moved changes keys while the third chunk is read: those of rows whose window is over, is
// open and is to come, each onto each. With redelivered the checkpoint is the sidecar's, and
// the sidecar dies when the sink has taken all and the row was not written.
func moved(transactions int, redelivered bool) func(*scene) {
	return func(s *scene) {
		s.long(2 * limit)
		if redelivered {
			s.lib(2)
			s.args = append(s.args, "--checkpoint-store-batch-max-delay", "3s")
		}
		s.beside()
		s.startSink("")
		gate := s.gate()
		points := "chunk.marked=block:" + gate + "@4" // of ledger, and three of t
		var gates []string
		const before = 6 // calls: two tables are cleared, three chunks applied, one table is done
		for n := 1; redelivered && n <= 4; n++ {
			gates = append(gates, s.gate())
			points += fmt.Sprintf(";call.after=block:%s@%d", gates[n-1], before+n)
		}
		sidecar := s.startSidecar(points)
		s.witnessed(sidecar, failpoint.ChunkMarked, "block")
		s.until("two chunks are applied", func() bool {
			return s.ask(s.sink.DSN, "SELECT count(*)::text FROM public.t") == "100" &&
				s.ask(s.sink.DSN, "SELECT count(*)::text FROM testsink.chunk WHERE stream = $1 AND last", s.slot) == "1"
		})
		at := s.ask(s.source.DSN, "SELECT pg_current_wal_insert_lsn()::text")
		s.source.Exec(s.T, s.moves(transactions))
		switch {
		case redelivered:
			s.heldAt(sidecar, failpoint.CallAfter, gates, func() bool { return s.there(s.tx) })
			s.kill(sidecar)
			s.seen("SIGKILL")
			begin, err := core.ParseLSN(at)
			require.NoError(s.T, err)
			require.LessOrEqual(s.T, s.position(), begin, "they do not come again")
			sidecar = s.startSidecar("")
		default:
			s.arrived()
			s.seen("moved")
			s.release(gate)
		}
		s.complete(sidecar)
		s.write()
		s.same()
	}
}

// moves gives each pair of chunks a row of the first at the key of a row of the second.
func (s *scene) moves(transactions int) string {
	var deletes, moves []string
	row := func(chunk, n int) string {
		return fmt.Sprintf("(SELECT min(id) FROM t WHERE length(v) > 2500) + %d", 50*(chunk-1)+n)
	}
	n := 0
	for _, from := range []int{1, 3, 6} {
		for _, to := range []int{1, 3, 6} {
			n++
			deletes = append(deletes, "DELETE FROM t WHERE id = "+row(to, 20+n))
			moves = append(moves, "UPDATE t SET id = "+row(to, 20+n)+" WHERE id = "+row(from, n))
		}
	}
	sql := "BEGIN; " + strings.Join(deletes, "; ") + "; "
	if transactions == 2 {
		sql += s.line(len(deletes)) + "; COMMIT; BEGIN; "
	}
	return sql + strings.Join(moves, "; ") + "; " + s.line(len(moves)) + "; COMMIT"
}
