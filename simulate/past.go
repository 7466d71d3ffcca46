package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// past lets a world repeat a recording. A launch, a drain or a loss that the recording has at the same time goes as it went then. Others
// go as one of the recording, drawn by name. So the recorded policy gives the recorded ticks, and another policy meets the same luck.
type past struct {
	of       *Recording
	recorded bool // the policies are those of the recording
	exact    bool // the nodes have the recorded tasks, and the scheduler gives the recorded places
	base     Policy
	seed     uint64
	k        int // the tick that is next, or now
	launches map[string]*pairs
	drains   map[string]*pairs
	ends     map[string]cordonEnd      // of the work of cordoned machines
	last     map[string]api.GroupState // after the latest tick of the replay
	mu       sync.Mutex                // guards joins, readings, lowered and lower
	readings int                       // of the nodes in this tick
	joins    map[string]time.Time      // when the nodes of launched machines join, by the machine's id
	lowered  map[*life]bool            // their group has a lower target, and their termination was refused
	lower    map[string]int            // by how much the target of a group is to be lowered
	removals map[string]string         // the machine for a removal, by the id of the order
}

// cordonEnd is when the work of a machine ends that was cordoned at that time. After a cordon that was taken back the next one counts.
type cordonEnd struct {
	since, end time.Time
	of         *life // the machine of the recording whose drain it took; nil: none
}

// never is a time after each run.
const never = 100 * 365 * 24 * time.Hour

// Replay returns the scenario of the recorded policies. Its ticks are to be those of the recording.
func (r *Recording) Replay() (Scenario, error) {
	s, err := r.scenario(Policy{}, true)
	if err == nil {
		s.past.exact = true
	}
	return s, err
}

// Judge returns the scenarios of the recorded policies and of another one, with the same luck, for a comparison of their results. The
// places of copies are not in a record, so the targets of both follow the sums of the requests.
func (r *Recording) Judge(other Policy) (recorded, changed Scenario, err error) {
	if recorded, err = r.scenario(Policy{}, true); err != nil {
		return recorded, changed, err
	}
	r.noteLimits(other)
	recorded.past.base.IgnorePlaces, recorded.Pool.IgnorePlaces = true, true
	other.Cluster, other.Pool, other.IgnorePlaces, other.DryRun = r.cluster, r.pool, true, false
	// The recorded responses are those that counted at each tick.
	every := r.ticks[0].every
	other.Default.Period, other.Default.TimeLimit, other.Apps = every, 0, slices.Clone(other.Apps)
	for i := range other.Apps {
		a := &other.Apps[i]
		a.Period, a.TimeLimit, a.Raise = every, 0, slices.Clone(a.Raise)
		for j := range a.Raise {
			a.Raise[j].Period, a.Raise[j].TimeLimit, a.Raise[j].Windows = every, 0, nil
		}
	}
	changed, err = r.scenario(other, false)
	return recorded, changed, err
}

// noteLimits notes what a comparison of policies cannot show.
func (r *Recording) noteLimits(other Policy) {
	known := map[string]bool{}
	for i := range r.ticks {
		t := &r.ticks[i]
		if t.of == nil {
			continue
		}
		if t.of.Places != nil {
			r.note("copies are not in the records: the targets of both policies follow the sums of the requests")
		}
		for _, a := range append(slices.Clone(t.of.Input.Apps), api.AppInput{Opinion: t.of.Input.Default}) {
			known[a.Name] = known[a.Name] || a.Configured
			for _, advisor := range a.Raise {
				known[advisor.Name] = true
			}
			if name := a.Opinion.Signal; a.Opinion.Verdict == api.VerdictValue && (strings.HasSuffix(name, "/default") || strings.HasSuffix(name, "/pending")) {
				r.note("signal " + name + " reads what runs on the machines: with another policy its requests would differ")
			}
		}
	}
	for _, a := range other.Apps {
		if a.Name != "" && !known[a.App] {
			r.note("the records have no request of app " + a.App + ": it counts as failed")
		}
		for _, advisor := range a.Raise {
			if shipped := advisor.Name == nameCalendar && advisor.Version == ""; !shipped && !known[advisor.App] {
				r.note("the records have no answer of advisor " + advisor.App + ": it raises nothing")
			}
		}
	}
}

func (r *Recording) scenario(policy Policy, recorded bool) (Scenario, error) {
	if err := r.Check(); err != nil {
		return Scenario{}, err
	}
	work, err := r.Series()
	if err != nil {
		return Scenario{}, err
	}
	p := &past{of: r, recorded: recorded, base: policy, seed: 1, launches: map[string]*pairs{}, drains: map[string]*pairs{}, ends: map[string]cordonEnd{}, removals: map[string]string{}, joins: map[string]time.Time{},
		lowered: map[*life]bool{}, lower: map[string]int{}}
	if recorded {
		p.base = Policy{Cluster: r.cluster, Pool: r.pool, Drain: r.draining}
		p.base.Drain.EndSpot, p.base.Drain.Threshold = r.endsSpot(), cmp.Or(r.draining.Threshold, 30*24*time.Hour)
	}
	groups := r.Groups()
	for _, one := range r.lives {
		if !one.launched.Before(r.start.at) && !one.initial {
			add(p.launches, one.group, pair{of: one, from: one.launched, to: one.joined})
		}
		drain := func(u undone) {
			if !u.idle.IsZero() { // the work ended before the tend that found it, and after the tick that did not
				u.idle = maxTime(u.chosen, u.idle.Add(-min(apply.TendEvery, max(0, u.idle.Sub(u.busy)))/2))
			}
			add(p.drains, one.group, pair{of: one, from: cmp.Or(u.cordoned, u.chosen), to: u.idle})
		}
		for _, u := range one.undone {
			drain(u)
		}
		if !one.chosen.IsZero() {
			drain(undone{one.chosen, one.cordoned, cmp.Or(one.idle, one.ended), one.busy})
		}
	}
	for _, by := range []map[string]*pairs{p.launches, p.drains} {
		for _, all := range by {
			slices.SortStableFunc(all.all, func(a, b pair) int { return a.from.Compare(b.from) })
		}
	}
	work.lingers = func(n *Node) time.Duration { return p.end(n).Sub(n.Cordoned) }
	s := Scenario{Seed: p.seed, Start: r.start.at, Ticks: len(r.ticks), Work: &pastWork{work, p}, Billing: price.Linux(), past: p, Pool: p.config(0)}
	for _, g := range groups {
		if g.Machine.IsZero() {
			return Scenario{}, errors.New("no machine has joined in the recording, so the sizes of machines are unknown: give a longer time")
		}
		if g.Types > max(1, len(g.sizes)) {
			r.note(fmt.Sprintf("group %s had machines of %d types: those of one weight count as one type", g.ID, g.Types))
		}
		g.Interruptions, g.Launch = 0, Delay{} // the recording has them
		s.Groups = append(s.Groups, g.Group)
	}
	return s, nil
}

// endsSpot reports whether drained machines with a warning were terminated.
func (r *Recording) endsSpot() bool {
	return slices.ContainsFunc(r.lives, func(one *life) bool {
		return one.announced && one.reason == api.DrainSpot && one.taken.IsZero() && !one.ended.IsZero()
	})
}

// at returns the time of a tick; after the last one, the end.
func (p *past) at(k int) time.Time {
	if n := len(p.of.ticks); k >= n {
		return p.of.ticks[n-1].at.Add(p.of.ticks[n-1].every)
	}
	return p.of.ticks[k].at
}

// now returns the tick that is next, or now.
func (p *past) now() *recordedTick { return &p.of.ticks[min(p.k, len(p.of.ticks)-1)] }

// decided returns the tick at k or the next one that was not paused; nil: there is none.
func (p *past) decided(k int) *recordedTick {
	for ; k < len(p.of.ticks); k++ {
		if p.of.ticks[k].of != nil {
			return &p.of.ticks[k]
		}
	}
	return nil
}

// config returns the configuration of a tick.
func (p *past) config(k int) Policy {
	t, c := p.decided(k), p.base
	if c.Tick = p.of.ticks[min(k, len(p.of.ticks)-1)].every; t == nil {
		t = p.decided(0)
	}
	if !p.recorded {
		return c
	}
	in := t.of.Input
	c.Policy, c.Prune, c.OrphansAfter, c.FailedBoots = in.Policy, t.of.Limits, t.of.OrphansAfter, t.of.FailedBoots
	c.IgnorePlaces = c.IgnorePlaces || t.of.Places == nil && t.of.NoPlaces == ""
	c.Default = ask.Signal{App: sigproto.DefaultApp, Name: "recorded", Period: c.Tick}
	c.Apps = nil
	for _, a := range in.Apps {
		one := ask.Signal{App: a.Name, Period: c.Tick, HoldFor: a.HoldFor, MaxRequest: a.MaxRequest}
		if a.Configured {
			one.Name = "recorded"
		}
		for _, advisor := range a.Raise {
			one.Raise = append(one.Raise, ask.Signal{App: advisor.Name, Name: "recorded", Period: c.Tick, HoldFor: advisor.HoldFor, MaxRequest: advisor.MaxRequest})
		}
		c.Apps = append(c.Apps, one)
	}
	return c
}

// priced reports whether the record has what the groups cost.
func (p *past) priced() bool {
	return p != nil && slices.ContainsFunc(p.of.ticks, func(t recordedTick) bool { return t.of != nil && len(t.of.Markets) > 0 })
}

// market returns the market of a group by the record, which stands for its zone: groups of one market have one share of the target.
func (p *past) market(group string) string {
	if p == nil {
		return ""
	}
	if t := p.decided(0); t != nil {
		for _, of := range t.of.Markets {
			if of.Group == group {
				return of.Market
			}
		}
	}
	return ""
}

// price returns what a machine of a group cost by the record, with its interruptions: machines of a replay are not spot machines.
func (p *past) price(group string, m api.MarketOffer, _ time.Time) (float64, error) {
	if t := p.decided(p.k); t != nil {
		for _, of := range t.of.Markets {
			if of.Group == group && of.Cost != nil {
				return *of.Cost * m.Weight, nil
			}
		}
	}
	return 0, fmt.Errorf("the record has no price of group %s", group)
}

// signals returns the signals and advisors of all apps that the recording has.
func (p *past) signals() (all []ask.Signal) {
	if p == nil {
		return nil
	}
	seen := map[string]bool{}
	for k := range p.of.ticks {
		t := &p.of.ticks[k]
		for i := 0; t.of != nil && i < len(t.of.Input.Apps); i++ {
			if a := &t.of.Input.Apps[i]; a.Configured && !seen[a.Name] {
				seen[a.Name] = true
				all = append(all, ask.Signal{App: a.Name, Name: "recorded"})
			}
			for _, advisor := range t.of.Input.Apps[i].Raise {
				all = append(all, ask.Signal{App: advisor.Name, Name: "recorded"})
			}
		}
	}
	return all
}

// answer returns the recorded response of a signal: of an app, of an advisor "APP~NAME", or with an empty name the default one.
func (p *past) answer(signal string) (sigproto.Response, error) {
	t := p.now().of
	if t == nil {
		return sigproto.Response{}, errors.New("the pool was paused")
	}
	o, known := t.Input.Default, signal == ""
	for _, a := range t.Input.Apps {
		if a.Name == signal && a.Configured {
			o, known = a.Opinion, true
		}
		for _, advisor := range a.Raise {
			if advisor.Name == signal {
				o, known = advisor.Opinion, true
			}
		}
	}
	if !known {
		return sigproto.Response{}, fmt.Errorf("the recording has no response of %s", signal)
	}
	switch o.Verdict {
	case api.VerdictValue:
		return sigproto.Response{Verdict: sigproto.VerdictValue, Resources: resources(o.Request, 1)}, nil
	case api.VerdictNoOpinion:
		return sigproto.Response{Verdict: sigproto.VerdictNoOpinion, Explanation: o.Why}, nil
	case api.VerdictStale:
		return sigproto.Response{Verdict: sigproto.VerdictStale, Explanation: o.Why}, nil
	}
	return sigproto.Response{}, errors.New(o.Why)
}

// Condition implements autoscaler.Health.
func (p *past) Condition() snapshot.Condition {
	t := p.now()
	if t.of == nil {
		return snapshot.Condition{}
	}
	return snapshot.Condition{Barred: t.of.Input.Barred, Unknown: t.of.Refuse, Budget: disruption.Budget{Limit: t.limit}}
}

func (*past) Drained([]drain.Event) {}

func (*past) RepairInPlace(pools.InPlaceRepair) (bool, error) {
	return false, errors.New("a replay has no repairs")
}

// places gives the recorded answer of the scheduler: as many nodes of each group as then, in the order of the question.
func (p *past) places(groupOf func(id string) string, q api.PlacesQuestion) (api.Places, error) {
	t := p.now()
	switch {
	case t.of == nil || t.of.Places == nil && !t.of.State.PlacesAnswered:
		return api.Places{}, autoscaler.ErrNoPlaces
	case t.of.Places == nil:
		return api.Places{}, errors.New(t.of.NoPlaces)
	}
	pick := func(from []string, count map[string]int) (out []string) {
		left := maps.Clone(count)
		for _, id := range from {
			if g := groupOf(id); left[g] > 0 {
				left[g]--
				out = append(out, id)
			}
		}
		return out
	}
	answer := t.of.Places.Places
	answer.Leave, answer.Back = pick(q.Leave, t.leave), pick(q.Gone, t.back)
	return answer, nil
}

// launch returns the next launch. A launch of the recording has the id and the weight that it had then, so equal machines leave in
// the same order. number is that of the launch in its group, from 1.
func (p *past) launch(g Group, now time.Time, number int, start bool) cloud.Launch {
	next := cloud.Launch{ID: fmt.Sprintf("%s-replayed-%d", g.ID, number), Join: never}
	all := p.launches[g.ID]
	of := slices.DeleteFunc(slices.Clone(p.of.start.lives), func(one *life) bool { return one.group != g.ID })
	switch {
	case start && number > len(of):
	case start:
		return p.launched(of[number-1], now, of[number-1].joined)
	default:
		one := all.take("", now, p.now().every, func(*life) string { return "" })
		if one == nil && p.recorded {
			one = all.next(now, now.Add(replacedLag))
		}
		if one != nil {
			return p.launched(one.of, now, one.to)
		}
		next.Join = all.drawn(now, draw(p.seed, "launch", next.ID)).Sub(now)
	}
	return next
}

// launched returns the launch of a machine of the recording, whose node joins at that time; zero: it does not.
func (p *past) launched(one *life, now, joins time.Time) cloud.Launch {
	begin := maxTime(now, one.launched)
	next := cloud.Launch{ID: one.id, Weight: one.weight, Leave: one.leave(p.now().every), After: begin.Sub(now), Join: never}
	if runs := cmp.Or(one.ran, joins); !runs.IsZero() {
		next.Join = max(0, runs.Sub(begin))
	}
	p.mu.Lock() // groups launch concurrently
	defer p.mu.Unlock()
	switch {
	case joins.IsZero():
		p.joins[one.id] = now.Add(never)
	case joins.After(one.ran) && joins.After(now):
		p.joins[one.id] = joins
	}
	return next
}

// surplusFirst reports whether a termination in the group ends the weight beyond its target first.
func (p *past) surplusFirst(group string) bool {
	return p != nil && p.of.groups[group] != nil && p.of.groups[group].provider == "sfr"
}

// end returns when the work of a cordoned machine ends.
func (p *past) end(n *Node) time.Time {
	one, known := p.ends[n.ID]
	if !known || !one.since.Equal(n.Cordoned) {
		all := p.drains[n.Group]
		one = cordonEnd{since: n.Cordoned}
		if taken := all.take(n.ID, n.Cordoned, p.now().every, p.idOf); taken != nil {
			one.end, one.of = taken.end(n.Cordoned), taken.of
		} else {
			one.end = all.drawn(n.Cordoned, draw(p.seed, "drain", n.ID))
		}
		p.ends[n.ID] = one
	}
	return one.end
}

// agentEnds is how long the node of a machine reports whose end the provider has begun.
const agentEnds = 30 * time.Second

// reports returns the reports of the nodes without those that were silent then, and with those of machines that are ending. From the second
// reading of a tick on it has the nodes that joined after the first one.
func (p *past) reports(all []api.NodeFacts, endings map[string]ending, now time.Time) []api.NodeFacts {
	t := p.now()
	p.mu.Lock()
	p.readings++
	late := t.late
	if p.readings == 1 || !t.at.Equal(now) {
		late = nil
	}
	p.mu.Unlock()
	if len(endings)+len(t.silent)+len(late) == 0 {
		return all
	}
	out := slices.DeleteFunc(slices.Clone(all), func(f api.NodeFacts) bool { return t.silent[f.ID] })
	for _, id := range slices.Sorted(maps.Keys(endings)) {
		if e := endings[id]; now.Sub(e.at) > agentEnds {
			delete(endings, id)
		} else {
			facts := e.node.facts()
			facts.At = now
			out = append(out, facts)
		}
	}
	for _, one := range late {
		if id := p.idOf(one); id != "" {
			out = append(out, api.NodeFacts{ID: id, Group: one.group, BootID: id, At: now, SafeToEvict: true})
		}
	}
	return out
}

// lifeOf returns the machine of the recording whose drain a machine took, or which it is; nil: none.
func (p *past) lifeOf(id string) *life {
	if one := p.ends[id].of; one != nil {
		return one
	}
	return p.of.byID[id]
}

// admit refuses a termination until the time at which the provider accepted it.
func (p *past) admit(w *cloud.Write) error {
	for _, id := range w.IDs {
		one := p.lifeOf(id)
		if w.Op != cloud.Terminate || one == nil || !one.ended.IsZero() && !w.At.Before(one.ended) {
			continue
		}
		r := one.refusal(w.At.Add(p.now().every))
		if early := !one.ended.IsZero() && !w.At.Before(one.ended.Add(-apply.TendEvery)); r == nil || early && r.at.Before(w.At.Add(-apply.TendEvery)) {
			continue
		}
		p.mu.Lock()
		if r.lowered && !p.lowered[one] {
			p.lowered[one] = true
			p.lower[one.group] += int(one.weight)
		}
		p.mu.Unlock()
		return r.why
	}
	return nil
}
