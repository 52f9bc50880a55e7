// Package suite makes the conformance suite's options of what the operator said: flags, and
// a file conformance.yaml beside the sink.
package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/crashpoint"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
)

// Settings is what the operator said. Either Command or Address is needed.
type Settings struct {
	// Command starts the sink; its address is ours to choose.
	Command []string
	// Address is where a sink listens that somebody else started. Start, Kill and Stop
	// are shell commands that do it, for containers; all three or none.
	Address           string
	Start, Kill, Stop string
	// Env are NAME=VALUE for the command; Dir is where it runs.
	Env []string
	Dir string
	// One of these reads the store: a command that prints JSON lines, the address of a
	// ProbeService, or a database with a template for the names of its tables.
	Probe        []string
	ProbeAddress string
	DSN, Tables  string
	// Hidden are columns of the sink's own, which a DSN shows and nobody sent.
	Hidden []string
	// Proxy is "listen=upstream": we stand between the sink and its database.
	Proxy string
	// Engine is "auto", "calls" or "timed".
	Engine string
}

// Suite is what a run needs. Close ends all of it.
type Suite struct {
	Target   conformance.Target
	Probe    conformance.Probe
	Crashers []conformance.Crasher
	Proxy    conformance.Crasher

	launcher *crashpoint.Launcher
	proxy    *crashpoint.Proxy
	data     string
	closers  []func() error
}

// Open makes a suite. Its data directory, which stands for {data} in the settings, is new
// and removed by Close.
func Open(ctx context.Context, s Settings) (*Suite, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "replicant-conformance-")
	if err != nil {
		return nil, err
	}
	suite := &Suite{data: data}
	s.fill(data)
	for _, step := range []func(context.Context, *Settings) error{suite.openProxy, suite.openTarget, suite.openProbe} {
		if err := step(ctx, &s); err != nil {
			return nil, errors.Join(err, suite.Close())
		}
	}
	return suite, nil
}

func (s *Settings) check() error {
	hooks := 0
	for _, hook := range []string{s.Start, s.Kill, s.Stop} {
		if hook != "" {
			hooks++
		}
	}
	probes := 0
	for _, is := range []bool{len(s.Probe) > 0, s.ProbeAddress != "", s.DSN != ""} {
		if is {
			probes++
		}
	}
	switch {
	case len(s.Command) == 0 && s.Address == "":
		return errors.New("no sink: name its command after --, or its address with --sink")
	case len(s.Command) > 0 && s.Address != "":
		return errors.New("a sink is either started by us (-- command) or somewhere (--sink), not both")
	case len(s.Command) > 0 && hooks > 0:
		return errors.New("--start, --kill and --stop are for a sink that is named by --sink")
	case hooks != 0 && hooks != 3:
		return errors.New("--start, --kill and --stop belong together")
	case probes > 1:
		return errors.New("one probe is enough: --probe, --probe-address or --dsn")
	case s.Engine != "" && s.Engine != "auto" && s.Engine != "calls" && s.Engine != "timed":
		return errors.New("--engine is auto, calls or timed")
	case s.Proxy != "" && !strings.Contains(s.Proxy, "="):
		return errors.New("--store-proxy is LISTEN=UPSTREAM, as in 127.0.0.1:6432=127.0.0.1:5432")
	}
	return nil
}

// fill puts the data directory into the settings that name it.
func (s *Settings) fill(data string) {
	put := func(text *string) { *text = strings.ReplaceAll(*text, "{data}", data) }
	for i := range s.Env {
		put(&s.Env[i])
	}
	probe := append([]string(nil), s.Probe...)
	for i := range probe {
		put(&probe[i])
	}
	s.Probe = probe
	put(&s.DSN)
	put(&s.Start)
}

func (u *Suite) openProxy(_ context.Context, s *Settings) (err error) {
	if s.Proxy == "" {
		return nil
	}
	listen, upstream, _ := strings.Cut(s.Proxy, "=")
	if u.proxy, err = crashpoint.Listen(listen, upstream); err != nil {
		return fmt.Errorf("--store-proxy: %w", err)
	}
	u.Proxy, u.closers = u.proxy, append(u.closers, u.proxy.Close)
	return nil
}

func (u *Suite) openTarget(_ context.Context, s *Settings) error {
	switch {
	case len(s.Command) > 0:
		o := conformance.ManagedOptions{Args: s.Command, Env: append(os.Environ(), s.Env...), Dir: s.Dir}
		if s.Engine != "timed" {
			u.launcher = crashpoint.NewLauncher(conformance.PlainLauncher())
			o.Launcher = u.launcher
		}
		m, err := conformance.NewManaged(o)
		if err != nil {
			return err
		}
		u.Target, u.closers = m, append(u.closers, m.Close)
		if u.launcher != nil {
			u.Crashers = append(u.Crashers, crashpoint.NewCalls(m, u.launcher))
		}
	case s.Start != "":
		h, err := conformance.NewHooked(conformance.HookOptions{
			Address: s.Address, Start: shell(s.Start), Kill: shell(s.Kill), Stop: shell(s.Stop),
		})
		if err != nil {
			return err
		}
		u.Target = h
		u.closers = append(u.closers, func() error { return h.Kill(context.Background()) })
	default:
		u.Target = conformance.NewAttached(s.Address)
	}
	if s.Engine != "calls" && (len(s.Command) > 0 || s.Start != "") {
		u.Crashers = append(u.Crashers, crashpoint.NewTimed(u.Target))
	}
	if u.proxy != nil {
		u.proxy.Watch(u.Target)
	}
	return nil
}

func shell(line string) []string { return []string{"sh", "-c", line} }

func (u *Suite) openProbe(_ context.Context, s *Settings) (err error) {
	switch {
	case len(s.Probe) > 0:
		u.Probe, err = conformance.NewCommandProbe(s.Dir, s.Probe...)
	case s.ProbeAddress != "":
		u.Probe, err = conformance.NewServiceProbe(s.ProbeAddress, s.ProbeAddress != u.Target.Address())
	case s.DSN != "":
		var p *sqlprobe.Probe
		if p, err = sqlprobe.New(sqlprobe.Options{DSN: s.DSN, Table: s.Tables, Hidden: s.Hidden}); err == nil {
			u.Probe = p
		}
	}
	if err != nil {
		return fmt.Errorf("the probe: %w", err)
	}
	if u.Probe != nil {
		u.closers = append(u.closers, u.Probe.Close)
	}
	return nil
}

// Fallback is why crash points are not enumerated though the sink is started by us, or "".
func (u *Suite) Fallback() string {
	if u.launcher == nil || u.launcher.Unavailable() == nil {
		return ""
	}
	return u.launcher.Unavailable().Error()
}

// Diagnose says what is at the sink's address, where it runs and does not answer; "" if that
// is a gRPC server, or the sink has ended.
func (u *Suite) Diagnose() string {
	if m, ok := u.Target.(*conformance.Managed); ok && m.Ended() != "" {
		return ""
	}
	return Diagnose(u.Target.Address())
}

// Close ends the sink, the probe and the proxy, and removes the data.
func (u *Suite) Close() error {
	var errs []error
	for _, end := range slices.Backward(u.closers) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, os.RemoveAll(u.data))...)
}
