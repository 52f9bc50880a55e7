package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

func newConformanceList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "List all cases: id, level, profile, needs, and what is done",
		Long: `Needs: P a probe, L a sink that can be killed and started, X its crash points, N a proxy to its database,
T certificates or a token. "-" as the level: this version of the contract has no such case.`,
		RunE: runs(func(cmd *cobra.Command, _ []string) error { return listCases(cmd.OutOrStdout(), asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON array")
	return cmd
}

// caseLine is one case in JSON.
type caseLine struct {
	ID      string   `json:"id"`
	Level   string   `json:"level"`
	Profile string   `json:"profile"`
	Needs   string   `json:"needs"`
	Title   string   `json:"title"`
	Reason  string   `json:"reason"`
	Rules   []string `json:"rules"`
	LeftOut string   `json:"left_out,omitempty"`
}

func listCases(w io.Writer, asJSON bool) error {
	var all []caseLine
	for _, c := range conformance.Cases() {
		all = append(all, caseLine{c.ID, string(c.Level), string(c.Profile), c.Needs.String(), c.Title, c.Reason, c.Rules, c.LeftOut})
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	const columns = "%-8s %-6s %-11s %-6s %s\n"
	if _, err := fmt.Fprintf(w, columns, "case", "level", "profile", "needs", "what is done"); err != nil {
		return err
	}
	for _, c := range all {
		level := c.Level
		if c.LeftOut != "" {
			level = "-"
		}
		if _, err := fmt.Fprintf(w, columns, c.ID, level, c.Profile, c.Needs, c.Title); err != nil {
			return err
		}
	}
	return nil
}

func newConformanceExplain() *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Args: cobra.ExactArgs(1),
		Short: "Say what a case does, why, and what is usually wrong where it fails",
		RunE:  runs(func(cmd *cobra.Command, args []string) error { return explainCase(cmd.OutOrStdout(), args[0]) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return caseIDs(), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func caseIDs() []string {
	var ids []string
	for _, c := range conformance.Cases() {
		ids = append(ids, c.ID)
	}
	return ids
}

func explainCase(w io.Writer, id string) error {
	id = strings.ToUpper(strings.TrimSpace(id))
	for _, c := range conformance.Cases() {
		if c.ID != id {
			continue
		}
		fmt.Fprintf(w, "%s  (%s, %s; needs %s)\n", c.ID, c.Profile, c.Level, cmp.Or(strings.Trim(c.Needs.String(), "-"), "nothing"))
		for _, line := range [][2]string{
			{"what is done:", c.Title}, {"why it matters:", c.Reason}, {"must happen:", c.Expect},
			{"usual mistake:", c.Cause}, {"left out:", c.LeftOut},
		} {
			if line[1] != "" {
				fmt.Fprintf(w, "  %-15s %s\n", line[0], wrap(line[1]))
			}
		}
		if len(c.Rules) > 0 {
			fmt.Fprintf(w, "  %-15s %s of docs/protocol.md\n", "rules:", strings.Join(c.Rules, ", "))
		}
		return nil
	}
	hint := "run `replicant-sidecar conformance list`"
	if near := config.Nearest(id, caseIDs()); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return &usageError{fmt.Sprintf("there is no case %q; %s", id, hint)}
}
