package main

import (
	"fmt"
	"sort"

	"github.com/jedib0t/go-pretty/v6/table"
)

// print shows the medians of one workload. "speed" is relative to the first reader.
func print(w *workload, readers []string, results map[string][]figures) {
	t := table.NewWriter()
	t.SetTitle(fmt.Sprintf("%s  %s: %d transactions, %d rows", w.name, w.title, w.transactions, w.rows))
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"reader", "s", "speed", "rows/s", "tx/s", "MB/s", "reader CPU s", "sink CPU s", "walsender CPU s", "peak MB", "sink MB"})
	base := median(results[readers[0]], func(f figures) float64 { return f.seconds })
	for _, name := range readers {
		runs := results[name]
		if len(runs) == 0 {
			continue
		}
		m := func(pick func(figures) float64) float64 { return median(runs, pick) }
		s := m(func(f figures) float64 { return f.seconds })
		t.AppendRow(table.Row{
			titles[name], fmt.Sprintf("%.2f", s), fmt.Sprintf("%.2f", base/s), fmt.Sprintf("%.0f", float64(w.rows)/s),
			fmt.Sprintf("%.0f", float64(w.transactions)/s), fmt.Sprintf("%.0f", m(func(f figures) float64 { return f.payload })/s/1e6),
			cell(m(func(f figures) float64 { return f.readerCPU })), cell(m(func(f figures) float64 { return f.sinkCPU })),
			cell(m(func(f figures) float64 { return f.server })),
			mb(m(func(f figures) float64 { return f.readerMB })), mb(m(func(f figures) float64 { return f.sinkMB })),
		})
	}
	fmt.Println(t.Render())
}

func median(runs []figures, pick func(figures) float64) float64 {
	values := make([]float64, len(runs))
	for i, f := range runs {
		values[i] = pick(f)
	}
	sort.Float64s(values)
	return values[len(values)/2]
}

func cell(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

func mb(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", v)
}
