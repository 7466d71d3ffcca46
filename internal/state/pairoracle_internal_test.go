package state

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// What a day of a pair is checked for. The checks read what the signals answered, what the bucket
// has and what the provider was requested, and use no rule of the autoscaler:
//
//   - a call changes the provider only while the newest claim in the bucket is the caller's, and
//     is not older than the lease lasts
//   - its intent is in the bucket before, with the epoch of the claim
//   - while the last evaluation of an app's signal was lost before the decision, or the last value
//     is older than it may stand in, no target is lowered, and a node is chosen to go only if its group has its
//     target without it, or the pool what was needed at the last decision with a known need: the
//     rest of a scale-in that was decided then
//   - no node is let go as one that never joined: all nodes report until they end
//   - no target leaves the bounds of its group, and the pool stays within its limits
//   - the targets do not fall below the least need that was answered lately, unless they were as
//     low before

// answer is what an app's signal last returned to a process.
type answer struct {
	known bool // a value, or no opinion
	seen  bool // there was one
	began time.Time
}

// need is the sum of the last values of the signals, from a time on.
type need struct {
	at    time.Time
	nodes int
	known bool // the last evaluation of each signal returned a value
	// decided is set if a tick decided with it. A tick that fails before its decision uses no
	// answers: the next one may carry out what was decided before.
	decided bool
}

// needCounts is for how long a need that is over still excuses what is done: a drain that
// it began may last so long.
const needCounts = 10 * time.Minute

// breach notes the first thing that must not be.
func (w *pair) breach(format string, args ...any) {
	if w.broken == "" {
		w.broken = time.Since(w.began).String() + ": " + fmt.Sprintf(format, args...)
	}
}

// answered notes what a process got of a signal. An evaluation that was given up may end after a
// later one.
func (w *pair) answered(p *process, app string, began time.Time, r sigproto.Response, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if began.Before(p.answers[app].began) {
		return
	}
	p.answers[app] = answer{known: err == nil && r.Verdict != sigproto.VerdictStale, seen: true, began: began}
	if err != nil || r.Verdict != sigproto.VerdictValue || w.apps[app] == nil {
		return
	}
	w.apps[app].valueAt, w.apps[app].value = time.Now(), int(*r.Resources.CPUs/cpusOfNode)
	sum, known := 0, true
	for name, a := range w.apps {
		if a.valueAt.IsZero() {
			return
		}
		sum += a.value
		known = known && p.answers[name].known
	}
	w.needs = append(w.needs, need{at: time.Now(), nodes: sum, known: known})
}

// decidedNeed notes that a tick decided with the last known need.
func (w *pair) decidedNeed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range slices.Backward(w.needs) {
		if n.known {
			w.needs[i].decided = true
			return
		}
	}
}

// ignorance returns why a process has no value of the need; empty: it has one.
func (w *pair) ignorance(p *process) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, a := range w.apps {
		switch got := p.answers[name]; {
		case !got.seen:
			return name + " was not evaluated"
		case !got.known:
			return "the evaluation of " + name + " was lost"
		case a.valueAt.IsZero():
			return name + " never answered a value"
		case time.Since(a.valueAt) > w.longest():
			return fmt.Sprintf("the value of %s is %v old", name, time.Since(a.valueAt))
		}
	}
	return ""
}

// longest is for how long a value counts: it may stand in, and a tick takes its time.
func (w *pair) longest() time.Duration {
	longest := w.config.Tick
	for _, s := range w.config.Apps {
		longest = max(longest, s.HoldFor, s.Period)
	}
	return longest + w.config.Tick + w.ttl
}

// least returns the least need that still counts.
func (w *pair) least() int {
	least := -1
	for i := len(w.needs) - 1; i >= 0; i-- {
		if n := w.needs[i].nodes; least < 0 || n < least {
			least = n
		}
		if time.Since(w.needs[i].at) > needCounts {
			break // it counted until the next one
		}
	}
	return max(least, 0)
}

// write writes to the bucket, and checks the written value.
func (w *pair) write(p *process, ignorance, key string, value []byte, revision uint64) (uint64, error) {
	before := w.model.read(key, 0).entry
	next, err := w.model.write(key, value, revision, p)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	node, ok := strings.CutPrefix(key, "drain.")
	if !ok || before.found {
		if key == leaseKey {
			w.claimed(p, before, value)
		}
		return next, nil
	}
	r, _, err := recordOf(node, value)
	switch {
	case err != nil:
		w.breach("%s writes the record %s: %v", p.name, key, err)
	case r.Reason == api.DrainScaleIn && ignorance != "" && !w.work.pins && !w.above(r):
		w.breach("%s lets %s go, and %s; %v stay, at least %d were there, shortages %t, needs %v; the groups are %s", p.name, node, ignorance, w.staying(), w.lowest, w.shortages, w.needs[max(0, len(w.needs)-2):], w.groupsText())
	case r.Reason == api.DrainOrphan && w.runs(r):
		w.breach("%s lets %s go as one that has not joined: it reports all the time", p.name, node)
	}
	w.noteLocked("%s chooses %s: %s", p.name, node, r.Reason)
	w.chosen++
	return next, nil
}

// above reports whether the pool has what was needed last without a node that is to leave, or its
// group has its target without all that leave. A process may not have seen yet what the provider has just lost.
func (w *pair) above(r api.Drain) bool {
	if time.Since(w.lostAt) < time.Minute*time.Duration(1+w.lag) {
		return true
	}
	slack := resource.Slack
	if w.heaviest != math.Trunc(w.heaviest) { // a target is whole: it may be up to 1 below the weight that leaves
		slack = 1
	}
	for _, n := range slices.Backward(w.needs) {
		if n.known && n.decided {
			if w.staying() >= max(float64(n.nodes), w.config.Policy.Limits.Min)-slack {
				return true
			}
			break
		}
	}
	if w.loose() { // a group that is short has given its share to others
		return w.staying() >= float64(w.lowest)-w.others.lowered-slack
	}
	for _, g := range w.groups {
		if g.ID() != r.Group {
			continue
		}
		s := w.real(g)
		target, stay := float64(s.Target), 0.0
		for _, i := range s.Instances {
			of, _, err := recordOf(i.ID, w.model.read("drain."+i.ID, 0).entry.value)
			leaves := err == nil && of.State != api.DrainReturned && of.State != api.DrainReturning
			switch {
			case i.State == api.InstanceTerminating:
			case leaves:
				target -= i.Weight
			case i.State == api.InstanceRunning:
				stay += i.Weight
			}
		}
		return stay >= target-resource.Slack
	}
	return false
}

// runs reports whether the node of a record is there, and reports.
func (w *pair) runs(r api.Drain) bool {
	for _, g := range w.groups {
		for _, i := range w.real(g).Instances {
			if i.ID == r.Node && i.State == api.InstanceRunning && g.Boot(i.ID) != "" {
				return time.Since(i.Launched) > time.Minute
			}
		}
	}
	return false
}

// groupsText shows the groups as the provider has them.
func (w *pair) groupsText() (text string) {
	for _, g := range w.groups {
		s := w.real(g)
		text += fmt.Sprintf(" %s: target %d of %d to %d", s.ID, s.Target, s.Min, s.Max)
		for _, i := range s.Instances {
			text += fmt.Sprintf(", %s %s %v", i.ID, i.State, i.Weight)
		}
	}
	return text
}

// claimed counts the takeovers of one process from another.
func (w *pair) claimed(p *process, before entry, value []byte) {
	now, err := decodeClaim(value)
	was, errWas := decodeClaim(before.value)
	if err != nil {
		w.breach("%s claims: %v", p.name, err)
	} else if errWas == nil && was.Holder != now.Holder {
		w.takeovers++
	}
}

// recordOf reads a drain record, and the epoch that it has.
func recordOf(node string, value []byte) (api.Drain, uint64, error) {
	s, err := decodeSealed(value)
	if err != nil {
		return api.Drain{}, 0, err
	}
	r, err := decodeDrain(node, s.body)
	return r, s.epoch, err
}

// act has the provider do something for a process, and checks that it may, and what came of it.
func (w *pair) act(p *process, ignorance string, g *cloud.Group, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	claimed := w.model.read(leaseKey, 0)
	c, err := decodeClaim(claimed.entry.value)
	switch {
	case err != nil || claimed.by != p || c.Released:
		w.breach("%s acts on group %s, and the lease is another's: %s, %v", p.name, g.ID(), claimed.entry.value, err)
	case time.Since(claimed.at) > w.ttl:
		w.breach("%s acts on group %s, and has renewed its lease %v ago", p.name, g.ID(), time.Since(claimed.at))
	}
	before := w.targets()
	w.lowest = min(w.lowest, before)
	writes := len(g.Log())
	err = do()
	log := g.Log()
	if len(log) == writes {
		return err // its context had ended
	}
	did := log[writes]
	w.noteLocked("%s: %s %s %d %v: %d -> %d, %v", p.name, did.Op, g.ID(), did.Target, did.IDs, did.Before, did.After, did.Err)
	if did.Err == nil {
		w.acts++
		w.checkIntent(p, g, did, c.Epoch)
		w.checkTargets(p, ignorance, g, did, before)
	}
	return err
}

// checkIntent checks that each change was in the bucket before.
func (w *pair) checkIntent(p *process, g *cloud.Group, did cloud.Write, epoch uint64) {
	if did.Op == cloud.SetTarget {
		var saved apply.Saved
		s, err := decodeSealed(w.model.read("state", 0).entry.value)
		if err == nil {
			err = json.Unmarshal(s.body, &saved)
		}
		if err != nil || s.epoch != epoch || saved.Intent == nil {
			w.breach("%s sets the target of %s to %d, and has saved %+v with epoch %d, not %d: %v", p.name, g.ID(), did.Target, saved.Intent, s.epoch, epoch, err)
		}
		return
	}
	for _, id := range did.Ended {
		r, of, err := recordOf(id, w.model.read("drain."+id, 0).entry.value)
		if err != nil || of != epoch || r.State != api.DrainTerminating {
			w.breach("%s ends %s, whose record is %+v with epoch %d, not %d: %v", p.name, id, r, of, epoch, err)
		}
	}
}

// targets is the sum over all groups.
func (w *pair) targets() (sum int) {
	for _, g := range w.groups {
		sum += w.real(g).Target
	}
	return sum
}

// real is a group as the provider has it.
func (w *pair) real(g *cloud.Group) pools.GroupSnapshot {
	s, err := g.Other().Snapshot(w.ctx)
	if err != nil && w.ctx.Err() == nil {
		w.breach("read %s: %v", g.ID(), err)
	}
	return s
}

// checkTargets checks what the targets are after a write.
func (w *pair) checkTargets(p *process, ignorance string, g *cloud.Group, did cloud.Write, before int) {
	s, sum := w.real(g), w.targets()
	limits := w.config.Policy.Limits
	if s.Target < s.Min || s.Target > s.Max {
		w.breach("%s has the target %d of group %s, which is between %d and %d", p.name, s.Target, g.ID(), s.Min, s.Max)
	}
	if did.After > did.Before {
		w.raises++
		// A target is raised to what is there before a machine of its group leaves.
		if most := max(limits.Max, w.staying()) + w.leaving() + w.heaviest + w.others.added; float64(sum) > most {
			w.breach("%s raises the targets to %d, more than %v", p.name, sum, most)
		}
		return
	}
	if did.After == did.Before {
		return
	}
	w.lowered++
	have := float64(sum)
	if w.heaviest != math.Trunc(w.heaviest) { // a target is whole: the end of a machine may lower it by more than its weight
		have = max(have, w.staying()+w.lost)
	}
	// What a human has lowered since the pool was read is not seen yet.
	least := limits.Min - w.others.cutSince(p.read())
	if w.lag > 0 { // late readings do not show yet what others have lowered
		least = limits.Min - w.others.lowered
	}
	if have < min(float64(before), least) {
		w.breach("%s lowers the targets to %d, the minimum is %v", p.name, sum, limits.Min)
	}
	from, raised := w.others.from[g.ID()]
	if ignorance == "" && raised {
		w.others.from[g.ID()] = min(from, did.After)
	}
	if w.loose() {
		// A group that is short is lowered to what it has, and others get its share.
		launched := slices.ContainsFunc(s.Instances, func(i pools.Instance) bool { return time.Since(i.Launched) < time.Minute })
		if did.Op == cloud.SetTarget && ignorance != "" && !launched && (!raised || did.After < from) && float64(did.After) < s.Fulfilled()-w.leaving()-w.heaviest {
			w.breach("%s lowers %s to %d, and it has %v", p.name, g.ID(), did.After, s.Fulfilled())
		}
		return
	}
	if did.Op == cloud.SetTarget && ignorance != "" {
		w.breach("%s lowers %s to %d, and %s", p.name, g.ID(), did.After, ignorance)
	}
	if least := min(float64(w.least()), limits.Max, float64(w.lowest)); !w.work.pins && have < least-max(0, w.heaviest-1) {
		w.breach("%s lowers the targets to %d, and at least %v were needed", p.name, sum, least)
	}
}

// staying is the weight of the machines that are there, and have no drain record or are taken back.
func (w *pair) staying() (sum float64) {
	left := map[string]bool{}
	for _, r := range w.followed() {
		left[r.Node] = r.State != api.DrainReturned && r.State != api.DrainReturning
	}
	for _, g := range w.groups {
		for _, i := range w.real(g).Instances {
			if i.State != api.InstanceTerminating && !left[i.ID] {
				sum += i.Weight
			}
		}
	}
	return sum
}

// recordsText shows the drain records.
func (w *pair) recordsText() (text string) {
	for _, k := range w.model.contents([]string{"drain.>", leaseKey}, 0, func() int { return 0 }) {
		at := w.model.read(k.Name, 0).at
		text += fmt.Sprintf("%s at %v: %s\n", k.Name, at.Sub(w.began), k.Value)
	}
	return text
}

// leaving is the weight of the nodes with a drain record of the holder's term.
func (w *pair) leaving() (sum float64) {
	for _, r := range w.followed() {
		sum += r.Weight
	}
	return sum
}

// followed returns the drain records of the holder's term. A record of an earlier term was
// written late: the holder does not follow it, and the next one discards it.
func (w *pair) followed() (records []api.Drain) {
	c, err := decodeClaim(w.model.read(leaseKey, 0).entry.value)
	if err != nil {
		return nil // there was no holder yet
	}
	for _, k := range w.model.contents([]string{"drain.>"}, 0, func() int { return 0 }) {
		if r, epoch, err := recordOf(strings.TrimPrefix(k.Name, "drain."), k.Value); err == nil && epoch == c.Epoch {
			records = append(records, r)
		}
	}
	return records
}
