package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// collector makes metrics from one copy of the status a scrape, so that the numbers of
// a scrape belong together and the engine counts nothing twice.
type collector struct {
	status  func() pipeline.Status
	version string
	state   *prometheus.Desc
	info    *prometheus.Desc
	halted  *prometheus.Desc
	values  []value
}

// value is one metric that is a number of the status.
type value struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*pipeline.Status) float64
}

var states = []pipeline.State{
	pipeline.StateStarting, pipeline.StateStandby, pipeline.StateCopying, pipeline.StateCatchingUp, pipeline.StateStreaming,
	pipeline.StateSinkUnavailable, pipeline.StateSourceAway, pipeline.StateStoreAway, pipeline.StateDraining, pipeline.StateHalted,
	pipeline.StateStopped,
}

func newCollector(status func() pipeline.Status, version string) *collector {
	c := &collector{
		status: status, version: version,
		state:  prometheus.NewDesc("replicant_state", "1 for the present state, 0 for all others.", []string{"state"}, nil),
		info:   prometheus.NewDesc("replicant_info", "1; its labels say who runs.", []string{"version", "stream", "slot", "mode", "sink"}, nil),
		halted: prometheus.NewDesc("replicant_halted", "1 with the code of the halt that ended the run.", []string{"code"}, nil),
	}
	c.gauges()
	c.copyGauges()
	c.counters()
	return c
}

func (c *collector) add(kind prometheus.ValueType, name, help string, read func(*pipeline.Status) float64) {
	c.values = append(c.values, value{prometheus.NewDesc("replicant_"+name, help, nil, nil), kind, read})
}

func (c *collector) gauges() {
	gauge := func(name, help string, read func(*pipeline.Status) float64) {
		c.add(prometheus.GaugeValue, name, help, read)
	}
	position := func(name, help string, read func(*pipeline.Status) core.LSN) {
		gauge(name, help, func(s *pipeline.Status) float64 { return float64(read(s)) })
	}
	position("received_lsn", "Position read from Postgres, in bytes of WAL.", func(s *pipeline.Status) core.LSN { return s.Received })
	position("durable_lsn", "Position stored by the sink.", func(s *pipeline.Status) core.LSN { return s.Durable })
	position("confirmed_lsn", "Position told to Postgres.", func(s *pipeline.Status) core.LSN { return s.Confirmed })
	position("wal_end_lsn", "End of the server's WAL as far as it was heard of.", func(s *pipeline.Status) core.LSN { return s.WALEnd })
	gauge("lag_bytes", "WAL end minus durable.", func(s *pipeline.Status) float64 { return float64(s.LagBytes) })
	gauge("lag_seconds", "Age of the oldest commit that was read and is not durable; 0 when all is.", func(s *pipeline.Status) float64 { return s.LagSeconds })
	gauge("in_flight", "1 while the sink works on a unit.", func(s *pipeline.Status) float64 {
		if s.InFlight {
			return 1
		}
		return 0
	})
	gauge("in_progress_transactions", "Transactions that came in part and have not committed (streaming on).", func(s *pipeline.Status) float64 { return float64(s.InProgress) })
	gauge("spilled_bytes", "What is on disk of such transactions; spill.max bounds it.", func(s *pipeline.Status) float64 { return float64(s.Spilled) })
	gauge("slot_held_bytes", "WAL that the server keeps for the slot.", func(s *pipeline.Status) float64 { return float64(s.Guard.HeldBytes) })
	gauge("slot_safe_bytes", "WAL that may still be written before the slot is lost; -1 without a limit.", func(s *pipeline.Status) float64 {
		if s.Guard.SafeBytes == nil {
			return -1
		}
		return float64(*s.Guard.SafeBytes)
	})
	gauge("published_tables", "Tables and partitions that are published; -1 before they were asked for.", func(s *pipeline.Status) float64 {
		if s.Sessions == 0 {
			return -1
		}
		return float64(s.Published.Tables)
	})
	gauge("epoch", "Claim under which we write; 0 where the sink cannot fence.", func(s *pipeline.Status) float64 { return float64(s.Epoch) })
	gauge("last_progress_timestamp_seconds", "When durable last moved or had nothing left to do; 0 before.", func(s *pipeline.Status) float64 {
		if s.LastProgress.IsZero() {
			return 0
		}
		return float64(s.LastProgress.UnixMilli()) / 1e3
	})
}

func (c *collector) counters() {
	counter := func(name, help string, read func(*pipeline.Status) uint64) {
		c.add(prometheus.CounterValue, name+"_total", help, func(s *pipeline.Status) float64 { return float64(read(s)) })
	}
	counter("transactions", "Transactions that became durable.", func(s *pipeline.Status) uint64 { return s.Transactions })
	counter("changes", "Changes in them.", func(s *pipeline.Status) uint64 { return s.Changes })
	counter("messages", "Logical messages outside of transactions that became durable.", func(s *pipeline.Status) uint64 { return s.Messages })
	counter("rewound", "Times the sink was found below where it stood before.", func(s *pipeline.Status) uint64 { return s.Rewound })
	counter("units", "Units of work that the sink stored.", func(s *pipeline.Status) uint64 { return s.Units })
	counter("bytes", "Bytes of changes in them.", func(s *pipeline.Status) uint64 { return s.Bytes })
	counter("idle_steps", "Positions stored without a transaction.", func(s *pipeline.Status) uint64 { return s.IdleSteps })
	counter("replayed_transactions", "Transactions that the sink had already and skipped.", func(s *pipeline.Status) uint64 { return s.Replayed })
	counter("skipped_transactions", "Transactions at or below the position, not sent.", func(s *pipeline.Status) uint64 { return s.Skipped })
	counter("streamed_transactions", "Transactions that came before their commit.", func(s *pipeline.Status) uint64 { return s.Streamed })
	counter("sessions", "Replication connections that came to streaming.", func(s *pipeline.Status) uint64 { return s.Sessions })
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.state
	out <- c.info
	out <- c.halted
	for _, v := range c.values {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	for _, state := range states {
		on := 0.0
		if s.State == state {
			on = 1
		}
		out <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, on, string(state))
	}
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, c.version, s.StreamID, s.Slot, s.Mode.String(), label(s.Sink.Name))
	if s.LastHalt != nil {
		out <- prometheus.MustNewConstMetric(c.halted, prometheus.GaugeValue, 1, string(s.LastHalt.Code))
	}
	for _, v := range c.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(&s))
	}
}

// label makes a stranger's text fit for a label: valid UTF-8 of bounded length.
func label(text string) string {
	const labelMax = 100
	runes := []rune(text) // replaces what is not UTF-8
	return string(runes[:min(len(runes), labelMax)])
}
