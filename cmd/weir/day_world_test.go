package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// The pool of a day. Its weights are in units of cpusPerWeight.
const (
	dayCluster, dayPool = "test", "day"
	dayTag              = "weir:pool"
	dayOwner            = dayCluster + "/" + dayPool
	dayTick             = 20 * time.Minute
	cpusPerWeight       = 2 // as the instance types have
	daySetpoint         = 0.8
	dayMargin           = 0.05
)

var errDead = errors.New("the process is dead")

// dayConfig is the pool's: four applications with a signal each, and bounds that a
// busy day comes up against.
func dayConfig() autoscaler.Config {
	c := autoscaler.Config{
		Cluster: dayCluster, Pool: dayPool, Tick: dayTick, OrphansAfter: 50 * time.Minute, CallTimeout: time.Minute,
		Drain: drain.Config{Threshold: 70 * time.Minute, Force: true},
		Policy: api.DecisionPolicy{
			Setpoint: daySetpoint, MarginUp: dayMargin, MarginDown: dayMargin, Combine: api.CombineSum, Period: 2 * dayTick,
			Limits:    api.TargetLimits{Min: 200, Max: 1200, MaxAdd: 250, MaxRemove: 50},
			Budgets:   []api.ChangeBudget{{Direction: api.DirectionDown, Weight: 160, Within: 6 * dayTick}},
			Cooldown:  api.Cooldown{Down: 2 * dayTick},
			LossLimit: true, LossThreshold: 8,
		},
		Prune:   api.PruneLimits{MaxWeight: 50, MaxTasks: 30},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: dayTick, Windows: dayWindow},
	}
	for _, app := range dayApps {
		c.Apps = append(c.Apps, ask.Signal{App: app, Name: "Load", Period: dayTick, HoldFor: 3 * dayTick, Windows: dayWindow})
	}
	return c
}

var (
	dayApps   = []string{"api", "batch", "mail", "web"}
	dayWindow = []ask.Window{{Name: "load", Type: metrics.App, Range: time.Hour, MaxAge: 19 * time.Minute}}
)

// daySignal answers the newest value of its window, in cpus.
type daySignal struct{}

func (daySignal) Evaluate(_ context.Context, e sigproto.Evaluation) (sigproto.Response, error) {
	if len(e.Series) != 1 || len(e.Series[0].Values) == 0 {
		return sigproto.Response{}, fmt.Errorf("%d series, want one with points", len(e.Series))
	}
	values := e.Series[0].Values
	return sigproto.Response{
		Verdict: sigproto.VerdictValue, Resources: sigproto.Resources{CPUs: new(values[len(values)-1])},
	}, nil
}

func (daySignal) Close() error { return nil }

// dayDirectory lists a process for each app.
type dayDirectory struct{}

func (dayDirectory) Report(ask.Report) {}
func (dayDirectory) Alive()            {}
func (dayDirectory) Listing() ask.Listing {
	all := map[string]ask.Endpoint{sigproto.DefaultApp: {Address: sigproto.DefaultApp}}
	for _, app := range dayApps {
		all[app] = ask.Endpoint{Address: app}
	}
	return ask.Listing{Revision: 1, Endpoints: all}
}

// dayNodes is the scheduler: a node joins some time after its instance is up, but for
// some that never do, and its tasks leave it one after the other once it is cordoned.
type dayNodes struct {
	server *awsfake.Server
	seed   uint64

	mu       sync.Mutex
	cordoned map[string]bool
	tasks    map[string]int // of those that have joined
}

// luck is a number from 0 to n-1 that is always the same for an instance.
func (n *dayNodes) luck(id, of string, below uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, n.seed, id, of)
	return h.Sum64() >> 8 % below
}

// orphan reports whether the node never joins. Those that were there from the
// beginning all have.
func (n *dayNodes) orphan(i awsfake.Instance) bool {
	return i.Launched.After(dayStart) && n.luck(i.ID, "orphan", 40) == 0
}

func (n *dayNodes) joined(i awsfake.Instance, now time.Time) bool {
	delay := time.Duration(60+n.luck(i.ID, "join", 120)) * time.Second
	return i.State == "running" && !n.orphan(i) && (!i.Launched.After(dayStart) || now.Sub(i.Launched) >= delay)
}

// Facts implements snapshot.Scheduler.
func (n *dayNodes) Facts(now time.Time) []api.NodeFacts {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []api.NodeFacts
	for _, i := range n.server.Instances("") {
		if !n.joined(i, now) {
			continue
		}
		if _, known := n.tasks[i.ID]; !known {
			n.tasks[i.ID] = int(n.luck(i.ID, "tasks", 5))
		}
		cpus := i.Weight * cpusPerWeight
		out = append(out, api.NodeFacts{
			ID: i.ID, Pool: dayPool, Group: i.Owner, BootID: "boot", At: now, SafeToEvict: true,
			Resources: resource.Vector{resource.CPUs: cpus}, Allocated: resource.Vector{resource.CPUs: cpus * 0.7},
			Tasks: n.tasks[i.ID], Draining: n.cordoned[i.ID],
		})
	}
	return out
}

// Cordon implements drain.Scheduler.
func (n *dayNodes) Cordon(_ context.Context, node string, on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cordoned[node] = on
	return nil
}

// pass advances the clock by a tick.
func (n *dayNodes) pass() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, on := range n.cordoned {
		if on && n.tasks[id] > 0 && n.luck(id, "stuck", 20) > 0 {
			n.tasks[id]--
		}
	}
}

func (n *dayNodes) tasksOf(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tasks[id]
}

// dayLife is one process of ours: all its calls to others go by it. It dies at a call,
// before or after that was done, and from then on no call of it is let through.
type dayLife struct {
	d       *day
	ctx     context.Context
	kill    context.CancelFunc
	front   *httptest.Server // all of Amazon that it reaches
	lease   *state.Lease
	loop    *autoscaler.Loop
	running sync.WaitGroup
	wrote   chan struct{} // has room for one: a record was appended
	// provider is how long the provider's calls took, those at the same time each.
	provider atomic.Int64
	settled  atomic.Int64 // messages of the queue that were deleted, or left to others

	mu   sync.Mutex
	fuse int // calls left; less than 0: for ever
}

// spend takes one call of those that are left.
func (l *dayLife) spend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fuse > 0 {
		l.fuse--
	}
	if l.fuse == 0 {
		l.kill()
		return errDead
	}
	return nil
}

// dieAfter has it die after so many calls, if it is not to die before.
func (l *dayLife) dieAfter(calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fuse < 0 {
		l.fuse = calls
	}
}

func (l *dayLife) dead() bool { return l.ctx.Err() != nil }

// call makes a call, unless the process dies before it; that it has done it the
// process may not live to see.
func (l *dayLife) call(do func() error) error {
	if err := l.spend(); err != nil {
		return err
	}
	err := do()
	if dead := l.spend(); dead != nil {
		return dead
	}
	return err
}

// ServeHTTP forwards calls to the AWS test server.
func (l *dayLife) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	target := r.Header.Get("X-Amz-Target")
	if strings.HasSuffix(target, ".ReceiveMessage") && !l.dead() { // whenever it likes
		l.d.server.ServeHTTP(w, r)
		return
	}
	if !strings.HasPrefix(r.Header.Get("Amz-Sdk-Request"), "attempt=1;") {
		l.again(string(body))
	} else {
		l.read(string(body))
	}
	// A client that has its answer before its request is written closes
	// the connection.
	for range 4 {
		runtime.Gosched()
	}
	// A process that dies after the call may receive the answer; it has no more use for it.
	if l.call(func() error { l.serve(w, r, body); return nil }) != nil {
		panic(http.ErrAbortHandler)
	}
	if strings.HasSuffix(target, ".DeleteMessage") || strings.HasSuffix(target, ".ChangeMessageVisibility") {
		l.settled.Add(1)
	}
}

// watched reports whether an answer is a throttling error.
type watched struct {
	http.ResponseWriter
	throttles bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.throttles = bytes.Contains(p, []byte("<Code>Throttling</Code>")) || bytes.Contains(p, []byte("<Code>RequestLimitExceeded</Code>"))
	return w.ResponseWriter.Write(p)
}

// read counts the sequences of reading that the loop begins.
func (l *dayLife) read(body string) {
	form, err := url.ParseQuery(body)
	if err != nil || form.Has("NextToken") || form.Has("AutoScalingGroupNames.member.1") || form.Has("SpotFleetRequestId.1") {
		return
	}
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.d.reads[form.Get("Action")]++
}

// again notes a request that the SDK makes once more. TerminateInstances may be
// repeated: it lowers no target.
func (l *dayLife) again(body string) {
	l.d.count("again " + body[:min(len(body), 40)])
	if strings.Contains(body, "Action=TerminateInstances&") {
		l.d.mu.Lock()
		defer l.d.mu.Unlock()
		l.d.forgiven++
	}
}

func (l *dayLife) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	answer := &watched{ResponseWriter: w}
	l.d.server.ServeHTTP(answer, r)
	if answer.throttles && l.d.killable > 0 {
		l.dieAfter(l.d.killable)
	}
	if bytes.Contains(body, []byte("Action=ModifySpotFleetRequest")) {
		l.d.server.Advance(modifying) // until it can be modified again
	}
}

// The ports of a life.
type (
	lifeMemory struct {
		*dayLife
		*state.Memory
	}
	lifeRecords struct {
		*dayLife
		*state.Records
	}
	lifeOrders struct {
		*dayLife
		*state.Orders
	}
	lifeCordon struct{ *dayLife }
	lifeLedger struct{ *dayLife }
)

// Save notes the next change.
func (m lifeMemory) Save(ctx context.Context, data []byte) error {
	return m.call(func() error {
		m.d.intended(data)
		return m.Memory.Save(ctx, data)
	})
}

func (r lifeRecords) Put(ctx context.Context, one api.Drain) error {
	return r.call(func() error {
		err := r.Records.Put(ctx, one)
		if err == nil {
			r.d.put(one)
		}
		return err
	})
}

func (r lifeRecords) Delete(ctx context.Context, node string) error {
	return r.call(func() error {
		err := r.Records.Delete(ctx, node)
		if err == nil {
			r.d.forgot(node)
		}
		return err
	})
}

func (o lifeOrders) Removed(ctx context.Context, node string) error {
	return o.call(func() error { return o.Orders.Removed(ctx, node) })
}

func (c lifeCordon) Cordon(ctx context.Context, node string, on bool) error {
	return c.call(func() error { return c.d.nodes.Cordon(ctx, node, on) })
}

func (l lifeLedger) Append(ctx context.Context, record []byte) error {
	return l.call(func() error {
		if err := l.d.ledger.Append(ctx, record); err != nil {
			return err
		}
		l.d.appended = record
		l.wrote <- struct{}{}
		return nil
	})
}

// born starts a process on what the last one left.
func (d *day) born() {
	d.t.Helper()
	l := &dayLife{d: d, fuse: -1, wrote: make(chan struct{}, 1)}
	l.ctx, l.kill = context.WithCancel(context.Background())
	l.front = httptest.NewServer(l)
	var err error
	l.lease, err = state.NewLease(d.js, state.LeaseConfig{
		Bucket: names.PoolBucket(dayCluster, dayPool), Holder: "me", TTL: 10 * time.Minute, Log: d.log,
	})
	if err == nil {
		err = l.lease.Acquire(l.ctx)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	l.running.Go(func() { _ = l.lease.Run(l.ctx) })
	holder, err := state.OpenHolder(l.ctx, d.js, l.lease, nil, dayCluster, dayPool)
	if err != nil {
		d.t.Fatal(err)
	}
	provider, err := aws.Open(l.ctx, aws.Config{
		Cluster: dayCluster, Pool: dayPool, Region: d.server.Region(), Endpoint: l.front.URL, Keys: awssdk.Fixed("AKID", "SECRET"),
		Groups: []aws.Selector{{Kind: aws.AutoScaling, Tag: dayTag}, {Kind: aws.SpotFleet, Tag: dayTag}},
		Queue:  "weir-notices", Reads: 1e5, Writes: 1e5, Now: d.server.Now,
	}, d.log)
	if err != nil {
		d.t.Fatal(err)
	}
	notices := make(chan pools.Notice)
	l.running.Go(func() { _ = provider.ReceiveNotices(l.ctx, notices, nil) })
	l.loop = autoscaler.NewLoop(d.config, autoscaler.World{
		Provider: &timed{Provider: provider, took: &l.provider}, Scheduler: d.nodes, Directory: dayDirectory{}, Metrics: d.store, Notices: notices,
		Dial:   func(ask.Endpoint, ask.RequestSpec) ask.Client { return daySignal{} },
		Ledger: autoscaler.EncodedLedger{Bytes: lifeLedger{l}}, Memory: apply.Encoded{Bytes: lifeMemory{l, holder.Memory()}}, Orders: lifeOrders{l, d.orders}, Lease: l.lease,
		Records: lifeRecords{l, holder.Records()}, Cordon: lifeCordon{l}, Now: d.server.Now,
	}, d.log)
	d.life = l
	d.seen = len(d.server.Calls()) // what Open has asked is no tick's
}

// buried waits until nothing of a process is left.
func (l *dayLife) buried() {
	l.kill()
	l.front.CloseClientConnections()
	l.running.Wait()
	l.front.Close()
}

// handleWarnings runs the loop, which begins with a tick, until it has taken up the warnings
// that are in the queue.
func (l *dayLife) handleWarnings() error {
	waiting, before := int64(l.d.server.QueueLength()), l.settled.Load()
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	ended := make(chan error, 1)
	l.running.Go(func() { ended <- l.loop.Run(ctx) })
	patience := time.NewTimer(patience)
	defer patience.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return <-ended
		case err := <-ended:
			return fmt.Errorf("the loop has ended: %w", err)
		case <-patience.C:
			return fmt.Errorf("%d warnings are still in the queue", l.d.server.QueueLength())
		case <-look.C:
		}
		if len(l.wrote) > 0 && l.settled.Load()-before >= waiting {
			cancel()
			return <-ended
		}
	}
}

// memoOfDay is the part of a saved memo that names the instances to terminate.
type memoOfDay struct {
	Intent *apply.Intent `json:"intent"`
}

// intended notes the chosen instances.
func (d *day) intended(data []byte) {
	var m memoOfDay
	if err := json.Unmarshal(data, &m); err != nil {
		d.problem("what is kept cannot be read: %v", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.Intent != nil {
		d.intent = map[string]bool{}
		for _, id := range m.Intent.Remove {
			d.intent[id] = true
		}
	}
}

// load is what an application requests at a time, in weight: two waves and, as the
// seed has it, sudden spikes.
func (d *day) load(at time.Time) float64 {
	if d.flat > 0 {
		return d.flat
	}
	hour := at.Sub(dayStart).Hours()
	need := 660 + 60*math.Sin(hour/24*2*math.Pi)
	for _, s := range d.spikes {
		if hour >= s.from && hour < s.to {
			need += s.more
		}
	}
	return need
}

// spike is a sudden demand, in hours and weight.
type spike struct{ from, to, more float64 }

// measure writes what the applications request, in cpus.
func (d *day) measure() {
	now := d.server.Now()
	cpus := d.load(now) * daySetpoint * cpusPerWeight
	var all []metrics.Sample
	for n, share := range []float64{0.1, 0.2, 0.3, 0.4} {
		if !d.blind {
			all = append(all, metrics.Sample{Type: metrics.App, Name: metrics.AppName(dayApps[n], "load"), Time: now, Value: cpus * share})
		}
	}
	// The default signal would have the pool be a third of what it is.
	if !d.blind || d.misled {
		all = append(all, metrics.Sample{Type: metrics.App, Name: metrics.AppName(sigproto.DefaultApp, "load"), Time: now, Value: cpus / 3})
	}
	if err := d.store.Write(context.Background(), all); err != nil {
		d.t.Fatal(err)
	}
}

// day is a pool over a day.
type day struct {
	t      testing.TB
	log    *slog.Logger
	seed   uint64
	server *awsfake.Server
	js     jetstream.JetStream
	ledger *state.Ledger
	orders *state.Orders
	store  *memory.Store
	nodes  *dayNodes
	life   *dayLife
	groups []dayGroup
	config autoscaler.Config
	spikes []spike

	blind, misled bool // no metrics of the applications; but of the default signal
	out           bool // zone a has nothing
	denied        string
	lowered       float64 // by others, in the window of the budget
	flat          float64 // if set: the load, always
	killable      int     // calls until the process dies, once it is throttled
	forgiven      int     // answers that were lost
	random        *rand.Rand
	deaths        int
	chosen        map[string]bool    // to be ended by us, at any time
	weights       map[string]float64 // of all instances
	appended      []byte             // the last record
	records       int
	seen          int // calls that were checked

	mu       sync.Mutex
	problems []string
	intent   map[string]bool      // instances to terminate, as stored last
	warned   map[string]bool      // at risk, by a notice
	taken    map[string]bool      // to be taken, by a notice
	removed  map[string]bool      // by an operator
	drains   map[string]api.Drain // as kept
	reads    map[string]int       // sequences of reading that were begun in this tick
	released []letGo
	book     dayBook
}

func (d *day) problem(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.server.Now().Sub(dayStart).Round(time.Second)
	d.problems = append(d.problems, fmt.Sprintf("seed %d, after %v: ", d.seed, at)+fmt.Sprintf(format, args...))
}
