package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

const intro = `Streams Postgres changes to your sink over gRPC, each transaction once.
One sidecar owns one replication slot.`

// Groups of commands in the root help, in this order.
const (
	groupStart   = "start"
	groupOperate = "operate"
	groupBuild   = "build"
	groupOther   = "other"
)

func newRoot() *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use: "replicant-sidecar", Short: intro, Long: intro,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Start here:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
		&cobra.Group{ID: groupBuild, Title: "Build a sink:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	for _, add := range commands {
		root.AddCommand(add())
	}
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	root.SetUsageTemplate(usageTemplate)
	return root
}

// commands of the program, in the order of the help.
var commands = []func() *cobra.Command{
	newDemo, newRun, newTail, newSnapshot, newConformance, newConfig, newExplain, newVersion, newCompletion,
}

// execute runs the program and returns its exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	if err := failpoint.Load(); err != nil {
		return report(stderr, &usageError{err.Error()})
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.Execute())
}

// exitError carries an exit code that was reported already or needs no words.
type exitError struct{ code int }

func (e *exitError) Error() string { return "exit" }

// ranError is an error of a command that ran. What cobra returns without it is an
// error in the use of the program.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }
func (e *ranError) Unwrap() error { return e.err }

// usageError says that the program was used wrongly.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// runs marks the errors of a command that ran.
func runs(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var usage *usageError
		if err == nil || errors.As(err, &usage) {
			return err
		}
		return &ranError{err}
	}
}

// load reads the configuration of a command: --config or REPLICANT_CONFIG, the
// environment and the command's flags.
func load(cmd *cobra.Command, required ...string) (*config.Loaded, error) {
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		path = os.Getenv(config.PathEnv)
	}
	return config.Load(config.Sources{Path: path, Environ: os.Environ, Flags: cmd.Flags()}, required...)
}

// addConfigFlags gives a command --config and the flags of the keys that keep accepts.
func addConfigFlags(cmd *cobra.Command, keep func(path string) bool) {
	cmd.Flags().SortFlags = false
	cmd.Flags().String("config", "", "configuration file (YAML)")
	config.AddFlags(cmd.Flags(), keep)
}

func isHalt(err error) bool {
	_, ok := core.AsHalt(err)
	return ok
}
