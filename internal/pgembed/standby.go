package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// StandbySlot is the name of the physical slot that Standby makes at the primary.
const StandbySlot = "standby"

// Standby starts a streaming standby of a running server, in a directory of its own, from
// a base backup taken while the server works. The standby reads through the physical slot
// StandbySlot, which is made, so a primary has one at a time; settings win over those of
// the primary's Options. Close it as any server; it is one, and its Stop, Kill and Restart
// do what they do. After pg_promote it goes its own way.
func (s *Server) Standby(ctx context.Context, settings map[string]string) (*Server, error) {
	opts := s.opts
	opts.Dir, opts.KeepData, opts.TCP = "", false, false
	opts.Settings = map[string]string{}
	maps.Copy(opts.Settings, s.opts.Settings)
	opts.Settings["primary_slot_name"] = StandbySlot
	opts.Settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", s.dir.base, s.port)
	maps.Copy(opts.Settings, settings)
	dir, err := makeWorkdir(ctx, opts, s.who)
	if err != nil {
		return nil, err
	}
	standby := &Server{bin: s.bin, opts: opts, who: s.who, dir: dir, port: 5432}
	if err := standby.follow(ctx, s); err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

func (s *Server) follow(ctx context.Context, primary *Server) error {
	if err := s.guard(); err != nil {
		return err
	}
	if err := primary.backup(ctx, s.dir.data()); err != nil {
		return fmt.Errorf("base backup: %w", err)
	}
	if err := s.writeSettings(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// backup copies the cluster into a new directory by the server's own interface for base
// backups. No WAL is copied: the standby streams it from where the backup began.
func (s *Server) backup(ctx context.Context, to string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	begin, end := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if version < 15_00_00 {
		begin, end = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	for _, sql := range []string{"SELECT pg_create_physical_replication_slot('" + StandbySlot + "', true)", begin} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := s.copyCluster(to); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, end).Scan(&label); err != nil {
		return err
	}
	for name, text := range map[string]string{"backup_label": label, "standby.signal": ""} {
		path := filepath.Join(to, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), s.who.own(path)); err != nil {
			return err
		}
	}
	return nil
}

// leftOut are folders of a cluster whose content is the running server's alone.
var leftOut = map[string]bool{
	"pg_wal": true, "pg_replslot": true, "pg_dynshmem": true, "pg_notify": true, "pg_serial": true,
	"pg_snapshots": true, "pg_stat_tmp": true, "pg_subtrans": true,
}

// copyCluster copies the data directory while the server writes to it: files may go away
// and change meanwhile, which recovery from the backup's start makes good.
func (s *Server) copyCluster(to string) error {
	from := s.dir.data()
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case leftOut[filepath.Dir(name)]:
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return errors.Join(os.Mkdir(target, 0o700), s.who.own(target))
		case !d.Type().IsRegular(), name == "postmaster.pid", name == "postmaster.opts":
			return nil
		}
		return gone(s.copyFile(path, target))
	})
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Server) copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), s.who.own(to))
}
