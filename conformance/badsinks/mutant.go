package badsinks

import (
	"slices"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Mutant is the reference sink with one defect.
type Mutant struct {
	Defect  Defect
	Variant func() Variant
	// Title says what it does, in a line.
	Title string
	// Caught are the cases that must find it.
	Caught []string
}

// Mutants lists all of them.
func Mutants() []Mutant { return slices.Concat(mutants1, mutants2, mutants3, mutants4) }

// Variant is what a sink claims.
type Variant struct {
	Name         string
	Kind         sinkv1.SinkKind
	Capabilities []sinkv1.Capability
	Fencing      []sinkv1.Fencing
	// Remote: its disk is on another machine, and a proxy stands between.
	Remote bool
	// Guarded: it is served over TLS and wants a client certificate and a token.
	Guarded bool
	// Cases are what it is tried by; empty is all.
	Cases []string
}

// Variants are the clean sinks that must pass.
func Variants() []Variant {
	return []Variant{Full(), Log(), Minimal(), Lib(), Prepared(), Remote(), Guarded()}
}

var bothFences = []sinkv1.Fencing{sinkv1.Fencing_FENCING_STORED, sinkv1.Fencing_FENCING_INSTANCE}

// Full is a mirror with everything.
func Full() Variant {
	v := Variant{Name: "full", Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR, Fencing: bothFences}
	for n := sinkv1.Capability_CAPABILITY_CHECKPOINT; n <= sinkv1.Capability_CAPABILITY_TWO_PHASE; n++ {
		v.Capabilities = append(v.Capabilities, n)
	}
	return v
}

// Remote is a mirror whose store is reached through a proxy.
func Remote() Variant {
	v := Full()
	v.Name, v.Remote, v.Cases = "remote", true, []string{"ATM-*", "ERR-*"}
	return v
}

// Guarded is a mirror that is reached over TLS.
func Guarded() Variant {
	v := Full()
	v.Name, v.Guarded, v.Cases = "guarded", true, []string{"SEC-*", "PII-*", "CAP-*", "BIG-005"}
	return v
}

// Log is an append log with everything that an append log can have.
func Log() Variant {
	v := Full()
	v.Name, v.Kind = "log", sinkv1.SinkKind_SINK_KIND_APPEND_LOG
	v.Capabilities = v.Capabilities[:len(v.Capabilities)-1] // no two-phase
	return v
}

// Minimal is the smallest mirror that keeps its checkpoint.
func Minimal() Variant {
	return Variant{
		Name: "minimal", Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Capabilities: []sinkv1.Capability{
			sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_TRANSACTION,
		},
		Fencing: []sinkv1.Fencing{sinkv1.Fencing_FENCING_STORED},
	}
}

// Lib is the smallest sink whose checkpoint the sidecar keeps.
func Lib() Variant {
	return Variant{
		Name: "lib", Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_TRANSACTION},
		Fencing:      []sinkv1.Fencing{sinkv1.Fencing_FENCING_INSTANCE},
	}
}

// Prepared is a sink with two-phase delivery alone.
func Prepared() Variant {
	return Variant{
		Name: "two-phase", Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Capabilities: []sinkv1.Capability{
			sinkv1.Capability_CAPABILITY_TWO_PHASE, sinkv1.Capability_CAPABILITY_SNAPSHOT,
		},
	}
}
