package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// recheckGap is the least time between two re-checks: each asks the provider of the
// whole pool.
const recheckGap = time.Second

// recheckBurst is how many may follow each other so closely: anybody on the bus can
// cause them.
const recheckBurst = 5

// rechecks are the nodes to be observed now.
type rechecks struct {
	wake chan struct{} // holds one token if there are some

	mu    sync.Mutex
	nodes map[string]bool
}

func newRechecks() *rechecks {
	return &rechecks{wake: make(chan struct{}, 1), nodes: map[string]bool{}}
}

// add takes a node that the judge knows, which bounds them.
func (r *rechecks) add(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[node] = true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *rechecks) take() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.nodes
	r.nodes = map[string]bool{}
	return nodes
}

// recheck observes what the judge asks for until ctx ends.
func (l *Loop) recheck(ctx context.Context) {
	interval := time.Duration(*l.policy.Detection.Interval)
	budget := rate.NewLimiter(rate.Every(interval/3), recheckBurst) // a claim waits two intervals
	for {
		select {
		case <-l.rechecks.wake:
		case <-ctx.Done():
			return
		}
		if budget.Wait(ctx) != nil {
			return
		}
		nodes := l.rechecks.take()
		try, cancel := context.WithTimeout(ctx, interval)
		err := l.observeNow(try, nodes)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.log.Warn("re-check came to nothing", "nodes", len(nodes), "err", err)
		}
		if !wait(ctx, recheckGap) {
			return
		}
	}
}

// observeNow observes nodes in each mode that can be asked; nil is all nodes. The
// heartbeats come by themselves.
func (l *Loop) observeNow(ctx context.Context, nodes map[string]bool) error {
	var modes []judge.ModeType
	url := false
	for _, m := range l.policy.Detection.Modes {
		switch m.Type {
		case judge.NodeStatus, judge.HypervisorStatus, judge.LBStatus:
			modes = append(modes, m.Type)
		case judge.PollURL:
			url = true
		}
	}
	var wg sync.WaitGroup
	var seen, probed error
	wg.Go(func() { seen = l.reread(ctx, modes, nodes) })
	if url {
		wg.Go(func() { probed = l.probe(ctx, nodes) })
	}
	wg.Wait()
	return errors.Join(seen, probed)
}

// reread is a round of the pool out of turn. Its list is told only if nobody is missing
// from it: two lists in a row are what a node's end is known by.
func (l *Loop) reread(ctx context.Context, modes []judge.ModeType, nodes map[string]bool) error {
	s, err := l.look(ctx, modes, true)
	if err != nil {
		return err
	}
	return l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event {
		if l.inventory.whole(s) {
			l.step(now, l.inventory.list(s, l.efforts.mending()))
		}
		l.observe(now, s.observations(modes, nodes))
		return nil
	})
}

// probe asks nodes over HTTP, some only if they are named.
func (l *Loop) probe(ctx context.Context, nodes map[string]bool) error {
	if l.world.Probe == nil || l.world.Address == nil {
		return errors.New("this pool cannot poll URLs")
	}
	var machines []Machine
	if err := l.mail.ask(ctx, func(time.Time, *judge.Judge) { machines = l.inventory.places(nodes) }); err != nil {
		return err
	}
	say := func(node string, v judge.Verdict, why string) {
		o := judge.Observation{Node: node, Mode: judge.PollURL, Verdict: v, Reason: why}
		if l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event { l.observe(now, []judge.Observation{o}); return nil }) != nil {
			l.mail.lost.add("probes", 1)
		}
	}
	var targets []Target
	for _, m := range machines {
		url, err := l.world.Address(ctx, m)
		if err != nil {
			say(m.Node, judge.Unknown, err.Error())
			continue
		}
		targets = append(targets, Target{Node: m.Node, Zone: m.Zone, URL: url})
	}
	if err := l.world.Probe.Probe(ctx, targets, say); err != nil {
		return fmt.Errorf("poll URLs: %w", err)
	}
	return nil
}
