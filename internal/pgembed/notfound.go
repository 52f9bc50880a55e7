package pgembed

import (
	"errors"
	"fmt"
	"strings"
)

// NotFoundError says that no Postgres was found, what was tried, and how to
// get one.
type NotFoundError struct {
	Major int // 0: any major would have done
	Tried []string
}

// tried notes one failure; the same failure for several majors is one line.
func (e *NotFoundError) tried(where string, err error) {
	var wrong *wrongMajorError
	if e.Major == 0 && errors.As(err, &wrong) {
		err = fmt.Errorf("has major %d, wanted %d to %d", wrong.got, OldestMajor, NewestMajor)
	}
	line := where + ": " + err.Error()
	for _, have := range e.Tried {
		if have == line {
			return
		}
	}
	e.Tried = append(e.Tried, line)
}

// Error lists the places and the ways out, one a line.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	what, major := fmt.Sprintf("Postgres %d", e.Major), e.Major
	if e.Major == 0 {
		what, major = fmt.Sprintf("Postgres (%d or newer)", OldestMajor), NewestMajor-1
	}
	fmt.Fprintf(&b, "%s was not found. Tried:\n", what)
	for _, line := range e.Tried {
		fmt.Fprintf(&b, "  - %s\n", line)
	}
	fmt.Fprintf(&b, "Any one of these helps:\n")
	fmt.Fprintf(&b, "  - %s=DIR            a directory with postgres and initdb\n", EnvBin)
	fmt.Fprintf(&b, "  - %s=DIR           the node_modules of test/pg after `npm ci --ignore-scripts` there\n", EnvRoot)
	fmt.Fprintf(&b, "  - apt install postgresql       (Debian, Ubuntu; the server it starts is not used)\n")
	fmt.Fprintf(&b, "  - brew install postgresql@%d   (macOS)\n", major)
	fmt.Fprintf(&b, "  - docker run --rm -p 127.0.0.1:5432:5432 -e POSTGRES_PASSWORD=secret postgres:%d -c wal_level=logical\n", major)
	fmt.Fprintf(&b, "      and give its address as the source instead of starting one here")
	return b.String()
}
