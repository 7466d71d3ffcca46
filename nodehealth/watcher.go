package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// recheckGap is the minimum time between two re-checks. Each reads the whole pool from the
	// provider.
	recheckGap = time.Second
	// recheckBurst is the maximum number of re-checks at that rate. Any client of the bus can cause
	// them.
	recheckBurst = 5
)

// watcher checks the nodes in each mode of the policy. Its methods run in goroutines beside the
// Loop's.
type watcher struct {
	*shared
	ownership  *ownership
	inventory  *inventory
	executions executions
	wake       chan struct{} // holds one token if there are rechecks

	mu       sync.Mutex
	rechecks map[string]bool                // nodes to be observed now
	last     map[string]pools.GroupSnapshot // each group as it was last read
}

// plan returns the rounds of the policy. The provider's modes with the interval of the detection
// share its round, which reads the pool.
func (w *watcher) plan() []round {
	d := w.policy.Detection
	interval := time.Duration(*d.Interval)
	pool := round{name: "pool", every: interval}
	var others []round
	for _, m := range d.Modes {
		switch judge.KindOfMode(m.Type).Source {
		case judge.FromProvider:
			if every(m) == interval {
				pool.modes = append(pool.modes, m.Type)
				continue
			}
			modes := []api.DetectionType{m.Type}
			others = append(others, round{name: string(m.Type), modes: modes, every: every(m), run: func(ctx context.Context) error {
				return w.inspect(ctx, modes)
			}})
		case judge.FromProbe:
			others = append(others, round{name: string(m.Type), modes: []api.DetectionType{m.Type}, every: every(m), run: func(ctx context.Context) error {
				return w.probe(ctx, nil)
			}})
		case judge.FromAgent:
			others = append(others, w.beats(m)...)
		}
	}
	pool.run = func(ctx context.Context) error {
		owner := w.ownership.read(ctx)
		return errors.Join(w.readPool(ctx, pool.modes, nil, true), owner)
	}
	return append([]round{pool}, others...)
}

// beats returns the rounds of the heartbeats. They run twice in the heartbeat interval, so that a
// silent node is found on time.
func (w *watcher) beats(m judge.DetectionMode) []round {
	expected := time.Duration(*m.Options.ExpectedInterval)
	var out []round
	if w.world.Facts != nil {
		out = append(out, round{name: string(m.Type), modes: []api.DetectionType{m.Type}, every: max(expected/2, time.Second), run: w.heartbeats(expected)})
	}
	if w.world.Bus != nil {
		out = append(out, round{name: "loopback", every: max(expected/2, time.Second), run: func(context.Context) error { return w.world.Bus.LoopbackProbe() }})
	}
	return out
}

// readPool reads the pool and reports its list and the observations of these modes, of all nodes if
// nodes is nil. If turn is false, it reports the list only if every earlier machine is in it: two
// lists in a row without a node prove its end.
func (w *watcher) readPool(ctx context.Context, modes []api.DetectionType, nodes map[string]bool, turn bool) error {
	s, err := w.readSnapshot(ctx, modes, true)
	if err != nil {
		return err
	}
	return w.mail.send(ctx, func(time.Time, *judge.Judge) batch {
		var out batch
		if turn || w.inventory.whole(s) {
			out = of(w.inventory.list(s, w.executions.repairing()))
		}
		out.observed = w.inventory.known(s.observations(modes, nodes))
		return out
	})
}

func (w *watcher) inspect(ctx context.Context, modes []api.DetectionType) error {
	s, err := w.readSnapshot(ctx, modes, false)
	if err != nil {
		return err
	}
	return w.report(ctx, s.observations(modes, nil))
}

func (w *watcher) report(ctx context.Context, all []judge.Observation) error {
	return w.mail.send(ctx, func(time.Time, *judge.Judge) batch { return batch{observed: w.inventory.known(all)} })
}

func (w *watcher) recheck(ctx context.Context) {
	interval := time.Duration(*w.policy.Detection.Interval)
	budget := rate.NewLimiter(rate.Every(interval/3), recheckBurst) // a claim waits two intervals
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		if budget.Wait(ctx) != nil {
			return
		}
		nodes := w.takeRechecks()
		try, cancel := context.WithTimeout(ctx, interval)
		err := w.observeNow(try, nodes)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.log.Warn("re-check failed", "nodes", len(nodes), "err", err)
		}
		if !retry.Pause(ctx, recheckGap) {
			return
		}
	}
}

// observeNow checks nodes in each mode that can be polled, all nodes if nodes is nil. Heartbeats
// arrive without polling.
func (w *watcher) observeNow(ctx context.Context, nodes map[string]bool) error {
	var modes []api.DetectionType
	url := false
	for _, m := range w.policy.Detection.Modes {
		switch judge.KindOfMode(m.Type).Source {
		case judge.FromProvider:
			modes = append(modes, m.Type)
		case judge.FromProbe:
			url = true
		}
	}
	var wg sync.WaitGroup
	var seen, probed error
	wg.Go(func() { seen = w.readPool(ctx, modes, nodes, false) })
	if url {
		wg.Go(func() { probed = w.probe(ctx, nodes) })
	}
	wg.Wait()
	return errors.Join(seen, probed)
}

func (w *watcher) probe(ctx context.Context, nodes map[string]bool) error {
	if w.world.Probe == nil || w.world.Address == nil {
		return errors.New("this pool cannot poll URLs")
	}
	var machines []Machine
	if err := w.mail.do(ctx, func(time.Time, *judge.Judge) { machines = w.inventory.places(nodes) }); err != nil {
		return err
	}
	reportVerdict := func(node string, v api.HealthVerdict, why string) {
		if w.report(ctx, []judge.Observation{{Node: node, Mode: api.DetectPollURL, Verdict: v, Reason: why}}) != nil {
			w.mail.lose("probes", 1)
		}
	}
	var targets []Target
	for _, m := range machines {
		url, err := w.world.Address(ctx, m)
		if err != nil {
			reportVerdict(m.Node, api.CheckUnknown, err.Error())
			continue
		}
		targets = append(targets, Target{Node: m.Node, Zone: m.Zone, URL: url})
	}
	if err := w.world.Probe.Probe(ctx, targets, reportVerdict); err != nil {
		return fmt.Errorf("poll URLs: %w", err)
	}
	return nil
}

// heartbeats returns a round that reports the heartbeats since the round before. It drops
// heartbeats older than two intervals, which do not prove that the path works now.
func (w *watcher) heartbeats(expected time.Duration) func(context.Context) error {
	reported := map[string]time.Time{} // owned by the round's goroutine
	return func(ctx context.Context) error {
		now := w.world.Now()
		if w.pathDown(now) != "" {
			return nil
		}
		facts := w.world.Facts(now)
		news := make([]judge.Observation, 0, len(facts))
		latest := make(map[string]time.Time, len(facts))
		for _, f := range facts[:min(len(facts), maxNodes)] {
			latest[f.ID] = f.At
			if f.At.After(reported[f.ID]) && now.Sub(f.At) <= 2*expected {
				news = append(news, beat(f))
			}
		}
		reported = latest
		if err := w.mail.notify(ctx, func(time.Time) { w.inventory.report(facts) }); err != nil {
			return err
		}
		return w.report(ctx, news)
	}
}

// beat returns the observation of a heartbeat. The node is up, and a failed condition is a failure. A condition that
// failed, and has no current result, makes the verdict unknown. A reboot or a drain is not a failure.
func beat(f api.NodeFacts) judge.Observation {
	o := judge.Observation{Node: f.ID, Mode: api.DetectAgentHeartbeat, Verdict: api.CheckOK}
	for _, c := range f.Conditions[:min(len(f.Conditions), pools.MaxConditions)] {
		switch {
		case c.Unknown:
			o.Partly = addCondition(o.Partly, c)
			if c.Failed && o.Verdict == api.CheckOK {
				o.Verdict = api.CheckUnknown
			}
		case c.Failed:
			o.Verdict, o.Reason = api.CheckFail, addCondition(o.Reason, c)
		}
	}
	return o
}

// addCondition adds a condition to a text about conditions.
func addCondition(text string, c api.NodeCondition) string {
	if text != "" {
		text += "; "
	}
	if text = prose.Clip(text+prose.Clip(c.Type, api.MaxWhy), api.MaxWhy); c.Why != "" {
		text = prose.Clip(text+": "+prose.Clip(c.Why, api.MaxWhy), api.MaxWhy)
	}
	return text
}

// addRecheck adds a node for a re-check. Only nodes of the judge are added, which bounds the set.
func (w *watcher) addRecheck(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rechecks[node] = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) takeRechecks() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	nodes := w.rechecks
	w.rechecks = map[string]bool{}
	return nodes
}

// readSnapshot returns a snapshot of the pool for these modes. If groups is false, it reads the groups only
// for load balancer modes.
func (w *watcher) readSnapshot(ctx context.Context, modes []api.DetectionType, groups bool) (snapshot, error) {
	var s snapshot
	if groups || slices.ContainsFunc(modes, balanced) {
		var err error
		if s.groups, err = w.groups(ctx); err != nil {
			return s, err
		}
	}
	inspector, ok := w.world.Pool.(pools.Inspector)
	if !ok {
		return s, nil
	}
	lb, _ := w.policy.Detection.Mode(api.DetectLBStatus)
	what := pools.Inspecting{Traffic: slices.ContainsFunc(modes, balanced), TargetGroups: lb.Options.TargetGroups}
	inspected, err := inspector.Inspect(ctx, what)
	if err != nil {
		return s, fmt.Errorf("inspect the pool: %w", err)
	}
	if len(inspected) > maxNodes {
		return s, fmt.Errorf("the provider inspected %d machines: want at most %d", len(inspected), maxNodes)
	}
	s.inspections = make(map[string]pools.Inspection, len(inspected))
	for _, in := range inspected {
		s.inspections[in.ID] = in
	}
	return s, nil
}

// groups returns the groups of the pool. One that cannot be read counts as it was: its machines have not ended. One that was never
// read is an error, because its machines are unknown.
func (w *watcher) groups(ctx context.Context) (out []pools.GroupSnapshot, err error) {
	found, err := w.world.Pool.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	w.mu.Lock()
	before := w.last
	w.mu.Unlock()
	last, machines := make(map[string]pools.GroupSnapshot, len(found.Groups)), 0
	if why := found.Missing.Err(); why != nil && before == nil {
		return nil, fmt.Errorf("list the groups of the pool: %w", why)
	}
	for id, g := range before {
		if found.Missing.Of(g.Kind) != nil {
			last[id] = g
		}
	}
	for _, g := range found.Groups {
		s, err := g.Snapshot(ctx)
		if old, known := before[g.ID()]; err != nil && known {
			s, err = old, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read group %s: %w", g.ID(), err)
		}
		last[g.ID()] = s
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if machines += len(last[id].Instances); machines > maxNodes {
			return nil, fmt.Errorf("the pool has more than %d machines", maxNodes)
		}
		out = append(out, last[id])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = last
	return out, nil
}
