package conformance

import (
	"errors"
	"time"
)

// ErrNoLifecycle: the sink cannot be started or killed by us.
var ErrNoLifecycle = errors.New("the sink is not ours to start or kill")

// ErrNoLog: the sink keeps no log that the probe could read.
var ErrNoLog = errors.New("no log to read")

// Options says what to run. Target is required.
type Options struct {
	Target Target
	// Probe is nil where nobody reads the store; most cases are skipped then.
	Probe Probe
	// Crashers visit crash points, best first; the first that works is used.
	Crashers []Crasher
	// Proxy is the Crasher that cuts the connection to the sink's store, if there is one.
	Proxy Crasher

	// Run and Skip select cases by id or pattern ("IDM-*"). Empty Run is all.
	Run  []string
	Skip []UserSkip
	// Profiles selects whole profiles; empty is all that the sink advertises.
	Profiles []Profile
	// Expect are capabilities that the sink must advertise, by name ("BATCH"), so that
	// it cannot pass by advertising less than its author thinks.
	Expect []string
	// Known are failures that are announced.
	Known []KnownFailure
	// Strict makes a failed Should a failure.
	Strict bool
	// CrashPoints is the most points to visit in a call; 0 is 60, -1 is all.
	CrashPoints int
	// Seed of all that is random; 0 picks one.
	Seed uint64
	// Patience is how long to wait for a sink that starts or answers; 0 is 60 s.
	Patience time.Duration
	// Effort is how large the large cases are.
	Effort Effort
	// TLS is what the transport cases try; nil where the sink is reached in plain text.
	TLS *Transport
	// ShowValues puts row values into results.
	ShowValues bool
	// Command is how a result's reproduce line begins: "replicant-sidecar conformance".
	// CommandTail is what ends it: "-- python3 sink.py".
	Command, CommandTail string
	// Observe is told each result when it is there. It may be nil.
	Observe func(Result)
}

// Effort is how large the large cases are.
type Effort int

// The efforts.
const (
	// Normal is for CI: large cases are cut to seconds.
	Normal Effort = iota
	// Quick is for the suite's own test of itself.
	Quick
	// Thorough is what the cases say: a million changes, pauses of half a minute.
	Thorough
)

// Transport is what a sink with TLS or a token may be tried with. Files are PEM.
type Transport struct {
	CA, ClientCert, ClientKey string
	// Token is the bearer token, from a file.
	Token string
}

// UserSkip leaves cases out, with a reason.
type UserSkip struct{ Pattern, Reason string }

// KnownFailure announces a failure. One that passes fails the run, and so does one whose
// time is over.
type KnownFailure struct {
	ID, Reason string
	// Expires is the zero time for never.
	Expires time.Time
}

// Summary is a whole run.
type Summary struct {
	Sink     SinkInfo  `json:"sink"`
	Started  time.Time `json:"started"`
	Duration int64     `json:"duration_ns"`
	Seed     uint64    `json:"seed"`
	// Mode is "attach", "managed", "hooked" or "in-process".
	Mode    string   `json:"mode"`
	Results []Result `json:"results"`
	// Profiles counts the verdicts of each.
	Profiles []ProfileSummary `json:"profiles"`
	// Conformant: Core (or CoreLog) and every advertised profile passed, nothing was
	// skipped by the user or for want of means that every sink has, and crash points were visited, sampled
	// at least. Why says what is missing, where it is false.
	Conformant bool     `json:"conformant"`
	Why        []string `json:"why,omitempty"`
	// Begin says which of several failures to look at first: one that breaks the rule which
	// most of them break. Empty where there is no such rule.
	Begin string `json:"begin,omitempty"`
	// Exhaustive: every crash point was visited.
	Exhaustive bool `json:"exhaustive"`
	// Notes are remarks on the whole: capabilities that we do not know, say.
	Notes []string `json:"notes,omitempty"`
	// Exit is the exit code: ExitPass, ExitInternal, ExitHarness, ExitFailures.
	Exit int `json:"exit"`
}

// SinkInfo is what the sink says of itself.
type SinkInfo struct {
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	Kind          string   `json:"kind"`
	ProtocolMinor uint32   `json:"protocol_minor"`
	Capabilities  []string `json:"capabilities"`
	Fencing       []string `json:"fencing"`
	Unsupported   []string `json:"unsupported"`
}

// ProfileSummary counts the verdicts of a profile.
type ProfileSummary struct {
	Profile Profile `json:"profile"`
	// Applies is false where the sink does not claim it.
	Applies       bool `json:"applies"`
	Pass          int  `json:"pass"`
	Fail          int  `json:"fail"`
	Warn          int  `json:"warn"`
	Broken        int  `json:"broken"`
	Known         int  `json:"known"`
	NotApplicable int  `json:"not_applicable"`
	NotPossible   int  `json:"not_possible"`
	ByUser        int  `json:"by_user"`
}

// Exit codes of a run.
const (
	ExitPass = 0
	// ExitInternal: a fault of the suite itself, and no failure of the sink.
	ExitInternal = 1
	// ExitHarness: wrong use or configuration, a probe that fails its own check, a sink
	// that never answers; or no failure of the sink, and something that could not be found out.
	ExitHarness = 2
	// ExitFailures: the sink broke the contract.
	ExitFailures = 3
)
