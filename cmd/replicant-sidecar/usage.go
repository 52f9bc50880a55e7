package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

func init() { cobra.AddTemplateFunc("settings", settings) }

// usageTemplate lists commands by group and settings by theirs, each setting with its
// flag, variable and key.
const usageTemplate = `Usage:
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}
{{$cmds := .Commands}}{{range $group := .Groups}}{{$some := false}}{{range $cmds}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}{{$some = true}}{{end}}{{end}}{{if $some}}
{{$group.Title}}{{range $cmds}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{end}}{{if and .HasAvailableSubCommands (not .Groups)}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{with settings .}}
{{.}}{{end}}{{if .HasExample}}
Examples:
{{.Example}}
{{end}}`

// settings prints a command's own flags, then the settings by their groups.
func settings(cmd *cobra.Command) string {
	byFlag := map[string]*config.Key{}
	for i := range config.Keys() {
		byFlag[config.Keys()[i].Flag] = &config.Keys()[i]
	}
	groups := map[string]*strings.Builder{}
	group := func(name string) *strings.Builder {
		if groups[name] == nil {
			groups[name] = &strings.Builder{}
		}
		return groups[name]
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		key := byFlag[f.Name]
		switch {
		case f.Hidden:
		case key == nil || f.Usage != key.Description: // or a flag of the command, by the same name
			writeFlag(group("Flags"), f, f.Usage)
		default:
			text := key.Description
			if d := key.DefaultText(); d != "" {
				text += " Default: " + d + "."
			}
			writeFlag(group(key.Group), f, text+" [$"+key.Env+", "+key.Path+"]")
		}
	})
	var b strings.Builder
	for _, name := range append([]string{"Flags"}, config.FlagGroups()...) {
		if lines := groups[name]; lines != nil {
			fmt.Fprintf(&b, "%s:\n%s\n", name, lines)
		}
	}
	return b.String()
}

func writeFlag(b *strings.Builder, f *pflag.Flag, text string) {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	switch kind := f.Value.Type(); kind {
	case "bool":
	case "string":
		name += " text"
	case "int":
		name += " number"
	default:
		name += " " + kind
	}
	fmt.Fprintln(b, name)
	for _, line := range strings.Split(wrap(text), "\n") {
		fmt.Fprintf(b, "            %s\n", strings.TrimSpace(line))
	}
}
