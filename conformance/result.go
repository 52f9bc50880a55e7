package conformance

import "time"

// Verdict is how a case ended.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	// Warn: a Should that failed, without Options.Strict.
	Warn Verdict = "warn"
	Skip Verdict = "skip"
	// Broken: the suite could not find out (its probe failed, its crash engine reached
	// no point). Never a pass.
	Broken Verdict = "broken"
)

// SkipKind is why a case was not run. NotApplicable goes with "conformant"; NotPossible does
// only for ATM-005 and ERR-004, which need a database on the network, and for the profile TLS.
type SkipKind string

// The kinds.
const (
	// NotApplicable: the sink does not advertise it, or this contract leaves it out.
	NotApplicable SkipKind = "not applicable"
	// NotPossible: there is no probe, no lifecycle, no crash engine, no proxy here.
	NotPossible SkipKind = "not possible here"
	// ByUser: the operator said so, with a reason.
	ByUser SkipKind = "by user"
)

// Result is one case's end.
type Result struct {
	ID      string   `json:"id"`
	Level   Level    `json:"level"`
	Profile Profile  `json:"profile"`
	Title   string   `json:"title"`
	Verdict Verdict  `json:"verdict"`
	Skip    SkipKind `json:"skip,omitempty"`
	// Why is the reason of a skip, and of Broken.
	Why string `json:"why,omitempty"`
	// Fault: it is Broken by a fault of the suite itself.
	Fault bool `json:"fault,omitempty"`
	// Known: the failure was announced, and does not count. A known failure that passes
	// has Verdict Fail and says so in its Failure.
	Known   bool     `json:"known,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	// Steps are the calls that were made, in order; the oldest are dropped above 200.
	Steps []Step `json:"steps,omitempty"`
	// Notes are figures and remarks: "duplicates: 3".
	Notes []string `json:"notes,omitempty"`
	// Crashes are the crash-point maps of this case, one for each call that was tried.
	Crashes  []CrashMap    `json:"crashes,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	Seed     uint64        `json:"seed"`
	// Reproduce is the one-line command that runs just this.
	Reproduce string `json:"reproduce,omitempty"`
	// Output is what the sink printed meanwhile, the last 16 KiB of it.
	Output string `json:"output,omitempty"`
}

// Failure is what was wrong.
type Failure struct {
	// What is one sentence: "the second answer is FENCED".
	What string `json:"what"`
	// Rules are the rules that it breaks, Cause the usual mistake.
	Rules []string `json:"rules,omitempty"`
	Cause string   `json:"cause,omitempty"`
	// Expected and Found are short and hold no row value.
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
	// Tables differ, by key. Empty where rows are not the matter.
	Tables []TableDiff `json:"tables,omitempty"`
}

// TableDiff is how a table differs from what it must show.
type TableDiff struct {
	Schema  string   `json:"schema"`
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	// Missing and Surplus count rows; Rows shows the first 20 of what differs.
	Expected int       `json:"expected_rows"`
	Found    int       `json:"found_rows"`
	Missing  int       `json:"missing"`
	Surplus  int       `json:"surplus"`
	Changed  int       `json:"changed"`
	Rows     []RowDiff `json:"rows"`
}

// RowDiff is one row that differs. Values are "NULL", or "sha256:8 hex digits, n bytes",
// or with Options.ShowValues the text itself, quoted.
type RowDiff struct {
	Key string `json:"key"`
	// Expected is nil where the row should not be there, Found where it is missing.
	Expected []string `json:"expected"`
	Found    []string `json:"found"`
}

// Step is one call to the sink, or one thing done to it.
type Step struct {
	At       time.Duration `json:"at_ns"`
	Took     time.Duration `json:"took_ns"`
	What     string        `json:"what"`
	Code     string        `json:"code,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Position string        `json:"position,omitempty"`
}

// CrashSide is where rows and checkpoint stood after a crash.
type CrashSide string

// The sides.
const (
	Before CrashSide = "before"
	After  CrashSide = "after"
	// Torn: neither, which is the failure that crash points are for.
	Torn CrashSide = "torn"
	// Survived: the call ended before the point; the map's last.
	Survived CrashSide = "survived"
)

// CrashPoint is one place at which the sink was killed.
type CrashPoint struct {
	// N is the ordinal of the call to the kernel, or of the cut, or of the timed kill.
	N int `json:"n"`
	// Call names it: "fdatasync", "burst", "12 ms".
	Call   string    `json:"call"`
	Side   CrashSide `json:"side"`
	Detail string    `json:"detail,omitempty"`
}

// CrashMap is the crash points of one call.
type CrashMap struct {
	// Label names the call: "batch of 3 rows", "the same, replayed".
	Label string `json:"label"`
	// Engine is "calls", "proxy", "timed" or "store".
	Engine string `json:"engine"`
	// Sampled: not every point was visited. Total is how many there are, 0 if unknown.
	Sampled bool         `json:"sampled"`
	Total   int          `json:"total"`
	Points  []CrashPoint `json:"points"`
}
