package judge

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// refusal is a gate that does not let a repair pass. Without a gate, it passes.
type refusal struct {
	gate  Gate
	until time.Time // zero: nobody knows
	why   func() string
}

func refuse(gate Gate, until time.Time, format string, args ...any) refusal {
	return refusal{gate, until, func() string { return fmt.Sprintf(format, args...) }}
}

// shut returns which of the gates that others can close refuses.
func (j *Judge) shut(now time.Time, n *node, a Action) refusal {
	if j.healer != "" {
		return refuse(GateOwner, time.Time{}, "%s", j.healer)
	}
	if until, owner, is := j.pauses.longest(n.ID); is {
		return refuse(GatePause, until, "paused by %s", owner)
	}
	if j.breaker.Open {
		return refuse(GateBreaker, j.breaker.until(&j.rules), "%s", j.breaker.Why)
	}
	if z, ok := j.zones[n.Zone]; ok && z.Open {
		return refuse(GateZone, z.until(&j.rules), "zone %s: %s", n.Zone, z.Why)
	}
	if until := j.frozen(now); !until.IsZero() {
		return refuse(GateSchedule, until, "the schedule allows no repair now")
	}
	if out, most := j.out(n), j.mayBeOut(); j.takes(now, n, a) && out >= most {
		return refuse(GateMinAvailable, time.Time{}, "%d of %d nodes are out of service by repairs, %d may be", out, j.census.listed, most)
	}
	return refusal{}
}

// closed returns which gate keeps a candidate from being claimed; claimed says that
// it is, and has its place.
func (j *Judge) closed(now time.Time, n *node, a Action, claimed bool) refusal {
	if r := j.shut(now, n, a); r.gate != "" {
		return r
	}
	if r := j.full(); !claimed && r.gate != "" {
		return r
	}
	if wait := j.bucket.wait(now, &j.rules); wait > 0 {
		return refuse(GateRate, now.Add(wait), "%v repairs an hour, %v at once", j.perHour, j.burst)
	}
	l := j.lineages[j.lineageOf(n)]
	if l == nil {
		return refusal{}
	}
	if until := l.Ended.Add(j.backoffOf(j.lineageOf(n), l)); now.Before(until) {
		return refuse(GateBackoff, until, "%d repairs already", len(l.Begun))
	}
	l.prune(now, j.window)
	if len(l.Begun) >= j.repairs {
		return refuse(GateAttempts, l.Begun[0].Add(j.window), "%d repairs within %v", len(l.Begun), j.window)
	}
	return refusal{}
}

// full refuses if as many repairs are in progress as may be.
func (j *Judge) full() refusal {
	if most := j.inProgress.Of(j.census.eligible); len(j.active) >= most {
		return refuse(GateInProgress, time.Time{}, "%d repairs are in progress, %d may be", len(j.active), most)
	}
	return refusal{}
}

// frozen returns when the schedule's freeze ends; it is looked up once for each now.
func (j *Judge) frozen(now time.Time) time.Time {
	if !j.frozenAt.Equal(now) {
		j.frozenAt, j.frozenTo = now, j.frozenUntil(now)
	}
	return j.frozenTo
}

// out returns how many other nodes repairs took out of service.
func (j *Judge) out(of *node) int {
	out := 0
	for _, n := range j.active {
		if n != of && n.repair.TookOut {
			out++
		}
	}
	return out
}

// mayBeOut returns how many may be: at least one, or small pools were never healed.
func (j *Judge) mayBeOut() int {
	return max(1, j.census.listed-j.available.keep(j.census.listed))
}

// takes reports whether the action takes a node out of service: one that serves,
// without another in its place.
func (j *Judge) takes(now time.Time, n *node, a Action) bool {
	if n.repair != nil && n.repair.TookOut {
		return true
	}
	if n.State != Running || a.Name == Start || a.Name == Recreate && *a.Params.LaunchFirst {
		return false
	}
	for i := range j.modes {
		if j.vote(now, n, i).verdict == OK {
			return true
		}
	}
	return false
}

// MayGoFirst reports whether the node of a replacement under way, which was allowed as
// one that is launched first, may end before the other has come: it serves nobody, or one
// more may be out of service. If so, it is counted as out of service from now on.
func (j *Judge) MayGoFirst(now time.Time, node, attempt string) bool {
	n, ok := j.nodes[node]
	if !ok || !j.Awaits(node, attempt) || n.repair.Action.Name != Recreate {
		return false
	}
	a := n.repair.Action
	a.Params.LaunchFirst = new(false)
	if !j.takes(now, n, a) {
		return true
	}
	n.repair.TookOut = j.out(n) < j.mayBeOut()
	return n.repair.TookOut
}

// stands reports whether the gate that refused the node last still does: then there
// is nothing new to find.
func (j *Judge) stands(now time.Time, n *node) bool {
	if n.state == FenceFailed && !n.repair.Fenced {
		return true
	}
	switch n.blocked {
	case GateUnknown:
		return n.verdict != Fail && n.asked == ""
	case GateOwner:
		return j.healer != ""
	case GatePause:
		return len(j.pauses[""]) > 0 || len(j.pauses[n.ID]) > 0
	case GateBreaker:
		return j.breaker.Open
	case GateZone:
		z, ok := j.zones[n.Zone]
		return ok && z.Open
	case GateSchedule:
		return !j.frozen(now).IsZero()
	case GateInProgress:
		return len(j.active) >= j.inProgress.Of(j.census.eligible)
	}
	return false
}

// block tells which gate refuses, once.
func (j *Judge) block(n *node, a ActionName, r refusal) {
	if n.blocked == r.gate {
		return
	}
	n.blocked = r.gate
	j.journal.find(Finding{Event: RepairBlocked, Node: n.ID, Zone: n.Zone, Action: a, Gate: r.gate, Until: r.until, Why: r.why()})
}

// bucket is the rate's: it holds burst repairs and fills with perHour.
type bucket struct {
	Spent float64   // of the burst
	At    time.Time // then
}

func (b *bucket) spent(now time.Time, r *rules) float64 {
	return max(0, b.Spent-max(0, now.Sub(b.At)).Hours()*r.perHour)
}

// wait returns how long until there is room for one more.
func (b *bucket) wait(now time.Time, r *rules) time.Duration {
	over := b.spent(now, r) + 1 - r.burst
	if over <= 1e-9 {
		return 0
	}
	return time.Duration(over / r.perHour * float64(time.Hour))
}

func (b *bucket) spend(now time.Time, r *rules) {
	b.Spent, b.At = b.spent(now, r)+1, now
}

// lineage is a node and its replacements.
type lineage struct {
	Begun []time.Time // repairs, within the window
	Ended time.Time   // the last one
}

func (l *lineage) prune(now time.Time, window time.Duration) {
	for len(l.Begun) > 0 && now.Sub(l.Begun[0]) >= window {
		l.Begun = l.Begun[1:]
	}
}

// lineageOf returns the name of the node's lineage.
func (j *Judge) lineageOf(n *node) string {
	if n.Lineage != "" {
		return n.Lineage
	}
	if name, ok := j.born[n.ID]; ok {
		return name
	}
	return n.ID
}

func (j *Judge) ledger(n *node) *lineage {
	name := j.lineageOf(n)
	l, ok := j.lineages[name]
	if !ok {
		l = &lineage{}
		j.lineages[name] = l
	}
	return l
}

// forgetLineages drops those whose repairs are older than the window, and the names
// of nodes that are gone.
func (j *Judge) forgetLineages(now time.Time) {
	for name, l := range j.lineages {
		if l.prune(now, j.window); len(l.Begun) == 0 && now.Sub(l.Ended) >= j.window {
			delete(j.lineages, name)
		}
	}
	for id := range j.born {
		if _, ok := j.nodes[id]; !ok {
			delete(j.born, id)
		}
	}
}

// backoffOf returns the wait after the last repair of a lineage.
func (j *Judge) backoffOf(name string, l *lineage) time.Duration {
	if l.Ended.IsZero() || len(l.Begun) == 0 {
		return 0
	}
	wait := float64(j.backoff) * math.Pow(j.factor, float64(len(l.Begun)-1))
	wait = min(wait, float64(j.backoffMax))
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", name, len(l.Begun))
	return time.Duration(wait * (1 + 0.1*float64(h.Sum32())/math.MaxUint32))
}
