package conformance

import (
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Level says how much a case weighs.
type Level string

// The levels.
const (
	// Must: a sink that fails it is not conformant.
	Must Level = "must"
	// Should: failing it is a warning, and a failure under Options.Strict.
	Should Level = "should"
)

// Profile is a group of cases that one claim of a sink makes applicable.
type Profile string

// The profiles. Core (or CoreLog of an append log) and all that a sink advertises are
// needed for "conformant".
const (
	Core        Profile = "core"
	CoreLog     Profile = "core-log"
	Batch       Profile = "batch"
	Fenced      Profile = "fencing"
	Lib         Profile = "lib"
	Large       Profile = "large"
	Messages    Profile = "messages"
	Schema      Profile = "schema"
	Resume      Profile = "resume"
	Snapshot    Profile = "snapshot"
	Incremental Profile = "incremental"
	TwoPhase    Profile = "two-phase"
	TLS         Profile = "tls"
)

// Profiles lists them in the order of reports.
func Profiles() []Profile {
	return []Profile{
		Core, CoreLog, Batch, Fenced, Lib, Large, Messages, Schema, Resume,
		Snapshot, Incremental, TwoPhase, TLS,
	}
}

// Need is what a case needs beside the address. A set.
type Need uint8

// The needs, each with the letter that lists show.
const (
	// NeedProbe (P): somebody reads the sink's store for us.
	NeedProbe Need = 1 << iota
	// NeedLifecycle (L): the sink can be killed and started.
	NeedLifecycle
	// NeedCrash (X): a Crasher visits its crash points.
	NeedCrash
	// NeedProxy (N): the connection to the sink's store runs through us.
	NeedProxy
	// NeedTLS (T): certificates or tokens to try.
	NeedTLS
)

// String is the letters, "P,L"; "-" for none.
func (n Need) String() string {
	var letters []string
	for i, letter := range []string{"P", "L", "X", "N", "T"} {
		if n&(1<<i) != 0 {
			letters = append(letters, letter)
		}
	}
	if len(letters) == 0 {
		return "-"
	}
	return strings.Join(letters, ",")
}

// Case is one thing that is tried at a sink.
type Case struct {
	// ID is "IDM-004". Ids are never renumbered or used again.
	ID      string
	Level   Level
	Profile Profile
	Needs   Need
	// Capabilities must all be advertised, or the case does not apply.
	Capabilities []sinkv1.Capability
	// Fencing must be advertised where it is not FENCING_UNSPECIFIED.
	Fencing sinkv1.Fencing
	// Kind must be the sink's where it is set.
	Kind sinkv1.SinkKind
	// Title is what is done, in a line; Reason why it matters, in a line.
	Title, Reason string
	// Rules are the ids of docs/protocol.md that the case holds the sink to.
	Rules []string
	// Expect is what the sink must do, Cause what is usually wrong where it does not.
	Expect, Cause string
	// LeftOut is why this version of the contract has no such case; it is listed, and
	// never applies.
	LeftOut string
	// Run tries it. A failure ends the call: the Trial's methods do not return then.
	Run func(*Trial)
}

// Group is the first part of the id, "IDM".
func (c *Case) Group() string {
	group, _, _ := strings.Cut(c.ID, "-")
	return group
}
