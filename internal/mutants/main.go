package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	only := flag.String("only", "", "numbers of patches, with commas between")
	check := flag.Bool("check", false, "only look whether every patch can be read and applies")
	keep := flag.Bool("keep", false, "leave the copy of the tree behind and say where it is")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutants takes no arguments beside its flags")
		os.Exit(2)
	}
	var numbers []string
	if *only != "" {
		numbers = strings.Split(*only, ",")
	}
	if err := run(ctx, numbers, *check, *keep); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string, check, keep bool) error {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	mutants, err := load(filepath.Join(root, "internal/mutants"), only)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	if keep {
		fmt.Println("the copy is in", work)
	} else {
		defer func() { _ = os.RemoveAll(work) }()
	}
	r := &runner{binaries: filepath.Join(work, "bin")}
	if r.tree, err = copyTree(ctx, root, filepath.Join(work, "tree")); err != nil {
		return err
	}
	if check {
		return r.applies(ctx, mutants)
	}
	return r.all(ctx, mutants)
}

// applies looks at the patches alone.
func (r *runner) applies(ctx context.Context, mutants []*mutant) error {
	var faults []error
	for _, m := range mutants {
		if err := r.tree.check(ctx, m); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", m.id, m.name, err))
		}
	}
	return errors.Join(faults...)
}

// all runs everything and prints a line a mutant.
func (r *runner) all(ctx context.Context, mutants []*mutant) error {
	began := time.Now()
	if err := r.unbroken(ctx, mutants); err != nil {
		return err
	}
	fmt.Printf("%-9s the tree as it is, %d mutants' tests %16.1fs\n", "green", len(mutants), time.Since(began).Seconds())
	counts := map[string]int{}
	for _, m := range mutants {
		start := time.Now()
		word, why := r.one(ctx, m)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		counts[word]++
		fmt.Printf("%-9s %s %-50s %6.1fs\n", word, m.id, m.name, time.Since(start).Seconds())
		if word != killed {
			fmt.Printf("          %s\n          %s\n", m.what, strings.ReplaceAll(why, "\n", "\n          "))
		}
	}
	fmt.Printf("%d mutants: %d killed, %d survived, %d spoilt, %.0fs\n", len(mutants), counts[killed], counts[survived], counts[spoilt], time.Since(began).Seconds())
	if counts[killed] != len(mutants) {
		return errors.New("not every mutant was killed")
	}
	return nil
}

// Words for what became of a mutant.
const (
	killed   = "killed"
	survived = "SURVIVED"
	spoilt   = "SPOILT" // nothing is known of it
)

// one breaks the tree, runs the tests of one mutant and mends the tree.
func (r *runner) one(ctx context.Context, m *mutant) (word, why string) {
	if err := r.tree.apply(ctx, m); err != nil {
		return spoilt, "it does not apply: " + err.Error()
	}
	word, why = r.broken(ctx, m)
	if err := r.tree.mend(ctx, m); err != nil {
		return spoilt, "it cannot be taken back: " + err.Error()
	}
	return word, why
}

func (r *runner) broken(ctx context.Context, m *mutant) (word, why string) {
	if err := r.compiles(ctx, m); err != nil {
		return spoilt, "it does not compile: " + err.Error()
	}
	for _, s := range m.tests {
		binary := ""
		if !s.python() {
			var err error
			if binary, err = r.build(ctx, s.dir); err != nil {
				return spoilt, "it does not compile: " + err.Error()
			}
		}
		switch v, out := r.run(ctx, s, binary, m.env); v {
		case passed:
			return survived, s.String() + " is green"
		case unclear:
			return spoilt, s.String() + ": " + out
		}
	}
	return killed, ""
}

// unbroken runs the named tests in the tree as it is: those of one package and one
// environment together.
func (r *runner) unbroken(ctx context.Context, mutants []*mutant) error {
	type place struct{ dir, env string }
	var order []place
	runs := map[place][]string{}
	for _, m := range mutants {
		for _, s := range m.tests {
			at := place{s.dir, strings.Join(m.env, "\n")}
			if runs[at] == nil {
				order = append(order, at)
			}
			runs[at] = append(runs[at], together(s))
		}
	}
	var faults []error
	for _, at := range order {
		s := suite{dir: at.dir, run: strings.Join(runs[at], "|")}
		binary := ""
		if s.python() {
			s.run = "(" + strings.Join(runs[at], ") or (") + ")"
		} else {
			var err error
			if binary, err = r.build(ctx, s.dir); err != nil {
				return fmt.Errorf("the tree does not compile as it is: %w", err)
			}
		}
		if v, out := r.run(ctx, s, binary, strings.Fields(at.env)); v != passed {
			faults = append(faults, fmt.Errorf("as it is, %s is not green:\n%s", s.dir, last(out, 40)))
		}
	}
	return errors.Join(faults...)
}

// together is the part of a test's name that can be joined with others: a test is run whole
// where a mutant names a part of it.
func together(s suite) string {
	if s.python() {
		return s.run
	}
	name, _, _ := strings.Cut(s.run, "/")
	return name
}
