package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// FlagGroups are the headings of the flags, in the order of help.
func FlagGroups() []string {
	var groups []string
	seen := map[string]bool{}
	for _, k := range Keys() {
		if !seen[k.Group] {
			seen[k.Group] = true
			groups = append(groups, k.Group)
		}
	}
	return groups
}

// AddFlags defines a flag for every key that keep accepts; a nil keep accepts all. The
// values are read by Load, so that faults of flags come with all others.
func AddFlags(set *pflag.FlagSet, keep func(path string) bool) {
	for i := range Keys() {
		k := &Keys()[i]
		if keep != nil && !keep(k.Path) {
			continue
		}
		f := set.VarPF(&rawFlag{list: k.isList(), kind: k.kind()}, k.Flag, "", k.Description)
		if k.IsBool() {
			f.NoOptDefVal = "true"
		}
	}
}

// rawFlag keeps what was written. A list flag may be repeated.
type rawFlag struct {
	text string
	set  bool
	list bool
	kind string
}

func (f *rawFlag) String() string { return f.text }
func (f *rawFlag) Type() string   { return f.kind }

func (f *rawFlag) Set(text string) error {
	if f.list && f.set {
		text = strings.Join([]string{f.text, text}, ",")
	}
	f.text, f.set = text, true
	return nil
}

// kind names the form of a value, for help and docs.
func (k *Key) kind() string {
	switch {
	case k.isList():
		return "names"
	case len(k.Enum) > 0:
		return strings.Join(k.Enum, "|")
	case k.typ.Name() == "Duration":
		return "duration"
	case k.typ.Name() == "Size":
		return "size"
	case k.IsBool():
		return "bool"
	case k.isText():
		return "text"
	}
	return "number"
}
