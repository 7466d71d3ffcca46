package grpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/pools"
	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fault is what happens to a call that changes the group.
type fault string

const (
	good     fault = ""
	lost     fault = "carried out, and the answer is lost"
	never    fault = "not carried out, and the answer is lost"
	late     fault = "carried out after the deadline"
	rejected fault = "rejected"
)

// model is a server with one group, in virtual time. It carries out a call up to half of settling late, and shows a target up to
// half of settling late.
type model struct {
	pb.CloudProviderClient // nil: other methods are not called
	now                    time.Time
	target                 int
	nodes                  []string
	launched               int
	checks                 bool // it checks the expected target
	fault                  fault
	delay, lag             time.Duration
	pending                []effect
	history                []value // of the target
	most                   int     // the largest target so far
}

type effect struct {
	at time.Time
	do func() error
}

type value struct {
	at     time.Time
	target int
}

func (m *model) set(target int) {
	m.target, m.most = target, max(m.most, target)
	m.history = append(m.history, value{m.now, target})
}

// pass passes time.
func (m *model) pass(d time.Duration) {
	end := m.now.Add(d)
	for slices.SortStableFunc(m.pending, func(a, b effect) int { return a.at.Compare(b.at) }); len(m.pending) > 0 && !m.pending[0].at.After(end); {
		m.now = m.pending[0].at
		_ = m.pending[0].do() // no caller waits for it
		m.pending = m.pending[1:]
	}
	m.now = end
	for len(m.nodes) < m.target {
		m.launched++
		m.nodes = append(m.nodes, fmt.Sprintf("memory://n-%d", m.launched))
	}
}

// write carries out a call with the fault.
func (m *model) write(do func() error) error {
	switch f := m.fault; f {
	case rejected:
		return status.Error(codes.ResourceExhausted, string(f))
	case never:
		return status.Error(codes.Unavailable, string(f))
	case lost:
		_ = do()
		return status.Error(codes.Unavailable, string(f))
	case late:
		m.pending = append(m.pending, effect{m.now.Add(m.delay), do})
		return status.Error(codes.DeadlineExceeded, string(f))
	}
	return do()
}

// change changes the target.
func (m *model) change(ctx context.Context, delta int32) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return m.write(func() error {
		if want := sent.Get(expectedTarget); m.checks && want[0] != strconv.Itoa(m.target) {
			return status.Errorf(codes.Aborted, "the target is %d", m.target)
		}
		if delta < 0 && m.target+int(delta) < len(m.nodes) {
			return status.Error(codes.FailedPrecondition, "nodes exist")
		}
		m.set(m.target + int(delta))
		return nil
	})
}

func (m *model) NodeGroupIncreaseSize(ctx context.Context, in *pb.NodeGroupIncreaseSizeRequest, _ ...rpc.CallOption) (*pb.NodeGroupIncreaseSizeResponse, error) {
	return nil, m.change(ctx, in.Delta)
}

func (m *model) NodeGroupDecreaseTargetSize(ctx context.Context, in *pb.NodeGroupDecreaseTargetSizeRequest, _ ...rpc.CallOption) (*pb.NodeGroupDecreaseTargetSizeResponse, error) {
	return nil, m.change(ctx, in.Delta)
}

func (m *model) NodeGroupDeleteNodes(_ context.Context, in *pb.NodeGroupDeleteNodesRequest, _ ...rpc.CallOption) (*pb.NodeGroupDeleteNodesResponse, error) {
	return nil, m.write(func() error {
		for _, n := range in.Nodes {
			if i := slices.Index(m.nodes, n.ProviderID); i >= 0 {
				m.nodes = slices.Delete(m.nodes, i, i+1)
				m.set(max(0, m.target-1))
			}
		}
		return nil
	})
}

func (m *model) NodeGroupTargetSize(context.Context, *pb.NodeGroupTargetSizeRequest, ...rpc.CallOption) (*pb.NodeGroupTargetSizeResponse, error) {
	shown := m.history[0].target
	for _, v := range m.history {
		if !v.at.After(m.now.Add(-m.lag)) {
			shown = v.target
		}
	}
	return &pb.NodeGroupTargetSizeResponse{TargetSize: int32(shown)}, nil
}

func (m *model) NodeGroupNodes(context.Context, *pb.NodeGroupNodesRequest, ...rpc.CallOption) (*pb.NodeGroupNodesResponse, error) {
	out := &pb.NodeGroupNodesResponse{}
	for _, n := range m.nodes {
		out.Instances = append(out.Instances, &pb.Instance{Id: n, Status: &pb.InstanceStatus{InstanceState: pb.InstanceStatus_instanceRunning}})
	}
	return out, nil
}

// open returns a group of a new process.
func (m *model) open() *group {
	g := newGroup(&server{address: "model", timeout: time.Second, CloudProviderClient: m}, "g", func() time.Time { return m.now })
	g.most = 1000
	return g
}

// quiet reports whether the model shows all changes, and none comes.
func (m *model) quiet() bool {
	return len(m.pending) == 0 && !m.history[len(m.history)-1].at.After(m.now.Add(-m.lag))
}

// No lost, repeated or late call raises the target of the group above the largest requested one. A call that the server carries out
// after a restart of the process is the exception, unless the server checks the expected target.
func TestNoCallOvershoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			now: noon, checks: rapid.Bool().Draw(t, "checks"),
			lag: time.Duration(rapid.IntRange(0, 29).Draw(t, "lag")) * time.Second,
		}
		m.set(rapid.IntRange(0, 5).Draw(t, "target"))
		m.pass(time.Hour)
		g, requested := m.open(), m.target
		check := func() {
			t.Helper()
			if m.most > requested {
				t.Fatalf("the target was %d, but at most %d were requested", m.most, requested)
			}
		}
		faults := rapid.SampledFrom([]fault{good, good, lost, never, late, rejected})
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"set target": func(t *rapid.T) {
				target := rapid.IntRange(0, 20).Draw(t, "target")
				m.fault, m.delay = faults.Draw(t, "fault"), time.Duration(rapid.IntRange(0, 29).Draw(t, "delay"))*time.Second
				requested = max(requested, target)
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					_ = g.SetTarget(t.Context(), target) // some fail
				}
			},
			"terminate": func(t *rapid.T) {
				if len(m.nodes) == 0 {
					return
				}
				id, _ := nodeID(rapid.SampledFrom(m.nodes).Draw(t, "node"))
				m.fault, m.delay = faults.Draw(t, "fault"), time.Duration(rapid.IntRange(0, 29).Draw(t, "delay"))*time.Second
				_ = g.Terminate(t.Context(), []string{id})
			},
			"pass": func(t *rapid.T) { m.pass(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second) },
			"restart": func(t *rapid.T) {
				if m.checks || m.quiet() {
					g = m.open()
				}
			},
		})
		m.fault = good
		m.pass(2 * settling)
		want := max(len(m.nodes), 7)
		if err := g.SetTarget(t.Context(), 7); err != nil || m.target != want {
			t.Fatalf("at the end: SetTarget(7) = %v, the target is %d, want %d", err, m.target, want)
		}
	})
}

// One lost answer of each kind: the first SetTarget fails or has the target, and the second one is not too much.
func TestLostAnswers(t *testing.T) {
	for _, c := range []struct {
		fault      fault
		delay, lag time.Duration
		soon       int // target after a second call at once
		err        error
	}{
		{fault: good, soon: 5},
		{fault: lost, soon: 5},
		{fault: lost, lag: 20 * time.Second, soon: 5, err: pools.ErrThrottled},
		{fault: never, soon: 3, err: pools.ErrThrottled},
		{fault: late, delay: 20 * time.Second, soon: 3, err: pools.ErrThrottled},
		{fault: rejected, soon: 5},
	} {
		t.Run(fmt.Sprintf("%s after %v, shown after %v", c.fault, c.delay, c.lag), func(t *testing.T) {
			m := &model{now: noon, lag: c.lag}
			m.set(3)
			m.pass(time.Hour)
			g := m.open()
			m.fault, m.delay = c.fault, c.delay
			first := g.SetTarget(t.Context(), 5)
			if shown := c.fault == good || c.fault == lost && c.lag == 0; (first == nil) != shown {
				t.Errorf("the first SetTarget = %v", first)
			}
			if c.fault != rejected && errors.Is(first, pools.ErrThrottled) {
				t.Errorf("the first SetTarget = %v: nothing was changed, but it may have been", first)
			}
			m.fault = good
			if err := g.SetTarget(t.Context(), 5); !errors.Is(err, c.err) || m.target != c.soon {
				t.Errorf("the second SetTarget = %v, target %d; want %v, %d", err, m.target, c.err, c.soon)
			}
			m.pass(settling + time.Second)
			if err := g.SetTarget(t.Context(), 5); err != nil || m.target != 5 {
				t.Errorf("a minute later SetTarget = %v, target %d", err, m.target)
			}
		})
	}
}
