package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

const database = "shop"

// schema has what a mirror must get right: a key of two columns, a key of text that
// changes, large values that updates leave alone, names that need quotes.
const schema = `
create table customers (id bigint primary key, name text not null, email text, about text);
alter table customers alter about set storage external;
create table products (sku text primary key, title text, price numeric(10,2), photo bytea);
alter table products alter photo set storage external;
create table orders (id bigint primary key, customer bigint not null, status text not null, placed timestamptz not null default now());
create table order_lines (order_id bigint, line int, sku text, quantity int, primary key (order_id, line));
create table "Gift Cards" ("Code" text primary key, "Value €" numeric, "select" boolean);
create table last_word (id int primary key, at timestamptz);
create publication shop for all tables`

// tables of the schema, in the order in which they are shown.
var tables = []string{"customers", "products", "orders", "order_lines", "Gift Cards", "last_word"}

// clerks write at the same time, so that transactions interleave.
const clerks = 4

// shop writes to the source.
type shop struct {
	pg           *pgembed.Server
	conns        []*pgx.Conn
	seed         uint64
	rows         atomic.Int64 // changed by committed transactions
	transactions atomic.Int64
}

func openShop(ctx context.Context, pg *pgembed.Server, seed uint64) (*shop, error) {
	s := &shop{pg: pg, seed: seed}
	admin, err := pgx.Connect(ctx, pg.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+database); err != nil {
		return nil, err
	}
	for range clerks + 1 { // one more, to look
		conn, err := pgx.Connect(ctx, pg.DSN(database))
		if err != nil {
			s.close()
			return nil, err
		}
		s.conns = append(s.conns, conn)
	}
	_, err = s.conns[clerks].Exec(ctx, schema)
	return s, err
}

func (s *shop) close() {
	for _, c := range s.conns {
		_ = c.Close(context.Background())
	}
}

// trade writes rate row changes a second until ctx ends.
func (s *shop) trade(ctx context.Context, rate int) error {
	var working sync.WaitGroup
	failed := make(chan error, clerks)
	began := time.Now()
	for n := range clerks {
		c := &clerk{shop: s, conn: s.conns[n], number: int64(n), dice: rand.New(rand.NewPCG(s.seed, uint64(n)))}
		working.Go(func() {
			for ctx.Err() == nil {
				due := began.Add(time.Duration(float64(c.written) / float64(rate) * clerks * float64(time.Second)))
				if !until(ctx, due) {
					return
				}
				// A transaction that has begun is committed: the shop closes between two.
				if err := c.serve(context.WithoutCancel(ctx)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	working.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// lastCommit writes the last row and returns a position inside its transaction: once
// that is durable at the sink, everything is.
func (s *shop) lastCommit(ctx context.Context) (core.LSN, error) {
	tx, err := s.conns[clerks].Begin(ctx)
	if err != nil {
		return 0, err
	}
	var text string
	err = tx.QueryRow(ctx, "insert into last_word values (1, now()) returning pg_current_wal_insert_lsn()::text").Scan(&text)
	if err := errors.Join(err, tx.Commit(ctx)); err != nil {
		return 0, err
	}
	s.rows.Add(1)
	s.transactions.Add(1)
	return core.ParseLSN(text)
}

// counts is how many rows each table has now.
func (s *shop) counts(ctx context.Context) (map[string]int64, error) {
	found := map[string]int64{}
	for _, t := range tables {
		var n int64
		err := s.conns[clerks].QueryRow(ctx, "select count(*) from "+pgx.Identifier{t}.Sanitize()).Scan(&n)
		if err != nil {
			return nil, err
		}
		found[t] = n
	}
	return found, nil
}

func until(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// clerk makes transactions; everything it does follows from the seed.
type clerk struct {
	shop    *shop
	conn    *pgx.Conn
	dice    *rand.Rand
	number  int64
	written int64 // rows
	next    int64 // ids it gave out
	moved   int64
}

// serve is one transaction: mostly a sale, now and then something rarer.
func (c *clerk) serve(ctx context.Context) error {
	var batch pgx.Batch
	switch roll := c.dice.IntN(100); {
	case roll < 70 || c.next < 10:
		c.sale(&batch)
	case roll < 80: // an update that leaves the large value alone
		batch.Queue("update customers set email=$2 where id=$1", c.known(), fmt.Sprintf("c%d@example.com", c.dice.Uint32()))
		batch.Queue("update products set price=price+0.01 where sku=$1", c.sku(c.knownNumber()))
	case roll < 88:
		batch.Queue("update orders set status='sent' where id=$1", c.known())
		batch.Queue("update customers set about=$2 where id=$1", c.known(), prose(c.dice))
	case roll < 95: // a key change, large value untouched
		c.moved++
		batch.Queue("update products set sku=$2 where sku=$1", c.sku(c.knownNumber()), fmt.Sprintf("%d-moved-%d", c.number, c.moved))
	default:
		batch.Queue("delete from order_lines where order_id=$1 and line=1", c.known())
		batch.Queue(`delete from "Gift Cards" where "Code"=$1`, c.code(c.knownNumber()))
	}
	rows, err := c.commit(ctx, &batch)
	c.written += rows
	c.shop.rows.Add(rows)
	if rows > 0 { // one that found nothing to change is not sent
		c.shop.transactions.Add(1)
	}
	return err
}

// sale adds a customer, products, an order and its lines.
func (c *clerk) sale(b *pgx.Batch) {
	n := c.next
	c.next++
	id := c.id(n)
	b.Queue("insert into customers values ($1,$2,$3,$4)", id, fmt.Sprintf("Customer %d, “é” 😀", id), nil, prose(c.dice))
	b.Queue("insert into products values ($1,$2,$3,$4)", c.sku(n), "a\tb\\n", fmt.Sprintf("%d.10", n), photo(c.dice))
	b.Queue("insert into orders(id,customer,status) values ($1,$2,'new')", id, id)
	for line := range 1 + c.dice.IntN(4) {
		b.Queue("insert into order_lines values ($1,$2,$3,$4)", id, line+1, c.sku(n), c.dice.IntN(9))
	}
	if n%5 == 0 {
		b.Queue(`insert into "Gift Cards" values ($1,$2,$3)`, c.code(n), "NaN", n%2 == 0)
	}
}

func (c *clerk) commit(ctx context.Context, b *pgx.Batch) (rows int64, err error) {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	results := tx.SendBatch(ctx, b)
	for range b.Len() {
		tag, e := results.Exec()
		err = errors.Join(err, e)
		rows += tag.RowsAffected()
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return 0, errors.Join(err, tx.Rollback(ctx))
	}
	return rows, tx.Commit(ctx)
}

func (c *clerk) id(n int64) int64    { return n*clerks + c.number }
func (c *clerk) known() int64        { return c.id(c.knownNumber()) }
func (c *clerk) knownNumber() int64  { return c.dice.Int64N(max(c.next, 1)) }
func (c *clerk) sku(n int64) string  { return fmt.Sprintf("%d-%d", c.number, n) }
func (c *clerk) code(n int64) string { return fmt.Sprintf("G%d/%d", c.number, n) }

// prose is short as a rule and large enough for out-of-line storage now and then.
func prose(dice *rand.Rand) string {
	words := 3
	if dice.IntN(20) == 0 {
		words = 700
	}
	return strings.Repeat("lorem ipsum ", words)
}

func photo(dice *rand.Rand) []byte {
	size := 20
	if dice.IntN(20) == 0 {
		size = 4000
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(dice.Uint32())
	}
	return b
}
