package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// noon is the beginning of every day.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

var errKilled = errors.New("the process is dead")

// life is the life of one process: it ends before the port call at which its fuse is 0.
type life struct {
	mu   sync.Mutex
	fuse int // calls left; negative: no limit
	cut  bool

	terminations int // left; 0: no limit
}

// spend returns errKilled if the process is dead.
func (l *life) spend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fuse == 0 {
		return errKilled
	}
	l.fuse--
	return nil
}

// terminated counts a termination. The process may die after it.
func (l *life) terminated() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminations--; l.terminations == 0 {
		l.fuse = 0
	}
}

// end makes the process die before its next call, unless it is dead.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = l.fuse != 0
	l.fuse = 0
}

func (l *life) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fuse == 0
}

// mortal are the ports of one process.
type mortal struct {
	*day
	*life
}

type mortalGroup struct {
	pools.Group
	life   *life
	stale  bool
	unread bool
}

func (g mortalGroup) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	if err := g.life.spend(); err != nil {
		return pools.GroupSnapshot{}, err
	}
	if g.unread {
		return pools.GroupSnapshot{}, errors.New("the api is down")
	}
	s, err := g.Group.Snapshot(ctx)
	s.Stale = g.stale
	return s, err
}

func (g mortalGroup) SetTarget(ctx context.Context, n int) error {
	if err := g.life.spend(); err != nil {
		return err
	}
	return errors.Join(g.Group.SetTarget(ctx, n), g.life.spend())
}

func (g mortalGroup) Terminate(ctx context.Context, ids []string) error {
	if err := g.life.spend(); err != nil {
		return err
	}
	err := g.Group.Terminate(ctx, ids)
	g.life.terminated()
	return errors.Join(err, g.life.spend())
}

func (g mortalGroup) RepairKinds() []api.RepairKind { return g.Group.(pools.Repairer).RepairKinds() }

func (g mortalGroup) RepairInPlace(ctx context.Context, m pools.InPlaceRepair) (bool, error) {
	if err := g.life.spend(); err != nil {
		return false, err
	}
	done, err := g.Group.(pools.Repairer).RepairInPlace(ctx, m)
	return done && err == nil && !g.life.dead(), errors.Join(err, g.life.spend())
}

func (m mortal) Groups(context.Context) (pools.Listing, error) {
	var out pools.Listing
	for _, g := range m.handles {
		if !m.hidden[g.ID()] {
			out.Groups = append(out.Groups, mortalGroup{g, m.life, m.stale[g.ID()], m.unread[g.ID()]})
		}
	}
	return out, m.spend()
}

func (m mortal) Cordon(ctx context.Context, node string, on bool) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.nodes.Cordon(ctx, node, on)
}

func (m mortal) Put(ctx context.Context, r api.Drain) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.records.Put(ctx, r)
}

func (m mortal) Delete(ctx context.Context, node string) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.records.Delete(ctx, node)
}

func (m mortal) Append(ctx context.Context, record []byte) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.ledger.Append(ctx, record)
}

type mortalRecords struct{ mortal }

func (m mortalRecords) Load(ctx context.Context) ([]api.Drain, error) { return m.records.Load(ctx) }

type mortalMemory struct{ mortal }

func (m mortalMemory) Load(ctx context.Context) ([]byte, bool, error) { return m.kept.Load(ctx) }

// Save stores the data, and allows the termination of the nodes in its intent.
func (m mortalMemory) Save(ctx context.Context, data []byte) error {
	if err := m.spend(); err != nil {
		return err
	}
	var one memo
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	if one.Intent != nil {
		for _, id := range one.Intent.Remove {
			m.allowed[id] = true
		}
	}
	err := m.kept.Save(ctx, data)
	if m.cutOff && one.Intent != nil && len(one.Intent.Targets) > 0 {
		m.end()
	}
	return err
}

type mortalBook struct{ mortal }

func (m mortalBook) Read(ctx context.Context, now time.Time) (api.Orders, error) {
	return m.book.Read(ctx, now)
}
func (m mortalBook) Removed(ctx context.Context, node string) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.book.Removed(ctx, node)
}
func (m mortalBook) Rolled(ctx context.Context, group string) error {
	if err := m.spend(); err != nil {
		return err
	}
	return m.book.Rolled(ctx, group)
}

// places is the scheduler. Its copies are the tasks of the nodes.
func (m mortal) places(_ context.Context, q api.PlacesQuestion) (api.Places, error) {
	if !m.scheduled || m.silent {
		return api.Places{}, ErrNoPlaces
	}
	if err := errors.Join(q.Validate(), m.spend()); err != nil {
		return api.Places{}, err
	}
	p := m.nodes.places(q, m.nodes.Facts(m.now), m.waiting)
	if err := p.Validate(q); err != nil {
		m.t.Fatal(err)
	}
	return p, nil
}

// day is a pool over a day, whose processes may be killed at any point.
type day struct {
	t           rapid.TB
	now         time.Time
	groups      []*cloud.Group
	handles     []*cloud.Group  // handles of the groups, of this process
	hidden      map[string]bool // groups that the provider does not list
	stale       map[string]bool // groups that the provider reports as stale
	stock       map[string]int
	nodes       *nodes
	records     *records
	kept        *kept
	book        *book
	ledger      *ledger
	config      Config
	life        *life
	loop        *Loop
	demand      int             // in nodes
	unknownNeed bool            // the signals do not respond
	cutOff      bool            // the process dies between its next intent and the call, and the metrics are lost
	allowed     map[string]bool // nodes that may be terminated
	healthy     float64         // the target of the last tick with a known need
	health      *health
	repairs     int             // repairs requested so far
	scheduled   bool            // a scheduler answers where copies fit
	moves       bool            // copies of cordoned nodes move to others with room; otherwise they end
	silent      bool            // but not now
	unread      map[string]bool // groups that cannot be read
	waiting     []fit.Copy      // without a place
}

// Evaluate is the default signal.
func (d *day) Evaluate(context.Context, sigproto.Evaluation) (sigproto.Response, error) {
	if d.unknownNeed {
		return sigproto.Response{}, errors.New("no metrics")
	}
	return sigproto.Response{Resources: sigproto.Resources{CPUs: new(float64(d.demand * cpusPerNode))}, Verdict: sigproto.VerdictValue}, nil
}

func (*day) Close() error { return nil }

// dayGroupMax is the maximum of a group.
const dayGroupMax = 12

func newDay(t rapid.TB) *day {
	d := &day{
		t: t, now: noon, hidden: map[string]bool{}, unread: map[string]bool{}, stale: map[string]bool{}, stock: map[string]int{}, records: &records{stored: map[string][]byte{}}, kept: &kept{}, book: &book{},
		ledger: &ledger{appended: make(chan struct{}, 1)}, demand: 6, allowed: map[string]bool{}, health: &health{},
		nodes: &nodes{tasks: map[string]int{}, cordoned: map[string]bool{}, mute: map[string]bool{}, unsafe: map[string]bool{}, batch: map[string]int{}},
	}
	for _, id := range []string{"a", "b", "c"} {
		g := cloud.New(cloud.Config{ID: id, Max: dayGroupMax, Target: 2, Join: 90 * time.Second, Leave: time.Minute, Boot: 90 * time.Second}, d.now)
		d.groups, d.stock[id] = append(d.groups, g), dayGroupMax
		d.nodes.groups = append(d.nodes.groups, &group{Group: g})
	}
	d.config = Config{
		Cluster: "here", Pool: "default", Tick: time.Minute, Drain: drain.Config{Threshold: 5 * time.Minute, Force: true}, OrphansAfter: 10 * time.Minute,
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Period: time.Minute, Limits: api.TargetLimits{Max: 100, MaxAdd: api.Unlimited, MaxRemove: 3},
		},
		Prune:   api.PruneLimits{MaxWeight: 3, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
	}
	d.born(-1)
	return d
}

// born starts a new process, which dies after that many calls.
func (d *day) born(fuse int) {
	d.life, d.handles = &life{fuse: fuse}, nil
	for _, g := range d.groups {
		d.handles = append(d.handles, g.Other())
	}
	m := mortal{d, d.life}
	directory := &directory{}
	directory.set(sigproto.DefaultApp, ask.Endpoint{Address: "here"})
	d.loop = NewLoop(d.config, World{
		Provider: m, Scheduler: d.nodes, Directory: directory, Metrics: &memory.Store{}, Ledger: EncodedLedger{m}, Memory: apply.Encoded{Bytes: mortalMemory{m}},
		Orders: mortalBook{m}, Lease: &lease{left: time.Hour}, Records: mortalRecords{m}, Cordon: m, Health: d.health, Places: m.places,
		Dial: func(ask.Endpoint, ask.RequestSpec) ask.Client { return d }, Now: func() time.Time { return d.now },
	}, slog.New(slog.DiscardHandler))
}

// tick runs one tick, and returns its record if the process survived.
func (d *day) tick() *api.TickRecord {
	d.now = d.now.Add(time.Minute)
	for _, g := range d.groups {
		g.Advance(d.now)
	}
	d.work()
	before := d.ledger.len()
	if err := d.loop.Tick(context.Background(), d.now); err != nil {
		d.t.Fatal(err)
	}
	if d.life.dead() {
		if d.life.cut {
			d.cutOff, d.unknownNeed = false, true
		} else {
			d.healthy = 0
		}
		d.loop.Close()
		d.born(-1)
		return nil
	}
	if d.ledger.len() != before+1 {
		d.t.Fatal("the tick is not recorded")
	}
	var r api.TickRecord
	if err := json.Unmarshal(d.ledger.records[before], &r); err != nil {
		d.t.Fatal(err)
	}
	return &r
}

// repair requests a repair, as the node-health policy does.
func (d *day) repair(r pools.RepairRequest) error {
	answer, err := d.loop.repair(context.Background(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer
}

// anyRepair requests a random repair of a node, which may be silent until the end.
func (d *day) anyRepair(t *rapid.T, node string) {
	d.repairs++
	r := pools.RepairRequest{Node: node, Attempt: fmt.Sprint("attempt-", d.repairs), Deadline: d.now.Add(12 * time.Minute), Why: "it is sick"}
	switch rapid.IntRange(0, 3).Draw(t, "repair") {
	case 0:
	case 1:
		r.Hold = true
	default:
		r.RepairInPlace = &pools.InPlaceRepair{Kind: rapid.SampledFrom([]api.RepairKind{api.RepairReboot, api.RepairReset, api.RepairRebuild}).Draw(t, "kind")}
	}
	silent := rapid.Bool().Draw(t, "silent")
	d.nodes.change(func(n *nodes) { n.mute[node] = silent })
	d.health.set(snapshot.Condition{Unhealthy: map[string]string{node: "it is sick"}, Barred: rapid.SampledFrom([]string{"", "", "breaker"}).Draw(t, "barred")})
	_ = d.repair(r) // it may be refused
}

// events makes random changes.
func (d *day) events(t *rapid.T) {
	g := rapid.SampledFrom(d.groups).Draw(t, "group")
	ids := d.running(g)
	switch what := rapid.IntRange(-7, 16).Draw(t, "event"); {
	case what < -3:
		d.workEvent(t, what, ids)
	case what == -3 && (d.unread[g.ID()] || len(d.unread) < len(d.groups)-1):
		if d.unread[g.ID()] {
			delete(d.unread, g.ID())
		} else {
			d.unread[g.ID()] = true
		}
	case what == -2:
		g.Refuse(cloud.Terminate, rapid.SampledFrom([]error{nil, pools.ErrRefused, pools.ErrThrottled, errors.New("lost")}).Draw(t, "refusal"))
	case what == -1:
		d.silent = !d.silent
	case what == 0:
		d.demand = rapid.IntRange(1, 20).Draw(t, "demand")
	case what == 1:
		d.unknownNeed = !d.unknownNeed
	case what == 2:
		n := rapid.IntRange(0, dayGroupMax).Draw(t, "stock")
		d.stock[g.ID()] = n
		g.Stock(float64(n))
	case what == 3:
		g.Refuse(cloud.SetTarget, rapid.SampledFrom([]error{nil, nil, pools.ErrRefused, pools.ErrThrottled, errors.New("lost")}).Draw(t, "refusal"))
	case what == 4:
		g.Drop(cloud.Terminate, 1)
	case what == 5 && len(ids) > 0:
		g.Lose(rapid.SampledFrom(ids).Draw(t, "lost"))
	case what == 6 && len(ids) > 0:
		id := rapid.SampledFrom(ids).Draw(t, "removed")
		d.allowed[id] = true
		d.book.change(func(o *api.Orders) {
			o.Removals = append(slices.Clone(o.Removals), api.Removal{Note: api.Note{By: "me"}, Node: id})
		})
	case what == 7 && len(ids) > 0:
		id := rapid.SampledFrom(ids).Draw(t, "rebalanced")
		d.allowed[id] = true
		if err := d.loop.Notice(context.Background(), pools.Notice{Instance: id, Kind: pools.Rebalance}); err != nil {
			t.Fatal(err)
		}
	case what == 8 && len(ids) > 0:
		id := rapid.SampledFrom(ids).Draw(t, "busy")
		d.nodes.change(func(n *nodes) { n.tasks[id] = rapid.IntRange(0, 3).Draw(t, "tasks") })
	case what == 12:
		d.cutOff = !d.unknownNeed
	case what == 16 && len(ids) > 0:
		d.health.set(quarantined(rapid.SliceOfN(rapid.SampledFrom(ids), 0, 2).Draw(t, "quarantined")...))
	case what >= 13 && len(ids) > 0:
		d.anyRepair(t, rapid.SampledFrom(ids).Draw(t, "sick"))
	case what >= 9:
		d.cutOff = false
		d.loop.Close()
		d.born(rapid.IntRange(0, 60).Draw(t, "fuse"))
	}
}

func (d *day) running(g *cloud.Group) (ids []string) {
	s, err := g.Other().Snapshot(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, i := range s.Instances {
		if i.State == api.InstanceRunning {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// check checks the invariants after any tick, by the provider's own log.
func (d *day) check() {
	for _, g := range d.groups {
		ended := map[string]bool{}
		for _, w := range g.Log() {
			for _, id := range w.Ended {
				if ended[id] {
					d.t.Fatalf("%s was terminated twice", id)
				}
				if ended[id] = true; !d.allowed[id] {
					d.t.Fatalf("%s was terminated, and no plan and no order has chosen it", id)
				}
			}
		}
	}
}

// checkTick checks a tick that was not interrupted.
func (d *day) checkTick(r *api.TickRecord) {
	if r.Case == nil {
		d.t.Fatalf("the tick failed: %s", r.Failed)
	}
	got, err := json.Marshal(resolve.Resolve(*r.Case).Result())
	want, errWant := json.Marshal(r.Result)
	if err := errors.Join(err, errWant); err != nil || string(got) != string(want) {
		d.t.Fatalf("the answer does not come out again (%v):\n%s\n%s", err, got, want)
	}
	d.checkProofs(r)
	if r.Case.Input.Pinned != nil {
		d.healthy = 0
	}
	if d.unknownNeed {
		if r.Result.Target < d.healthy-resource.Slack {
			d.t.Fatalf("the target is %v, and was %v when the need was known", r.Result.Target, d.healthy)
		}
		return
	}
	failed := slices.ContainsFunc(r.Actions, func(a api.Action) bool { return a.Error != "" })
	d.healthy = 0
	have, can := resolve.Whole(d.loop.account().PendingIncrease()), 0 // the next tick orders the pending increase
	held := plan.InBackoff(r.State.Backoffs, r.State.Clock)
	for _, group := range d.groups {
		g, err := group.Other().Snapshot(context.Background())
		if err != nil {
			d.t.Fatal(err)
		}
		committed, leaving := 0, map[string]bool{}
		for _, one := range r.Drains {
			leaving[one.Node] = !drain.Stays(one)
			there := slices.ContainsFunc(g.Instances, func(i pools.Instance) bool {
				return i.ID == one.Node && i.State != api.InstanceTerminating
			})
			if one.Group == g.ID && drain.IsCommitted(one) && there {
				committed++
			}
		}
		for _, i := range g.Instances { // a quarantined node is not capacity
			out := d.health.Condition().Budget.Out[i.ID] == disruption.Quarantine
			if out && !leaving[i.ID] && i.State != api.InstanceTerminating && !d.unread[g.ID] { // after a restart it is unknown there
				committed++
			}
		}
		if d.unread[g.ID] { // what the result of its last request was is unknown
			g.Target = r.Snapshot.Groups[slices.IndexFunc(r.Snapshot.Groups, func(s api.GroupSnapshot) bool { return s.ID == g.ID })].Target
		}
		have += g.Target - committed
		if _, aside := held[g.ID]; d.unread[g.ID] {
			can += g.Target - committed
		} else if aside {
			can += max(0, min(g.Target, resolve.Whole(g.Fulfilled()))-committed)
		} else {
			can += max(0, dayGroupMax-committed-resolve.Whole(r.Detail.Committed[g.ID])) // a node that left in this tick leaves room for the next
		}
	}
	if need := min(d.demand, can); !failed && r.Snapshot.Joined > 0 && float64(have) < min(float64(need), r.Result.Target)-resource.Slack {
		d.t.Fatalf("the groups are to have %d, the need is %d and they can have %d\n%+v", have, d.demand, can, r.Actions)
	}
	if len(held) == 0 && len(d.unread) == 0 && !failed && r.Case.Input.Pinned == nil {
		d.healthy = min(r.Result.Target, float64(have))
	}
}

// checkProofs checks that no node with tasks is removed without a proof.
func (d *day) checkProofs(r *api.TickRecord) {
	for _, ids := range r.Result.Terminate {
		for _, id := range ids {
			n := r.Case.Nodes[slices.IndexFunc(r.Case.Nodes, func(n api.Candidate) bool { return n.ID == id })]
			proved := r.Case.Places == nil && !r.State.PlacesAnswered || r.Case.Places != nil && slices.Contains(r.Case.Places.Leave, id)
			if n.Tasks > 0 && !proved && !n.Draining {
				d.t.Fatalf("%s is removed, and its %d tasks have no other place", id, n.Tasks)
			}
			if !n.Safe && n.Node.Joined() {
				d.t.Fatalf("%s is removed, and is not safe to evict", id)
			}
		}
	}
}

// A day of a pool with shortages, refusals, losses, missing data, orders, rotations and kills at any point. No
// node is terminated twice, or without being chosen. The target does not fall while the need is
// unknown. The need is met when any group has capacity.
func TestDay(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		d := newDay(t)
		d.limits(t)
		if rapid.Bool().Draw(t, "rotates") {
			d.loop.Close()
			d.rule("age>15m")
			d.config.Rotation.Gate = rotate.Gate{Wait: time.Minute, Within: 6 * time.Minute}
			d.config.Rotation.Rate = rapid.SampledFrom([]rotate.Rate{{}, {Machines: 2, Within: 5 * time.Minute}}).Draw(t, "rate")
			d.born(-1)
		}
		defer func() { d.loop.Close() }()
		for range rapid.IntRange(10, 40).Draw(t, "ticks") {
			d.events(t)
			if r := d.tick(); r != nil {
				d.checkTick(r)
			}
			d.check()
		}
		d.calm()
	})
}

// calm ends all trouble for so long that all backoffs end. Then the pool has its wanted size.
func (d *day) calm() {
	d.unknownNeed, d.cutOff, d.silent = false, false, false
	d.loop.Close()
	d.config.Rotation = Rotation{} // otherwise it would never end
	d.born(-1)
	d.nodes.change(func(n *nodes) { clear(n.mute) })
	d.unpin()
	d.health.set(snapshot.Condition{})
	for _, g := range d.groups {
		g.Stock(dayGroupMax)
		g.Refuse(cloud.SetTarget, nil)
		g.Refuse(cloud.Terminate, nil)
	}
	clear(d.unread)
	d.placeAll(func() {
		d.now = d.now.Add(2 * time.Minute)
		d.tick()
	})
	for range 30 {
		d.now = d.now.Add(2 * time.Minute)
		d.tick()
	}
	d.check()
	sum := 0
	for _, g := range d.groups {
		sum += len(d.running(g))
	}
	if records, err := d.records.Load(context.Background()); err != nil || len(records) > 0 || sum != d.demand {
		d.t.Fatalf("%d nodes, want %d; drains %+v, %v; state %+v", sum, d.demand, records, err, d.loop.state())
	}
	for _, g := range d.groups {
		for _, id := range d.running(g) {
			if d.nodes.cordoned[id] {
				d.t.Fatalf("%s is still cordoned", id)
			}
		}
	}
}

// BenchmarkTick measures a tick of 2000 instances and 4 signals, without the time of the provider
// and the signals.
func BenchmarkTick(b *testing.B) {
	const instances = 2000
	d := &day{now: noon, demand: instances}
	var groups pools.Static
	scheduler := &fixedFacts{}
	for i := range 5 {
		g := cloud.New(cloud.Config{ID: fmt.Sprint("group-", i), Target: instances / 5}, noon)
		g.Advance(noon.Add(time.Hour))
		s, err := g.Snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		groups = append(groups, fixedGroup{g, s})
		for _, in := range s.Instances {
			scheduler.facts = append(scheduler.facts, api.NodeFacts{
				ID: in.ID, Group: in.Group, Resources: resource.Vector{resource.CPUs: cpusPerNode}, Tasks: 3, SafeToEvict: true, At: noon,
			})
		}
	}
	c := Config{
		Cluster: "here", Pool: "default", Tick: time.Minute, Drain: drain.Config{Threshold: time.Hour}, OrphansAfter: time.Hour,
		Policy:  api.DecisionPolicy{Setpoint: 1, Combine: api.CombineMax, Period: time.Minute, Limits: api.TargetLimits{Max: 1e6, MaxAdd: 1e6, MaxRemove: 1e6}},
		Prune:   api.PruneLimits{MaxWeight: 10, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Second},
	}
	where := &directory{}
	where.set(sigproto.DefaultApp, ask.Endpoint{Address: "here"})
	for _, app := range []string{"web", "mail", "batch"} {
		c.Apps = append(c.Apps, ask.Signal{App: app, Name: "Need", Period: time.Second, HoldFor: time.Minute})
		where.set(app, ask.Endpoint{Address: app})
	}
	size := 0
	l := NewLoop(c, World{
		Provider: groups, Scheduler: scheduler, Directory: where, Metrics: &memory.Store{}, Memory: apply.Encoded{Bytes: &kept{}}, Orders: &book{},
		Ledger: EncodedLedger{sizes{&size}}, Lease: &lease{left: time.Hour}, Records: &records{stored: map[string][]byte{}}, Cordon: &nodes{},
		Dial: func(ask.Endpoint, ask.RequestSpec) ask.Client { return d },
	}, slog.New(slog.DiscardHandler))
	now := noon.Add(time.Hour)
	for b.Loop() {
		now = now.Add(time.Minute)
		if err := l.Tick(b.Context(), now); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size), "record-bytes")
}

type sizes struct{ size *int }

func (s sizes) Append(_ context.Context, record []byte) error { *s.size = len(record); return nil }

type fixedFacts struct{ facts []api.NodeFacts }

func (f *fixedFacts) Facts(time.Time) []api.NodeFacts { return f.facts }

type fixedGroup struct {
	*cloud.Group
	s pools.GroupSnapshot
}

func (g fixedGroup) Snapshot(context.Context) (pools.GroupSnapshot, error) { return g.s, nil }
