package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/admin"
)

func newSnapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", GroupID: groupOperate, Args: cobra.NoArgs,
		Short: "Start, watch, pause, resume or cancel a copy of tables",
		Long: `Asks a running sidecar, by its admin port on this machine, to copy tables beside the stream. The
sidecar must run with snapshot: incremental. The position of the stream stays as it is.

A TABLE is schema.table or, where that is enough, the table alone; in quotes as in SQL where it
must be: '"my.schema"."my table"'.`,
		Example: `  replicant-sidecar snapshot start public.orders && replicant-sidecar snapshot watch`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Usage() },
	}
	cmd.AddCommand(newSnapshotStart(), newSnapshotWatch(),
		newSnapshotRequest("pause [TABLE]", "Read nothing more until resume, over restarts too; the stream goes on",
			cobra.MaximumNArgs(1), "paused; what was read and not delivered is read again. To go on: replicant-sidecar snapshot resume"),
		newSnapshotRequest("resume [TABLE]", "Go on with a paused copy",
			cobra.MaximumNArgs(1), "resumed"),
		newSnapshotRequest("cancel TABLE...", "End the copy of tables; the rows that were copied stay, and are a part of the table",
			cobra.MinimumNArgs(1), "cancelled; the sink has a part of the rows"))
	return cmd
}

// adminFlags are the settings by which the running sidecar is found.
func adminFlags(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text or json")
	addConfigFlags(cmd, func(path string) bool { return path == "admin.listen" })
}

func newSnapshotStart() *cobra.Command {
	var output string
	var replace bool
	cmd := &cobra.Command{
		Use: "start TABLE...", Args: cobra.MinimumNArgs(1),
		Short: "Copy tables of the publications once more",
		Long: `Copies tables of the publications once more, beside the stream. Readers of the sink never see an
empty table: rows that neither the copy nor the stream has touched are removed at its end, by the
generations that the sink keeps with them. With --replace the table is emptied first, which any
sink can do; a table without a key is always replaced. One copy runs at a time: while one is
running or paused another is refused.`,
		Example: `  replicant-sidecar snapshot start public.orders public.order_items
  replicant-sidecar snapshot start '"Odd.Name"' --replace`,
		RunE: runs(func(cmd *cobra.Command, tables []string) error {
			form := url.Values{"table": tables}
			if replace {
				form.Set("replace", "true")
			}
			return request(cmd, output, "start", form, "begun; to see it: replicant-sidecar snapshot watch")
		}),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "empty the tables at the sink first")
	adminFlags(cmd, &output)
	return cmd
}

func newSnapshotRequest(use, short string, args cobra.PositionalArgs, done string) *cobra.Command {
	var output string
	what, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: runs(func(cmd *cobra.Command, tables []string) error {
			return request(cmd, output, what, url.Values{"table": tables}, done)
		}),
	}
	adminFlags(cmd, &output)
	return cmd
}

// request asks the running sidecar and prints its answer.
func request(cmd *cobra.Command, output, what string, form url.Values, done string) error {
	port, err := openAdmin(cmd, output)
	if err != nil {
		return err
	}
	defer port.close()
	a, err := port.post(cmd.Context(), what, form)
	if err != nil {
		return err
	}
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(a)
	}
	if len(a.Tables) > 0 {
		done = strings.Join(a.Tables, ", ") + ": " + done
	}
	fmt.Fprintln(cmd.OutOrStdout(), done)
	return nil
}

// adminPort is the admin port of a sidecar that runs on this machine.
type adminPort struct {
	base   string
	client *http.Client
}

// A request is answered within half a minute.
const adminPatience = 40 * time.Second

func openAdmin(cmd *cobra.Command, output string) (*adminPort, error) {
	if output != "text" && output != "json" {
		return nil, &usageError{"-o is text or json"}
	}
	loaded, err := load(cmd)
	tellNotes(cmd.ErrOrStderr(), loaded)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(loaded.Admin.Listen)
	if err != nil {
		return nil, &usageError{"the sidecar's admin port is needed, and admin.listen is empty: a sidecar without one takes no requests"}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return &adminPort{
		"http://" + net.JoinHostPort(host, port),
		&http.Client{Timeout: adminPatience, Transport: &http.Transport{Proxy: nil}},
	}, nil
}

func (p *adminPort) close() { p.client.CloseIdleConnections() }

func (p *adminPort) post(ctx context.Context, what string, form url.Values) (a admin.Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+admin.RequestPath+what, strings.NewReader(form.Encode()))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(admin.RequestHeader, "replicant-sidecar")
	code, err := p.do(r, &a)
	switch {
	case err != nil:
		return a, err
	case a.Error != "":
		return a, errors.New(a.Error)
	case code != http.StatusOK:
		return a, fmt.Errorf("the admin port at %s answered %d", p.base, code)
	}
	return a, nil
}

// status is the sidecar's report.
func (p *adminPort) status(ctx context.Context) (report shownReport, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/statusz", nil)
	if err != nil {
		return report, err
	}
	code, err := p.do(r, &report)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the admin port at %s answered %d", p.base, code)
	}
	return report, err
}

const adminAnswerMax = 16 << 20

func (p *adminPort) do(r *http.Request, into any) (int, error) {
	response, err := p.client.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return 0, fmt.Errorf("no sidecar answers at %s (--admin-listen): %w", p.base, err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, adminAnswerMax)).Decode(into); err != nil {
		return 0, fmt.Errorf("what answers at %s (--admin-listen) is not a sidecar: status %d", p.base, response.StatusCode)
	}
	return response.StatusCode, nil
}
