package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/suite"
	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// conformanceFlags are what a run is told at the command line.
type conformanceFlags struct {
	settings            suite.Settings
	probe               string
	file, known         string
	run, skip           []string
	profiles, expect    []string
	crashPoints, effort string
	strict, values      bool
	seed                uint64
	patience            time.Duration
	tls                 conformance.Transport
	token, output       string
	reports             []string
	verbose             bool
	given               *pflag.FlagSet // what was written at the command line
}

const reportHelp = "FORMAT=FILE, once or more: html, junit, tap, jsonl, markdown, badge or text"

// add gives a command the flags; whole is false for those that judge nothing.
func (f *conformanceFlags) add(cmd *cobra.Command, whole bool) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.given = flags
	s := &f.settings
	flags.StringVar(&s.Address, "sink", "", "address of a sink that runs already: unix:/path or host:port")
	flags.StringVar(&s.Start, "start", "", "with --sink: starts the sink and returns when it is there (for sh -c)")
	flags.StringVar(&s.Kill, "kill", "", "with --sink: ends it as SIGKILL does, and returns when it is gone")
	flags.StringVar(&s.Stop, "stop", "", "with --sink: ends it as SIGTERM does")
	flags.StringArrayVar(&s.Env, "env", nil, "NAME=VALUE for the command, once or more; {data} is a new directory for this run")
	flags.StringVar(&f.file, "config", "", "settings file; without it, conformance.yaml beside the sink, in one of the two folders above, or here")
	flags.StringVar(&f.probe, "probe", "", "command that prints the store as JSON lines (for sh -c)")
	flags.StringVar(&s.ProbeAddress, "probe-address", "", "address of a ProbeService")
	flags.StringVar(&s.DSN, "dsn", "", "database of the sink: postgres://... or sqlite:PATH")
	flags.StringVar(&s.Tables, "tables", "", "with --dsn: how a table is named there; {schema} and {table} stand for its own")
	flags.StringSliceVar(&s.Hidden, "hidden", nil, "with --dsn: columns of the sink's own, which are not looked at")
	flags.DurationVar(&f.patience, "patience", time.Minute, "how long the sink may take to start or to answer")
	if !whole {
		return
	}
	flags.StringSliceVar(&f.run, "run", nil, "only these cases: ids or patterns, such as 'ATM-*'")
	flags.StringArrayVar(&f.skip, "skip", nil, "PATTERN=REASON: leave cases out; the sink is not conformant then")
	flags.StringSliceVar(&f.profiles, "profile", nil, "only these profiles: core, batch, fencing, snapshot, ...")
	flags.StringSliceVar(&f.expect, "expect", nil, "capabilities that the sink must advertise, such as BATCH")
	flags.StringVar(&f.known, "known-failing", "", "file of announced failures, a line each: ID [until=2026-12-31] reason")
	flags.StringVar(&f.crashPoints, "crash-points", "60", "most crash points of a call, or all")
	flags.StringVar(&s.Engine, "engine", "auto", "how the sink is crashed: auto, calls or timed")
	flags.StringVar(&s.Proxy, "store-proxy", "", "LISTEN=UPSTREAM: stand between the sink and its database, and cut there too")
	flags.StringVar(&f.effort, "effort", "normal", "size of the large cases: quick, normal or thorough")
	flags.BoolVar(&f.strict, "strict", false, "a failed SHOULD fails the run")
	flags.Uint64Var(&f.seed, "seed", 0, "of all that is random; 0 picks one")
	flags.BoolVar(&f.values, "show-values", false, "show row values in reports instead of hashes")
	flags.StringVar(&f.tls.CA, "ca", "", "certificate authority of a sink with TLS, PEM file")
	flags.StringVar(&f.tls.ClientCert, "cert", "", "client certificate, PEM file")
	flags.StringVar(&f.tls.ClientKey, "key", "", "its key, PEM file")
	flags.StringVar(&f.token, "token-file", "", "file with a bearer token")
	flags.StringVarP(&f.output, "output", "o", "text", "text or jsonl, as the cases end; tap, junit or markdown at the end")
	flags.StringArrayVar(&f.reports, "report", nil, reportHelp)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list skipped cases too")
}

// open makes the suite and its options.
func (f *conformanceFlags) open(ctx context.Context, notes io.Writer, command []string) (*suite.Suite, *conformance.Options, error) {
	s := f.settings
	s.Command = command
	if f.probe != "" {
		s.Probe = []string{"sh", "-c", f.probe + ` "$@"`, "probe"}
	}
	path := f.file
	if path == "" {
		path = suite.Find(command)
	}
	expect, known := f.expect, f.known
	if path != "" {
		file, err := suite.ReadFile(path)
		if err != nil {
			return nil, nil, misuse(notes, err)
		}
		file.Under(&s)
		expect = append(expect, file.Expect...)
		if known == "" {
			known = file.Known
		}
		fmt.Fprintf(notes, "settings of %s\n", path)
	}
	options, err := f.options(expect, known)
	if err != nil {
		return nil, nil, misuse(notes, err)
	}
	opened, err := suite.Open(ctx, s)
	if err != nil {
		return nil, nil, misuse(notes, err)
	}
	options.Target, options.Probe, options.Crashers, options.Proxy = opened.Target, opened.Probe, opened.Crashers, opened.Proxy
	options.Command, options.CommandTail = f.again(command)
	if opened.Probe == nil {
		fmt.Fprintln(notes, "no probe: nobody reads the sink's store, so most cases are skipped (--probe, --probe-address, --dsn; or a "+
			suite.FileName+" beside the sink, in one of the two folders above, here, or named by --config)")
	}
	return opened, options, nil
}

// misuse says what is wrong with flags or settings, in words of ours that hold no secret
// and may hold "=", which the report of a wrong command line would hide.
func misuse(w io.Writer, err error) error {
	fmt.Fprintf(w, "error: %s\nSee: replicant-sidecar conformance --help\n", err)
	return &exitError{conformance.ExitHarness}
}

var efforts = map[string]conformance.Effort{
	"": conformance.Normal, "quick": conformance.Quick, "normal": conformance.Normal, "thorough": conformance.Thorough,
}

func (f *conformanceFlags) options(expect []string, known string) (*conformance.Options, error) {
	o := &conformance.Options{
		Run: f.run, Expect: expect, Strict: f.strict, Seed: f.seed, Patience: f.patience, ShowValues: f.values,
	}
	var ok bool
	if o.Effort, ok = efforts[f.effort]; !ok {
		return nil, fmt.Errorf("--effort is quick, normal or thorough")
	}
	switch n, err := strconv.Atoi(f.crashPoints); {
	case f.crashPoints == "all":
		o.CrashPoints = -1
	case f.crashPoints == "":
	case err != nil || n < 1:
		return nil, fmt.Errorf("--crash-points is a number from 1, or all")
	default:
		o.CrashPoints = n
	}
	for _, p := range f.profiles {
		o.Profiles = append(o.Profiles, conformance.Profile(p))
	}
	for _, text := range f.skip {
		skip, err := suite.ParseSkip(text)
		if err != nil {
			return nil, err
		}
		o.Skip = append(o.Skip, skip)
	}
	if known != "" {
		list, err := os.Open(known)
		if err != nil {
			return nil, err
		}
		defer list.Close()
		if o.Known, err = suite.ReadKnown(list); err != nil {
			return nil, fmt.Errorf("%s: %w", known, err)
		}
	}
	return o, f.transport(o)
}

func (f *conformanceFlags) transport(o *conformance.Options) error {
	if f.token != "" {
		text, err := os.ReadFile(f.token)
		if err != nil {
			return err
		}
		f.tls.Token = strings.TrimSpace(string(text))
	}
	if f.tls != (conformance.Transport{}) {
		o.TLS = &f.tls
	}
	return nil
}
