package suite

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// ReadKnown reads announced failures, a line each: the id, perhaps until=2026-12-31, and
// the reason. # begins a comment.
func ReadKnown(r io.Reader) ([]conformance.KnownFailure, error) {
	var all []conformance.KnownFailure
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		k := conformance.KnownFailure{ID: words[0]}
		words = words[1:]
		if len(words) > 0 && strings.HasPrefix(words[0], "until=") {
			day, err := time.Parse(time.DateOnly, strings.TrimPrefix(words[0], "until="))
			if err != nil {
				return nil, fmt.Errorf("line %d: a day is written 2026-12-31", n)
			}
			k.Expires, words = day.AddDate(0, 0, 1), words[1:]
		}
		if k.Reason = strings.Join(words, " "); k.Reason == "" {
			return nil, fmt.Errorf("line %d: %s has no reason", n, k.ID)
		}
		if !exists(k.ID) {
			return nil, fmt.Errorf("line %d: there is no case %q", n, k.ID)
		}
		all = append(all, k)
	}
	return all, lines.Err()
}

// ParseSkip reads PATTERN=REASON.
func ParseSkip(text string) (conformance.UserSkip, error) {
	pattern, reason, _ := strings.Cut(text, "=")
	if strings.TrimSpace(pattern) == "" || strings.TrimSpace(reason) == "" {
		return conformance.UserSkip{}, fmt.Errorf("--skip is PATTERN=REASON; %q has no reason", text)
	}
	return conformance.UserSkip{Pattern: pattern, Reason: reason}, nil
}

func exists(id string) bool {
	for _, c := range conformance.Cases() {
		if strings.EqualFold(c.ID, id) {
			return true
		}
	}
	return false
}
