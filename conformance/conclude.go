package conformance

import (
	"fmt"
	"slices"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// applies reports whether a profile is one that the sink claims.
func (s *session) applies(p Profile) bool {
	switch p {
	case Core:
		return !s.log()
	case CoreLog:
		return s.log()
	case Batch:
		return s.has(sinkv1.Capability_CAPABILITY_BATCH)
	case Fenced:
		return s.stored()
	case Lib:
		return s.fences(sinkv1.Fencing_FENCING_INSTANCE) && s.has(sinkv1.Capability_CAPABILITY_TRANSACTION)
	case Large:
		return s.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION)
	case Messages:
		return s.has(sinkv1.Capability_CAPABILITY_MESSAGE)
	case Schema:
		return s.has(sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE)
	case Resume:
		return s.has(sinkv1.Capability_CAPABILITY_RESUME_STATE)
	case Snapshot:
		return s.has(sinkv1.Capability_CAPABILITY_SNAPSHOT)
	case Incremental:
		return s.has(sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS)
	case TwoPhase:
		return s.has(sinkv1.Capability_CAPABILITY_TWO_PHASE)
	case TLS:
		return s.o.TLS != nil
	}
	return false
}

// conclude counts verdicts, judges the whole and picks the exit code.
func (s *session) conclude(sum *Summary) {
	counts := map[Profile]*ProfileSummary{}
	for _, p := range Profiles() {
		counts[p] = &ProfileSummary{Profile: p, Applies: s.applies(p)}
	}
	sum.Exhaustive = true
	visited := false
	for i := range sum.Results {
		r := &sum.Results[i]
		counts[r.Profile].add(r)
		for _, m := range r.Crashes {
			visited = true
			sum.Exhaustive = sum.Exhaustive && !m.Sampled
		}
	}
	sum.Exhaustive = sum.Exhaustive && visited
	for _, p := range Profiles() {
		sum.Profiles = append(sum.Profiles, *counts[p])
	}
	sum.Why = s.missing(sum, visited)
	sum.Begin = begin(sum.Results)
	sum.Conformant = len(sum.Why) == 0
	if s.keyed {
		sum.Notes = append(sum.Notes, keylessNote)
	}
	newer := slices.DeleteFunc(slices.Clone(s.caps.GetCapabilities()), func(c sinkv1.Capability) bool {
		return sinkv1.Capability_name[int32(c)] != ""
	})
	for _, c := range fewOf(newer) {
		sum.Notes = append(sum.Notes, fmt.Sprintf("capability %d is newer than this suite: not tried", c))
	}
	sum.Exit = exitOf(sum.Results)
}

// exitOf picks the exit code. What the sink did wrong outweighs what could not be found out:
// only where it did nothing wrong is the fault ours, or that of the probe or the crash engine.
func exitOf(results []Result) int {
	exit := ExitPass
	for i := range results {
		switch r := &results[i]; {
		case r.Known:
		case r.Verdict == Fail:
			return ExitFailures
		case r.Verdict == Broken && r.Fault:
			exit = ExitInternal
		case r.Verdict == Broken && exit == ExitPass:
			exit = ExitHarness
		}
	}
	return exit
}

// begin finds the rule that most failures break, and the first case that is about it: one
// mistake makes many cases fail, and the first in the list is seldom the plainest.
func begin(results []Result) string {
	all, broken := 0, map[string]int{}
	for i := range results {
		if f := results[i].Failure; results[i].Verdict == Fail && !results[i].Known && f != nil {
			all++
			for _, rule := range f.Rules {
				broken[rule]++
			}
		}
	}
	most := ""
	for _, rule := range sortedKeys(broken) {
		if broken[rule] > 1 && broken[rule] > broken[most] {
			most = rule
		}
	}
	for i := range results {
		if f := results[i].Failure; most != "" && results[i].Verdict == Fail && f != nil && slices.Contains(f.Rules, most) {
			return fmt.Sprintf("%s (usually: %s); %d of the %d failures break its rule %s", results[i].ID, f.Cause, broken[most], all, most)
		}
	}
	return ""
}

// add counts a result.
func (p *ProfileSummary) add(r *Result) {
	switch {
	case r.Verdict == Pass:
		p.Pass++
	case r.Known:
		p.Known++
	case r.Verdict == Fail:
		p.Fail++
	case r.Verdict == Broken:
		p.Broken++
	case r.Verdict == Warn:
		p.Warn++
	case r.Skip == NotApplicable:
		p.NotApplicable++
	case r.Skip == NotPossible:
		p.NotPossible++
	default:
		p.ByUser++
	}
}

// missing lists what keeps the sink from being conformant.
func (s *session) missing(sum *Summary, visited bool) []string {
	var why []string
	say := func(n int, what string, p Profile) {
		if n > 0 {
			why = append(why, fmt.Sprintf("%s: %d %s", p, n, what))
		}
	}
	for _, p := range sum.Profiles {
		say(p.Fail, "failed", p.Profile)
		say(p.Broken, "could not be found out", p.Profile)
		say(p.Known, "failed as announced", p.Profile)
		say(p.ByUser, "skipped by the user", p.Profile)
	}
	var unable []string
	for _, r := range sum.Results {
		if r.Skip == NotPossible && r.Level == Must && r.Profile != TLS && !optionalMeans[r.ID] {
			unable = append(unable, r.ID)
		}
	}
	if len(unable) > 0 {
		why = append(why, "not possible here: "+strings.Join(unable, " "))
	}
	if !visited {
		why = append(why, "no crash points were visited")
	}
	if tried := len(sum.Results); tried < len(Cases()) {
		why = append(why, fmt.Sprintf("only %d of %d cases were selected", tried, len(Cases())))
	}
	return why
}

// optionalMeans are cases that need a proxy to a store on the network, which an embedded
// store has not, and which other crash cases stand in for.
var optionalMeans = map[string]bool{"ATM-005": true, "ERR-004": true}
