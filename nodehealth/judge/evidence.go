package judge

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// evidence holds the observations of one node, and the opinion that follows from them.
type evidence struct {
	opinion
	tracks []track  // by mode
	room   [3]track // inline storage for up to three modes

	patience     patience // with the current failures
	lastBeat     time.Time
	reset        time.Time // time when an action of ours reset the observations
	unknownSince time.Time // the verdict is unknown since then
	noData       bool      // unknown for too long
	partly       string    // why a part of the heartbeat has no current result; "": all have one
	veto         string    // failures that a heartbeat vetoes now; "": no failure
	vetoAt       time.Time // start of the veto; zero: no veto
	vetoed       bool      // the vetoed failures were reported
}

// opinion is the joint verdict of all modes about a node.
type opinion struct {
	verdict     api.HealthVerdict
	provisional api.HealthVerdict // the verdict if all thresholds were 1
	why         string
	decisive    bool // a heartbeat does not veto it
	planned     bool // every failure is announced: the machine works until its date
	works       bool // the same holds for a failure that may follow: the breakers do not count it
}

type vote struct {
	verdict     api.HealthVerdict
	provisional api.HealthVerdict // as in opinion
	reason      string
	decides     bool // a failure that a heartbeat does not veto
}

func (e *evidence) begin(now time.Time, modes int) {
	if e.tracks = e.room[:]; modes > len(e.room) {
		e.tracks = make([]track, modes)
	}
	e.tracks, e.unknownSince = e.tracks[:modes], now
}

func (e *evidence) forget(now time.Time) {
	clear(e.tracks)
	e.lastBeat, e.reset, e.verdict, e.unknownSince, e.noData, e.partly = time.Time{}, now, api.CheckUnknown, now, false, ""
}

func (e *evidence) addObservation(now time.Time, d *detection, i int, o Observation) (found []api.HealthFinding, news bool) {
	if o.Verdict != api.CheckOK && o.Verdict != api.CheckFail {
		if i == d.beat && o.Partly != "" { // the heartbeat arrived
			e.lastBeat = now
			found = d.path.prove(now)
		}
		return found, false // unknown neither triggers nor clears
	}
	if i == d.beat {
		switch silent := o.Verdict == api.CheckFail && o.Reason == reasonSilent; {
		case !silent:
			e.lastBeat = now
			found = d.path.prove(now)
		case !d.path.proven(now):
			return nil, false
		}
	}
	t, stale := &e.tracks[i], d.staleAfter(i)
	before := *t
	t.addObservation(now, d.modes[i], stale, o)
	same := t.verdict == before.verdict && t.recent == before.recent && (t.run < 0) == (before.run < 0) && t.held == (t.verdict == api.CheckFail) &&
		!before.at.IsZero() && now.Sub(before.at) <= stale && (t.verdict != api.CheckFail || t.reason == before.reason)
	return found, !same
}

// vote returns the current verdict of mode i about the node.
func (e *evidence) vote(now time.Time, d *detection, n *Node, i int) vote {
	t, rule := &e.tracks[i], &d.modes[i]
	if rule.ended && (n.State == Stopped || n.State == Spot) {
		return vote{api.CheckFail, api.CheckFail, string(n.State), true}
	}
	if i == d.beat && e.silent(now, d, n) {
		return vote{api.CheckFail, api.CheckFail, reasonSilent, false}
	}
	if t.at.IsZero() || now.Sub(t.at) > d.staleAfter(i) || i == d.beat && t.verdict == api.CheckFail && t.reason == reasonSilent && !d.path.proven(now) {
		return vote{api.CheckUnknown, api.CheckUnknown, "", false}
	}
	v := vote{verdict: cmp.Or(t.verdict, api.CheckUnknown), reason: t.reason}
	v.provisional = v.verdict
	if t.run < 0 {
		v.provisional = api.CheckFail
	}
	v.decides = v.verdict == api.CheckFail && rule.control && (t.dated || t.reason == reasonTerminated || t.reason == reasonStopped || t.reason == reasonSpot)
	return v
}

func (e *evidence) silent(now time.Time, d *detection, n *Node) bool {
	return d.path.proven(now) && now.Sub(e.silentSince(d, n)) > d.silence
}

// silentSince returns when the node's silence begins to count. A node without a first heartbeat has
// its startup time.
func (e *evidence) silentSince(d *detection, n *Node) time.Time {
	since := latest(latest(e.lastBeat, e.reset), d.path.since)
	if e.lastBeat.IsZero() && e.reset.IsZero() && !n.Since.IsZero() {
		since = latest(since, n.Since.Add(d.startup-d.silence))
	}
	return since
}

// assess joins the votes of all modes into the opinion.
func (e *evidence) assess(now time.Time, d *detection, n *Node) {
	e.why, e.decisive, e.planned, e.works, e.veto, e.patience = "", false, true, true, "", patience{wait: d.tolerate}
	if n.State == Terminated {
		e.opinion = opinion{verdict: api.CheckFail, provisional: api.CheckFail, why: reasonTerminated, decisive: true}
		for i := range e.tracks { // the list may be wrong: failures that modes observed stay
			e.tracks[i].held = e.tracks[i].held || e.tracks[i].verdict == api.CheckFail
		}
		return
	}
	var all, soon poll
	votes := d.votes[:0]
	for i := range d.modes {
		votes = append(votes, e.vote(now, d, n, i))
	}
	d.votes = votes
	veto := d.vetoed(votes)
	for i := range d.modes {
		rule, v, t := &d.modes[i], votes[i], &e.tracks[i]
		if veto && rule.control {
			if v.verdict == api.CheckFail {
				e.veto = joinWhy(e.veto, rule.Type, v.reason)
			}
			v = vote{api.CheckUnknown, api.CheckUnknown, "", false}
			t.held = false
		}
		switch {
		case v.verdict == api.CheckFail:
			t.held = true
			e.planned = e.planned && t.dated
			e.decisive = e.decisive || v.decides
			e.why = joinWhy(e.why, rule.Type, v.reason)
		case v.verdict == api.CheckOK, rule.hint:
			t.held = false
		}
		if v.provisional == api.CheckFail {
			e.works = e.works && t.dated
			e.patience.addFailure(d.rules, cmp.Or(v.reason, t.reason))
		}
		if !rule.hint || v.verdict == api.CheckFail {
			all.addVote(v.verdict, t.held)
			soon.addVote(v.provisional, t.held)
		}
	}
	e.verdict, e.provisional = d.join(all), d.join(soon)
	e.planned = e.planned && e.verdict == api.CheckFail
	e.works = e.works && (e.planned || e.verdict != api.CheckFail && e.provisional == api.CheckFail)
}

// losesData reports, once, that the verdict is unknown for too long.
func (e *evidence) losesData(now time.Time, d *detection) bool {
	switch {
	case e.verdict != api.CheckUnknown:
		e.unknownSince, e.noData = time.Time{}, false
	case e.unknownSince.IsZero():
		e.unknownSince = now
	case !e.noData && now.Sub(e.unknownSince) >= d.noData:
		e.noData = true
		return true
	}
	return false
}

// newlyVetoed reports, once until the verdict is ok, that a heartbeat vetoes a failure for longer
// than d.silence. That is how long the last heartbeat of a dead node counts.
func (e *evidence) newlyVetoed(now time.Time, d *detection) bool {
	switch {
	case e.veto == "":
		e.vetoAt, e.vetoed = time.Time{}, e.vetoed && e.verdict != api.CheckOK
	case e.vetoAt.IsZero():
		e.vetoAt = now
	case !e.vetoed && now.Sub(e.vetoAt) > d.silence:
		e.vetoed = true
		return true
	}
	return false
}

// steady reports whether each mode is ok by a recent observation, so that the opinion stays ok.
func (e *evidence) steady(now time.Time, d *detection) bool {
	for i := range e.tracks {
		t := &e.tracks[i]
		if d.modes[i].hint && t.at.IsZero() {
			continue
		}
		if t.verdict != api.CheckOK || t.run < 0 || t.held || now.Sub(t.at) > d.staleAfter(i) {
			return false
		}
	}
	return true
}

// serves reports whether the node may serve. It may if a mode is ok, or was ok last and does not
// fail since. It also may if no mode has a verdict.
func (e *evidence) serves(now time.Time, d *detection, n *Node) bool {
	fails := false
	for i := range d.modes {
		v := e.vote(now, d, n, i).verdict
		if v == api.CheckOK || v == api.CheckUnknown && e.tracks[i].verdict == api.CheckOK {
			return true
		}
		fails = fails || v == api.CheckFail || e.tracks[i].failed()
	}
	return !fails
}

// confirmed reports whether each failing mode observed the failure after since.
func (e *evidence) confirmed(now time.Time, d *detection, n *Node, since time.Time) bool {
	if e.verdict != api.CheckFail {
		return false
	}
	for i := range d.modes {
		timed := i == d.beat && e.silent(now, d, n)
		if v := e.vote(now, d, n, i); v.verdict == api.CheckFail && !timed && !v.decides && e.tracks[i].at.Before(since) {
			return false
		}
	}
	return true
}

// wakeAt adds the instants when time alone may change the opinion.
func (e *evidence) wakeAt(w *soonest, d *detection, n *Node) {
	const instant = time.Nanosecond // a limit is inclusive: it is over right after it
	for i := range e.tracks {
		if t := &e.tracks[i]; !t.at.IsZero() {
			w.add(t.at.Add(d.staleAfter(i) + instant))
		}
	}
	if d.beat >= 0 && d.path.up {
		w.add(e.silentSince(d, n).Add(d.silence + instant))
		if e.tracks[d.beat].held {
			w.add(d.path.last.Add(2*d.path.every + instant))
		}
	}
	if d.beat >= 0 && e.verdict == api.CheckUnknown {
		w.add(w.now.Add(d.path.every)) // the path may come back
	}
	if !e.vetoAt.IsZero() && !e.vetoed {
		w.add(e.vetoAt.Add(d.silence + instant))
	}
	if !e.unknownSince.IsZero() && !e.noData {
		w.add(e.unknownSince.Add(d.noData))
	}
}

func (e *evidence) modeVerdicts(now time.Time, d *detection, n *Node) []api.ModeVerdict {
	var out []api.ModeVerdict
	for i := range d.modes {
		v := e.vote(now, d, n, i)
		w := api.ModeVerdict{Mode: d.modes[i].Type, Verdict: v.verdict, Reason: v.reason, At: e.tracks[i].at}
		if i == d.beat {
			w.At = latest(w.At, e.lastBeat)
			w.Silent = d.path.proven(now) && liveness.Silent(now, e.silentSince(d, n), d.beatEvery)
		}
		out = append(out, w)
	}
	return out
}

func joinWhy(why string, m api.DetectionType, reason string) string {
	if why != "" {
		why += "; "
	}
	why += string(m)
	if reason != "" {
		why += ": " + reason
	}
	return why
}

// maxWindow is the maximum of failure_window: the number of bits that track.recent uses.
const maxWindow = 60

// maxReason is the maximum length of a stored reason, in bytes.
const maxReason = 200

// track holds what one mode observed of one node.
type track struct {
	at      time.Time         // last observation that was ok or fail
	noted   time.Time         // time of the last observation that changed another field
	run     int               // observations of one verdict in a row: positive ok, negative fail
	often   bool              // the verdict fails by the failures within the window, not by those in a row
	recent  uint64            // the last observations, the newest in the lowest bit: 1 is a failure
	verdict api.HealthVerdict // by the thresholds
	reason  string            // of the last failure
	dated   bool              // the last failure is an announced end
	held    bool              // it failed, and was not ok since
}

// addObservation adds an observation. If the last one is stale, the streak and the window begin again.
func (t *track) addObservation(now time.Time, rule modeRule, stale time.Duration, o Observation) {
	if !t.at.IsZero() && now.Sub(t.at) > stale {
		t.run, t.recent = 0, 0
		if t.verdict == api.CheckOK {
			t.verdict = api.CheckUnknown
		}
	}
	t.at = now
	before := *t
	t.recent = t.recent << 1 & (1<<rule.window - 1)
	if o.Verdict == api.CheckOK {
		t.run = min(max(t.run, 0)+1, rule.successes)
		switch {
		case t.verdict == api.CheckFail && t.run >= rule.successes && !t.often:
			t.verdict, t.recent = api.CheckOK, 0
		case t.verdict == api.CheckFail && t.run >= rule.successes && bits.OnesCount64(t.recent) < rule.within:
			t.verdict, t.often = api.CheckOK, false
		case t.verdict != api.CheckFail:
			t.verdict = api.CheckOK
		}
	} else {
		t.recent |= min(1, uint64(rule.window))
		t.run = max(min(t.run, 0)-1, -rule.failures)
		t.reason, t.dated = prose.Clip(o.Reason, maxReason), o.Announced
		switch {
		case -t.run >= rule.failures:
			t.verdict, t.often = api.CheckFail, false
		case t.verdict != api.CheckFail && rule.window > 0 && bits.OnesCount64(t.recent) >= rule.within:
			t.verdict, t.often = api.CheckFail, true
		}
	}
	if *t != before {
		t.noted = now
	}
}

// failed reports whether the mode failed and was not ok since.
func (t *track) failed() bool { return t.verdict == api.CheckFail || t.run < 0 || t.held }

// lately reports whether a mode failed at least so many times within its window.
func (e *evidence) lately(times int) bool {
	return slices.ContainsFunc(e.tracks, func(t track) bool { return bits.OnesCount64(t.recent) >= times })
}

// failed reports whether a mode failed and was not ok since.
func (e *evidence) failed() bool {
	return slices.ContainsFunc(e.tracks, func(t track) bool { return t.failed() })
}

// records returns the state of each mode that has more than ok to preserve.
func (e *evidence) records(d *detection) []ModeRecord {
	var out []ModeRecord
	for i, t := range e.tracks {
		if !t.noted.IsZero() || t.held {
			out = append(out, ModeRecord{d.modes[i].Type, t.noted, t.run, t.often, t.recent, t.verdict, t.reason, t.dated, t.held})
		}
	}
	return out
}

// restore adopts the records of the modes that the policy has. Heartbeat times are not restored:
// the path must be proven again.
func (e *evidence) restore(now time.Time, d *detection, records []ModeRecord) {
	for _, r := range records {
		if i := d.modeIndex(r.Mode); i >= 0 {
			at := earlier(r.At, now)
			e.tracks[i] = track{at: at, noted: at, run: r.Run, often: r.Often, recent: r.Recent, verdict: r.Verdict, reason: prose.Clip(r.Reason, maxReason), dated: r.Announced, held: r.Held}
		}
	}
}

// detection holds what all evidence depends on: the rules of the modes, and the heartbeat path.
type detection struct {
	*rules
	path  path
	votes []vote // buffer for the votes of one node
}

func newDetection(r *rules) detection {
	return detection{rules: r, path: path{every: r.beatEvery}}
}

func (d *detection) staleAfter(i int) time.Duration {
	if i == d.beat {
		return d.silence
	}
	return d.modes[i].stale
}

// vetoed reports whether an ok heartbeat contradicts failures that only the control plane reports.
func (d *detection) vetoed(votes []vote) bool {
	if d.beat < 0 || votes[d.beat].provisional != api.CheckOK {
		return false
	}
	for i, v := range votes {
		if v.provisional == api.CheckFail && (!d.modes[i].control || v.decides) {
			return false
		}
	}
	return true
}

func (d *detection) join(p poll) api.HealthVerdict {
	switch {
	case p.votes == 0: // every mode reports failures only
		return api.CheckOK
	case d.conditional == AllFailed && p.votes > 0 && p.fails == p.votes,
		d.conditional == AtLeast && p.fails >= d.quorum,
		d.conditional == AnyFailed && p.fails > 0:
		return api.CheckFail
	case d.conditional == AnyFailed && p.held > 0,
		d.conditional == AtLeast && p.votes-p.oks >= d.quorum,
		p.oks == 0:
		return api.CheckUnknown
	}
	return api.CheckOK
}

// poll counts votes. held counts modes that are unknown now and failed before.
type poll struct{ votes, fails, oks, held int }

func (p *poll) addVote(v api.HealthVerdict, held bool) {
	p.votes++
	switch {
	case v == api.CheckFail:
		p.fails++
	case v == api.CheckOK:
		p.oks++
	case held:
		p.held++
	}
}

// path is the delivery path of the heartbeats.
type path struct {
	every time.Duration // between two heartbeats of an agent
	up    bool
	since time.Time // since when it is up without a gap
	last  time.Time // time of the last proof
	why   string    // why it is down; empty: it is not known to be down
}

// proven reports whether a heartbeat that was just sent would arrive.
func (p *path) proven(now time.Time) bool { return p.up && now.Sub(p.last) <= 2*p.every }

// report applies the result of the loopback probe.
func (p *path) report(now time.Time, ev PathProof) []api.HealthFinding {
	if !ev.Down {
		return p.prove(now)
	}
	return p.lose(cmp.Or(ev.Why, "it was reported as down"))
}

// prove records that a message arrived. After a gap, every silence begins again.
func (p *path) prove(now time.Time) []api.HealthFinding {
	gap := !p.proven(now)
	p.last = now
	if !gap {
		return nil
	}
	p.up, p.since = true, now
	return []api.HealthFinding{{Event: api.HealthPathUp, Why: "heartbeats arrive"}}
}

func (p *path) lapse(now time.Time) []api.HealthFinding {
	if p.proven(now) || !p.up {
		return nil
	}
	return p.lose("no heartbeat and no loopback probe for " + (2 * p.every).String())
}

func (p *path) lose(why string) []api.HealthFinding {
	p.why = why
	if !p.up {
		return nil
	}
	p.up = false
	return []api.HealthFinding{{Event: api.HealthPathLost, Why: why}}
}
