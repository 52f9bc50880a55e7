package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jedib0t/go-pretty/v6/table"
)

// copyLoad is the name of the leg that copies what is there, and copyRows its rows at
// scale 1.
const (
	copyLoad = "S1"
	copyRows = 10_000_000
)

// copier copies the table once in some way; the first is what the others are compared with.
type copier struct {
	title string
	run   func(ctx context.Context, b *bench, conn *pgx.Conn, database, name string) (figures, error)
}

var copiers = []copier{
	{"COPY TO STDOUT, thrown away", copyOut},
	{"sidecar, initial, 1 connection", copyBy("initial", "--copy-connections", "1")},
	{"sidecar, initial, 2 connections", copyBy("initial", "--copy-connections", "2")},
	{"sidecar, incremental", copyBy("incremental")},
	{"native subscription's initial sync", copySubscribed},
}

// copies measures how fast a table is copied that is there already.
func (b *bench) copies(ctx context.Context) error {
	rows := max(int(copyRows*b.scale), 1000)
	admin, err := pgx.Connect(ctx, b.pg.DSN("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	const database = "bench_s1"
	if _, err := admin.Exec(ctx, "create database "+database); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.pg.DSN(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	fill := "create table t(" + wide + "); insert into t " + fmt.Sprintf(wideRow, 1, rows) + "; create publication p for all tables"
	for _, sql := range []string{fill, "vacuum analyze t", "checkpoint"} {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	results := make([][]figures, len(copiers))
	for round := range b.rounds {
		for n := range copiers {
			i := (n + round) % len(copiers)
			f, err := copiers[i].run(ctx, b, conn, database, fmt.Sprintf("b_s1_%d_%d", i, round))
			if err != nil {
				return fmt.Errorf("%s: %w", copiers[i].title, err)
			}
			results[i] = append(results[i], f)
		}
	}
	printCopies(rows, results)
	return nil
}

func printCopies(rows int, results [][]figures) {
	t := table.NewWriter()
	t.SetTitle(fmt.Sprintf("%s  a table of %d rows that is there already", copyLoad, rows))
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"copied by", "s", "speed", "rows/s", "reader CPU s", "sink CPU s", "peak MB", "sink MB"})
	base := median(results[0], func(f figures) float64 { return f.seconds })
	for i, runs := range results {
		m := func(pick func(figures) float64) float64 { return median(runs, pick) }
		s := m(func(f figures) float64 { return f.seconds })
		t.AppendRow(table.Row{
			copiers[i].title, fmt.Sprintf("%.2f", s), fmt.Sprintf("%.2f", base/s), fmt.Sprintf("%.0f", float64(rows)/s),
			cell(m(func(f figures) float64 { return f.readerCPU })), cell(m(func(f figures) float64 { return f.sinkCPU })),
			mb(m(func(f figures) float64 { return f.readerMB })), mb(m(func(f figures) float64 { return f.sinkMB })),
		})
	}
	fmt.Println(t.Render())
}

// copyOut reads the whole table and throws it away.
func copyOut(ctx context.Context, b *bench, _ *pgx.Conn, database, _ string) (figures, error) {
	conn, err := pgconn.Connect(ctx, b.pg.DSN(database))
	if err != nil {
		return figures{}, err
	}
	defer conn.Close(ctx)
	began := time.Now()
	_, err = conn.CopyTo(ctx, io.Discard, "copy t to stdout")
	return figures{seconds: time.Since(began).Seconds()}, err
}

// copyBy copies through the sidecar into a sink that looks at every value and stores
// nothing. The clock runs from the sidecar's start to the completion.
func copyBy(mode string, extra ...string) func(context.Context, *bench, *pgx.Conn, string, string) (figures, error) {
	return func(ctx context.Context, b *bench, conn *pgx.Conn, database, slot string) (figures, error) {
		listen := "unix:" + filepath.Join(b.dir, slot+".sock")
		env := append(os.Environ(), envDSN+"="+b.pg.DSN(database), envSlot+"="+slot, envEnd+"="+copyEnd[mode],
			"REPLICANT_SINK_LISTEN="+listen, "REPLICANT_SOURCE="+b.pg.DSN(database))
		sink, err := launch(ctx, env, b.self, "reader", "sink")
		if err != nil {
			return figures{}, err
		}
		defer sink.end()
		if err := waitForSocket(ctx, strings.TrimPrefix(listen, "unix:")); err != nil {
			return figures{}, err
		}
		args := append([]string{b.sidecar, "run", "--slot", slot, "--publications", "p", "--sink", listen, "--snapshot", mode,
			"--admin-listen", "", "--log-level", "warn"}, extra...)
		began := time.Now()
		sidecar, err := launch(ctx, env, args...)
		if err != nil {
			return figures{}, err
		}
		err = sink.waitDone()
		f := figures{seconds: time.Since(began).Seconds()}
		f.readerCPU, f.readerMB = cpuSeconds(sidecar.pid()), peakMB(sidecar.pid())
		f.sinkCPU, f.sinkMB = cpuSeconds(sink.pid()), peakMB(sink.pid())
		if err == nil {
			err = waitTaken(ctx, conn, slot) // the stream behind the copy
		}
		sidecar.end()
		if err == nil {
			err = waitFree(ctx, conn, slot)
		}
		if err == nil {
			_, err = conn.Exec(ctx, "select pg_drop_replication_slot($1)", slot)
		}
		return f, err
	}
}

func waitTaken(ctx context.Context, conn *pgx.Conn, slot string) error {
	for {
		var active bool
		if err := conn.QueryRow(ctx, "select active from pg_replication_slots where slot_name = $1", slot).Scan(&active); err != nil || active {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// copyEnd is what the sink takes for the end: the first position, which an initial
// snapshot stores when it is complete; an incremental one says so itself.
var copyEnd = map[string]string{"initial": "0/1", "incremental": "FFFFFFFF/FFFFFFFF"}

// copySubscribed lets Postgres copy into the second server, which stores the rows.
func copySubscribed(ctx context.Context, b *bench, _ *pgx.Conn, database, name string) (figures, error) {
	admin, err := pgx.Connect(ctx, b.second.DSN("postgres"))
	if err != nil {
		return figures{}, err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+name); err != nil {
		return figures{}, err
	}
	second, err := pgx.Connect(ctx, b.second.DSN(name))
	if err != nil {
		return figures{}, err
	}
	defer second.Close(ctx)
	if _, err := second.Exec(ctx, "create table t("+wide+")"); err != nil {
		return figures{}, err
	}
	began := time.Now()
	if _, err := second.Exec(ctx, fmt.Sprintf("create subscription s connection '%s' publication p with (slot_name = '%s')", keywords(b, database), name)); err != nil {
		return figures{}, err
	}
	for synced := false; !synced; {
		select {
		case <-ctx.Done():
			return figures{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if err := second.QueryRow(ctx, "select bool_and(srsubstate in ('s', 'r')) from pg_subscription_rel").Scan(&synced); err != nil {
			return figures{}, err
		}
	}
	f := figures{seconds: time.Since(began).Seconds()}
	for _, sql := range []string{"drop subscription s", "truncate t"} {
		if _, err := second.Exec(ctx, sql); err != nil {
			return f, err
		}
	}
	return f, nil
}
