package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func TestX10TwoPhaseUpstream(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x10(id int primary key)")
		s.road(way{})
		s.road(way{route: inProcess, mode: pipeline.ModeTransaction})
		s.road(way{streaming: true})
		first, second := literal(s.db.Name+"_1"), literal(s.db.Name+"_2") // names are the server's
		s.sql("begin; insert into x10 values (40); prepare transaction " + first)
		s.mark()
		for _, r := range s.roads {
			require.Empty(s, r.shown(), "nothing is delivered at PREPARE")
			r.crash()
			r.begin()
		}
		decided := s.app.lsn("select pg_current_wal_insert_lsn()")
		s.sql("commit prepared "+first, "begin; insert into x10 values (41); prepare transaction "+second, "rollback prepared "+second)
		s.run(given{
			want: []string{"insert x10 new{id=<40>}", commit},
			also: func(r *road) {
				require.GreaterOrEqual(r, r.transactions()[0].CommitLSN, decided, "its position is that of COMMIT PREPARED")
			},
		})
	})
}

func TestX10SlotWithTwoPhase(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table x10(id int primary key)")
		made := func(slot string) {
			s.sql("select pg_create_logical_replication_slot(" + literal(slot) + ",'pgoutput',false,true)")
		}
		// Somebody else's slot, although the configuration would take it over.
		strange := "two_phase_" + s.db.Name
		made(strange)
		refused := s.road(way{slot: strange, waits: true, adjust: func(o *pipeline.Options) { o.AdoptSlot = true }})
		before := refused.confirmed()
		refused.halts(core.HaltSlotTwoPhase)
		// Our own slot, made anew behind our back with another nature.
		r := s.road(way{})
		s.sql("insert into x10 values (1)")
		r.until("it is delivered", func() bool { return len(r.transactions()) == 1 })
		r.drain()
		s.sql("select pg_drop_replication_slot(" + literal(r.slot) + ")")
		made(r.slot)
		s.sql("begin; insert into x10 values (42); prepare transaction " + literal(s.db.Name))
		r.waits = true
		r.begin()
		r.halts(core.HaltSlotTwoPhase)
		s.sql("rollback prepared " + literal(s.db.Name))
		require.Equal(s, []string{"insert x10 new{id=<1>}", commit}, r.shown())
		require.Empty(s, refused.sink.Transactions())
		require.Zero(s, refused.sink.Stored().Position)
		require.Equal(s, before, refused.confirmed())
	})
}
