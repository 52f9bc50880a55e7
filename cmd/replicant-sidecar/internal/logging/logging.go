// Package logging makes the program's logger: text for people at a terminal, JSON
// everywhere else, and no secret in either.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// The formats.
const (
	FormatAuto = "auto"
	FormatText = "text"
	FormatJSON = "json"
)

// New makes a logger that writes to w. level is debug, info, warn or error.
func New(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("unknown log level %q", level)
	}
	if format == FormatAuto {
		format = FormatJSON
		if IsTerminal(w) {
			format = FormatText
		}
	}
	switch format {
	case FormatText:
		return slog.New(tint.NewTextHandler(w, &tint.Options{
			Level: least, ReplaceAttr: mask, TimeFormat: time.TimeOnly, NoColor: !Colour(w),
		})), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: mask})), nil
	}
	return nil, fmt.Errorf("unknown log format %q", format)
}

// IsTerminal reports whether somebody may be looking.
func IsTerminal(w io.Writer) bool {
	if outer, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return IsTerminal(outer.Unwrap())
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Colour reports whether w may be coloured: a terminal, and NO_COLOR is not set
// (https://no-color.org).
func Colour(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == ""
}

var (
	secretKey   = regexp.MustCompile(`(?i)passw|token|secret|dsn|authorization`)
	urlPassword = regexp.MustCompile(`(://[^\s:/@]*):[^\s/]*@`)
	keyPassword = regexp.MustCompile(`(?i)(passw\w*\s*[=:]\s*)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S+)`)
)

const masked = "***"

// mask is the last guard: what comes here should hold no secret already.
func mask(_ []string, a slog.Attr) slog.Attr {
	if secretKey.MatchString(a.Key) {
		return slog.String(a.Key, masked)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); suspicious(s) {
			a.Value = slog.StringValue(Scrub(s))
		}
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok && suspicious(err.Error()) {
			a.Value = slog.StringValue(Scrub(err.Error()))
		}
	}
	return a
}

func suspicious(s string) bool {
	return strings.Contains(s, "://") || strings.Contains(strings.ToLower(s), "passw")
}

// Scrub masks passwords in addresses and in key=value text.
func Scrub(s string) string {
	s = urlPassword.ReplaceAllString(s, "${1}:"+masked+"@")
	return keyPassword.ReplaceAllString(s, "${1}"+masked)
}
