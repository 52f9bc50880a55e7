// Package golden reads recorded pgoutput streams, for tests alone. The format is told
// in docs/pgoutput.md.
package golden

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Recording is one story, recorded on one Postgres major.
type Recording struct {
	Story    string
	Major    int
	Sessions []Session
}

// Session is one START_REPLICATION and what came of it. A decoder starts anew with it.
type Session struct {
	// Options is the option list as it was sent, Protocol the proto_version in it.
	Options  string
	Protocol int
	Lines    []Line
}

// Line is an XLogData or a keepalive, in the order received.
type Line struct {
	// Keepalive tells which of the two it is.
	Keepalive  bool
	Start, End core.LSN // End alone is set for a keepalive: the end of WAL
	Message    []byte   // the pgoutput message of an XLogData
	Reply      bool     // a keepalive that asks for a reply
	// Note is set, and nothing else, for what the server said besides: "error ..." or
	// "notice ...".
	Note string
}

// Messages are the pgoutput messages of the session.
func (s Session) Messages() [][]byte {
	var all [][]byte
	for _, l := range s.Lines {
		if l.Message != nil {
			all = append(all, l.Message)
		}
	}
	return all
}

// ReadDir reads every recording in a directory, in the order of names.
func ReadDir(dir string) ([]Recording, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.pgout"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no recording in %s", dir)
	}
	all := make([]Recording, 0, len(paths))
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Read reads one recording; the file is named STORY.pgMAJOR.pgout.
func Read(path string) (Recording, error) {
	story, rest, _ := strings.Cut(filepath.Base(path), ".pg")
	major, err := strconv.Atoi(strings.TrimSuffix(rest, ".pgout"))
	if err != nil {
		return Recording{}, fmt.Errorf("%s is not named STORY.pgMAJOR.pgout", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return Recording{}, err
	}
	defer file.Close()
	r := Recording{Story: story, Major: major}
	lines := bufio.NewScanner(file)
	const longest = 64 << 20
	lines.Buffer(nil, longest)
	for number := 1; lines.Scan(); number++ {
		if err := r.add(lines.Text()); err != nil {
			return Recording{}, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	return r, lines.Err()
}

func (r *Recording) add(text string) error {
	if comment, ok := strings.CutPrefix(text, "# "); ok {
		return r.addComment(comment)
	}
	if text == "" {
		return nil
	}
	if len(r.Sessions) == 0 {
		return errors.New("a message before the first session")
	}
	line, err := parseLine(strings.Fields(text))
	if err != nil {
		return err
	}
	r.current().Lines = append(r.current().Lines, line)
	return nil
}

func (r *Recording) current() *Session { return &r.Sessions[len(r.Sessions)-1] }

func (r *Recording) addComment(comment string) error {
	switch word, rest, _ := strings.Cut(comment, " "); word {
	case "open":
		s := Session{Options: rest, Protocol: 1}
		if _, value, found := strings.Cut(rest, "proto_version '"); found {
			digits, _, _ := strings.Cut(value, "'")
			protocol, err := strconv.Atoi(digits)
			if err != nil {
				return err
			}
			s.Protocol = protocol
		}
		r.Sessions = append(r.Sessions, s)
	case "error", "notice":
		if len(r.Sessions) > 0 {
			r.current().Lines = append(r.current().Lines, Line{Note: comment})
		}
	}
	return nil
}

func parseLine(fields []string) (Line, error) {
	switch {
	case len(fields) == 4 && fields[0] == "w":
		start, errStart := core.ParseLSN(fields[1])
		end, errEnd := core.ParseLSN(fields[2])
		message, errHex := hex.DecodeString(fields[3])
		return Line{Start: start, End: end, Message: message}, errors.Join(errStart, errEnd, errHex)
	case len(fields) == 3 && fields[0] == "k":
		end, err := core.ParseLSN(fields[1])
		return Line{Keepalive: true, End: end, Reply: fields[2] == "1"}, err
	}
	return Line{}, errors.New("neither a message nor a keepalive nor a comment")
}

// Name tells one session of a recording from the others.
func (r Recording) Name(session int) string {
	return fmt.Sprintf("%s.pg%d.%d", r.Story, r.Major, session)
}

// Binary is true where values were asked for in binary form.
func (s Session) Binary() bool { return strings.Contains(s.Options, "binary 'true'") }

// Streaming is true where transactions in progress were asked for.
func (s Session) Streaming() bool {
	return strings.Contains(s.Options, "streaming 'on'") || strings.Contains(s.Options, "streaming 'parallel'")
}
