package pgstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// settings are made after connecting rather than with it, as poolers refuse what they do
// not know. No statement waits for ever; nothing ends the session while it is idle.
func settings(timeout time.Duration) string {
	ms := strconv.FormatInt(timeout.Milliseconds(), 10)
	return "SET statement_timeout = " + ms + "; SET lock_timeout = " + ms + "; SET idle_session_timeout = 0;" +
		" SET standard_conforming_strings = on; SET client_encoding = 'UTF8'; SET row_security = off;" +
		" SET default_transaction_isolation = 'read committed'; SET bytea_output = 'hex'"
}

// facts are looked at before any of the settings of ours is in force.
const facts = `SELECT pg_catalog.current_setting('synchronous_commit'), pg_catalog.current_setting('fsync'),
 pg_catalog.pg_is_in_recovery()::text`

// open makes the connection ready: settings in force, table found or made, its shape
// checked.
func (s *Store) open(ctx context.Context) error {
	if s.pg != nil {
		return nil
	}
	config, err := pgconn.ParseConfig(s.options.DSN)
	if err != nil {
		return invalid("the address cannot be parsed")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "replicant-sidecar checkpoint store"
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	s.pg = pg
	if err := s.prepare(ctx); err != nil {
		s.drop()
		return err
	}
	return nil
}

func (s *Store) prepare(ctx context.Context) error {
	rows, err := s.query(ctx, facts)
	if err != nil {
		return err
	}
	commit, fsync, recovery := string(rows[0][0]), string(rows[0][1]), string(rows[0][2])
	switch {
	case recovery != "false":
		return invalid("the server is a standby; the store must be one that writes")
	case commit == "off":
		return invalid("synchronous_commit is off")
	case fsync == "off" && !s.warned:
		s.warned = true
		s.options.Logger.Warn("the checkpoint store runs with fsync off: a crash of it may lose or spoil the position")
	}
	// remote_apply promises more than on; all other values promise less or the same.
	set := settings(s.options.CallTimeout)
	if commit != "remote_apply" {
		set += "; SET synchronous_commit = on"
	}
	if _, err := s.pg.Exec(ctx, set).ReadAll(); err != nil {
		return err
	}
	if err := s.findTable(ctx); err != nil {
		return err
	}
	// The table has been found along the role's path; from here on no name needs one.
	_, err = s.pg.Exec(ctx, "SET search_path = pg_catalog").ReadAll()
	return err
}

// query runs one statement with text parameters and text results.
func (s *Store) query(ctx context.Context, sql string, parameters ...string) ([][][]byte, error) {
	values := make([][]byte, len(parameters))
	for i, p := range parameters {
		values[i] = []byte(p)
	}
	result := s.pg.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	return result.Rows, result.Err
}

// drop forgets a connection whose state is not known.
func (s *Store) drop() {
	const polite = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), polite)
	defer cancel()
	_ = s.pg.Close(ctx)
	s.pg, s.used = nil, false
}

// joinLiterals prints names for an SQL list.
func joinLiterals(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = literal(name)
	}
	return strings.Join(quoted, ", ")
}
