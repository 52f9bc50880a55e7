package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// CopyInfo is the newest copy of tables of this run.
type CopyInfo struct {
	// Kind is initial or incremental; Phase one of slot, locks, copying, completing, paused, done;
	// Waiting says what it waits for.
	Kind    string    `json:"kind"`
	Phase   string    `json:"phase"`
	Since   time.Time `json:"since"`
	Waiting string    `json:"waiting,omitempty"`
	// Failing says why nothing can be read beside the stream.
	Failing string `json:"failing,omitempty"`
	// SnapshotLSN is where the snapshot was taken.
	SnapshotLSN core.LSN `json:"snapshot_lsn"`
	// Rows and Bytes are durable at the sink.
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// XminAge is how many transactions began since the snapshot: the source cleans up
	// nothing that they left. HeldBytes is the WAL that the slot keeps.
	XminAge   int64       `json:"xmin_age"`
	HeldBytes int64       `json:"held_bytes"`
	Tables    []TableInfo `json:"tables"`
}

// TableInfo is one table of a copy. EstimatedRows is the planner's number, -1 when it has
// none; SourceBytes the table's size at the source.
type TableInfo struct {
	Schema        string `json:"schema"`
	Table         string `json:"table"`
	State         string `json:"state"`
	Rows          int64  `json:"rows"`
	Bytes         int64  `json:"bytes"`
	EstimatedRows int64  `json:"estimated_rows"`
	SourceBytes   int64  `json:"source_bytes"`
	Restarts      int    `json:"restarts"`
	// Earlier: it was copied before this run, which does not read it.
	Earlier bool `json:"earlier,omitempty"`
}

func copyInfo(c *pipeline.CopyStatus) *CopyInfo {
	if c == nil {
		return nil
	}
	info := &CopyInfo{
		Kind: c.Kind, Phase: string(c.Phase), Since: c.Since, Waiting: c.Waiting, Failing: c.Failing, SnapshotLSN: c.Point,
		Rows: c.Rows, Bytes: c.Bytes, XminAge: c.XminAge, HeldBytes: c.HeldBytes, Tables: []TableInfo{},
	}
	for _, t := range c.Tables {
		info.Tables = append(info.Tables, TableInfo(t))
	}
	return info
}

// copyGauges are numbers of the newest copy, 0 where there was none.
func (c *collector) copyGauges() {
	gauge := func(name, help string, read func(*pipeline.CopyStatus) float64) {
		c.add(prometheus.GaugeValue, name, help, func(s *pipeline.Status) float64 {
			if s.Copy == nil {
				return 0
			}
			return read(s.Copy)
		})
	}
	tables := func(counts func(*pipeline.TableProgress) float64) func(*pipeline.CopyStatus) float64 {
		return func(s *pipeline.CopyStatus) (sum float64) {
			for i := range s.Tables {
				if !s.Tables[i].Earlier {
					sum += counts(&s.Tables[i])
				}
			}
			return sum
		}
	}
	gauge("copy_tables", "Tables of the newest copy.", tables(func(*pipeline.TableProgress) float64 { return 1 }))
	gauge("copy_tables_done", "Tables of it that are done.", tables(func(t *pipeline.TableProgress) float64 {
		if t.State == pipeline.TableDone {
			return 1
		}
		return 0
	}))
	gauge("copy_rows", "Rows that are durable at the sink.", func(s *pipeline.CopyStatus) float64 { return float64(s.Rows) })
	gauge("copy_bytes", "Bytes of them.", func(s *pipeline.CopyStatus) float64 { return float64(s.Bytes) })
	gauge("copy_estimated_rows", "Rows of its tables by the planner's estimate, as far as there is one.",
		tables(func(t *pipeline.TableProgress) float64 { return float64(max(t.EstimatedRows, 0)) }))
	gauge("copy_xmin_age", "Transactions since its snapshot, which keeps the source from cleaning up.", func(s *pipeline.CopyStatus) float64 { return float64(s.XminAge) })
	gauge("copy_held_bytes", "WAL that the slot keeps while it runs.", func(s *pipeline.CopyStatus) float64 { return float64(s.HeldBytes) })
}
