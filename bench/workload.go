package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// workload is a backlog that is written once.
type workload struct {
	name, title  string
	schema       string
	transactions int
	rows         int // changed rows in all
	write        func(ctx context.Context, w *workload, dsn string) error
}

const wide = "id bigint primary key, a int, b bigint, c numeric(12,2), d timestamptz, e text, f uuid"

// loads are the workloads at a scale.
func loads(scale float64) []*workload {
	n := func(full int) int { return max(int(float64(full)*scale), 10) }
	return []*workload{
		{name: "W1", title: "one-row transactions", schema: "create table t(" + wide + ")",
			transactions: n(200_000), rows: n(200_000), write: small},
		{name: "W2", title: "transactions of 1,000 rows", schema: "create table t(" + wide + ")",
			transactions: n(1000), rows: n(1000) * 1000, write: thousands},
		{name: "W3", title: "one transaction of 1M rows", schema: "create table t(id bigint primary key, a int, b text)",
			transactions: 1, rows: n(1_000_000), write: one},
		{name: "W4", title: "TPC-B-like, 4 changes", schema: `create table accounts(aid int primary key, bid int, balance int, filler char(84));
			create table tellers(tid int primary key, bid int, balance int, filler char(84));
			create table branches(bid int primary key, balance int, filler char(88));
			create table history(tid int, bid int, aid int, delta int, at timestamp, filler char(22));
			insert into accounts select i, 1, 0, '' from generate_series(1,100000) i; insert into tellers select i, 1, 0, '' from generate_series(1,10) i;
			insert into branches values (1,0,'')`,
			transactions: n(60_000), rows: n(60_000) * 4, write: tpcb},
		{name: "W5", title: "10 KB rows and updates with unchanged TOAST", schema: "create table t(id bigint primary key, n int, doc jsonb, body text); alter table t alter body set storage external, alter doc set storage external",
			transactions: n(20_000)/10 + n(20_000)/10, rows: 2 * n(20_000), write: toast},
	}
}

const wideRow = "select i, (i %% 1000)::int, i * 7919, (i %% 100000) / 100.0, '2026-01-01'::timestamptz + i * interval '1 s', repeat(md5(i::text), 3), md5(i::text)::uuid from generate_series(%d::bigint, %d::bigint) i"

// inServer repeats a statement of the workload inside the server, one commit each.
func inServer(body string, from, to int) string {
	return fmt.Sprintf("do $$ begin for k in %d..%d loop %s; commit; end loop; end $$", from, to, body)
}

func small(ctx context.Context, w *workload, dsn string) error {
	row := "insert into t select k, k % 1000, k::bigint * 7919, (k % 100000) / 100.0, now(), repeat(md5(k::text), 3), md5(k::text)::uuid"
	return sessions(ctx, dsn, 2, func(part int) []string {
		half := w.rows / 2
		return []string{inServer(row, 1+part*half, half+part*(w.rows-half))}
	})
}

func thousands(ctx context.Context, w *workload, dsn string) error {
	return sessions(ctx, dsn, 1, func(int) (list []string) {
		for i := range w.transactions {
			list = append(list, "insert into t "+fmt.Sprintf(wideRow, i*1000+1, (i+1)*1000))
		}
		return list
	})
}

func one(ctx context.Context, w *workload, dsn string) error {
	return sessions(ctx, dsn, 1, func(int) []string {
		return []string{fmt.Sprintf("insert into t select i, i %% 1000, repeat(md5(i::text), 2) from generate_series(1,%d) i", w.rows)}
	})
}

func tpcb(ctx context.Context, w *workload, dsn string) error {
	body := `update accounts set balance = balance + k where aid = 1 + k % 100000; update tellers set balance = balance + k where tid = 1 + k % 10;
		update branches set balance = balance + k where bid = 1; insert into history values (1 + k % 10, 1, 1 + k % 100000, k, now(), '')`
	return sessions(ctx, dsn, 1, func(int) []string { return []string{inServer(body, 1, w.transactions)} })
}

func toast(ctx context.Context, w *workload, dsn string) error {
	n := w.rows / 20
	insert := `insert into t select k * 10 + j, 0, jsonb_build_object('k', k, 'text', repeat(md5(j::text), 60)), repeat(md5((k * j)::text), 250) from generate_series(0, 9) j`
	return sessions(ctx, dsn, 1, func(int) []string {
		return []string{inServer(insert, 1, n), inServer("update t set n = k where id between k * 10 and k * 10 + 9", 1, n)}
	})
}

// sessions runs statements over some connections at once.
func sessions(ctx context.Context, dsn string, count int, statements func(part int) []string) error {
	var working sync.WaitGroup
	errs := make(chan error, count)
	for part := range count {
		working.Go(func() {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close(ctx)
			for _, s := range statements(part) {
				if _, err := conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	working.Wait()
	close(errs)
	return <-errs
}
