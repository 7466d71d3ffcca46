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
		j.ignore(o.Node, "observation of a node that is not listed")
		return
	case i < 0:
		j.ignore(o.Node, "observation by "+cutReason(string(o.Mode))+", which is no mode of the policy")
		return
	case o.Verdict != OK && o.Verdict != Fail:
		return // unknown neither triggers nor clears
	}
	silent := i == j.beat && o.Verdict == Fail && o.Reason == ReasonSilent
	if silent && !j.path.proven(now, j.beatEvery) {
		return
	}
	if i == j.beat && !silent {
		n.heard = now
		j.prove(now)
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
	t, rule := &n.tracks[i], j.modes[i]
	if (rule.mode == NodeStatus || rule.hint) && (n.State == Stopped || n.State == Spot) {
		return vote{Fail, Fail, string(n.State), true}
	}
	if i == j.beat && j.silent(now, n) {
		return vote{Fail, Fail, ReasonSilent, false}
	}
	if t.at.IsZero() || now.Sub(t.at) > j.staleAfter(i) || i == j.beat && t.verdict == Fail && t.reason == ReasonSilent && !j.path.proven(now, j.beatEvery) {
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
	if !j.path.proven(now, j.beatEvery) {
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

// poll is the count of votes.
type poll struct{ votes, fails, oks, held int }

func (p *poll) add(v Verdict, held bool) {
	p.votes++
	switch {
	case v == Fail:
		p.fails++
	case v == OK:
		p.oks++
	case held:
		p.held++
	}
}

// assess joins the modes; eager is what the verdict would be were all thresholds 1.
func (j *Judge) assess(now time.Time, n *node) (verdict, eager Verdict) {
	n.why, n.decisive = "", false
	if n.State == Terminated {
		n.why, n.decisive = ReasonTerminated, true
		return Fail, Fail
	}
	var all, soon poll
	veto := j.vetoed(now, n)
	for i, rule := range j.modes {
		v, t := j.vote(now, n, i), &n.tracks[i]
		if veto && rule.control {
			v = vote{Unknown, Unknown, "", false}
			t.held = false
		}
		switch {
		case v.verdict == Fail:
			t.held = true
			n.decisive = n.decisive || v.decides
			n.why = joinWhy(n.why, rule.mode, v.reason)
		case v.verdict == OK, rule.hint:
			t.held = false
		}
		if !rule.hint || v.verdict == Fail {
			all.add(v.verdict, t.held)
			soon.add(v.eager, t.held)
		}
	}
	return j.join(all), j.join(soon)
}

func joinWhy(why string, m ModeType, reason string) string {
	if why != "" {
		why += "; "
	}
	why += string(m)
	if reason != "" {
		why += ": " + reason
	}
	return why
}

// vetoed reports whether a heartbeat speaks against what only the control plane says.
func (j *Judge) vetoed(now time.Time, n *node) bool {
	if j.beat < 0 || j.vote(now, n, j.beat).eager != OK {
		return false
	}
	for i, rule := range j.modes {
		if v := j.vote(now, n, i); v.eager == Fail && (!rule.control || v.decides) {
			return false
		}
	}
	return true
}

func (j *Judge) join(p poll) Verdict {
	switch {
	case j.conditional == AllFailed && p.votes > 0 && p.fails == p.votes,
		j.conditional == AtLeast && p.fails >= j.quorum,
		j.conditional == AnyFailed && p.fails > 0:
		return Fail
	case j.conditional == AnyFailed && p.held > 0,
		j.conditional == AtLeast && p.votes-p.oks >= j.quorum,
		p.oks == 0:
		return Unknown
	}
	return OK
}

// evaluate looks at one node, and enters the state that follows.
func (j *Judge) evaluate(now time.Time, n *node) {
	verdict, eager := j.assess(now, n)
	j.blindness(now, n, verdict)
	n.verdict = verdict
	switch n.state {
	case Fresh, Healthy, Suspect, Unhealthy:
		j.enter(now, n, eager)
	case Claimed:
		if verdict == OK && n.asked == "" {
			j.fit(now, n)
		}
	case Quarantined:
		if !now.Before(n.until) {
			j.free(now, n, "the quarantine is over")
			return
		}
	case FenceFailed:
		if n.State == Terminated || n.State == Stopped {
			j.fenced(now, n, "the machine is "+string(n.State))
		}
	}
	j.census.count(j.zones, n, j.tally(now, n))
	j.wakes.add(n, j.wakeOf(now, n, eager))
}

// enter moves a node that nobody repairs.
func (j *Judge) enter(now time.Time, n *node, eager Verdict) {
	if n.replaced || n.State == Leaving {
		return
	}
	grace := j.young(now, n)
	switch {
	case n.asked != "":
		j.sicken(now, n, "asked by "+n.asked)
	case n.verdict == Fail && n.decisive:
		j.sicken(now, n, n.why)
	case eager == Fail && grace && n.state != Unhealthy:
		n.failing = time.Time{}
	case eager == Fail:
		if n.failing.IsZero() {
			n.failing = now
		}
		switch {
		case n.verdict == Fail && now.Sub(n.failing) >= j.tolerate:
			j.sicken(now, n, n.why)
		case n.state == Fresh || n.state == Healthy:
			j.to(now, n, Suspect)
			j.find(Finding{Event: NodeSuspect, Node: n.ID, Zone: n.Zone, Why: n.why})
		}
	case n.verdict == OK:
		j.fit(now, n)
	}
}

func (j *Judge) sicken(now time.Time, n *node, why string) {
	if n.failing.IsZero() {
		n.failing = now
	}
	if n.state != Unhealthy {
		j.to(now, n, Unhealthy)
		j.find(Finding{Event: NodeUnhealthy, Node: n.ID, Zone: n.Zone, Why: why})
	}
}

// fit returns a node to service. That of a node nobody doubted is not told.
func (j *Judge) fit(now time.Time, n *node) {
	if n.state == Suspect || n.state.unfit() {
		j.find(Finding{Event: NodeOK, Node: n.ID, Zone: n.Zone})
	}
	n.failing, n.repair, n.blocked, n.asked = time.Time{}, nil, "", ""
	j.to(now, n, Healthy)
}

// blindness notices for how long nothing is known of a node.
func (j *Judge) blindness(now time.Time, n *node, verdict Verdict) {
	switch {
	case verdict != Unknown:
		n.ignorant, n.blind = time.Time{}, false
	case n.ignorant.IsZero():
		n.ignorant = now
	case !n.blind && now.Sub(n.ignorant) >= j.blind:
		n.blind = true
		j.find(Finding{Event: CheckUnknown, Node: n.ID, Zone: n.Zone, Why: "nothing is known of it for " + j.blind.String()})
	}
}

// wakeOf returns when time alone may change what is known of the node: zero if never.
func (j *Judge) wakeOf(now time.Time, n *node, eager Verdict) time.Time {
	var first time.Time
	at := func(t time.Time) {
		if t.After(now) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	const instant = time.Nanosecond // what lasts up to a limit is over right after it
	for i := range n.tracks {
		if t := &n.tracks[i]; !t.at.IsZero() {
			at(t.at.Add(j.staleAfter(i) + instant))
		}
	}
	if j.beat >= 0 && j.path.up {
		at(j.silentSince(n).Add(j.silence + instant))
		if n.tracks[j.beat].held {
			at(j.path.last.Add(2*j.beatEvery + instant))
		}
	}
	if j.beat >= 0 && n.verdict == Unknown {
		at(now.Add(j.beatEvery)) // the path may come back
	}
	if !n.Since.IsZero() {
		at(n.Since.Add(j.grace))
	}
	if eager == Fail && !n.failing.IsZero() {
		at(n.failing.Add(j.tolerate))
	}
	if !n.ignorant.IsZero() && !n.blind {
		at(n.ignorant.Add(j.blind))
	}
	at(n.until)
	return first
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
