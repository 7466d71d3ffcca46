package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// start runs a process until the pair ends or kills it.
func (w *pair) start(name string) *process {
	p := &process{pair: w, name: name, r: rand.New(rand.NewPCG(w.r.Uint64(), w.r.Uint64())), answers: map[string]answer{}}
	p.follow()
	p.ctx, p.kill = context.WithCancel(w.ctx)
	p.done.Go(p.run)
	return p
}

// follow has the process read the groups as they are now: its next reads may be late by what
// is written from now on.
func (p *process) follow() {
	var groups []*cloud.Group
	for _, g := range p.pair.groups {
		groups = append(groups, g.Other())
	}
	p.set(func(p *process) {
		if !p.holds {
			p.groups = groups
		}
	})
}

// run holds the pool term by term, as the autoscaler's process does.
func (p *process) run() {
	for p.ctx.Err() == nil {
		lease, err := newLease(LeaseConfig{
			Bucket: "b", Holder: p.name, TTL: p.pair.ttl, Log: slog.New(slog.DiscardHandler),
		}, func(context.Context) (register, error) { return storeOf{p}, nil })
		if err != nil {
			panic(err)
		}
		if lease.Acquire(p.ctx) == nil {
			p.term(lease)
		}
		wait(p.ctx, time.Second)
	}
}

// term holds the pool until the lease is lost, or the process ends.
func (p *process) term(lease *Lease) {
	renewing, stop := context.WithCancel(context.WithoutCancel(p.ctx))
	holding, end := context.WithCancelCause(p.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { end(lease.Run(renewing)) })
	p.hold(holding, lease)
	stop()
	wg.Wait()
}

func (p *process) hold(ctx context.Context, lease *Lease) {
	p.set(func(p *process) { p.holds = true })
	defer p.set(func(p *process) { p.holds = false })
	opening, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	holder, err := openHolder(opening, storeOf{p}, lease, nil, "web")
	if err != nil {
		return // the next term may do it
	}
	l := autoscaler.NewLoop(p.pair.config, autoscaler.World{
		Provider: p, Scheduler: p, Cordon: &cordons{process: p, epoch: lease.Epoch()}, Directory: fixed{p.pair.config}, Dial: p.dial, Metrics: &memory.Store{}, Ledger: ledger{p},
		Memory: apply.Encoded{Bytes: holder.Memory()}, Records: holder.Records(), Orders: orders{p}, Lease: lease, Places: p.places,
	}, slog.New(slog.DiscardHandler))
	p.set(func(p *process) { p.loop = l })
	p.pair.note("%s holds the pool, epoch %d", p.name, lease.Epoch())
	err = l.Run(ctx)
	p.pair.note("%s ends its term: %v", p.name, err)
}

// Groups implements pools.Provider.
func (p *process) Groups(ctx context.Context) (all pools.Listing, err error) {
	p.mu.Lock()
	groups := p.groups
	p.mu.Unlock()
	for _, g := range groups {
		if !p.pair.hidden(g.ID()) {
			all.Groups = append(all.Groups, reached{g, p})
		}
	}
	return all, p.call(ctx, func() error { return nil })
}

// reached is a group as a process reaches it.
type reached struct {
	*cloud.Group
	process *process
}

func (g reached) Snapshot(ctx context.Context) (s pools.GroupSnapshot, err error) {
	got := make(chan pools.GroupSnapshot, 1)
	err = g.process.call(ctx, func() error {
		s, err := g.process.pair.seen(g.Group)
		got <- s
		return err
	})
	if err == nil {
		s = <-got
	}
	return s, err
}

func (g reached) SetTarget(ctx context.Context, target int) error {
	return g.act(ctx, func() error { return g.Group.SetTarget(ctx, target) })
}

func (g reached) Terminate(ctx context.Context, ids []string) error {
	return g.act(ctx, func() error { return g.Group.Terminate(ctx, ids) })
}

func (g reached) act(ctx context.Context, do func() error) error {
	ignorance := g.process.ignorance()
	return g.process.call(ctx, func() error { return g.process.pair.act(g.process, ignorance, g.Group, do) })
}

// cordons sends the cordons of one term over the bus.
type cordons struct {
	*process
	epoch  uint64
	number atomic.Uint64
}

// Cordon implements drain.Scheduler.
func (c *cordons) Cordon(ctx context.Context, node string, on bool) error {
	at := pools.Sequence{Epoch: c.epoch, Number: c.number.Add(1)}
	return c.request(ctx, func() error { return c.pair.cordon(node, on, at) })
}

// factsLast is how long the facts of a silent node count.
const factsLast = 30 * time.Second

// Facts implements snapshot.Scheduler: what has come over the bus.
func (p *process) Facts(now time.Time) (fresh []api.NodeFacts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.facts {
		if now.Sub(f.At) <= factsLast {
			fresh = append(fresh, f)
		}
	}
	return fresh
}

// places is the scheduler of every second day. Its copies are the tasks of the nodes, of one cpu each.
func (p *process) places(ctx context.Context, q api.PlacesQuestion) (answer api.Places, err error) {
	err = p.call(ctx, func() error {
		switch {
		case !p.pair.scheduled:
			return autoscaler.ErrNoPlaces
		case p.isCut():
			return fmt.Errorf("%w: cut off", autoscaler.ErrNoPlaces)
		}
		w := fit.World{Question: q, Waiting: p.pair.waits()}
		for _, f := range p.Facts(time.Now()) {
			n := &fit.Node{ID: f.ID, Size: f.Resources, Room: f.Resources.Sub(f.Allocated), Closed: f.Draining}
			for i := range f.Tasks - f.BatchTasks { // the others need no other place
				c := fit.Copy{App: f.ID, Index: i, Footprint: resource.Vector{resource.CPUs: 1}}
				if n.Copies = append(n.Copies, c); slices.Contains(q.Gone, f.ID) || f.Draining {
					c.Leaves = f.ID
					w.Waiting = append(w.Waiting, c)
				}
			}
			w.Nodes = append(w.Nodes, n)
		}
		answer = fit.Solve(w)
		answer.Held = heldBy(w).Sub(answer.Unplaceable)
		return errors.Join(q.Validate(), answer.Validate(q))
	})
	return answer, err
}

// heldBy returns what all copies of a world need. Those of a node that leaves wait too, and count once.
func heldBy(w fit.World) (sum resource.Vector) {
	for _, n := range w.Nodes {
		sum = sum.Add(n.Size.Sub(n.Room))
	}
	for _, c := range w.Waiting {
		if c.Leaves == "" {
			sum = sum.Add(c.Footprint)
		}
	}
	return sum
}

// hear makes the process receive the heartbeats of the nodes.
func (p *process) hear(facts []api.NodeFacts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.facts = facts
	}
}

// client is the connection of a process to the signal of one app.
type client struct {
	process *process
	app     string
}

func (p *process) dial(e ask.Endpoint, _ ask.RequestSpec) ask.Client { return client{p, e.Address} }

func (client) Close() error { return nil }

// Evaluate implements ask.Client.
func (c client) Evaluate(ctx context.Context, _ sigproto.Evaluation) (response sigproto.Response, err error) {
	got, began := make(chan sigproto.Response, 1), time.Now()
	err = c.process.call(ctx, func() error {
		r, err := c.process.pair.evaluate(ctx, c.app)
		got <- r
		return err
	})
	if err == nil {
		response = <-got
	}
	c.process.pair.answered(c.process, c.app, began, response, err)
	return response, err
}

// fixed lists the signal of each app under its name.
type fixed struct{ config autoscaler.Config }

func (f fixed) Listing() ask.Listing {
	all := map[string]ask.Endpoint{f.config.Default.App: {Address: f.config.Default.App}}
	for _, s := range f.config.Apps {
		all[s.App] = ask.Endpoint{Address: s.App}
	}
	return ask.Listing{Endpoints: all}
}

func (fixed) Report(ask.Report) {}

func (fixed) Alive() {}

// ledger is that of a process. The day reads no record.
type ledger struct{ process *process }

func (l ledger) Append(ctx context.Context, r api.TickRecord) error {
	if l.process.pair.logs {
		l.process.pair.note("%s: tick, %s, account %v, kept %+v, problems %q", l.process.name, outcome(r), r.Account, keptOf(r), r.Problems)
	}
	return l.process.request(ctx, func() error { return nil })
}

// keptOf returns the nodes that a tick keeps, with their causes.
func keptOf(r api.TickRecord) []api.KeptNode {
	if r.Detail == nil {
		return nil
	}
	return r.Detail.Kept
}

// outcome shows what a tick has come to.
func outcome(r api.TickRecord) string {
	if r.Result == nil {
		return "failed: " + r.Failed
	}
	var text strings.Builder
	for _, s := range r.Result.Steps {
		fmt.Fprintf(&text, "\n\t%s %v -> %v %s", s.Rule, s.Before, s.After, s.Why)
	}
	return fmt.Sprintf("target %v%s\n\t%+v", r.Result.Target, text.String(), r.Result)
}

// orders is a book that is read over the bus.
type orders struct{ process *process }

func (o orders) Read(ctx context.Context, _ time.Time) (api.Orders, error) {
	return o.process.pair.orders(), o.process.request(ctx, func() error { return nil })
}

func (o orders) Removed(ctx context.Context, _ string) error { return o.process.gate() }

func (o orders) Rolled(ctx context.Context, _ string) error { return o.process.gate() }
