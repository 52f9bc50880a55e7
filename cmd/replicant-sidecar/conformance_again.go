package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ofOneRun are flags that do not belong to a single case run again: which cases, with which
// seed, and how it is told.
var ofOneRun = []string{"run", "skip", "profile", "seed", "output", "report", "verbose", "help", "strict", "known-failing"}

// again is how a result says that it can be run alone: the words before "run", and all that
// the run was told behind it, in the order of the help. What may hold a secret is left out.
func (f *conformanceFlags) again(command []string) (head, tail string) {
	var words []string
	f.given.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed || slices.Contains(ofOneRun, flag.Name) {
			return
		}
		if flag.Value.Type() == "bool" {
			words = append(words, "--"+flag.Name)
			return
		}
		values := []string{flag.Value.String()}
		if many, ok := flag.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		for _, value := range values {
			words = append(words, "--"+flag.Name, quoted(value))
		}
	})
	if len(command) > 0 {
		words = append(words, "--")
		for _, word := range command {
			words = append(words, quoted(word))
		}
	}
	return "replicant-sidecar conformance", strings.Join(words, " ")
}

// keepsSecret knows a word that may hold one: it names one, or is an address with a password.
var keepsSecret = regexp.MustCompile(`(?i)passw|pwd|secret|token=|credential|apikey|api_key|://[^/\s]*:[^/\s]*@`)

// quoted is a word as a shell reads it; of one that may hold a secret only the name is shown.
func quoted(word string) string {
	if keepsSecret.MatchString(word) {
		name, _, named := strings.Cut(word, "=")
		if named && !strings.ContainsAny(name, " :/@") {
			return name + "='(not shown)'"
		}
		return "'(not shown)'"
	}
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
