package judge

import "time"

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
	votes := j.votes[:0]
	for i := range j.modes {
		votes = append(votes, j.vote(now, n, i))
	}
	j.votes = votes
	veto := j.vetoed(votes)
	for i, rule := range j.modes {
		v, t := votes[i], &n.tracks[i]
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
func (j *Judge) vetoed(votes []vote) bool {
	if j.beat < 0 || votes[j.beat].eager != OK {
		return false
	}
	for i, v := range votes {
		if v.eager == Fail && (!j.modes[i].control || v.decides) {
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

// due looks at a node of which only time changed.
func (j *Judge) due(now time.Time, n *node) {
	if j.steady(now, n) {
		j.wakes.add(n, j.wakeOf(now, n, OK))
		return
	}
	j.evaluate(now, n)
}

// steady reports whether a fit node is fit in each mode, and was seen so lately: there
// is nothing to find.
func (j *Judge) steady(now time.Time, n *node) bool {
	if n.state != Healthy || n.verdict != OK || n.State != Running || n.missing > 0 {
		return false
	}
	for i := range n.tracks {
		t := &n.tracks[i]
		if j.modes[i].hint && t.at.IsZero() {
			continue
		}
		if t.verdict != OK || t.run < 0 || t.held || now.Sub(t.at) > j.staleAfter(i) {
			return false
		}
	}
	return true
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
		if j.harmless(n) && !n.repair.Fenced {
			j.fenced(now, n, "the machine is "+string(n.State))
		}
	}
	j.count(now, n)
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
			j.journal.find(Finding{Event: NodeSuspect, Node: n.ID, Zone: n.Zone, Why: n.why})
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
		j.journal.find(Finding{Event: NodeUnhealthy, Node: n.ID, Zone: n.Zone, Why: why})
	}
}

// fit returns a node to service. That of a node nobody doubted is not told.
func (j *Judge) fit(now time.Time, n *node) {
	if n.state == Suspect || n.state.unfit() {
		j.journal.find(Finding{Event: NodeOK, Node: n.ID, Zone: n.Zone})
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
		j.journal.find(Finding{Event: CheckUnknown, Node: n.ID, Zone: n.Zone, Why: "nothing is known of it for " + j.blind.String()})
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
