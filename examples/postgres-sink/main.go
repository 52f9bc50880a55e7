// Command postgres-sink mirrors tables into another Postgres, each transaction exactly once.
//
// It is what a sink on sdk/go looks like: a store with transactions, of which sink.FromStore
// makes a sink. Claims, epochs, the skip of what comes again and the position are the SDK's
// work; this program reads and writes one row for them, in the transaction of the rows.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// dsnVariable says where to write: "postgres://...".
const dsnVariable = "POSTGRES_SINK_DSN"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-sink:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := pgxpool.ParseConfig(os.Getenv(dsnVariable))
	if err != nil {
		return err
	}
	// Not DISCARD ALL and the like: a connection that failed in a transaction is closed.
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	return sink.Run(sink.FromStore("postgres-mirror", "1.0", &store{pool: pool}, sink.StoreOptions{}))
}
