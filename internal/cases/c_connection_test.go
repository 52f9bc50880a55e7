package cases_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// Each form of an address of version 6, with and without a port, connects; what is dialed
// is that address.
func TestC02IPv6(t *testing.T) {
	each(t, func(s *scene) {
		l := s.wireOn("[::1]:0")
		port := fmt.Sprint(l.listener.Addr().(*net.TCPAddr).Port)
		for _, form := range []struct{ dsn, dialed string }{
			{"postgres://postgres@[::1]:" + port + "/" + s.db.Name + "?sslmode=disable", "[::1]:" + port},
			{"postgres://postgres@[::1]/" + s.db.Name + "?sslmode=disable", "[::1]:5432"},
			{"host=::1 port=" + port + " user=postgres sslmode=disable dbname=" + s.db.Name, "[::1]:" + port},
			{"host=::1 user=postgres sslmode=disable dbname=" + s.db.Name, "[::1]:5432"},
		} {
			var mu sync.Mutex
			dialed := map[string]bool{}
			s.road(way{adjust: func(o *pipeline.Options) {
				o.Source.DSN = form.dsn
				o.Source.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					mu.Lock()
					dialed[network+" "+address] = true
					mu.Unlock()
					return (&net.Dialer{}).DialContext(ctx, network, l.listener.Addr().String())
				}
			}})
			mu.Lock()
			require.Equal(s, map[string]bool{"tcp " + form.dialed: true}, dialed)
			mu.Unlock()
		}
		s.done()
	})
}

// logged keeps all that a sidecar logs, at every level.
type logged struct{ transcript.Text }

func (l *logged) listen(o *pipeline.Options) {
	o.Logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestC04Password(t *testing.T) {
	const password = `p@ss:w/o?r#d%41 '"\é`
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table c04(id int primary key)")
		role := "c04_" + s.db.Name[:8]
		s.sql("create role " + role + " login replication password " + literal(password))
		defer s.sql("drop role " + role)
		var log logged
		address := fmt.Sprintf("127.0.0.1:%d", s.db.Server.Port())
		encoded := (&url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: address, Path: "/" + s.db.Name, RawQuery: "sslmode=disable"}).String()
		raw := fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable password='%s'", s.db.Server.Port(), role, s.db.Name,
			strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password))
		through := func(dsn string) func(*pipeline.Options) {
			return func(o *pipeline.Options) {
				log.listen(o)
				o.Source.DSN = dsn
			}
		}
		for _, dsn := range []string{encoded, raw} {
			s.road(way{adjust: through(dsn)})
		}
		s.sql("insert into c04 values (1)")
		s.done()
		s.roads = nil
		wrong := s.road(way{waits: true, adjust: through(strings.Replace(raw, "p@ss", "pass", 1))})
		halt := wrong.halts(core.HaltSourceRights)
		unclear := wal.Options{DSN: strings.Replace(encoded, address, "127.0.0.1:notaport", 1), Slot: "s", Publications: []string{"p"}}.Validate()
		require.Error(s, unclear)
		for _, text := range []string{log.String(), halt.Error(), unclear.Error(), wrong.pipeline.Status().Reason} {
			for _, part := range []string{password, "p@ss", "r#d", "p%40ss", "pass:w"} {
				require.NotContains(s, text, part)
			}
		}
		require.NotEmpty(s, log.String())
	})
}

// What a pooler answers is known, wherever it fails.
func TestC05Pooler(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]waltest.State{
		"refuses the startup parameters": {RefuseStartup: func(map[string]string) *waltest.Error {
			return &waltest.Error{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: replication"}
		}},
		"takes replication commands for SQL": {Refuse: func(query string) *waltest.Error {
			if query == "IDENTIFY_SYSTEM" {
				return &waltest.Error{Code: "42601", Message: `syntax error at or near "IDENTIFY_SYSTEM"`}
			}
			return nil
		}},
		"drops the settings": {Unset: "DateStyle"},
	} {
		t.Run(name, func(t *testing.T) {
			state.Publications = []string{"p"}
			server := waltest.NewServer(state)
			defer server.Close()
			p, err := pipeline.New(pipeline.Options{
				Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: server.Dial},
				Sink:   sinktest.NewMemory(), GoForwardOnly: true,
			})
			require.NoError(t, err)
			halt, ok := core.AsHalt(p.Run(t.Context()))
			require.True(t, ok)
			require.Equal(t, core.HaltSourcePooler, halt.Code, halt.Error())
			text, _ := core.Explain(halt.Code)
			require.Contains(t, text.Do, "database server itself")
		})
	}
}

// The stream's connection is dead, and nobody said so: whatever is between keeps its half
// of it. The server notices, and so do we, by asking the server.
func TestC06HalfOpen(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table c06(id int primary key)")
		l := s.wire()
		r := s.road(way{adjust: func(o *pipeline.Options) {
			l.through(o)
			o.Source.SenderTimeout, o.GuardInterval = 2*time.Second, guardOften
		}})
		s.sql("insert into c06 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		l.silenceStreams()
		s.sql("insert into c06 values (2)")
		s.filler()
		r.status("the lag is seen meanwhile", func(st pipeline.Status) bool { return st.LagBytes > 16<<20 || st.Sessions > 1 })
		r.until("it is delivered over a new one", func() bool { return len(r.transactions()) == 2 })
		require.Contains(s, r.pipeline.Status().LastError, "no longer sees")
		s.done()
	})
}

// The node behind the name dies. Refused, not ready and busy are waited out.
func TestC07NodeIsAway(t *testing.T) {
	eachSpare(t, 14, func(s *scene) {
		s.sql("create table c07(id int primary key)")
		r := s.road(way{away: true})
		s.sql("insert into c07 values (1)")
		r.until("it is stored", func() bool { return len(r.transactions()) == 1 })
		require.NoError(s, s.db.Server.Kill())
		status := r.status("it waits", func(st pipeline.Status) bool { return st.State == pipeline.StateSourceAway })
		require.NotEmpty(s, status.Reason)
		s.restart()
		s.sql("insert into c07 values (2)")
		r.until("it goes on", func() bool { return len(r.transactions()) == 2 })
		s.done()
	})
}

func TestC09LeastPrivilege(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table c09(id int primary key, v text)", "create table hidden(id int primary key)")
		s.makeHostileRole()
		s.sql("grant select on c09, mark to hostile")
		slot := "case_c09_" + s.db.Name[:8]
		s.sql("select pg_create_logical_replication_slot(" + literal(slot) + ",'pgoutput')")
		r := s.road(way{slot: slot, role: hostileRole, adjust: func(o *pipeline.Options) { o.AdoptSlot, o.GuardInterval = true, guardOften }})
		locks := "select count(*) from pg_locks l join pg_stat_activity a using (pid) where a.usename='hostile' and l.locktype='relation' and l.database=" +
			"(select oid from pg_database where datname=current_database()) and l.relation>=16384"
		for i := range 20 {
			s.sql(fmt.Sprintf("insert into c09 values (%d,'x')", i))
			require.Equal(s, "0", s.app.one(locks), "no lock on a table of the user's")
		}
		r.status("the guard sees the slot", func(st pipeline.Status) bool { return st.Guard.WALStatus != "" })
		s.done()
		require.Len(s, r.transactions(), 20)
	})
}
