package chunks_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/chunks"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// standby is a standby with a slot that somebody reads from.
type standby struct {
	primary, db *pgtest.DB
	ends        chan core.LSN // of the commits that are streamed
	options     chunks.Options
	table       incremental.Member
}

const patience = 30 * time.Second

func newStandby(t *testing.T, settings map[string]string) *standby {
	t.Helper()
	s := &standby{primary: pgtest.Own(t, 17, pgembed.Options{}).Database(t)}
	s.primary.Exec(t, "create table a(id int primary key, n int)", "insert into a values (1, 0)", "create publication p for table a",
		"create role reader", "grant select on a to reader")
	server, err := s.primary.Server.Standby(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	s.db = &pgtest.DB{Server: &pgtest.Server{Server: server, Major: 17}, Name: s.primary.Name, DSN: server.DSN(s.primary.Name)}

	made := make(chan error, 1)
	conn := s.db.Conn(t)
	go func() {
		_, err := conn.Exec(t.Context(), "select pg_create_logical_replication_slot('s', 'pgoutput')")
		made <- err
	}()
	for waiting := true; waiting; {
		s.primary.Exec(t, "select pg_log_standby_snapshot()")
		select {
		case err := <-made:
			require.NoError(t, err)
			waiting = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	require.Eventually(t, func() bool { // else the primary may remove what the slot decodes with
		kept := settings["hot_standby_feedback"] != "on"
		if kept {
			return true
		}
		err := s.primary.Conn(t).QueryRow(t.Context(), "select catalog_xmin is not null from pg_replication_slots where slot_name = 'standby'").Scan(&kept)
		return err == nil && kept
	}, patience, 50*time.Millisecond)
	s.stream(t)
	var pid, system string
	require.Eventually(t, func() bool {
		return s.db.Conn(t).QueryRow(t.Context(), `select active_pid::text, (select system_identifier::text from pg_control_system())
 from pg_replication_slots where slot_name = 's' and active`).Scan(&pid, &system) == nil
	}, patience, 20*time.Millisecond)
	s.options = chunks.Options{
		Source: snapshot.Source{
			Open: func(ctx context.Context) (*pgconn.PgConn, error) {
				config, err := pgconn.ParseConfig(s.db.DSN)
				if err != nil {
					return nil, err
				}
				config.RuntimeParams["role"] = "reader" // it may not see what a receiver does
				return pgconn.ConnectConfig(ctx, config)
			},
			Classify: func(_ context.Context, err error) error { return err },
		},
		Publications: []string{"p"}, SystemIdentifier: system, Timeline: 1,
		Standby:  &chunks.Standby{Slot: "s"},
		Describe: func(context.Context, *core.Relation) {},
	}
	_, err = fmt.Sscan(pid, &s.options.Standby.PID)
	require.NoError(t, err)
	found, err := s.reader(t).Do(t.Context(), incremental.Job{Kind: incremental.JobList}, nil)
	require.NoError(t, err)
	s.table = found.Members[0]
	return s
}

// stream reads the slot as the sidecar does, and notes where commits end.
func (s *standby) stream(t *testing.T) {
	t.Helper()
	stream, err := pgconn.Connect(t.Context(), s.db.ReplicationDSN())
	require.NoError(t, err)
	read := make(chan struct{})
	t.Cleanup(func() { // the test's context has ended, and with it the reading below
		<-read
		_ = stream.Close(context.WithoutCancel(t.Context()))
	})
	stream.Frontend().SendQuery(&pgproto3.Query{String: `START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p')`})
	flushed := stream.Frontend().Flush()
	s.ends = make(chan core.LSN, 100)
	go func() {
		defer close(read)
		const header, commit = 25, 'C' // of WAL data; then flags, begin and end of the record
		for {
			message, err := stream.ReceiveMessage(t.Context())
			if err != nil {
				return
			}
			if d, ok := message.(*pgproto3.CopyData); ok && d.Data[0] == 'w' && d.Data[header] == commit {
				s.ends <- core.LSN(binary.BigEndian.Uint64(d.Data[header+10:]))
			}
		}
	}()
	require.NoError(t, flushed)
}

func (s *standby) reader(t *testing.T) *chunks.Reader {
	r := chunks.New(s.options)
	t.Cleanup(r.Close)
	return r
}

func (s *standby) job(to core.LSN) incremental.Job {
	return incremental.Job{Kind: incremental.JobChunk, Table: s.table, Rows: 10, Bytes: 1 << 20, Replayed: to}
}

// end is where the WAL of the primary ends.
func (s *standby) end(t *testing.T) (at core.LSN) {
	t.Helper()
	var text string
	require.NoError(t, s.primary.Conn(t).QueryRow(t.Context(), "select pg_current_wal_insert_lsn()::text").Scan(&text))
	at, err := core.ParseLSN(text)
	require.NoError(t, err)
	return at
}

// waits: a transaction that is newer than all that ended is one to wait for, to its end.
func (s *standby) waits(t *testing.T, r *chunks.Reader) {
	t.Helper()
	conn := s.primary.Conn(t)
	_, err := conn.Exec(t.Context(), "begin; insert into a values (2, 0)")
	require.NoError(t, err)
	s.primary.Exec(t, "select pg_logical_emit_message(false, 'p', '', true)") // flushes the row
	var writers []incremental.Writer
	require.Eventually(t, func() bool { // once the standby has its row
		found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobLook, Table: s.table}, nil)
		writers = found.Look.Writers
		return err == nil && len(writers) > 0
	}, patience, 20*time.Millisecond)
	over := func() bool {
		found, err := r.Do(t.Context(), incremental.Job{Kind: incremental.JobSnapshot}, nil)
		return err == nil && found.Snapshot.Visible(writers[0].XID)
	}
	require.False(t, over())
	_, err = conn.Exec(t.Context(), "commit")
	require.NoError(t, err)
	require.Eventually(t, over, patience, 20*time.Millisecond)
}

// unfed takes the primary from the standby, and gives it back. Meanwhile nothing tells how
// far an archive has brought what is visible.
func (s *standby) unfed(t *testing.T, r *chunks.Reader) {
	t.Helper()
	s.db.Exec(t, "alter system set primary_conninfo = ''", "select pg_reload_conf()")
	require.Eventually(t, func() bool {
		var replay, receive string
		var fed bool
		err := s.db.Conn(t).QueryRow(t.Context(), "select pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn()::text, exists (select from pg_stat_wal_receiver)").Scan(&replay, &receive, &fed)
		return err == nil && !fed && replay == receive
	}, patience, 20*time.Millisecond)
	_, err := r.Do(t.Context(), s.job(0), nil)
	require.ErrorIs(t, err, chunks.ErrAgain)
	s.db.Exec(t, "alter system reset primary_conninfo", "select pg_reload_conf()")
	require.Eventually(t, func() bool {
		_, err := r.Do(t.Context(), s.job(0), nil)
		return err == nil
	}, patience, 20*time.Millisecond)
}

// TestStandbyChunks: what a chunk of a standby shows ends at or below its high mark, also
// while the replay of a commit goes on for long after it is visible; nothing is read before
// the standby has replayed what the stream had brought, nor while it has no primary, nor at
// another server.
func TestStandbyChunks(t *testing.T) {
	s := newStandby(t, map[string]string{"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"})
	r := s.reader(t)
	const commits = 5
	for n := 1; n <= commits; n++ {
		var create, drop strings.Builder
		for i := range 300 {
			fmt.Fprintf(&create, "create table d%d(x int); ", i)
			fmt.Fprintf(&drop, "drop table d%d; ", i)
		}
		s.primary.Exec(t, create.String())
		s.primary.Exec(t, fmt.Sprintf("begin; update a set n = %d; %s commit", n, drop.String()))
		for seen := false; !seen; {
			found, err := r.Do(t.Context(), s.job(0), nil)
			if errors.Is(err, chunks.ErrAgain) {
				continue
			}
			require.NoError(t, err)
			if seen = string(found.Read.Rows[0].Value(1).Text) == fmt.Sprint(n); seen {
				require.GreaterOrEqual(t, found.Read.High, <-s.ends)
			}
		}
	}

	to := s.end(t) + 1 // a record from now on
	read := make(chan chunks.Result, 1)
	go func() {
		found, err := r.Do(t.Context(), s.job(to), nil)
		if err == nil {
			read <- found
		}
		close(read)
	}()
	s.primary.Exec(t, "update a set n = 100")
	found, ok := <-read
	require.True(t, ok)
	require.Equal(t, "100", string(found.Read.Rows[0].Value(1).Text))

	s.waits(t, r)
	s.unfed(t, r)

	s.options.Standby.PID++
	_, err := s.reader(t).Do(t.Context(), s.job(0), nil)
	require.ErrorIs(t, err, chunks.ErrElsewhere)
	s.options.Standby.PID--
	s.db.Exec(t, "select pg_promote()")
	_, err = s.reader(t).Do(t.Context(), s.job(0), nil)
	require.ErrorIs(t, err, chunks.ErrElsewhere)
}

// TestStandbyWithoutFeedback: the primary removes rows that a chunk is reading, and the standby
// ends the chunk for that. It can be read again, as the rows are then.
func TestStandbyWithoutFeedback(t *testing.T) {
	s := newStandby(t, map[string]string{"hot_standby_feedback": "off", "max_standby_streaming_delay": "0"})
	conflicts := true
	s.options.Describe = func(context.Context, *core.Relation) { // under the snapshot, before the rows
		if !conflicts {
			return
		}
		conflicts = false
		s.primary.Exec(t, "insert into a select i, 0 from generate_series(2, 5) i", "delete from a where id = 1", "vacuum a")
		require.Eventually(t, func() bool {
			var ended bool
			err := s.db.Conn(t).QueryRow(t.Context(), "select confl_snapshot > 0 from pg_stat_database_conflicts where datname = current_database()").Scan(&ended)
			return err == nil && ended
		}, patience, 20*time.Millisecond)
	}
	r := s.reader(t)
	_, err := r.Do(t.Context(), s.job(0), nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, chunks.ErrElsewhere)
	_, halts := core.AsHalt(err)
	require.False(t, halts, "%v", err)
	found, err := r.Do(t.Context(), s.job(s.end(t)-1), nil)
	require.NoError(t, err)
	require.Len(t, found.Read.Rows, 4)
}
