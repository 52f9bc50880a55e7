package conformance

import (
	"context"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// serviceProbe asks the sink author's ProbeService.
type serviceProbe struct {
	link   *link
	client sinkv1.ProbeServiceClient
	beside bool
}

// NewServiceProbe asks a ProbeService at an address. beside says that it is no part of
// the sink's process, and answers while that is stopped.
func NewServiceProbe(address string, beside bool) (Probe, error) {
	l, err := dial(address, func(*answer) {})
	if err != nil {
		return nil, err
	}
	return &serviceProbe{link: l, client: sinkv1.NewProbeServiceClient(l.conn), beside: beside}, nil
}

// ReadTable asks for a table.
func (p *serviceProbe) ReadTable(ctx context.Context, schema, table string) (Table, error) {
	r, err := p.client.ReadTable(ctx, &sinkv1.ReadTableRequest{SchemaName: schema, TableName: table})
	if err != nil {
		return Table{}, err
	}
	out := Table{Missing: r.GetMissing(), Columns: r.GetColumns()}
	for _, row := range r.GetRows() {
		values, err := valuesOf(row, len(out.Columns))
		if err != nil {
			return Table{}, err
		}
		out.Rows = append(out.Rows, values)
	}
	return out, nil
}

// ReadLog asks for a log.
func (p *serviceProbe) ReadLog(ctx context.Context, stream string) ([]LogEntry, error) {
	r, err := p.client.ReadLog(ctx, &sinkv1.ReadLogRequest{StreamId: stream})
	if err != nil {
		if refusal(err).Code == codes.Unimplemented {
			return nil, ErrNoLog
		}
		return nil, err
	}
	var out []LogEntry
	for _, e := range r.GetEntries() {
		out = append(out, LogEntryOf(e))
	}
	return out, nil
}

// Reset asks to forget a schema.
func (p *serviceProbe) Reset(ctx context.Context, schema string) error {
	_, err := p.client.Reset(ctx, &sinkv1.ResetRequest{SchemaName: schema})
	if err != nil && refusal(err).Code == codes.Unimplemented {
		return nil
	}
	return err
}

// WorksStopped reports what NewServiceProbe was told.
func (p *serviceProbe) WorksStopped() bool { return p.beside }

// Close ends the connection.
func (p *serviceProbe) Close() error {
	p.link.close()
	return nil
}
