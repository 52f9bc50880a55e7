package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

func newExplain() *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "explain [CODE]", GroupID: groupOther, Args: cobra.MaximumNArgs(1),
		Short: "Say what a halt means and what to do; without a code, list all",
		RunE: runs(func(cmd *cobra.Command, args []string) error {
			switch {
			case markdown:
				_, err := io.WriteString(cmd.OutOrStdout(), haltsMarkdown())
				return err
			case len(args) == 0:
				return listHalts(cmd.OutOrStdout())
			}
			return explain(cmd.OutOrStdout(), args[0])
		}),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return haltNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print docs/halts.md")
	_ = cmd.Flags().MarkHidden("markdown")
	return cmd
}

func haltNames() []string {
	var names []string
	for _, t := range core.HaltTexts() {
		names = append(names, string(t.Code))
	}
	return names
}

func explain(w io.Writer, code string) error {
	code = strings.ToLower(strings.TrimSpace(code))
	text, ok := core.Explain(core.HaltCode(code))
	if !ok {
		hint := "run `replicant-sidecar explain` for the list"
		if near := config.Nearest(code, haltNames()); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		if id := strings.ToUpper(code); slices.Contains(caseIDs(), id) {
			hint = "that is a case of the conformance suite: `replicant-sidecar conformance explain " + id + "`"
		}
		return &usageError{fmt.Sprintf("there is no halt with the code %q; %s", code, hint)}
	}
	fmt.Fprintf(w, "%s  (exit code %d)\n", text.Code, text.Exit)
	tellText(w, text)
	return nil
}

func listHalts(w io.Writer) error {
	for _, t := range core.HaltTexts() {
		if _, err := fmt.Fprintf(w, "%-26s %s\n", t.Code, t.Happened); err != nil {
			return err
		}
	}
	return nil
}

// haltsMarkdown is docs/halts.md.
func haltsMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Halts

<!-- Made from core/halt_texts.go by "replicant-sidecar explain --markdown"; do not edit. -->

A halt is the end of a run by decision. After it nothing moves: no work is sent to the sink and no position is
confirmed to Postgres, so the slot keeps what is not delivered. A restart without a change meets the same fact again.
` + "`replicant-sidecar explain CODE`" + ` prints the same text.

| exit code | meaning | restart? |
|---|---|---|
| 0 | drained: nothing that was in flight is in doubt | as you like |
| 1 | internal error; or stopped with a unit left open or inside an initial copy, or aborted by a second signal: the log says which | yes |
| 2 | wrong use, configuration or capabilities | no: it fails the same way |
| 3 | a check failed | no |
| 4 | halted | no: an operator is needed |
| 5 | fenced: another sidecar has taken over | yes: it becomes the standby |

With ` + "`run -- command`" + ` the command's own exit code is returned if it ended first and by itself.
`)
	for _, t := range core.HaltTexts() {
		fmt.Fprintf(&b, "\n## %s\n\nExit code %d. %s %s\n\nWhat to do: %s\n", t.Code, t.Exit, t.Happened, t.Means, t.Do)
	}
	return b.String()
}
