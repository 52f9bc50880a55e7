package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", GroupID: groupOther, Short: "Check, show or describe the configuration"}
	cmd.AddCommand(newConfigLint(), newConfigShow(), newConfigSchema())
	return cmd
}

func newConfigLint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lint [FILE] [flags]", Args: cobra.MaximumNArgs(1),
		Short: "List every fault of file, environment and flags, with line and caret",
		RunE: runs(func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set("config", args[0]); err != nil {
					return err
				}
			}
			loaded, err := load(cmd)
			tellNotes(cmd.ErrOrStderr(), loaded)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "ok: %s\n", counted(loaded))
			if loaded.Source == "" {
				fmt.Fprintln(cmd.OutOrStdout(), "note: source is not set here; run needs it (REPLICANT_SOURCE)")
			}
			return nil
		}),
	}
	addConfigFlags(cmd, nil)
	return cmd
}

// counted says how many keys each layer set.
func counted(l *config.Loaded) string {
	layers := map[string]int{}
	for i := range config.Keys() {
		layers[l.Origin(config.Keys()[i].Path).Layer]++
	}
	return fmt.Sprintf("%d keys from the file, %d from the environment, %d from flags, %d defaults",
		layers["file"], layers["env"], layers["flag"], layers["default"])
}

func tellNotes(w io.Writer, l *config.Loaded) {
	for _, note := range l.Notes {
		fmt.Fprintln(w, "note: "+note)
	}
}

func newConfigShow() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "show", Args: cobra.NoArgs,
		Short: "Print the merged configuration with the origin of each value, secrets masked",
		RunE: runs(func(cmd *cobra.Command, _ []string) error {
			loaded, err := load(cmd)
			tellNotes(cmd.ErrOrStderr(), loaded)
			if err != nil {
				return err
			}
			switch output {
			case "yaml":
				return showYAML(cmd.OutOrStdout(), loaded)
			case "json":
				return showJSON(cmd.OutOrStdout(), loaded)
			}
			return &usageError{"-o is yaml or json"}
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "yaml or json")
	addConfigFlags(cmd, nil)
	return cmd
}

// showYAML prints one key a line, nested as in a file, with its origin behind it.
func showYAML(w io.Writer, l *config.Loaded) error {
	var open []string
	for i := range config.Keys() {
		key := &config.Keys()[i]
		parts := strings.Split(key.Path, ".")
		sections := parts[:len(parts)-1]
		for depth, name := range sections {
			if depth < len(open) && open[depth] == name {
				continue
			}
			open = open[:min(depth, len(open))]
			fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", depth), name)
			open = append(open, name)
		}
		open = open[:len(sections)]
		value, err := json.Marshal(key.Any(&l.Config)) // JSON is YAML, quotes included
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), parts[len(parts)-1], value)
		if _, err := fmt.Fprintf(w, "%-48s # %s\n", line, l.Origin(key.Path)); err != nil {
			return err
		}
	}
	return nil
}

func showJSON(w io.Writer, l *config.Loaded) error {
	type shown struct {
		Value  any           `json:"value"`
		Origin config.Origin `json:"origin"`
	}
	all := map[string]shown{}
	for i := range config.Keys() {
		key := &config.Keys()[i]
		all[key.Path] = shown{key.Any(&l.Config), l.Origin(key.Path)}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

func newConfigSchema() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "schema", Args: cobra.NoArgs, Short: "Print the JSON schema of configuration files",
		RunE: runs(func(cmd *cobra.Command, _ []string) error {
			text := []byte(config.Markdown())
			if !markdown {
				var err error
				if text, err = config.Schema(); err != nil {
					return err
				}
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		}),
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print docs/configuration.md")
	_ = cmd.Flags().MarkHidden("markdown")
	return cmd
}
