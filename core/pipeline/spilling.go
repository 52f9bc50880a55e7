package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/spill"
)

// Spilling says where transactions in progress go that do not fit in memory.
type Spilling struct {
	// Dir is the folder; each slot has one in it. Required with Source.Streaming.
	Dir string
	// Max bounds the files of this slot, in bytes; 0 means spill.MaxDefault.
	Max int64
	// Resident bounds what stays in memory, in bytes; 0 means 16 MiB.
	Resident int
}

// spilled is a spill.Room as the assembler knows it.
type spilled struct{ *spill.Room }

// Create makes an empty file.
func (s spilled) Create() (assembler.SpillFile, error) {
	f, err := s.Room.Create()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// room makes and sweeps the slot's folder where transactions in progress are asked for.
func (o Options) room() (*spill.Room, error) {
	switch {
	case !o.Source.Streaming:
		return nil, nil
	case o.Spill.Dir == "":
		return nil, core.NewHalt(core.HaltConfigInvalid, "new", "streaming needs a folder to spill to")
	}
	return spill.Open(spill.Options{Dir: o.Spill.Dir, Name: o.Source.Slot, Max: o.Spill.Max})
}

// inProgress is for the status: transactions that came in part, and bytes on disk.
func (s *session) inProgress(m *Machine) (transactions int, spilled int64) {
	transactions, _ = m.asm.InProgress()
	if room := s.pipeline.room; room != nil {
		spilled = room.Used()
	}
	return transactions, spilled
}

// assembler makes the session's own.
func (s *session) assembler() *assembler.Assembler {
	p := s.pipeline
	o := assembler.Options{Known: s.resumed.Relations, Resident: p.options.Spill.Resident}
	if p.room != nil {
		o.Spill = spilled{p.room}
	}
	return assembler.New(o)
}
