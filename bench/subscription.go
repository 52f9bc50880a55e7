package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// subscription drains the slot with Postgres' own apply worker into the second server.
// It applies the rows, which the others do not; its worker commits asynchronously, as
// is its default.
func (b *bench) subscription(ctx context.Context, conn *pgx.Conn, w *workload, database, slot string, end core.LSN) (figures, error) {
	admin, err := pgx.Connect(ctx, b.second.DSN("postgres"))
	if err != nil {
		return figures{}, err
	}
	defer admin.Close(ctx)
	target := slot
	if _, err := admin.Exec(ctx, "create database "+target); err != nil {
		return figures{}, err
	}
	second, err := pgx.Connect(ctx, b.second.DSN(target))
	if err != nil {
		return figures{}, err
	}
	defer second.Close(ctx)
	if _, err := second.Exec(ctx, w.schema+"; create table marker(id int primary key)"); err != nil {
		return figures{}, err
	}
	create := fmt.Sprintf("create subscription s connection '%s' publication p with (create_slot = false, slot_name = '%s', enabled = false, copy_data = false)",
		keywords(b, database), slot)
	if _, err := second.Exec(ctx, create); err != nil {
		return figures{}, err
	}
	began := time.Now()
	// Relations become known to an enabled subscription by a refresh only.
	if _, err := second.Exec(ctx, "alter subscription s enable"); err != nil {
		return figures{}, err
	}
	if _, err := second.Exec(ctx, "alter subscription s refresh publication with (copy_data = false)"); err != nil {
		return figures{}, err
	}
	server, stop := walsender(conn, slot)
	var worker int
	for {
		var marked bool
		if err := second.QueryRow(ctx, "select exists(select from marker)").Scan(&marked); err != nil {
			return figures{}, err
		}
		if worker == 0 {
			_ = second.QueryRow(ctx, "select coalesce((select pid from pg_stat_subscription where relid is null limit 1), 0)").Scan(&worker)
		}
		if marked {
			break
		}
		select {
		case <-ctx.Done():
			return figures{}, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	f := figures{seconds: time.Since(began).Seconds(), server: stop(server), readerCPU: cpuSeconds(worker), readerMB: peakMB(worker)}
	for _, s := range []string{"alter subscription s disable", "alter subscription s set (slot_name = none)", "drop subscription s"} {
		if _, err := second.Exec(ctx, s); err != nil {
			return f, err
		}
	}
	return f, waitFree(ctx, conn, slot)
}

// keywords is the source's address in the form that CREATE SUBSCRIPTION takes.
func keywords(b *bench, database string) string {
	config, err := pgx.ParseConfig(b.pg.DSN(database))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", config.Host, config.Port, config.User, database)
}

func waitFree(ctx context.Context, conn *pgx.Conn, slot string) error {
	for {
		var active bool
		if err := conn.QueryRow(ctx, "select active from pg_replication_slots where slot_name = $1", slot).Scan(&active); err != nil || !active {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
