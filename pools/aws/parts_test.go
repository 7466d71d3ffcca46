package aws

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// partsWorld is an autoscaler of a pool at AWS: two Auto Scaling groups and a Spot Fleet request, which a list in S3 has too.
type partsWorld struct {
	*testing.T
	server *awsfake.Server
	client *faultyClient
	loop   *autoscaler.Loop
	p      *Provider
	other  *Provider // of a pool whose node health works beside the autoscaler
	round  int       // repairs of that pool so far
	need   float64   // cpus
	last   api.TickRecord

	mu     sync.Mutex
	saved  []byte
	drains map[string]api.Drain
	cordon map[string]bool
}

const partsTick = 10 * time.Second

func newPartsWorld(t *testing.T) *partsWorld {
	s := awstest.NewDirect(t, awsfake.Config{Queue: "events"})
	for _, name := range []string{"a", "b"} {
		s.AddGroup(awsfake.ASG{Name: name, Max: 8, Desired: 2, ProtectNew: true, Tags: map[string]string{tag: ours}})
	}
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-c", Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}, Target: 2})
	pass(s)
	w := &partsWorld{T: t, server: s, need: 6, drains: map[string]api.Drain{}, cordon: map[string]bool{}}
	cfg := configFor(s, AutoScaling, SpotFleet)
	w.client = &faultyClient{next: cfg.Client, calls: map[string]bool{}}
	cfg.Client, cfg.Queue = w.client, "events"
	cfg.Groups = append(cfg.Groups, Selector{Kind: SpotFleet, S3Bucket: "lists", S3Prefix: "fleets"})
	w.p = open(t, cfg)
	receiveWarnings(t, w.p, make(chan pools.Notice, 100))
	w.loop = autoscaler.NewLoop(autoscaler.Config{
		Cluster: "c", Pool: "p", Tick: partsTick, Drain: drain.Config{Threshold: time.Minute, Force: true}, OrphansAfter: time.Hour,
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Period: partsTick,
			Limits: api.TargetLimits{Min: 1, Max: 2000, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
		},
		Prune:   api.PruneLimits{MaxWeight: 40, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: partsTick},
	}, autoscaler.World{
		Provider: w.p, Scheduler: w, Directory: w, Metrics: &memory.Store{}, Ledger: w, Memory: apply.Encoded{Bytes: partsMemory{w}}, Orders: partsOrders{}, Lease: partsOrders{},
		Records: partsRecords{w}, Cordon: w, Ticked: func(r api.TickRecord, _ error) { w.last = r },
		Dial: func(ask.Endpoint, ask.RequestSpec) ask.Client { return partsSignal{w} }, Now: s.Now,
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(w.loop.Close)
	return w
}

func (w *partsWorld) Facts(now time.Time) (out []api.NodeFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.server.Instances("") {
		if i.State == "running" {
			out = append(out, api.NodeFacts{ID: i.ID, Pool: "p", At: now, BootID: i.ID, Resources: resource.Vector{1, 1000}, SafeToEvict: true, Draining: w.cordon[i.ID]})
		}
	}
	return out
}

func (w *partsWorld) Cordon(_ context.Context, node string, on bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cordon[node] = on
	return nil
}

func (w *partsWorld) Listing() ask.Listing {
	return ask.Listing{Revision: 1, Endpoints: map[string]ask.Endpoint{sigproto.DefaultApp: {Address: "here"}}}
}
func (w *partsWorld) Report(ask.Report)                            {}
func (w *partsWorld) Alive()                                       {}
func (w *partsWorld) Append(context.Context, api.TickRecord) error { return nil }

type partsSignal struct{ w *partsWorld }

func (s partsSignal) Evaluate(context.Context, sigproto.Evaluation) (sigproto.Response, error) {
	return sigproto.Response{Resources: sigproto.Resources{CPUs: new(s.w.need)}, Verdict: sigproto.VerdictValue}, nil
}
func (partsSignal) Close() error { return nil }

type partsOrders struct{}

func (partsOrders) Read(context.Context, time.Time) (api.Orders, error) { return api.Orders{}, nil }
func (partsOrders) Removed(context.Context, string) error               { return nil }
func (partsOrders) Rolled(context.Context, string) error                { return nil }
func (partsOrders) Left() time.Duration                                 { return time.Hour }
func (partsOrders) Epoch() uint64                                       { return 1 }

type partsMemory struct{ w *partsWorld }

func (m partsMemory) Load(context.Context) ([]byte, bool, error) {
	return m.w.saved, m.w.saved != nil, nil
}

func (m partsMemory) Save(_ context.Context, data []byte) error {
	m.w.saved = slices.Clone(data)
	return nil
}

type partsRecords struct{ w *partsWorld }

func (r partsRecords) Load(context.Context) ([]api.Drain, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return slices.Collect(maps.Values(r.w.drains)), nil
}

func (r partsRecords) Put(_ context.Context, d api.Drain) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.drains[d.Node] = d
	return nil
}

func (r partsRecords) Delete(_ context.Context, node string) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	delete(r.w.drains, node)
	return nil
}

// ticks runs ticks, each with the time between them.
func (w *partsWorld) ticks(n int) {
	w.Helper()
	for range n {
		w.server.Advance(partsTick)
		<-time.After(partsTick)
		if err := w.loop.Tick(w.Context(), w.server.Now()); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *partsWorld) weight() int {
	return w.server.Target("a") + w.server.Target("b") + w.server.Target("sfr-c")
}

// ended returns the instances that the autoscaler has ended.
func (w *partsWorld) ended() (n int) {
	for _, c := range w.server.Calls() {
		if strings.HasPrefix(c.Action, "TerminateInstance") && c.Err == "" {
			n++
		}
	}
	return n
}

// A fleet that ends while the Auto Scaling groups cannot be read is gone, and another fleet replaces it. The groups stay unknown.
func TestFleetEndsWhileGroupsAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.server.AddFleet(awsfake.SpotFleet{ID: "sfr-d", Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}, Target: 2})
		pass(w.server)
		w.need = 8
		w.ticks(3)
		w.server.Deny("DescribeAutoScalingGroups", "")
		w.server.CancelFleet("sfr-c", true)
		w.ticks(1)
		if !slices.Contains(w.last.Problems, "group sfr-c is gone: the provider lists it no more, and other groups replace it") {
			t.Errorf("problems %q: want that sfr-c is gone", w.last.Problems)
		}
		w.ticks(2)
		if n := w.server.Target("sfr-d"); n != 4 {
			t.Errorf("sfr-d has the target %d, want 4: it replaces sfr-c", n)
		}
		var unknown []string
		for _, g := range w.last.Snapshot.Groups {
			if g.Unknown != nil {
				unknown = append(unknown, g.ID)
			}
		}
		if !slices.Equal(unknown, []string{"a", "b"}) || w.server.Target("a") != 2 {
			t.Errorf("%q are unknown, the target of a is %d: want a and b, unchanged", unknown, w.server.Target("a"))
		}
	})
}

// While terminating is suspended, no node of the group is drained, and the other groups shrink.
func TestSuspendedTermination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.need = 12
		w.ticks(6)
		w.server.Suspend("a", "Terminate")
		w.need = 3
		w.ticks(20)
		if w.server.Target("a") != 4 || w.weight() > 6 || !strings.HasPrefix(w.last.Case.Keeps["a"], "terminating is suspended") {
			t.Errorf("a has the target %d, the pool %d, kept: %v; want 4, at most 6, and why", w.server.Target("a"), w.weight(), w.last.Case.Keeps)
		}
		for _, i := range w.server.Instances("a") {
			if w.cordon[i.ID] {
				t.Errorf("node %s of a is cordoned", i.ID)
			}
		}
		w.server.Suspend("a")
		w.ticks(20)
		if w.weight() != 3 {
			t.Errorf("the pool has the weight %d, want 3", w.weight())
		}
	})
}

// Without the right to end instances of a Spot Fleet, none of its nodes is drained. Once the right is given, the fleet shrinks.
func TestDeniedTerminationIsKnownBeforeADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.server.Deny("TerminateInstances", "")
		w.need = 12
		w.ticks(70) // the last dry run is outdated then
		w.need = 3
		w.ticks(20)
		fleet := w.server.Target("sfr-c")
		if fleet < 3 || !strings.HasPrefix(w.last.Case.Keeps["sfr-c"], "terminating is not permitted: ") || len(w.drains) > 0 {
			t.Errorf("the fleet has the target %d, kept: %v, drains %v; want it kept, and why", fleet, w.last.Case.Keeps, w.drains)
		}
		for _, i := range w.server.Instances("sfr-c") {
			if w.cordon[i.ID] {
				t.Errorf("node %s of the fleet is cordoned", i.ID)
			}
		}
		w.server.Allow()
		w.ticks(60)
		if w.weight() != 3 {
			t.Errorf("the pool has the weight %d, want 3", w.weight())
		}
	})
}

// A drained node whose termination was rejected serves again when the need returns.
func TestRejectedTerminationIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.need = 12
		w.ticks(6)
		w.server.Deny("TerminateInstanceInAutoScalingGroup", "")
		w.server.Deny("TerminateInstances", "")
		w.need = 4
		w.ticks(10)
		drained := len(w.drains)
		launched := len(w.server.Instances(""))
		w.need = 12
		w.ticks(5)
		if drained == 0 || len(w.drains) > 0 || len(w.server.Instances("")) != launched {
			t.Errorf("%d nodes were drained, %d are not taken back, %d instances of %d: want all back, and none launched", drained, len(w.drains), len(w.server.Instances("")), launched)
		}
		for id, on := range w.cordon {
			if on {
				t.Errorf("node %s is cordoned", id)
			}
		}
	})
}
