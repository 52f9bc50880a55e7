// Command bench measures the sidecar beside other readers of the same slot: it writes a
// backlog once, with one slot a run made before the load, then drains it with each
// reader in turn, round after round, and prints one table a workload. All figures that
// are worth comparing are ratios within one run; see docs/benchmarks.md.
//
// Called as "bench reader NAME" it is one of the readers itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

type settings struct {
	workloads []string
	readers   []string
	rounds    int
	scale     float64
	major     int
	profile   string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "reader" {
		exitOn(reader(os.Args[2]))
		return
	}
	var s settings
	workloads := flag.String("workloads", "W1,W2,W3,W4,W5,S1", "which, by comma")
	readers := flag.String("readers", strings.Join(allReaders(), ","), "which, by comma")
	flag.IntVar(&s.rounds, "rounds", 3, "drains of each workload by each reader")
	flag.Float64Var(&s.scale, "scale", 1, "size of the backlogs, 1 = 200k transactions, 1M rows; 10M rows to copy")
	flag.IntVar(&s.major, "pg", 15, "Postgres major")
	flag.StringVar(&s.profile, "profile", "", "folder for CPU profiles of the sidecar")
	flag.Parse()
	s.workloads, s.readers = strings.Split(*workloads, ","), strings.Split(*readers, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(run(ctx, s))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
