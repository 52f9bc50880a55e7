package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// version is set by the release build: -ldflags "-X main.version=v1.2.3".
var version = ""

// about is what `version -o json` prints.
type about struct {
	Version        string `json:"version"`
	Revision       string `json:"revision,omitempty"`
	Go             string `json:"go"`
	Platform       string `json:"platform"`
	Protocol       string `json:"protocol"`
	ProtocolMinor  int    `json:"protocol_minor"`
	FaultInjection string `json:"fault_injection"`
	// FaultPoints are the places where a test build can be told to fail.
	FaultPoints []string `json:"fault_points,omitempty"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", GroupID: groupOther, Args: cobra.NoArgs, Short: "Print version, protocol and build",
		RunE: runs(func(cmd *cobra.Command, _ []string) error {
			a := aboutUs()
			switch output {
			case "json":
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(a)
			case "text":
				fmt.Fprintf(cmd.OutOrStdout(), "replicant-sidecar %s\nrevision: %s\ngo: %s %s\nprotocol: %s, minor %d\nfault injection: %s\n",
					a.Version, a.Revision, a.Go, a.Platform, a.Protocol, a.ProtocolMinor, a.FaultInjection)
				return nil
			}
			return &usageError{"-o is text or json"}
		}),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func aboutUs() about {
	a := about{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Protocol: "replicant.sink.v1", ProtocolMinor: wire.ProtocolMinor, FaultInjection: "absent",
	}
	if failpoint.Enabled {
		a.FaultInjection = "present"
		for _, d := range failpoint.Declared() {
			a.FaultPoints = append(a.FaultPoints, string(d.Point))
		}
	}
	info, ok := debug.ReadBuildInfo()
	if ok && a.Version == "" {
		a.Version = info.Main.Version
	}
	if a.Version == "" {
		a.Version = "(devel)"
	}
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				a.Revision = s.Value
			}
		}
	}
	return a
}
