package conformance

import (
	"context"
	"io"
	"time"
)

// Target is a sink and what may be done to it.
type Target interface {
	// Address is where it listens: "unix:/path" or "host:port".
	Address() string
	// Start starts it and returns when the process is there; it need not listen yet.
	// Starting what runs is no error and does nothing. ErrNoLifecycle where the sink is
	// somebody else's.
	Start(ctx context.Context) error
	// Kill ends it at once, as SIGKILL does, and returns when all of it is gone.
	Kill(ctx context.Context) error
	// Stop asks it to end, as SIGTERM does, and returns when it is gone: nil if it went
	// by itself before the context ended.
	Stop(ctx context.Context) error
	// Output is the last of what it printed, at most 16 KiB.
	Output() string
}

// Launcher starts commands for a managed target. The crash engine has one of its own.
type Launcher interface {
	Launch(ctx context.Context, c Command) (Process, error)
}

// Command is what to start.
type Command struct {
	Args []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Output takes stdout and stderr; it is bounded and never blocks.
	Output io.Writer
}

// Process is a started command with all that it started itself.
type Process interface {
	// Kill ends all of it at once and waits for that.
	Kill() error
	// Terminate sends SIGTERM to the command.
	Terminate() error
	// Done is closed when the command is over and nothing of it is left.
	Done() <-chan struct{}
	// Ended says how: "exit status 1", "signal: killed". Empty while it runs.
	Ended() string
}

// Crasher visits what a crash can leave behind.
type Crasher interface {
	// Engine is "calls", "proxy", "timed" or "store".
	Engine() string
	// Visit runs the plan once for each crash point. No point reached is an error. It
	// ends early, without error, when a judgement is Torn.
	Visit(ctx context.Context, plan CrashPlan) (CrashMap, error)
}

// CrashPlan is one call whose crash points are visited. For each point the Crasher makes
// sure that the sink runs, calls Prepare, arms, calls Act; when the point was hit, it
// starts the sink again and calls Judge.
type CrashPlan struct {
	Label string
	// Limit is how many points are visited at most, evenly chosen by Seed if there are
	// more; 0 is all.
	Limit int
	Seed  uint64
	// Prepare brings a fresh stream into the state before the call. n tells runs apart.
	Prepare func(ctx context.Context, n int) error
	// Act makes the call. Its error is expected when the sink was killed in it.
	Act func(ctx context.Context, n int) error
	// Judge reads rows and checkpoint once the sink answers again, and goes on to finish
	// the work. Its error means that it could not find out; Torn is told with a detail.
	Judge func(ctx context.Context, n int) (side CrashSide, detail string, err error)
	// Baseline is how long Act takes without a crash, where it is known; for timed kills.
	Baseline time.Duration
}

// Probe reads a sink's store, without the sink where that is possible. Implementations:
// NewServiceProbe, NewCommandProbe, and sqlprobe.Open for a DSN.
type Probe interface {
	// ReadTable gives all rows of a table as they are committed now. A table that is not
	// there is Table{Missing: true} and no error.
	ReadTable(ctx context.Context, schema, table string) (Table, error)
	// ReadLog gives the entries of an append log for one stream in their order, and
	// ErrNoLog where there is none.
	ReadLog(ctx context.Context, stream string) ([]LogEntry, error)
	// Reset removes what the schema holds. Doing nothing is allowed: each case has a
	// schema of its own.
	Reset(ctx context.Context, schema string) error
	// WorksStopped reports whether it can read while the sink is stopped.
	WorksStopped() bool
	Close() error
}

// Table is what a probe read.
type Table struct {
	Missing bool
	Columns []string
	Rows    [][]Value
}

// Value is one stored value.
type Value struct {
	Null bool
	Text []byte
	// Unknown: the sink keeps this column as "not known" and can tell that from NULL.
	Unknown bool
}

// LogEntry is one entry of an append log.
type LogEntry struct {
	CommitLSN uint64
	Ordinal   uint64
	// Op is insert, update, delete, truncate, message or snapshot.
	Op            string
	Schema, Table string
	// Columns and Values are as the change carried them; Kinds has their letters.
	Columns []string
	Kinds   string
	Values  []Value
	// RunID is that of a snapshot entry.
	RunID []byte
	// Prefix and Content are those of a message.
	Prefix, Content []byte
}
