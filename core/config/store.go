package config

import (
	"strings"
	"time"
)

// Used reports whether the sidecar keeps the position.
func (s *CheckpointStore) Used() bool { return s.Postgres.DSN != "" || s.File.Dir != "" }

// store checks the values; what depends on where they come from is in exclusions.
func (v *validator) store(c *Config) {
	s := &c.CheckpointStore
	if s.Postgres.DSN != "" && s.Postgres.DSN.parts() == nil {
		v.add("checkpoint_store.postgres.dsn", "is no address: it wants postgres://user@host:5432/database or host=... dbname=... (its value is not shown)")
	}
	if name := s.Postgres.Table; name == "" || len(name) > nameMax || strings.ContainsRune(name, 0) {
		v.add("checkpoint_store.postgres.table", "wants a name of 1 to %d bytes", nameMax)
	}
	if s.Postgres.DSN != "" && s.File.Dir != "" {
		v.add("checkpoint_store.file.dir", "excludes checkpoint_store.postgres.dsn: the position is in one place")
	}
	if n := s.Batch.MaxTransactions; n < 1 || n > batchMax {
		v.add("checkpoint_store.batch.max_transactions", "wants 1 to %d", batchMax)
	}
	switch {
	case time.Duration(s.Batch.MaxDelay) > time.Minute:
		v.add("checkpoint_store.batch.max_delay", "must be at most 1m")
	case s.Batch.MaxDelay > 0 && s.Batch.MaxTransactions == 1:
		v.add("checkpoint_store.batch.max_delay", "needs checkpoint_store.batch.max_transactions above 1")
	}
	if s.Wait <= 0 {
		v.add("checkpoint_store.wait", "must be more than 0")
	}
	if s.Used() && c.Delivery.Mode == "batch" {
		v.add("delivery.mode", "batch needs a sink that stores the position; it excludes checkpoint_store")
	}
}

// exclusions finds settings that were made and would have no effect. A value that is the
// default is none: "config show" writes them all.
func (l *loader) exclusions() {
	add := func(path, text string) {
		key, _ := findKey(path)
		o := l.out.origins[path]
		if o.Layer != layerDefault && key.Text(&l.out.Config) != key.Default && !l.broken[path] {
			l.faults = append(l.faults, &Fault{Key: path, Place: o.Name, Line: o.line, Column: o.col, Text: text})
		}
	}
	l.refuseEmpty("checkpoint_store.postgres.dsn", "checkpoint_store.file.dir")
	s := &l.out.CheckpointStore
	if s.Postgres.DSN == "" {
		add("checkpoint_store.postgres.table", "needs checkpoint_store.postgres.dsn")
	}
	if s.Used() {
		add("delivery.max_transactions", "is for a sink that stores the position; with checkpoint_store it is checkpoint_store.batch.max_transactions")
		add("delivery.max_delay", "is for a sink that stores the position; with checkpoint_store it is checkpoint_store.batch.max_delay")
		return
	}
	if l.out.Delivery.Mode == "transaction" {
		add("delivery.max_transactions", "is for batches; delivery.mode: transaction sends one at a time")
		add("delivery.max_delay", "is for batches; delivery.mode: transaction sends each at once")
	}
	for _, path := range []string{
		"checkpoint_store.batch.max_transactions", "checkpoint_store.batch.max_delay", "checkpoint_store.wait", "accept_unfenced",
	} {
		add(path, "needs checkpoint_store.postgres.dsn or checkpoint_store.file.dir")
	}
}

// refuseEmpty stops a variable or flag that was expanded from nothing: without it the
// position would be kept somewhere else than was meant.
func (l *loader) refuseEmpty(paths ...string) {
	for _, path := range paths {
		key, _ := findKey(path)
		if o := l.out.origins[path]; (o.Layer == layerEnv || o.Layer == layerFlag) && key.value(&l.out.Config).IsZero() {
			l.faults = append(l.faults, &Fault{Key: path, Place: o.Name, Text: "is set to nothing: give a value, or remove it"})
		}
	}
}
