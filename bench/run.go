package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// bench is the source server and what the readers need to know.
type bench struct {
	settings
	pg, second *pgembed.Server
	dir        string
	self       string
	sidecar    string // the binary
}

// drainMax bounds one drain: a reader that hangs must not hold the bench.
const drainMax = 5 * time.Minute

func run(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "rs-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{settings: s, dir: dir}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	b.sidecar = dir + "/replicant-sidecar"
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", b.sidecar, "./cmd/replicant-sidecar").CombinedOutput(); err != nil {
		return fmt.Errorf("building the sidecar: %w\n%s", err, out)
	}
	options := pgembed.Options{
		Major: s.major, Durable: true, Find: pgembed.FindOptions{Checkout: true},
		Settings: map[string]string{"autovacuum": "off", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "wal_keep_size": "0"},
	}
	if b.pg, err = pgembed.Start(ctx, options); err != nil {
		return err
	}
	defer b.pg.Close()
	if b.second, err = pgembed.Start(ctx, options); err != nil {
		return err
	}
	defer b.second.Close()
	fmt.Printf("PostgreSQL %s, %d rounds, scale %g, readers in turn within each round\n", b.pg.Bin().Version, s.rounds, s.scale)
	for _, w := range loads(s.scale) {
		if slices.Contains(s.workloads, w.name) {
			if err := b.workload(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	if slices.Contains(s.workloads, copyLoad) {
		if err := b.copies(ctx); err != nil {
			return fmt.Errorf("%s: %w", copyLoad, err)
		}
	}
	return nil
}

// workload writes one backlog and drains it with every reader.
func (b *bench) workload(ctx context.Context, w *workload) error {
	admin, err := pgx.Connect(ctx, b.pg.DSN("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	database := "bench_" + strings.ToLower(w.name)
	if _, err := admin.Exec(ctx, "create database "+database); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.pg.DSN(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, w.schema+"; create publication p for all tables"); err != nil {
		return err
	}
	for _, name := range b.readers {
		for round := range b.rounds {
			if _, err := conn.Exec(ctx, "select pg_create_logical_replication_slot($1, 'pgoutput')", slotName(w, name, round)); err != nil {
				return err
			}
		}
	}
	if err := w.write(ctx, w, b.pg.DSN(database)); err != nil {
		return err
	}
	end, err := lastPosition(ctx, conn)
	if err != nil {
		return err
	}
	results := map[string][]figures{}
	for round := range b.rounds {
		for n := range b.readers { // rotated, so that no reader always follows the same one
			name := b.readers[(n+round)%len(b.readers)]
			f, err := b.drain(ctx, conn, w, database, name, slotName(w, name, round), end)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			results[name] = append(results[name], f)
		}
	}
	print(w, b.readers, results)
	return nil
}

func slotName(w *workload, reader string, round int) string {
	safe := []byte(fmt.Sprintf("b_%s_%s_%d", w.name, reader, round))
	for i, c := range safe {
		switch {
		case c >= 'A' && c <= 'Z':
			safe[i] = c + 'a' - 'A'
		case c == '-':
			safe[i] = '_'
		}
	}
	return string(safe)
}

// lastPosition is inside the last transaction of the backlog's end: a marker is written,
// and who has passed its start has drained everything before it.
func lastPosition(ctx context.Context, conn *pgx.Conn) (core.LSN, error) {
	var text string
	_, err := conn.Exec(ctx, "create table marker(id int primary key)")
	if err != nil {
		return 0, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRow(ctx, "insert into marker values (1) returning pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
		return 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, err
	}
	_, err = conn.Exec(ctx, "checkpoint")
	if err != nil {
		return 0, err
	}
	return core.ParseLSN(text)
}
