package aws

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// callFault is an answer to a call in place of the right one.
type callFault struct {
	name   string
	answer func(r *http.Request, ec2 bool) (*http.Response, error)
}

func callFaults() []callFault {
	code := func(status int, ofEC2, others string) func(*http.Request, bool) (*http.Response, error) {
		return func(r *http.Request, ec2 bool) (*http.Response, error) {
			if ec2 {
				return responseOf(r, status, "<Response><Errors><Error><Code>"+ofEC2+"</Code><Message>no</Message></Error></Errors></Response>")
			}
			return responseOf(r, status, "<ErrorResponse><Error><Code>"+others+"</Code><Message>no</Message></Error></ErrorResponse>")
		}
	}
	body := func(status int, text string) func(*http.Request, bool) (*http.Response, error) {
		return func(r *http.Request, _ bool) (*http.Response, error) { return responseOf(r, status, text) }
	}
	return []callFault{
		{"denied", code(http.StatusForbidden, "UnauthorizedOperation", "AccessDenied")},
		{"throttled", code(http.StatusBadRequest, "RequestLimitExceeded", "Throttling")},
		{"500", body(http.StatusInternalServerError, "")},
		{"empty", body(http.StatusOK, "")},
		{"garbage", body(http.StatusOK, "<html>502 Bad Gateway\x00")},
		{"page", body(http.StatusOK, "<html><body>502</body></html>")},
		{"timeout", func(r *http.Request, _ bool) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}},
	}
}

func responseOf(r *http.Request, status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// faultyClient answers calls of one action with a fault.
type faultyClient struct {
	next awssdk.HTTPClient

	mu     sync.Mutex
	action string
	fault  callFault
	times  int
	hits   int
}

// set gives the next calls of an action a fault. It returns how many calls had the last one.
func (f *faultyClient) set(action string, fault callFault, times int) (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hits = f.hits
	f.action, f.fault, f.times, f.hits = action, fault, times, 0
	return hits
}

func (f *faultyClient) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	f.mu.Lock()
	hit := form.Get("Action") == f.action && f.times > 0
	if hit {
		f.times--
		f.hits++
	}
	fault := f.fault
	f.mu.Unlock()
	if hit {
		return fault.answer(r, form.Get("Version") == "2016-11-15")
	}
	return f.next.Do(r)
}

// partsWorld is an autoscaler of a pool at AWS: two Auto Scaling groups and a Spot Fleet request.
type partsWorld struct {
	*testing.T
	server *awsfake.Server
	client *faultyClient
	loop   *autoscaler.Loop
	need   float64 // cpus
	last   api.TickRecord

	mu     sync.Mutex
	saved  []byte
	drains map[string]api.Drain
	cordon map[string]bool
}

const partsTick = 10 * time.Second

func newPartsWorld(t *testing.T) *partsWorld {
	s := awstest.NewDirect(t, awsfake.Config{})
	for _, name := range []string{"a", "b"} {
		s.AddGroup(awsfake.ASG{Name: name, Max: 8, Desired: 2, ProtectNew: true, Tags: map[string]string{tag: ours}})
	}
	s.AddFleet(awsfake.SpotFleet{ID: "sfr-c", Tags: map[string]string{tag: ours}, Specs: []awsfake.LaunchSpec{{Type: "m5.large", Zone: "us-west-2a"}}, Target: 2})
	pass(s)
	w := &partsWorld{T: t, server: s, need: 6, drains: map[string]api.Drain{}, cordon: map[string]bool{}}
	cfg := configFor(s, AutoScaling, SpotFleet)
	w.client = &faultyClient{next: cfg.Client}
	cfg.Client = w.client
	w.loop = autoscaler.NewLoop(autoscaler.Config{
		Cluster: "c", Pool: "p", Tick: partsTick, Drain: drain.Config{Threshold: time.Minute, Force: true}, OrphansAfter: time.Hour,
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Period: partsTick,
			Limits: api.TargetLimits{Min: 1, Max: 30, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
		},
		Prune:   api.PruneLimits{MaxWeight: 40, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: partsTick},
	}, autoscaler.World{
		Provider: open(t, cfg), Scheduler: w, Directory: w, Metrics: &memory.Store{}, Ledger: w, Memory: apply.Encoded{Bytes: partsMemory{w}}, Orders: partsOrders{}, Lease: partsOrders{},
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

// partsActions returns the calls of a pool that grows and shrinks.
func partsActions(t *testing.T) (actions []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.ticks(3)
		w.need = 12
		w.ticks(5)
		w.need = 4
		w.ticks(30)
		if w.weight() != 4 || w.ended() != 8 {
			t.Fatalf("weight %d, %d ended: want 4 and 8; %+v, %q", w.weight(), w.ended(), w.last.Detail.Kept, w.last.Detail.Refused)
		}
		for _, c := range w.server.Calls() {
			actions = append(actions, c.Action)
		}
	})
	slices.Sort(actions)
	return slices.Compact(actions)
}

// Each call to AWS fails in each way, once, for a minute, and for a long time, while the need grows and then falls. The rest of the
// pool grows, nothing ends that is needed, the problem is named at the second tick, and after the end of the fault all is as wanted.
// CALLS=all tries each fault of each call for each time.
func TestEachCallFails(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "pools/aws") {
		return
	}
	actions := partsActions(t)
	if len(actions) < 10 {
		t.Fatalf("calls are %q: want more", actions)
	}
	times := []int{0, 6, 30}
	for i, action := range actions {
		for j, fault := range callFaults() {
			for k, ticks := range times {
				if (i+j+k)%len(times) != 0 && os.Getenv("CALLS") != "all" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d ticks", action, fault.name, ticks), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { eachCallFails(t, action, fault, ticks) })
				})
			}
		}
	}
}

func eachCallFails(t *testing.T, action string, fault callFault, ticks int) {
	w := newPartsWorld(t)
	w.ticks(3)
	if w.last.Failed != "" || len(w.last.Problems) > 0 {
		t.Fatalf("failed %q, problems %q before the fault", w.last.Failed, w.last.Problems)
	}
	times := 1 << 30
	if ticks == 0 {
		times = 1
	}
	w.client.set(action, fault, times)
	w.need = 12
	w.ticks(2)
	w.named(action, ticks > 0)
	w.ticks(max(ticks-2, 4))
	if w.weight() < 12 {
		t.Errorf("the pool has the weight %d, want 12; failed %q, problems %q", w.weight(), w.last.Failed, w.last.Problems)
	}
	if w.ended() > 0 {
		t.Errorf("%d instances ended while the need grew", w.ended())
	}
	w.client.set("", callFault{}, 0)
	w.ticks(2)
	if w.last.Failed != "" || len(w.last.Problems) > 0 {
		t.Errorf("failed %q, problems %q two ticks after the fault", w.last.Failed, w.last.Problems)
	}
	w.ticks(30) // backoffs end
	w.client.set(action, fault, times)
	w.need = 4
	w.ticks(2)
	w.named(action, ticks > 0)
	for range max(ticks-2, 4) {
		w.ticks(1)
		if w.weight() < 4 {
			t.Fatalf("the pool has the weight %d while it shrinks, want at least 4", w.weight())
		}
	}
	hits := w.client.set("", callFault{}, 0)
	if most := 8; fault.name == "denied" && strings.HasPrefix(action, "Terminate") && hits > most {
		t.Errorf("%d rejected calls in %d ticks, want at most %d", hits, max(ticks, 6), most)
	}
	w.ticks(60)
	if w.weight() != 4 || w.last.Failed != "" || len(w.last.Problems) > 0 {
		t.Errorf("the pool has the weight %d, failed %q, problems %q long after the fault; want 4 and none", w.weight(), w.last.Failed, w.last.Problems)
	}
}

// named checks that the record names the fault of a call that each tick makes.
func (w *partsWorld) named(action string, lasts bool) {
	w.Helper()
	each := []string{"DescribeAutoScalingGroups", "DescribeSpotFleetRequests", "DescribeSpotFleetInstances", "DescribeInstances", "DescribeTags"}
	if !lasts || !slices.Contains(each, action) {
		return
	}
	if !strings.Contains(w.last.Failed+strings.Join(w.last.Problems, "\n"), action) {
		w.Errorf("failed %q, problems %q at the second tick: want %s", w.last.Failed, w.last.Problems, action)
	}
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
