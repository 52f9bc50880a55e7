package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	pretty "github.com/jedib0t/go-pretty/v6/table"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// banner says what runs where and where to poke it.
func banner(o Options, pg *pgembed.Server, s *stage) {
	command := strings.Join(o.Sink, " ")
	fmt.Fprintf(o.Out, `
Everything here is temporary and removed at the end.
  Postgres   %s, from %s
             psql "%s"
  Sidecar    status page http://%s
  Sink       %s
  Try        insert a row with psql; kill -9 the sink or the sidecar; Ctrl-C ends and compares

`, pg.Bin().Version, pg.Bin().Source, pg.DSN(database), s.admin, command)
}

// Intervals of the two ways to show progress.
const (
	tableInterval = time.Second
	lineInterval  = 5 * time.Second
)

// watch shows source and sink side by side until ctx ends.
func watch(ctx context.Context, o Options, shop *shop, s *stage) {
	interval := lineInterval
	if o.Table {
		interval = tableInterval
	}
	drawn := 0
	for until(ctx, time.Now().Add(interval)) {
		st, err := s.status(ctx)
		if !o.Table {
			fmt.Fprintln(o.Out, line(shop, st, err))
			continue
		}
		text := draw(ctx, o, shop, st, err)
		if drawn > 0 {
			fmt.Fprintf(o.Out, "\x1b[%dA\x1b[J", drawn)
		}
		fmt.Fprintln(o.Out, text)
		drawn = strings.Count(text, "\n") + 1
	}
}

func line(shop *shop, st status, err error) string {
	written := fmt.Sprintf("written %d transactions, %d rows", shop.transactions.Load(), shop.rows.Load())
	if err != nil {
		return written + "; the sidecar does not answer just now"
	}
	return fmt.Sprintf("%s; sidecar %s, lag %d bytes, %.1f s", written, st.State, st.LagBytes, st.LagSeconds)
}

// draw is the live table: rows at the source beside rows at the sink.
func draw(ctx context.Context, o Options, shop *shop, st status, err error) string {
	w := pretty.NewWriter()
	w.SetStyle(pretty.StyleLight)
	w.AppendHeader(pretty.Row{"table", "source rows", "sink rows"})
	source, sourceErr := shop.counts(ctx)
	sink := map[string]int64{}
	if len(o.ReadSink) > 0 {
		if found, err := readSink(ctx, o.ReadSink); err == nil {
			for name, t := range found {
				sink[name] = int64(len(t.rows))
			}
		}
	}
	for _, name := range tables[:len(tables)-1] {
		if sourceErr == nil {
			w.AppendRow(pretty.Row{name, source[name], sink[name]})
		}
	}
	state := "the sidecar does not answer just now"
	if err == nil {
		state = fmt.Sprintf("%s %s  lag %d bytes, %.1f s  %d transactions in %d units",
			st.State, st.Reason, st.LagBytes, st.LagSeconds, st.Transactions, st.Units)
	}
	return w.Render() + "\n" + state
}
