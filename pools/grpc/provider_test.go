package grpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// A tick refreshes the server once, lists its groups, and reads the selected ones.
func TestCallsOfATick(t *testing.T) {
	f := start(t, nil)
	f.add("web-1", "a", "b")
	f.add("db", "c")
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: web-*}", f.address)))
	for range 2 {
		f.calls = nil
		known, unknown, l := snapshots(t, p)
		if len(known) != 1 || len(unknown)+len(l.Missing)+len(l.Notes) != 0 {
			t.Errorf("known %v, unknown %v, missing %v, notes %v", known, unknown, l.Missing, l.Notes)
		}
		want := []string{"Refresh", "NodeGroups", "NodeGroupTargetSize web-1", "NodeGroupNodes web-1", "NodeGroupTemplateNodeInfo web-1"}
		if diff := cmp.Diff(want, f.calls); diff != "" {
			t.Errorf("calls, -want +got:\n%s", diff)
		}
	}
}

// Each contradiction in an answer makes the group unknown, and no other group.
func TestNonsenseMakesOneGroupUnknown(t *testing.T) {
	many := make([]*pb.Instance, 10_000)
	for i := range many {
		many[i] = running(fmt.Sprint("n-", i))
	}
	failing := func(code string) *pb.Instance {
		return &pb.Instance{Id: "placeholder \x1b[2J", Status: &pb.InstanceStatus{
			InstanceState: pb.InstanceStatus_instanceCreating, ErrorInfo: &pb.InstanceErrorInfo{ErrorCode: code, ErrorMessage: "none\nleft"},
		}}
	}
	for name, c := range map[string]struct {
		change func(f *fake)
		why    string // why group a is unknown; empty: it is known
		short  string
		count  int
	}{
		"as it should be":              {func(*fake) {}, "", "", 2},
		"10 000 nodes":                 {func(f *fake) { f.nodes["a"] = many }, "", "", 10_000},
		"negative target":              {func(f *fake) { f.targets["a"] = -1 }, "the target of group a is -1", "", 0},
		"huge target":                  {func(f *fake) { f.targets["a"] = math.MaxInt32 }, "the target of group a is 2147483647", "", 0},
		"negative minimum":             {func(f *fake) { f.groups[0].MinSize = -3 }, "minSize is -3", "", 0},
		"minimum above the maximum":    {func(f *fake) { f.groups[0].MinSize = 101 }, "minSize is 101 and maxSize 100", "", 0},
		"listed twice":                 {func(f *fake) { f.groups = append(f.groups, f.groups[0]) }, "listed twice", "", 0},
		"not listed":                   {func(f *fake) { f.groups = f.groups[1:] }, "lists no group a", "", 0},
		"node without an id":           {func(f *fake) { f.nodes["a"][0].Id = "" }, `instance ""`, "", 0},
		"node with control characters": {func(f *fake) { f.nodes["a"][0].Id = "fake://x/\x1b[2Jy" }, `instance "fake://x/\x1b[2Jy"`, "", 0},
		"node of a wildcard":           {func(f *fake) { f.nodes["a"][0].Id = "fake://x/>" }, `instance "fake://x/>"`, "", 0},
		"two nodes of one id":          {func(f *fake) { f.nodes["a"][1].Id = "fake://elsewhere/a-1" }, "two instances have the node a-1", "", 0},
		"no capacity":                  {func(f *fake) { f.nodes["a"] = append(f.nodes["a"], failing("QUOTA")) }, "", "QUOTA: none left", 2},
		"unknown state":                {func(f *fake) { f.nodes["a"][0].Status = nil }, "", "", 2},
		"state of a later version":     {func(f *fake) { f.nodes["a"][0].Status.InstanceState = 99 }, "", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.add("a", "a-1", "a-2")
			f.add("b", "b-1")
			c.change(f)
			p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address)), selectorOf(t, fmt.Sprintf("{address: %q, group: b}", f.address)))
			known, unknown, _ := snapshots(t, p)
			if len(known["b"].Instances) != 1 {
				t.Errorf("group b is %+v, %s", known["b"], unknown["b"])
			}
			a, ok := known["a"]
			if ok != (c.why == "") || !strings.Contains(unknown["a"], c.why) {
				t.Errorf("group a is unknown because %q, want %q", unknown["a"], c.why)
			}
			if a.Short != c.short || len(a.Instances) != c.count || ok && a.Short != "" == a.ShortAt.IsZero() {
				t.Errorf("short %q, %d instances; want %q, %d", a.Short, len(a.Instances), c.short, c.count)
			}
		})
	}
}

// An instance in two groups would count twice.
func TestAnInstanceOfTwoGroups(t *testing.T) {
	f := start(t, nil)
	f.add("a", "n-1", "n-2")
	f.add("b", "n-2")
	f.add("c", "n-3")
	known, unknown, _ := snapshots(t, openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: '?'}", f.address))))
	if len(known) != 1 || len(known["c"].Instances) != 1 || !strings.Contains(unknown["a"], "instance n-2 is in the groups a and b") || unknown["a"] != unknown["b"] {
		t.Errorf("known %v, unknown %v: want c known, a and b not", known, unknown)
	}
}

// A group that another pool selects too would have two writers.
func TestAGroupOfTwoPools(t *testing.T) {
	f := start(t, nil)
	f.add("web-1", "n-1")
	f.add("web-2", "n-2")
	mine, theirs := selectorOf(t, fmt.Sprintf("{address: %q, group: web-*}", f.address)), selectorOf(t, fmt.Sprintf("{address: %q, group: web-2}", f.address))
	p, err := open(provider.Site{Groups: []provider.Group{mine}, Others: func() map[string][]provider.Group { return map[string][]provider.Group{"other": {theirs}} }})
	if err != nil {
		t.Fatal(err)
	}
	known, unknown, _ := snapshots(t, p)
	if len(known) != 1 || !strings.Contains(unknown["web-2"], "is in two pools: the file of pool other selects it too") {
		t.Errorf("known %v, unknown %v", known, unknown)
	}
}

// A server that lists groups that no key and no terminal can have, and none that fits, is named in the notes.
func TestNotes(t *testing.T) {
	f := start(t, nil)
	f.add("web", "n-1")
	f.groups = append(f.groups, &pb.NodeGroup{Id: "w\x1b[2J"}, &pb.NodeGroup{}, &pb.NodeGroup{Id: strings.Repeat("w", 200)})
	known, unknown, l := snapshots(t, openPool(t,
		selectorOf(t, fmt.Sprintf("{address: %q, group: w*}", f.address)), selectorOf(t, fmt.Sprintf("{address: %q, group: z*}", f.address))))
	notes := fmt.Sprint(l.Notes)
	if len(known) != 1 || len(unknown) != 0 || len(l.Notes) != 4 || !strings.Contains(notes, `"w\x1b[2J"`) || !strings.Contains(notes, `lists no group that fits "z*"`) {
		t.Errorf("known %v, unknown %v, notes %v", known, unknown, notes)
	}
}

// A server that is away makes its groups unknown; before the first answer nothing is known. An empty list is no answer: a server
// that starts has one.
func TestServerAway(t *testing.T) {
	f := start(t, nil)
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: '*'}", f.address)))
	if _, err := p.Groups(t.Context()); err == nil || !strings.Contains(err.Error(), "lists no group at all: it may still be starting") {
		t.Errorf("Groups without a group = %v", err)
	}
	f.add("a", "n-1")
	if known, _, _ := snapshots(t, p); len(known) != 1 {
		t.Fatalf("known %v", known)
	}
	f.set(func(context.Context, string, string) error { return status.Error(codes.Unavailable, "later\x1b[2J") })
	_, _, l := snapshots(t, p)
	if err := l.Missing.Of("grpc"); err == nil || !errors.Is(err, pools.ErrThrottled) || !strings.HasSuffix(err.Error(), "Unavailable: later [2J") {
		t.Errorf("of a server that fails, missing is %v", err)
	}
	f.rpc.Stop()
	_, _, l = snapshots(t, p)
	if err := l.Missing.Of("grpc"); err == nil || len(l.Groups) != 0 {
		t.Errorf("of a killed server, missing is %v, groups %v", err, l.Groups)
	}
}

func TestMessage(t *testing.T) {
	for text, want := range map[string]string{
		"no": "no",
		`connection error: desc = "transport: Error while dialing: dial unix /s: connect: connection refused"`: "dial unix /s: connect: connection refused",
		`connection error: desc = "transport: authentication handshake failed: tls: bad certificate"`:          "authentication handshake failed: tls: bad certificate",
		"connection error: desc = half": "connection error: desc = half",
	} {
		if got := message(text); got != want {
			t.Errorf("message(%q) = %q, want %q", text, got, want)
		}
	}
}

// noFacts is a scheduler without nodes.
type noFacts struct{}

func (noFacts) Facts(time.Time) []api.NodeFacts { return nil }

// The autoscaler keeps the last value of groups whose server was killed, and of a group whose answer is nonsense.
func TestReaderKeepsTheLastValue(t *testing.T) {
	f := start(t, nil)
	f.add("a", "n-1", "n-2")
	f.add("b", "n-3")
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: '*'}", f.address)))
	r := snapshot.NewReader(snapshot.Ports{Provider: p, Scheduler: noFacts{}})
	targets := map[string]int{"a": 2, "b": 1}
	check := func(unknown ...string) {
		t.Helper()
		s, err := r.Read(t.Context(), time.Now(), targets, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Adopt(s)
		var got []string
		for _, g := range s.Groups {
			if g.Unknown != nil {
				got = append(got, g.ID)
			}
		}
		if !slices.Equal(got, unknown) || len(s.Groups) != 2 || s.Groups[0].Target != 2 || len(s.Groups[0].Instances) != 2 || len(s.Groups[1].Instances) != 1 {
			t.Errorf("unknown %q, groups %+v; want %q, and all machines", got, s.Groups, unknown)
		}
	}
	check()
	f.targets["a"] = -1
	check("a")
	f.targets["a"] = 2
	check()
	f.rpc.Stop()
	check("a", "b")
}

// A group whose call does not return is unknown. The others are known within the time of the tick.
func TestSlowGroup(t *testing.T) {
	f := start(t, nil)
	for i := range 20 {
		f.add(fmt.Sprint("g-", i), fmt.Sprint("n-", i))
	}
	f.set(func(ctx context.Context, _, group string) error {
		if group == "g-7" {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: 'g-*', timeout: 3s}", f.address)))
	known, unknown, _ := snapshots(t, p)
	if len(known) != 19 || !strings.Contains(unknown["g-7"], "NodeGroupTargetSize of unix://") {
		t.Errorf("%d known, unknown %v", len(known), unknown)
	}
}

// The codes of a server become the time scales of refusal. A call of unknown result has no scale.
func TestCodes(t *testing.T) {
	now, later, person := pools.ErrThrottled, pools.ErrShort, pools.ErrRefused
	for code, c := range map[codes.Code]struct{ read, raise, end error }{
		codes.Unavailable:        {now, nil, nil},
		codes.DeadlineExceeded:   {now, nil, nil},
		codes.ResourceExhausted:  {now, now, now},
		codes.Aborted:            {now, now, now},
		codes.OutOfRange:         {person, later, person},
		codes.FailedPrecondition: {person, later, person},
		codes.PermissionDenied:   {person, person, person},
		codes.Unauthenticated:    {person, person, person},
		codes.Unimplemented:      {person, person, person},
		codes.InvalidArgument:    {person, person, person},
		codes.NotFound:           {person, person, person},
		codes.Unknown:            {},
		codes.Internal:           {},
		codes.Code(99):           {},
	} {
		t.Run(code.String(), func(t *testing.T) {
			f := start(t, nil)
			f.add("a", "n-1")
			p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address)))
			found, err := p.Groups(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			g := found.Groups[0]
			failing := func(calls ...string) {
				f.set(func(_ context.Context, call, _ string) error {
					if slices.Contains(calls, call) {
						return status.Error(code, "no")
					}
					return nil
				})
			}
			check := func(what string, err, want error) {
				t.Helper()
				for _, class := range []error{now, later, person} {
					if errors.Is(err, class) != (class == want) {
						t.Errorf("%s = %v, want the class %v", what, err, want)
					}
				}
				if err == nil {
					t.Errorf("%s is no error", what)
				}
			}
			failing("NodeGroupTargetSize")
			check("SetTarget with a failing read", g.SetTarget(t.Context(), 2), c.read)
			failing(increase, end)
			check("Terminate", g.Terminate(t.Context(), []string{"n-1"}), c.end)
			check("SetTarget", g.SetTarget(t.Context(), 2), c.raise)
		})
	}
}

// A group without machines has an offer by its template, from servers of both versions of the protocol. Without a template, the type
// of the machines is the name of the group. A template that cannot be read is a note, and the last one stays.
func TestTemplate(t *testing.T) {
	f := start(t, nil)
	f.add("a")
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address)))
	known, _, l := snapshots(t, p)
	if len(known["a"].Offers) != 0 || len(l.Notes) != 0 {
		t.Errorf("without a template: offers %v, notes %v", known["a"].Offers, l.Notes)
	}
	want := []pools.Offer{{InstanceType: "m5.large", Weight: 1, Resources: [4]float64{3.92, 15 * 1024, anyDisk, 2}}}
	node := nodeOf(t, "4", "16Gi", "3920m", "15Gi")
	for _, answer := range []*pb.NodeGroupTemplateNodeInfoResponse{{NodeInfo: node}, {NodeBytes: node}, {NodeInfo: []byte("x"), NodeBytes: node}} {
		f.template = answer
		known, _, l = snapshots(t, p)
		if diff := cmp.Diff(want, known["a"].Offers); diff != "" || len(l.Notes) != 0 {
			t.Errorf("offers, -want +got:\n%s; notes %v", diff, l.Notes)
		}
	}
	f.nodes["a"] = []*pb.Instance{running("n-1")}
	for _, bad := range [][]byte{{0xff}, nodeOf(t, "four", "16Gi", "1", "1Gi")} {
		f.template = &pb.NodeGroupTemplateNodeInfoResponse{NodeBytes: bad}
		known, _, l = snapshots(t, p)
		if diff := cmp.Diff(want, known["a"].Offers); diff != "" || len(l.Notes) != 1 {
			t.Errorf("after a template that cannot be read: offers, -want +got:\n%s; notes %v", diff, l.Notes)
		}
	}
	i := known["a"].Instances[0]
	if i.Market != (pools.Market{InstanceType: "m5.large", Zone: "eu-1a"}) || i.Offers[0] != 4 || i.State != api.InstanceRunning {
		t.Errorf("the instance is %+v", i)
	}
}

// Rights names what cannot be read, for "weir doctor".
func TestRights(t *testing.T) {
	f := start(t, nil)
	f.add("a", "n-1")
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address)), selectorOf(t, fmt.Sprintf("{address: %q, group: b}", f.address)))
	all, err := p.rights(t.Context(), false)
	if err != nil || len(all) != 2 || all[1].Result != provider.Granted || all[0].Result != provider.Denied || !strings.Contains(all[0].Why, "lists no group b") {
		t.Errorf("rights = %+v, %v", all, err)
	}
	f.rpc.Stop()
	if _, err := p.rights(t.Context(), false); err == nil {
		t.Error("the rights at a killed server are no error")
	}
}

// A provider that is not used any more leaves no connection and no goroutine: some processes open one for each reading.
func TestProvidersLeaveNothing(t *testing.T) {
	f := start(t, nil)
	f.add("a", "n-1")
	before := runtime.NumGoroutine()
	for range 20 {
		snapshots(t, openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address))))
	}
	await.Nil(t, "the goroutines of the connections end", func() error {
		runtime.GC()
		if n := runtime.NumGoroutine(); n > before+5 {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}

// The launch time is that of the server, or else when the instance was first read. An id that is used again is another instance.
func TestLaunched(t *testing.T) {
	f := start(t, nil)
	f.add("a", "n-1")
	now := noon
	p := openPool(t, selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address)))
	p.now = func() time.Time { return now }
	launched := func() time.Time {
		known, _, _ := snapshots(t, p)
		return known["a"].Instances[0].Launched
	}
	first := launched()
	now = now.Add(time.Minute)
	if again := launched(); !first.Equal(now.Add(-time.Minute)) || !again.Equal(first) {
		t.Errorf("launched at %v, then %v", first, again)
	}
	f.nodes["a"] = nil
	snapshots(t, p)
	now = now.Add(time.Minute)
	f.nodes["a"] = []*pb.Instance{running("n-1")}
	if again := launched(); !again.Equal(now) {
		t.Errorf("used again at %v, launched at %v", now, again)
	}
}
