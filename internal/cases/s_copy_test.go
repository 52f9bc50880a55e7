package cases_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// cut ends sessions of the copy at the server.
func (s *scene) cut(which string) {
	s.Helper()
	require.Equal(s, "true", s.app.one("select bool_and(pg_terminate_backend(pid))::text from pg_stat_activity"+
		" where datname=current_database() and "+which), which)
}

// The connection that made the slot is cut while rows are copied under its snapshot, which
// others hold too: the copy goes on, and the stream begins by itself where the slot is.
func TestS05SenderEndsWhileCopying(t *testing.T) {
	each(t, func(s *scene) {
		var said transcript.Text
		r, p := s.s05(func(o *pipeline.Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
		s.cut("backend_type='walsender'")
		r.until("it is noticed", func() bool { return strings.Contains(said.String(), "connection that made the slot is lost") })
		require.NotEqual(s, pipeline.StateStreaming, r.pipeline.Status().State)
		s.sql("update s05 set v='changed' where id<10", "delete from other where id=7")
		p.release()
		r.streams()
		s.mark()
		r.mirrored()
		require.Len(s, r.sink.Completed(), 1)
		for _, u := range r.sink.SnapshotUnits() {
			require.Equal(s, r.sink.SnapshotUnits()[0].RunID, u.RunID, "the copy began anew")
		}
		r.drain()
	})
}

// The sessions that read are cut: their snapshot is gone with them. That is said, with what
// to do, and nothing streams as if the copy were whole.
func TestS05ReadersEndWhileCopying(t *testing.T) {
	each(t, func(s *scene) {
		r, p := s.s05(nil)
		s.cut("backend_type='client backend' and xact_start is not null and pid<>pg_backend_pid()")
		p.release()
		halt := r.halts(core.HaltSnapshotIncomplete)
		require.Contains(s, halt.Detail, "--snapshot-redo")
		require.Zero(s, r.sink.Stored().Position)
		before := r.adjust
		r.adjust = func(o *pipeline.Options) { before(o); o.SnapshotRedo = true }
		r.begin()
		r.streams()
		s.mark()
		r.mirrored()
		r.drain()
	})
}

func (s *scene) s05(adjust func(*pipeline.Options)) (*road, *pause) {
	s.sql("create table s05(id int primary key, v text)", fmt.Sprintf("insert into s05 select i, repeat('v',100) from generate_series(1,%d) i", 2000),
		"create table other(id int primary key)", "insert into other select generate_series(1,500)")
	return s.halfway("s05", way{limits: small, adjust: adjust})
}

// A transaction was open before the slot that a copy begins with: what it waits for is said,
// and the row that comes with its commit is there once.
func TestS21OpenTransactionAtTheCopy(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table s21(id int primary key)", "insert into s21 values (0)")
		for n, how := range []func(*pipeline.Options){copying, beside} {
			old := s.session("postgres", pinned)
			old.sql("begin", fmt.Sprintf("insert into s21 values (%d)", 10*n+1))
			r := s.road(way{waits: true, adjust: func(o *pipeline.Options) {
				how(o)
				o.Source.SenderTimeout = 600 * time.Millisecond
			}})
			r.status("it says what it waits for", func(st pipeline.Status) bool {
				return strings.Contains(st.Reason, "open since") && strings.Contains(st.Reason, "cannot be made")
			})
			require.Empty(s, r.sink.Rows("public", "s21"))
			old.sql("commit")
			r.streams()
			s.sql(fmt.Sprintf("insert into s21 values (%d)", 10*n+2))
			s.mark()
			if n == 1 {
				r.complete(1)
			}
			r.mirrored()
			r.drain()
			s.roads = nil
		}
	})
}
