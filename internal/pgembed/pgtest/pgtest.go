// Package pgtest gives tests real Postgres servers: one shared server a major
// and test process, one fresh database a case, and private servers for tests
// that stop or kill theirs. It fetches nothing; `npm ci --ignore-scripts` in
// test/pg brings the five majors.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// EnvMajors limits the majors, as in "15,17".
const EnvMajors = "REPLICANT_PG_MAJORS"

// Server is a running Postgres of a known major.
type Server struct {
	*pgembed.Server
	Major int
}

// Majors returns the majors to test, oldest first: those of EnvMajors, or 14
// to 18.
func Majors() ([]int, error) {
	text := os.Getenv(EnvMajors)
	var out []int
	if text == "" {
		for m := pgembed.OldestMajor; m <= pgembed.NewestMajor; m++ {
			out = append(out, m)
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		m, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || m < pgembed.OldestMajor || m > pgembed.NewestMajor {
			return nil, fmt.Errorf("%s=%s: %q is not a major from %d to %d", EnvMajors, text, part, pgembed.OldestMajor, pgembed.NewestMajor)
		}
		out = append(out, m)
	}
	return out, nil
}

// ForEach runs f as a subtest "pg<major>" for every major, on the shared
// server of that major. f may call t.Parallel. A major that is not on this
// machine fails the test when CI is set; otherwise it is printed as missing
// and skipped.
func ForEach(t *testing.T, f func(t *testing.T, pg *Server)) {
	t.Helper()
	majors, err := Majors()
	if err != nil {
		t.Fatal(err)
	}
	for _, major := range majors {
		t.Run(fmt.Sprintf("pg%d", major), func(t *testing.T) {
			f(t, Shared(t, major))
		})
	}
}

// Shared returns this process' server of the major, started at its first use
// and ended by Main or with the process. Tests must not stop it.
func Shared(t testing.TB, major int) *Server {
	t.Helper()
	s, err := shared.get(major)
	requireFound(t, major, err)
	return s
}

// Own starts a server for one test alone, closed at the test's end.
func Own(t testing.TB, major int, opts pgembed.Options) *Server {
	t.Helper()
	opts.Major = major
	opts.Find.Checkout = true
	s, err := pgembed.Start(t.Context(), opts)
	requireFound(t, major, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close Postgres %d: %v", major, err)
		}
	})
	return &Server{Server: s, Major: major}
}

// requireFound ends the test when a server could not be had.
func requireFound(t testing.TB, major int, err error) {
	t.Helper()
	var missing *pgembed.NotFoundError
	switch {
	case err == nil:
	case errors.As(err, &missing) && !inCI():
		printMissing(major)
		t.Skipf("Postgres %d is missing (a failure where CI is set): %v", major, err)
	default:
		t.Fatalf("Postgres %d: %v", major, err)
	}
}

// inCI reports whether CI is set to something that does not mean no.
func inCI() bool {
	switch strings.ToLower(os.Getenv("CI")) {
	case "", "0", "false", "no":
		return false
	}
	return true
}

var printed sync.Map

// printMissing says so once a process, where it is seen without -v too.
func printMissing(major int) {
	if _, again := printed.LoadOrStore(major, true); !again {
		fmt.Fprintf(os.Stderr, "pgtest: Postgres %d is MISSING, its tests are skipped (run: npm ci --ignore-scripts in test/pg)\n", major)
	}
}

// pool holds servers of this process, one a major.
type pool struct {
	tcp    bool
	mu     sync.Mutex
	byMaj  map[int]*entry
	closed bool
}

type entry struct {
	once sync.Once
	lent sync.Mutex // of a spare server
	srv  *Server
	err  error
}

var (
	shared = pool{byMaj: map[int]*entry{}}
	spare  = pool{byMaj: map[int]*entry{}, tcp: true}
)

func (p *pool) get(major int) (*Server, error) {
	e, err := p.entry(major)
	if err != nil {
		return nil, err
	}
	return p.started(e, major)
}

func (p *pool) entry(major int) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the shared servers have been closed")
	}
	e := p.byMaj[major]
	if e == nil {
		e = &entry{}
		p.byMaj[major] = e
	}
	return e, nil
}

func (p *pool) started(e *entry, major int) (*Server, error) {
	e.once.Do(func() {
		s, err := pgembed.Start(context.Background(), pgembed.Options{
			Major: major, TCP: p.tcp,
			Find: pgembed.FindOptions{Checkout: true},
		})
		if err != nil {
			e.err = err
			return
		}
		e.srv = &Server{Server: s, Major: major}
	})
	return e.srv, e.err
}

// close ends all shared servers.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, e := range p.byMaj {
		if e.srv != nil {
			errs = append(errs, e.srv.Close())
		}
	}
	return errors.Join(errs...)
}
