package report

import (
	"fmt"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// sample is a run with one of everything, and text that would break out of a format.
func sample() *conformance.Summary {
	pass := func(id, title string) conformance.Result {
		return conformance.Result{ID: id, Level: conformance.Must, Profile: conformance.Core, Title: title, Verdict: conformance.Pass, Duration: 12 * time.Millisecond, Seed: 7}
	}
	results := []conformance.Result{pass("CAP-001", "capabilities are asked first, three times"), pass("CKP-001", "a stream that was never seen")}
	replay := pass("IDM-002", "insert, delete, and the insert again")
	replay.Verdict, replay.Output = conformance.Fail, "listening on unix:/tmp/s\nlistening on unix:/tmp/s\n<script>alert(1)</script> \x1b[31mred\x00\n"
	replay.Reproduce = "replicant-sidecar conformance run --run IDM-002 --seed 7 -- python3 sink.py"
	replay.Failure = &conformance.Failure{
		What:  "rows differ after the insert came again",
		Rules: []string{"S-106", "S-108"}, Cause: "the sink upserts what it has already; compare end_lsn with the stored position",
		Expected: "no row", Found: "1 row",
		Tables: []conformance.TableDiff{{
			Schema: "c_idm_002", Table: "basic", Columns: []string{"id", "name", "note"},
			Expected: 2, Found: 3, Missing: 1, Surplus: 1, Changed: 1,
			Rows: []conformance.RowDiff{
				{Key: "1", Found: []string{"sha256:6b86b273, 1 bytes", "sha256:ca978112, 1 bytes", "NULL"}},
				{Key: "2", Expected: []string{"sha256:d4735e3a, 1 bytes", "sha256:3e23e816, 1 bytes", "NULL"}, Found: []string{"sha256:d4735e3a, 1 bytes", "sha256:3e23e816, 1 bytes", "sha256:e3b0c442, 0 bytes"}},
				{Key: "3", Expected: []string{"sha256:4e074085, 1 bytes", "sha256:2e7d2c03, 1 bytes", "NULL"}},
			},
		}},
	}
	for i := range 15 {
		replay.Steps = append(replay.Steps, conformance.Step{At: time.Duration(i) * time.Millisecond, What: "HandleBatch", Code: "OK", Position: fmt.Sprintf("0/%X", 100+i)})
	}
	whole := pass("ATM-001", "every crash point of a batch")
	whole.Duration, whole.Crashes = 3*time.Second, []conformance.CrashMap{crashed("a batch of 3 rows", 26, 21, false, ""), crashed("the same, again", 9, 5, true, "")}
	torn := pass("ATM-002", "every crash point of a batch over three tables")
	torn.Verdict, torn.Crashes = conformance.Fail, []conformance.CrashMap{crashed("a batch over 3 tables", 20, 19, false, "rows as after the call, position as before")}
	torn.Failure = &conformance.Failure{What: "rows and position came apart at point 20, fdatasync", Rules: []string{"S-102"}, Cause: "two transactions of the store"}
	skipped := pass("SCH-001", "a column appears")
	skipped.Verdict, skipped.Skip, skipped.Why = conformance.Skip, conformance.NotApplicable, "the sink does not advertise SCHEMA_CHANGE"
	impossible := pass("ATM-005", "the connection to the store is cut # at each point")
	impossible.Verdict, impossible.Skip, impossible.Why = conformance.Skip, conformance.NotPossible, "no proxy"
	broken := pass("VAL-003", "numeric")
	broken.Verdict, broken.Why = conformance.Broken, "probe: no such file"
	warned := pass("OPR-001", "SIGTERM during a call")
	warned.Level, warned.Verdict = conformance.Should, conformance.Warn
	warned.Failure = &conformance.Failure{What: "the socket's file was left"}
	known := pass("DLN-002", "100 cancelled calls")
	known.Verdict, known.Known, known.Failure = conformance.Fail, true, &conformance.Failure{What: "no answer within 5 s"}
	results = append(results, replay, whole, torn, skipped, impossible, broken, warned, known)
	return &conformance.Summary{
		Begin: "IDM-002 (usually: <no skip>); 2 of the 2 failures break its rule S-106",
		Sink: conformance.SinkInfo{
			Name: "my <sink>", Version: "1.0", Kind: "state_mirror", Capabilities: []string{"CHECKPOINT", "TRANSACTION", "BATCH"},
			Fencing: []string{"STORED"}, Unsupported: []string{"MESSAGE", "TWO_PHASE"},
		},
		Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Duration: int64(41 * time.Second), Seed: 7, Mode: "managed",
		Results: results,
		Profiles: []conformance.ProfileSummary{
			{Profile: conformance.Core, Applies: true, Pass: 3, Fail: 2, Broken: 1, Known: 1, Warn: 1, NotPossible: 1},
			{Profile: conformance.Fenced, Applies: true, Pass: 7},
			{Profile: conformance.Schema, NotApplicable: 1},
		},
		Why: []string{"core: 2 failed", "core: 1 could not be found out"}, Notes: []string{"capability 77 is newer than this suite: not tried"},
		Exit: conformance.ExitFailures,
	}
}

// green is a run without a fault.
func green() *conformance.Summary {
	s := sample()
	kept := s.Results[:0]
	for _, r := range s.Results {
		if r.Verdict == conformance.Pass || r.Skip == conformance.NotApplicable {
			kept = append(kept, r)
		}
	}
	s.Results, s.Why, s.Notes, s.Exit, s.Conformant = kept, nil, nil, 0, true
	s.Profiles = []conformance.ProfileSummary{{Profile: conformance.Core, Applies: true, Pass: 3}}
	return s
}

func crashed(label string, n, before int, sampled bool, torn string) conformance.CrashMap {
	m := conformance.CrashMap{Label: label, Engine: "calls", Sampled: sampled, Total: n}
	if sampled {
		m.Total = n * 4
	}
	calls := []string{"pwrite64", "pwrite64", "fdatasync", "write", "unlink"}
	for i := 1; i <= n; i++ {
		p := conformance.CrashPoint{N: i, Call: calls[i%len(calls)], Side: conformance.Before}
		if i > before {
			p.Side = conformance.After
		}
		if torn != "" && i == n {
			p.Side, p.Detail = conformance.Torn, torn
		}
		m.Points = append(m.Points, p)
	}
	if torn == "" && !sampled {
		m.Points = append(m.Points, conformance.CrashPoint{N: n + 1, Side: conformance.Survived})
	}
	return m
}
