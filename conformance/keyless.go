package conformance

import (
	"bytes"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// aboutKeyless are the cases that are about tables without a key and nothing else.
var aboutKeyless = []string{"IDM-009", "OPS-003"}

// keylessNote says in the report what was tried instead.
const keylessNote = "the sink declines tables without a key (SCHEMA_DECLINED): such tables had a key here, which hides some of what a repeat stores twice"

// keylessCase is not listed: it finds out, once at the start, whether the sink takes tables
// without a key, which it may decline (S-406). Many cases have one, since a repeat shows
// there, and all of them would fail for this one reason.
var keylessCase = Case{ID: "KEY-001", Level: Must, Title: "a table without a key", Run: tryKeyless}

func tryKeyless(t *Trial) {
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.stream()
	_, err := s.send(t.ctx, s.unit(s.tx(insert(table, "a", "b"))))
	a := refusal(err)
	t.session.keyed = a.Code == codes.FailedPrecondition && a.Reason == "SCHEMA_DECLINED"
}

// keyed gives a table without a key its first column as one, where the sink wants a key.
func (t *Trial) keyed(words []string) []string {
	has := func(w string) bool { return len(strings.Fields(w)) > 2 }
	if !t.session.keyed || len(words) == 0 || slices.ContainsFunc(words, has) {
		return words
	}
	return append([]string{words[0] + " key"}, words[1:]...)
}

// once leaves out rows of a chunk whose key came already: the case has a table without a key,
// and its equal rows are one where the table has got a key.
func (t *Trial) once(table *shape, rows [][]cell) [][]cell {
	if !t.session.keyed || len(table.key) == 0 {
		return rows
	}
	var out [][]cell
	for _, row := range rows {
		same := func(other []cell) bool {
			return !slices.ContainsFunc(table.key, func(i int) bool { return !bytes.Equal(row[i].text, other[i].text) })
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, row)
		}
	}
	return out
}
