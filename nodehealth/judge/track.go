package judge

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"
)

// maxReason bounds what is kept of a reason, in bytes.
const maxReason = 200

// track is what one mode said of one node.
type track struct {
	at      time.Time // last observation that was not unknown
	run     int       // of the same verdict in a row: ok above 0, fail below
	verdict Verdict   // by the thresholds
	reason  string    // of the last failure
	held    bool      // it failed, and was not ok since
}

// take adds an observation.
func (t *track) take(now time.Time, rule modeRule, stale time.Duration, o Observation) {
	if !t.at.IsZero() && now.Sub(t.at) > stale {
		t.run = 0
		if t.verdict == OK {
			t.verdict = Unknown
		}
	}
	t.at = now
	if o.Verdict == OK {
		t.run = max(t.run, 0) + 1
		if t.verdict != Fail || t.run >= rule.successes {
			t.verdict = OK
		}
		return
	}
	t.run = min(t.run, 0) - 1
	t.reason = cutReason(o.Reason)
	if -t.run >= rule.failures {
		t.verdict = Fail
	}
}

func cutReason(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return s
}

// observed takes an observation in, and looks at the node only if it says something
// new.
func (j *Judge) observed(now time.Time, o Observation) {
	n, known := j.nodes[o.Node]
	i := j.modeIndex(o.Mode)
	switch {
	case !known:
		j.journal.find(ignored(o.Node, "observation of a node that is not listed"))
		return
	case i < 0:
		j.journal.find(ignored(o.Node, "observation by "+cutReason(string(o.Mode))+", which is no mode of the policy"))
		return
	case o.Verdict != OK && o.Verdict != Fail:
		return // unknown neither triggers nor clears
	}
	silent := i == j.beat && o.Verdict == Fail && o.Reason == ReasonSilent
	if silent && !j.path.proven(now) {
		return
	}
	if i == j.beat && !silent {
		n.heard = now
		j.journal.find(j.path.prove(now)...)
	}
	t, stale := &n.tracks[i], j.staleAfter(i)
	before, since := *t, t.at
	t.take(now, j.modes[i], stale, o)
	same := t.verdict == before.verdict && (t.run < 0) == (before.run < 0) && t.held == (t.verdict == Fail)
	if same && !since.IsZero() && now.Sub(since) <= stale && (t.verdict != Fail || t.reason == before.reason) {
		return // time alone can change its verdict, and that has its wake
	}
	j.evaluate(now, n)
}

func (j *Judge) staleAfter(i int) time.Duration {
	if i == j.beat {
		return j.silence
	}
	return j.modes[i].stale
}

// vote is what one mode says of one node now.
type vote struct {
	verdict Verdict
	eager   Verdict // were the thresholds 1
	reason  string
	decides bool // a failure that no heartbeat vetoes
}

func (j *Judge) vote(now time.Time, n *node, i int) vote {
	t, rule := &n.tracks[i], &j.modes[i]
	if (rule.mode == NodeStatus || rule.hint) && (n.State == Stopped || n.State == Spot) {
		return vote{Fail, Fail, string(n.State), true}
	}
	if i == j.beat && j.silent(now, n) {
		return vote{Fail, Fail, ReasonSilent, false}
	}
	if t.at.IsZero() || now.Sub(t.at) > j.staleAfter(i) || i == j.beat && t.verdict == Fail && t.reason == ReasonSilent && !j.path.proven(now) {
		return vote{Unknown, Unknown, "", false}
	}
	v := vote{verdict: cmp.Or(t.verdict, Unknown), reason: t.reason}
	v.eager = v.verdict
	if t.run < 0 {
		v.eager = Fail
	}
	v.decides = v.verdict == Fail && rule.control && (t.reason == ReasonTerminated || t.reason == ReasonStopped || t.reason == ReasonSpot)
	return v
}

// silent reports whether a node should have been heard and was not.
func (j *Judge) silent(now time.Time, n *node) bool {
	if !j.path.proven(now) {
		return false
	}
	return now.Sub(j.silentSince(n)) > j.silence
}

// silentSince is from when its silence counts: a node that never was heard has its
// startup.
func (j *Judge) silentSince(n *node) time.Time {
	since := latest(latest(n.heard, n.reset), j.path.since)
	if n.heard.IsZero() && n.reset.IsZero() && !n.Since.IsZero() {
		since = latest(since, n.Since.Add(j.startup-j.silence))
	}
	return since
}
