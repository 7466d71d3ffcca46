package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// box is a machine of the fake cloud.
type box struct {
	group, zone string
	launched    time.Time
	sick        string // reason in its status; empty: healthy
	silent      bool
	stopped     bool
	ended       bool
	leaving     bool
	traffic     pools.HealthCheck
	cordoned    bool
	conditions  []api.NodeCondition
}

// cloud is the state that outlives every process: machines, the saved data, the drain records. It
// counts the changes.
type cloud struct {
	mu      sync.Mutex
	boxes   map[string]*box
	n       int // number of launched machines
	records map[string]*api.Drain
	owed    int
	memory  []byte
	heals   string // why the provider repairs
	marked  []string
	left    int
	acted   map[string]int // number of changes, by kind
	at      map[string]time.Time
	runs    []Input // of workflows
	windows calendar.Windows

	repair   func(m pools.InPlaceRepair) error // nil: the repair succeeds
	confirms map[pools.Fence]bool              // which fences work
	workflow func(context.Context, judge.Action, Input) (Result, error)
	probes   func(context.Context, []Target, func(string, api.HealthVerdict, string)) error
	saves    func([]byte) error
	inspects func(context.Context) error
	stuck    bool // terminations never complete

	calls    int // made by all processes
	cutAt    int // the call at which the process dies
	cutAfter bool
	log      []string // sorted by time
}

func newCloud(names ...string) *cloud {
	c := &cloud{
		boxes: map[string]*box{}, records: map[string]*api.Drain{}, acted: map[string]int{}, at: map[string]time.Time{},
		confirms: map[pools.Fence]bool{pools.FenceCompute: true},
	}
	for _, name := range names {
		id, zone, _ := strings.Cut(name, "@")
		c.boxes[id] = &box{group: "g", zone: zone, launched: time.Now().Add(-24 * time.Hour)}
	}
	return c
}

func ten() []string {
	return []string{"n0@a", "n1@a", "n2@a", "n3@b", "n4@b", "n5@b", "n6@c", "n7@c", "n8@c", "n9@c"}
}

// with changes the cloud.
func (c *cloud) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cloud) markUnhealthy(id, why string) {
	c.with(func() { c.boxes[id].sick, c.boxes[id].silent = why, true })
}

// term is one process: its health loop, and the autoscaler beside it. After it died, its calls have
// no effect.
type term struct {
	c      *cloud
	policy judge.Policy
	loop   *Loop
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu        sync.Mutex
	published []api.HealthNotification
	handler   Handler
	loaded    map[string]bool // attempts that were being repaired when the process began
	lapse     bool            // the bus loses the loopback probes
}

var errDead = errors.New("the process is dead")

// begin starts a process.
func (c *cloud) begin(t testing.TB, p judge.Policy, change ...func(*World)) *term {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &term{c: c, policy: p, ctx: ctx, cancel: cancel, done: make(chan struct{}), loaded: map[string]bool{}}
	for _, r := range c.recorded() {
		m.loaded[r.Attempt] = r.State == api.DrainRepairing
	}
	w := World{
		Pool: m, Writer: m, Drains: m, Cordon: m, Facts: m.facts, Bus: m, Probe: m, Workflow: m, Memory: m,
		Address: func(_ context.Context, where Machine) (string, error) {
			return "http://" + where.Node + "/", nil
		},
	}
	for _, f := range change {
		f(&w)
	}
	m.loop = New(Config{Cluster: "c", Pool: "p", Policy: p, Windows: c.windows}, w, slog.New(slog.DiscardHandler))
	go func() {
		defer close(m.done)
		var wg sync.WaitGroup
		wg.Go(m.autoscale)
		m.err = m.loop.Run(ctx)
		cancel()
		wg.Wait()
	}()
	return m
}

func (m *term) stop(t testing.TB) {
	t.Helper()
	m.cancel()
	<-m.done
	if m.err != nil {
		t.Errorf("Run: %v", m.err)
	}
}

// call makes a call that changes something. The call at which the process dies has its effect or
// not, and no response.
func (m *term) call(ctx context.Context, what string, effect func() error) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.ctx.Err() != nil || ctx.Err() != nil {
		return errDead
	}
	c.calls++
	c.log = append(c.log, what)
	last := c.calls == c.cutAt
	if last && !c.cutAfter {
		m.cancel()
		return errDead
	}
	err := effect()
	if last {
		m.cancel()
		return errDead
	}
	return err
}

// autoscale advances the records, once a second.
func (m *term) autoscale() {
	for retry.Pause(m.ctx, time.Second) {
		m.loop.Drained(m.advance(time.Now()))
	}
}

func (m *term) advance(now time.Time) []drain.Event {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.owed > 0; c.owed-- {
		c.n++
		b := &box{group: "g", zone: "a", launched: now}
		c.boxes[fmt.Sprintf("new%d", c.n)] = b
	}
	var events []drain.Event
	for _, node := range slices.Sorted(maps.Keys(c.records)) {
		r := c.records[node]
		if r.Reason != api.DrainRepair {
			continue
		}
		from := r.State
		switch {
		case r.State == api.DrainGone || r.State == api.DrainReturned:
			delete(c.records, node)
		case now.Sub(r.Since) < 3*time.Second:
			continue
		case r.RepairInPlace == "" && r.State == api.DrainChosen:
			r.State, r.Since = api.DrainTerminating, now
			c.boxes[node].leaving = true
		case r.RepairInPlace == "" && c.stuck:
			continue
		case r.RepairInPlace == "":
			r.State, r.Since = api.DrainGone, now
			c.acted["ended "+node]++
			delete(c.boxes, node)
		case r.State == api.DrainChosen:
			r.State, r.Since = api.DrainRepairing, now
		case r.RepairInPlace == api.RepairWorkflow:
			repairing := drain.RepairOf(*r)
			repairing.Resumed = m.loaded[r.Attempt]
			done, err := m.loop.RepairInPlace(repairing)
			if !done && err == nil && now.Before(r.RepairBy) {
				continue
			}
			if !now.Before(r.RepairBy) {
				err = errors.New("not repaired by its deadline")
			}
			if err != nil {
				r.Failed = err.Error()
			}
			r.State, r.Since = api.DrainReturned, now
		default:
			c.acted[string(r.RepairInPlace)+" "+node]++
			c.at[r.Attempt] = now
			if err := c.mendLocked(*r); err != nil {
				r.Failed = err.Error()
			}
			r.State, r.Since = api.DrainReturned, now
		}
		e := drain.Event{At: now, Node: node, Group: r.Group, From: from, To: r.State, Reason: r.Reason, Attempt: r.Attempt, Failed: r.Failed}
		events = append(events, e)
	}
	return events
}

func (c *cloud) mendLocked(r api.Drain) error {
	if c.repair != nil {
		return c.repair(drain.RepairOf(r))
	}
	b := c.boxes[r.Node]
	b.sick, b.silent, b.stopped = "", false, false
	return nil
}

// Repair implements pools.Writer.
func (m *term) Repair(ctx context.Context, r pools.RepairRequest) error {
	return m.call(ctx, "repair", func() error {
		old, under := m.c.records[r.Node]
		switch {
		case under && old.Attempt == r.Attempt:
			return nil
		case under && old.State != api.DrainReturned:
			return pools.ErrLeaving
		case m.c.boxes[r.Node] == nil:
			return pools.ErrUnknownNode
		}
		now := time.Now()
		savedState := &api.Drain{Node: r.Node, Group: "g", Weight: 1, State: api.DrainChosen, Reason: api.DrainRepair, Since: now, Deadline: r.Deadline, Attempt: r.Attempt, Hold: r.Hold, Evidence: r.Evidence}
		if r.RepairInPlace != nil {
			savedState.RepairInPlace, savedState.RepairBy, savedState.Image = r.RepairInPlace.Kind, r.Deadline, r.RepairInPlace.Image
		} else {
			m.c.owed++
		}
		m.c.records[r.Node] = savedState
		m.c.acted["attempt "+r.Node]++
		return nil
	})
}

// Withdraw implements pools.Writer.
func (m *term) Withdraw(ctx context.Context, attempt string) error {
	return m.call(ctx, "withdraw", func() error {
		for node, r := range m.c.records {
			switch {
			case r.Attempt != attempt:
			case !r.State.Leaving():
				return pools.ErrBegun
			default:
				delete(m.c.records, node)
			}
		}
		return nil
	})
}

// Records implements Drains.
func (m *term) Records() ([]api.Drain, bool) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var out []api.Drain
	for _, node := range slices.Sorted(maps.Keys(m.c.records)) {
		out = append(out, *m.c.records[node])
	}
	return out, true
}

// Write implements pools.Writer.
func (m *term) Write(ctx context.Context, call func(context.Context) error) error {
	if m.ctx.Err() != nil {
		return errDead
	}
	return call(ctx)
}

// Group implements pools.Writer.
func (m *term) Group(id string) (pools.Group, bool) { return group{m}, id == "g" }

// Groups implements pools.Provider.
func (m *term) Groups(ctx context.Context) (pools.Listing, error) {
	return pools.Listing{Groups: []pools.Group{group{m}}}, ctx.Err()
}

// group is the only group of the cloud.
type group struct{ m *term }

func (group) ID() string                                { return "g" }
func (group) SetTarget(context.Context, int) error      { return nil }
func (group) Terminate(context.Context, []string) error { return nil }
func (group) Fences() []pools.Fence                     { return nil }
func (g group) Lift(ctx context.Context, id string) error {
	return g.m.call(ctx, "lift "+id, func() error { return nil })
}

func (g group) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	c := g.m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s := pools.GroupSnapshot{ID: "g", Target: len(c.boxes), Max: api.Unbounded}
	for _, id := range slices.Sorted(maps.Keys(c.boxes)) {
		b := c.boxes[id]
		i := pools.Instance{ID: id, Group: "g", Market: pools.Market{Zone: b.zone}, Weight: 1, State: api.InstanceRunning, Launched: b.launched.Truncate(time.Second)}
		if b.leaving {
			i.State = api.InstanceTerminating
		}
		s.Instances = append(s.Instances, i)
	}
	return s, nil
}

// Isolate implements pools.Isolator.
func (g group) Isolate(ctx context.Context, id string, way pools.Fence) (bool, error) {
	confirmed := false
	err := g.m.call(ctx, "isolate "+string(way), func() error {
		g.m.c.acted["isolate "+string(way)]++
		confirmed = g.m.c.confirms[way]
		return nil
	})
	return confirmed, err
}

// Inspect implements pools.Inspector.
func (m *term) Inspect(ctx context.Context, what pools.Inspecting) ([]pools.Inspection, error) {
	if m.c.inspects != nil {
		if err := m.c.inspects(ctx); err != nil {
			return nil, err
		}
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var out []pools.Inspection
	for id, b := range m.c.boxes {
		in := pools.Inspection{ID: id, Stopped: b.stopped, Ended: b.ended, Machine: pools.HealthCheck{Fitness: pools.Fit}, Host: pools.HealthCheck{Fitness: pools.Fit}}
		if b.sick != "" {
			in.Machine = pools.HealthCheck{Fitness: pools.Unfit, Why: b.sick}
		}
		if what.Traffic {
			in.Traffic = b.traffic
		}
		out = append(out, in)
	}
	return out, nil
}

// OwnsRepair implements pools.RepairOwner.
func (m *term) OwnsRepair(context.Context) (string, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.heals, nil
}

// ReleaseRepair implements pools.RepairOwner.
func (m *term) ReleaseRepair(ctx context.Context) error {
	return m.call(ctx, "leave healing", func() error { m.c.left++; m.c.heals = ""; return nil })
}

// ResumeRepair implements pools.RepairOwner.
func (m *term) ResumeRepair(ctx context.Context) error {
	return m.call(ctx, "heal", func() error { m.c.heals = "it does"; return nil })
}

// MarkUnhealthy implements pools.RepairOwner: the provider replaces the machine.
func (m *term) MarkUnhealthy(ctx context.Context, id, _ string) error {
	return m.call(ctx, "mark", func() error {
		m.c.marked = append(m.c.marked, id)
		delete(m.c.boxes, id)
		m.c.owed++
		return nil
	})
}

// Cordon implements drain.Scheduler.
func (m *term) Cordon(ctx context.Context, id string, on bool) error {
	return m.call(ctx, fmt.Sprintf("cordon %v", on), func() error {
		if b := m.c.boxes[id]; b != nil {
			b.cordoned = on
		}
		return nil
	})
}

func (m *term) facts(now time.Time) []api.NodeFacts {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	var out []api.NodeFacts
	for _, id := range slices.Sorted(maps.Keys(m.c.boxes)) {
		if b := m.c.boxes[id]; !b.silent && !b.stopped {
			out = append(out, api.NodeFacts{ID: id, At: now.Truncate(5 * time.Second), Conditions: b.conditions})
		}
	}
	return out
}

// Probe implements Probe: all nodes are healthy, unless the cloud has another verdict.
func (m *term) Probe(ctx context.Context, targets []Target, notify func(string, api.HealthVerdict, string)) error {
	if m.c.probes != nil {
		return m.c.probes(ctx, targets, notify)
	}
	for _, target := range targets {
		notify(target.Node, api.CheckOK, "")
	}
	return nil
}

// Run implements Workflow.
func (m *term) Run(ctx context.Context, a judge.Action, in Input) (Result, error) {
	if err := m.call(ctx, "workflow", func() error { m.c.runs = append(m.c.runs, in); return nil }); err != nil {
		return Result{}, err
	}
	if m.c.workflow != nil {
		return m.c.workflow(ctx, a, in)
	}
	m.c.with(func() { b := m.c.boxes[in.Node]; b.sick, b.silent = "", false })
	return Result{Decision: DecisionOK}, nil
}

// Load implements Memory.
func (m *term) Load(context.Context) ([]byte, bool, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return slices.Clone(m.c.memory), m.c.memory != nil, nil
}

// Save implements Memory.
func (m *term) Save(ctx context.Context, data []byte) error {
	return m.call(ctx, "save", func() error {
		if m.c.saves != nil {
			if err := m.c.saves(data); err != nil {
				return err
			}
		}
		m.c.memory = slices.Clone(data)
		return nil
	})
}

// Listen implements Bus.
func (m *term) Listen(ctx context.Context, handler Handler) error {
	m.mu.Lock()
	m.handler = handler
	m.mu.Unlock()
	<-ctx.Done()
	return nil
}

// Publish implements Bus.
func (m *term) Publish(published []api.HealthNotification) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published = append(m.published, published...)
	return nil
}

// LoopbackProbe implements Bus.
func (m *term) LoopbackProbe() error {
	m.mu.Lock()
	handler, lapse := m.handler, m.lapse
	m.mu.Unlock()
	if handler != nil && !lapse {
		handler.Proof(judge.PathProof{})
	}
	return nil
}

// events returns the published events, one a line, without ignored ones.
func (m *term) events() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, f := range m.published {
		if f.Event != api.HealthIgnored {
			out = append(out, strings.TrimSpace(string(f.Event)+" "+f.Node))
		}
	}
	return out
}

func (m *term) saw(event string) bool { return slices.Contains(m.events(), event) }

func (m *term) dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s strings.Builder
	for _, f := range m.published {
		fmt.Fprintf(&s, "  %s %s %s\n", f.At.Format("15:04:05"), f.HealthFinding, f.Alarm)
	}
	return s.String()
}

// pass advances the time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// plain returns a policy with the provider's status and heartbeats, and a threshold of one failure.
func plain(actions ...judge.Action) judge.Policy {
	return judge.Policy{
		Mode: api.ModeAct,
		Detection: judge.Detection{Modes: []judge.DetectionMode{
			{Type: api.DetectNodeStatus, Options: judge.Options{FailureThreshold: new(1), SuccessThreshold: new(1)}},
			{Type: api.DetectAgentHeartbeat},
		}},
		Recovery: judge.Recovery{Actions: actions},
	}
}

func exclusive() judge.Policy {
	p := plain(judge.Action{Name: api.ActionRecreate})
	p.Exclusive = true
	p.Recovery.Fencing = []judge.Level{judge.FenceTraffic, judge.FenceCompute}
	return p
}
