package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cpusPerNode is the offer of each node of a world. Each has the weight 1, so at a setpoint of 1 a
// request of 4 cpus is one node.
const cpusPerNode = 4

// world is a pool whose time the test controls. Groups are in memory, signals on real sockets, and
// metrics in a real store.
type world struct {
	t             *testing.T
	now           time.Time
	config        Config
	groups        []*group
	provider      *provider
	nodes         *nodes
	signals       *directory
	store         *store
	ledger        *ledger
	records       *records
	memory        *kept
	book          *book
	lease         *lease
	notices       chan pools.Notice
	clock         func() time.Time // nil: the real time
	health        *health          // nil: no policy
	loop          *Loop
	trace         trace.Tracer
	places        func(context.Context, api.PlacesQuestion) (api.Places, error) // nil: no scheduler answers
	nodeScheduler func(now time.Time) pools.NodeScheduler
	gone          func(node string, at time.Time) error

	processes processes // of spawn
}

// newWorld returns a pool with groups a, b, ... of these targets, whose nodes have all joined. The
// default signal and the apps have sockets of this test, but no signal runs yet.
func newWorld(t *testing.T, targets []int, apps ...string) *world {
	t.Helper()
	w := &world{
		t:        t,
		now:      time.Now().UTC().Add(-45 * time.Minute).Truncate(time.Second),
		nodes:    &nodes{tasks: map[string]int{}, cordoned: map[string]bool{}, mute: map[string]bool{}},
		provider: &provider{},
		signals:  &directory{},
		ledger:   &ledger{appended: make(chan struct{}, 1)},
		records:  &records{stored: map[string][]byte{}},
		memory:   &kept{},
		book:     &book{},
		lease:    &lease{left: time.Hour},
		notices:  make(chan pools.Notice),
	}
	w.provider.w = w
	for i, target := range targets {
		c := cloud.Config{ID: string(rune('a' + i)), Max: 100, Target: target}
		w.groups = append(w.groups, &group{Group: cloud.New(c, w.now)})
	}
	w.nodes.groups = w.groups
	w.config = Config{
		Cluster: "here", Pool: "default", Tick: 20 * time.Second,
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Limits: api.TargetLimits{Max: 100, MaxAdd: 100, MaxRemove: 100},
		},
		Prune:   api.PruneLimits{MaxWeight: 100, MaxTasks: api.Unbounded},
		Drain:   drain.Config{Threshold: 10 * time.Minute},
		Default: ask.Signal{App: sigproto.DefaultApp, Namespace: namespace(t), Name: "Default", Period: time.Minute},
	}
	w.signals.set(sigproto.DefaultApp, ask.Endpoint{Address: w.address(w.config.Default), Version: "v1"})
	for _, app := range apps {
		s := ask.Signal{App: app, Namespace: namespace(t), Name: "Need", Period: time.Minute, HoldFor: 3 * time.Minute}
		w.config.Apps = append(w.config.Apps, s)
		w.signals.set(app, ask.Endpoint{Address: w.address(s), Version: "v1"})
	}
	opened, err := tsdbstore.Open(t.TempDir(), tsdbstore.Config{Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = &store{Store: opened, fail: map[string]error{}}
	return w
}

// state, account and drains return the current values of the loop's writer.
func (l *Loop) state() api.PoolState     { return l.writer.State() }
func (l *Loop) account() resolve.Account { return l.writer.Account() }
func (l *Loop) drains() []api.Drain      { records, _ := l.writer.Records(); return records }

// memo is the saved state for the next process.
type memo = apply.Saved

// serve makes the loop handle one repair request, as Run does.
func (l *Loop) serve(ctx context.Context, q apply.Request) error {
	return l.step(ctx, func(ctx context.Context, now time.Time, r *apply.Report) error { return l.writer.Serve(ctx, now, q, r) })
}

// repair requests a repair, and makes the loop handle it. end is the error that ends the loop.
func (l *Loop) repair(ctx context.Context, r pools.RepairRequest) (answer, end error) {
	answers := make(chan error, 1)
	var caller sync.WaitGroup
	caller.Go(func() { answers <- l.writer.Repair(ctx, r) })
	defer caller.Wait()
	select {
	case q := <-l.writer.Requests():
		end = l.serve(ctx, q)
		return <-answers, end
	case answer = <-answers: // without a request
		return answer, nil
	}
}

// withdraw makes the loop handle one request to withdraw a repair, as Run does.
func (l *Loop) withdraw(ctx context.Context, attempt string) (answer, end error) {
	answers := make(chan error, 1)
	go func() { answers <- l.writer.Withdraw(ctx, attempt) }()
	select {
	case q := <-l.writer.Requests():
		end = l.serve(ctx, q)
	case answer := <-answers:
		return answer, nil
	}
	return <-answers, end
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// namespace returns a name that is unique to this test and process.
func namespace(t *testing.T) string {
	h := fnv.New64a()
	fmt.Fprint(h, t.Name(), os.Getpid())
	return fmt.Sprintf("test%x", h.Sum64())
}

func (w *world) address(s ask.Signal) string { return sigproto.Address(s.Namespace, s.Name, s.App) }

// start creates a new loop, as a new process does.
func (w *world) start() {
	w.t.Helper()
	if w.loop != nil {
		w.loop.Close()
	}
	w.loop = w.newLoop()
	if err := w.loop.Open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.loop.Close)
}

func (w *world) newLoop() *Loop {
	w.t.Helper()
	return NewLoop(w.config, World{
		Provider: w.provider, Scheduler: w.nodes, Directory: w.signals, Metrics: w.store, Ledger: EncodedLedger{w.ledger},
		Memory: apply.Encoded{Bytes: w.memory}, Orders: w.book, Lease: w.lease, Records: w.records, Cordon: w.nodes, Notices: w.notices, Health: policy{w},
		Trace: w.trace, Places: w.places, NodeScheduler: w.nodeScheduler, Gone: w.gone,
		Now: func() time.Time {
			if w.clock != nil {
				return w.clock()
			}
			return time.Now()
		},
		Dial: func(e ask.Endpoint, s ask.RequestSpec) ask.Client {
			return sigproto.NewClient(sigproto.ClientConfig{
				Address:   e.Address,
				Hello:     sigproto.Hello{Parameters: s.Parameters, Cluster: w.config.Cluster, Pool: w.config.Pool, Setpoint: s.Setpoint},
				CheckPeer: func(int) error { return w.processes.check(e) },
			})
		},
	}, logger(w.t))
}

// policy is the current node-health policy of a world.
type policy struct{ w *world }

func (p policy) Condition() snapshot.Condition {
	if p.w.health == nil {
		return snapshot.Condition{}
	}
	return p.w.health.Condition()
}

func (p policy) Drained(events []drain.Event) {
	if p.w.health != nil {
		p.w.health.Drained(events)
	}
}

func (p policy) RepairInPlace(m pools.InPlaceRepair) (done bool, err error) {
	return p.w.health.RepairInPlace(m)
}

// tick advances the time by a minute, runs one round, and returns its record. It checks that the
// record explains the round.
func (w *world) tick() api.TickRecord {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	return w.tickAgain()
}

// tickAgain runs one round without advancing the time.
func (w *world) tickAgain() api.TickRecord {
	w.t.Helper()
	if w.loop == nil {
		w.start()
	}
	for _, g := range w.groups {
		g.Advance(w.now)
	}
	before := w.ledger.len()
	if err := w.loop.Tick(w.t.Context(), w.now); err != nil {
		w.t.Fatal(err)
	}
	w.loop.signals.Follow(w.t.Context(), w.now)
	if n := w.ledger.len(); n != before+1 {
		w.t.Fatalf("a tick made %d records, want 1", n-before)
	}
	r := w.ledger.last(w.t)
	wantExplained(w.t, r)
	return r
}

// write stores one point of a metric, of that age.
func (w *world) write(s metrics.Sample, age time.Duration) {
	w.t.Helper()
	s.Time = w.now.Add(-age)
	if err := w.store.Write(w.t.Context(), []metrics.Sample{s}); err != nil {
		w.t.Fatal(err)
	}
}

// calls returns the groups' calls so far, and clears them.
func (w *world) calls() []string {
	var all []string
	for _, g := range w.groups {
		g.mu.Lock()
		all = append(all, g.calls...)
		g.calls = nil
		g.mu.Unlock()
	}
	return all
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	if got := w.calls(); !slices.Equal(got, want) {
		w.t.Errorf("the groups were asked for %q, want %q", got, want)
	}
}

// wantTarget checks the sum of the groups' targets.
func (w *world) wantTarget(want int) {
	w.t.Helper()
	got := 0
	for _, g := range w.groups {
		s, err := g.Group.Snapshot(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		got += s.Target
	}
	if got != want {
		w.t.Errorf("the groups have the target %d, want %d", got, want)
	}
}

// wantBalanced checks that the groups' targets hold exactly the wanted weight.
func (w *world) wantBalanced() {
	w.t.Helper()
	if a := w.loop.account(); a.PendingIncrease() != 0 || a.Surplus() != 0 {
		w.t.Errorf("owed %v, surplus %v: want none: %+v", a.PendingIncrease(), a.Surplus(), a)
	}
}

// wantExplained checks that a record's case resolves to its answer again, byte for byte.
func wantExplained(t *testing.T, r api.TickRecord) {
	t.Helper()
	if (r.Case == nil) != (r.Failed != "" || r.Paused != nil) {
		t.Errorf("failed %q, paused %+v, case %+v", r.Failed, r.Paused, r.Case)
	}
	if r.Case == nil {
		return
	}
	o := resolve.Resolve(*r.Case)
	wantJSON(t, "answer", o.Result(), r.Result)
	wantJSON(t, "detail", detail(o, r.Detail.Committed), r.Detail)
	wantOnlyStale(t, *r.Case, o)
}

// wantOnlyStale checks that only stale nodes are removed while the pool must not shrink.
func wantOnlyStale(t interface{ Errorf(string, ...any) }, c api.Case, o resolve.Outcome) {
	stale := resolve.StaleNodes(c)
	for group, ids := range o.Result().Terminate {
		for _, id := range ids {
			if c.Refuse != "" || o.Refused != "" && !stale[id] {
				t.Errorf("%s of group %s is let go though %s", id, group, o.Refused)
			}
		}
	}
}

func wantJSON(t *testing.T, what string, again, recorded any) {
	t.Helper()
	x, errX := json.Marshal(again)
	y, errY := json.Marshal(recorded)
	if err := errors.Join(errX, errY); err != nil {
		t.Fatal(err)
	}
	if string(x) != string(y) {
		t.Errorf("the %s does not come out of its record again:\n%s\nthe record has\n%s", what, x, y)
	}
}

// appOf returns an app in a record.
func appOf(t *testing.T, r api.TickRecord, name string) (api.AppInput, api.ResolvedRequest) {
	t.Helper()
	if r.Case == nil {
		t.Fatalf("the tick failed: %s", r.Failed)
	}
	i := slices.IndexFunc(r.Case.Input.Apps, func(a api.AppInput) bool { return a.Name == name })
	j := slices.IndexFunc(r.Detail.Apps, func(a api.ResolvedRequest) bool { return a.App == name })
	if i < 0 || j < 0 {
		t.Fatalf("app %s is not in the record: %s %+v", name, r.Failed, r.Case.Input.Apps)
	}
	return r.Case.Input.Apps[i], r.Detail.Apps[j]
}

// wantOpinion checks an opinion's verdict, and that its Why has each word.
func wantOpinion(t *testing.T, o api.Opinion, verdict api.Verdict, words ...string) {
	t.Helper()
	if o.Verdict != verdict {
		t.Errorf("verdict %q (%s), want %q", o.Verdict, o.Why, verdict)
	}
	for _, word := range words {
		if !strings.Contains(o.Why, word) {
			t.Errorf("why = %q, want it to have %q", o.Why, word)
		}
	}
}

// ops returns the actions of a tick, as "remove a-1: idle".
func ops(r api.TickRecord) []string {
	var out []string
	for _, a := range r.Actions {
		text := fmt.Sprintf("%s %s%s: %s", a.Op, a.Group, strings.TrimPrefix(a.Node, a.Group), a.What)
		if a.Op == api.OpSetTarget {
			text = fmt.Sprintf("%s %s: %d", a.Op, a.Group, a.Target)
		}
		if a.Error != "" {
			text += " FAILED"
		}
		out = append(out, text)
	}
	return out
}

func wantOps(t *testing.T, r api.TickRecord, want ...string) {
	t.Helper()
	if got := ops(r); !slices.Equal(got, want) {
		t.Errorf("done:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
