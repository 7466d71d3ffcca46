package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/memory"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cpusPerNode is what each node of a world offers; each has the weight 1, so at
// a setpoint of 1 a request of 4 cpus is one node.
const cpusPerNode = 4

// world is a pool whose time the test has in its hand. Groups are in memory,
// signals on real sockets, metrics in a real store.
type world struct {
	t       *testing.T
	now     time.Time
	config  Config
	groups  []*group
	nodes   *nodes
	signals *directory
	store   *store
	ledger  *ledger
	records *records
	loop    *Loop
}

// newWorld returns a pool with groups a, b, ... of these targets, whose nodes
// have all joined, and with the default signal and the apps on sockets of this
// test alone. No signal is running yet.
func newWorld(t *testing.T, targets []int, apps ...string) *world {
	t.Helper()
	w := &world{
		t:       t,
		now:     time.Now().UTC().Add(-45 * time.Minute).Truncate(time.Second),
		nodes:   &nodes{tasks: map[string]int{}, cordoned: map[string]bool{}, mute: map[string]bool{}},
		signals: &directory{},
		ledger:  &ledger{appended: make(chan struct{}, 1)},
		records: &records{stored: map[string][]byte{}},
	}
	for i, target := range targets {
		c := memory.Config{ID: string(rune('a' + i)), Max: 100, Target: target}
		w.groups = append(w.groups, &group{Group: memory.New(c, w.now)})
	}
	w.nodes.groups = w.groups
	w.config = Config{
		Cluster: "here", Pool: "default", Tick: 20 * time.Second,
		Policy: decide.Policy{
			Setpoint: 1, Combine: decide.Sum, Limits: decide.Limits{Max: 100, MaxAdd: 100, MaxRemove: 100},
		},
		Prune:   plan.Limits{MaxWeight: 100, MaxTasks: pools.Unlimited},
		Default: Signal{App: DefaultApp, Namespace: namespace(t), Name: "Default", Period: time.Minute},
	}
	w.signals.set(DefaultApp, Endpoint{Address: w.address(w.config.Default), Version: "v1"})
	for _, app := range apps {
		s := Signal{App: app, Namespace: namespace(t), Name: "Need", Period: time.Minute, HoldFor: 3 * time.Minute}
		w.config.Apps = append(w.config.Apps, s)
		w.signals.set(app, Endpoint{Address: w.address(s), Version: "v1"})
	}
	opened, err := embedded.Open(t.TempDir(), embedded.Config{Log: logger(t)})
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

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// namespace is of this test and this process alone.
func namespace(t *testing.T) string {
	h := fnv.New64a()
	fmt.Fprint(h, t.Name(), os.Getpid())
	return fmt.Sprintf("test%x", h.Sum64())
}

func (w *world) address(s Signal) string { return sigproto.Address(s.Namespace, s.Name, s.App) }

// start makes a new loop, as a new process does.
func (w *world) start() {
	w.t.Helper()
	if w.loop != nil {
		w.loop.close()
	}
	w.loop = w.newLoop()
	if err := w.loop.recall(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	loop := w.loop
	w.t.Cleanup(loop.close)
}

func (w *world) newLoop() *Loop {
	w.t.Helper()
	var groups Groups
	for _, g := range w.groups {
		groups = append(groups, g)
	}
	machine, err := drain.Open(w.t.Context(), drain.Config{Threshold: 10 * time.Minute},
		drain.Ports{Records: w.records, Scheduler: w.nodes, Groups: groups})
	if err != nil {
		w.t.Fatal(err)
	}
	return NewLoop(w.config, World{
		Groups: groups, Scheduler: w.nodes, Directory: w.signals, Metrics: w.store, Ledger: w.ledger, Drains: machine,
		Dial: func(e Endpoint, s Signal) Asker {
			return sigproto.NewClient(sigproto.ClientConfig{
				Address: e.Address,
				Hello:   sigproto.Hello{Parameters: s.Parameters, Cluster: w.config.Cluster, Pool: w.config.Pool},
			})
		},
	}, logger(w.t))
}

// tick lets a minute pass, makes one round, and returns its record, which is
// checked to hold all that explains it.
func (w *world) tick() Record {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	return w.tickAgain()
}

// tickAgain makes one round at the time that it is.
func (w *world) tickAgain() Record {
	w.t.Helper()
	if w.loop == nil {
		w.start()
	}
	for _, g := range w.groups {
		g.Advance(w.now)
	}
	before := w.ledger.len()
	w.loop.tick(w.t.Context(), w.now)
	if n := w.ledger.len(); n != before+1 {
		w.t.Fatalf("a tick made %d records, want 1", n-before)
	}
	r := w.ledger.last(w.t)
	wantExplained(w.t, r)
	return r
}

// write keeps one point of a metric, that old.
func (w *world) write(s metrics.Sample, age time.Duration) {
	w.t.Helper()
	s.Time = w.now.Add(-age)
	if err := w.store.Write(w.t.Context(), []metrics.Sample{s}); err != nil {
		w.t.Fatal(err)
	}
}

// calls returns what the groups were asked for so far, and forgets it.
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

// wantExplained checks that decision and plan come out of a record again.
func wantExplained(t *testing.T, r Record) {
	t.Helper()
	if r.Failed != "" {
		return
	}
	wantJSON(t, "decision", decide.Decide(r.Input), r.Decision)
	distribution, err := plan.Distribute(r.Plan.Groups, r.Decision.Target)
	if err != nil {
		if r.Plan.Refused != err.Error() {
			t.Errorf("Distribute = %v, the record has %q", err, r.Plan.Refused)
		}
		return
	}
	wantJSON(t, "distribution", distribution, r.Plan.Distribution)
	if r.Plan.Refused == "" {
		wantJSON(t, "prune", plan.Prune(r.Plan.PruneInput), r.Plan.Pruned)
	} else if len(r.Plan.Pruned.Choices) > 0 {
		t.Errorf("refused (%s), and yet chosen: %+v", r.Plan.Refused, r.Plan.Pruned.Choices)
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

// appOf returns what a record has of an app.
func appOf(t *testing.T, r Record, name string) (decide.App, decide.Resolved) {
	t.Helper()
	i := slices.IndexFunc(r.Input.Apps, func(a decide.App) bool { return a.Name == name })
	j := slices.IndexFunc(r.Decision.Apps, func(a decide.Resolved) bool { return a.App == name })
	if i < 0 || j < 0 {
		t.Fatalf("app %s is not in the record: %s %+v", name, r.Failed, r.Input.Apps)
	}
	return r.Input.Apps[i], r.Decision.Apps[j]
}

// wantOpinion checks an opinion's verdict, and that its Why has each word.
func wantOpinion(t *testing.T, o decide.Opinion, verdict decide.Verdict, words ...string) {
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

// ops returns what was done in a tick, as "let go a-1: idle".
func ops(r Record) []string {
	var out []string
	for _, a := range r.Actions {
		text := fmt.Sprintf("%s %s%s: %s", a.Op, a.Group, strings.TrimPrefix(a.Node, a.Group), a.What)
		if a.Op == OpSetTarget {
			text = fmt.Sprintf("%s %s: %d", a.Op, a.Group, a.Target)
		}
		if a.Error != "" {
			text += " FAILED"
		}
		out = append(out, text)
	}
	return out
}

func wantOps(t *testing.T, r Record, want ...string) {
	t.Helper()
	if got := ops(r); !slices.Equal(got, want) {
		t.Errorf("done:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// group is one in memory that remembers what it was asked for.
type group struct {
	*memory.Group
	tamper func(*pools.GroupSnapshot) // if set: what becomes of an answer on its way
	raise  func(context.Context)      // if set: what happens before a new target

	mu    sync.Mutex
	calls []string
}

func (g *group) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
}

func (g *group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	s, err := g.Group.Snapshot(ctx)
	if g.tamper != nil {
		g.tamper(&s)
	}
	return s, err
}

func (g *group) SetTarget(ctx context.Context, target int) error {
	g.note("set target %s %d", g.ID(), target)
	if g.raise != nil {
		g.raise(ctx)
	}
	return g.Group.SetTarget(ctx, target)
}

func (g *group) Terminate(ctx context.Context, ids []string) error {
	g.note("terminate %v", ids)
	return g.Group.Terminate(ctx, ids)
}

// nodes is the scheduler: each running instance has a node, which has joined and
// tells of itself unless it is mute.
type nodes struct {
	groups []*group

	mu       sync.Mutex
	tasks    map[string]int
	cordoned map[string]bool
	mute     map[string]bool
	tamper   func(*pools.NodeFacts)
	log      []string // of Cordon
}

func (n *nodes) Facts(now time.Time) []pools.NodeFacts {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []pools.NodeFacts
	for _, g := range n.groups {
		s, err := g.Group.Snapshot(context.Background())
		if err != nil {
			continue
		}
		for _, i := range s.Instances {
			if i.State == pools.InstanceRunning && !n.mute[i.ID] {
				out = append(out, n.factsLocked(now, i))
			}
		}
	}
	return out
}

func (n *nodes) factsLocked(now time.Time, i pools.Instance) pools.NodeFacts {
	f := pools.NodeFacts{
		ID: i.ID, Pool: "default", Group: i.Group, BootID: "boot", At: now,
		Resources: resource.Vector{resource.CPUs: cpusPerNode, resource.Mem: 1000},
		Allocated: resource.Vector{resource.CPUs: float64(n.tasks[i.ID])},
		Tasks:     n.tasks[i.ID], Draining: n.cordoned[i.ID], SafeToEvict: true,
	}
	if n.tamper != nil {
		n.tamper(&f)
	}
	return f
}

func (n *nodes) Cordon(_ context.Context, node string, on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cordoned[node] = on
	n.log = append(n.log, fmt.Sprintf("%s %t", node, on))
	return nil
}

// change has the nodes be otherwise from now on.
func (n *nodes) change(do func(*nodes)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do(n)
}

// directory is where the signals are.
type directory struct {
	mu        sync.Mutex
	endpoints map[string]Endpoint
}

func (d *directory) set(app string, e Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endpoints == nil {
		d.endpoints = map[string]Endpoint{}
	}
	d.endpoints[app] = e
}

func (d *directory) Endpoint(app string) Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endpoints[app]
}

// store is a real one that can fail for one name, and counts what it is asked.
type store struct {
	*embedded.Store

	mu    sync.Mutex
	fail  map[string]error
	asked []string // names, in order
}

func (s *store) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q.Name)
	err := s.fail[q.Name]
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Window(ctx, q)
}

// count returns how often that name was asked for so far.
func (s *store) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, asked := range s.asked {
		if asked == name {
			n++
		}
	}
	return n
}

// values returns what the store has of a system metric or of metadata.
func (s *store) values(t *testing.T, kind metrics.Type, name string, w *world) []float64 {
	t.Helper()
	series, err := s.Store.Window(t.Context(), metrics.Query{
		Type: kind, Name: name, Dimensions: metrics.Dimensions{"cluster": "here", "pool": "default"},
		From: w.now.Add(-time.Hour), To: w.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for _, one := range series {
		out = append(out, one.Values...)
	}
	return out
}

// ledger keeps records in memory.
type ledger struct {
	appended chan struct{} // has room for one: there is something new

	mu      sync.Mutex
	records [][]byte
	fail    error
}

func (l *ledger) Append(_ context.Context, record []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.records = append(l.records, slices.Clone(record))
	select {
	case l.appended <- struct{}{}:
	default:
	}
	return nil
}

func (l *ledger) Last(ctx context.Context) ([]byte, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if l.fail != nil || len(l.records) == 0 {
		return nil, false, l.fail
	}
	return l.records[len(l.records)-1], true, nil
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

// last returns the newest record, read as strictly as can be.
func (l *ledger) last(t *testing.T) Record {
	t.Helper()
	data, _, err := l.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var r Record
	if err := d.Decode(&r); err != nil {
		t.Fatalf("the record cannot be read: %v\n%s", err, data)
	}
	return r
}

// records keeps drain records in memory, as JSON.
type records struct {
	mu     sync.Mutex
	stored map[string][]byte
	fail   error // of each write
}

func (r *records) Load(context.Context) ([]drain.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []drain.Record
	for _, node := range slices.Sorted(maps.Keys(r.stored)) {
		var one drain.Record
		if err := json.Unmarshal(r.stored[node], &one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (r *records) Put(_ context.Context, one drain.Record) error {
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		r.stored[one.Node] = data
	}
	return r.fail
}

func (r *records) Delete(_ context.Context, node string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		delete(r.stored, node)
	}
	return r.fail
}
