package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/memory"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

var start = time.Unix(1_700_000_000, 0)

func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name   string
		config memory.Config
	}{
		{"at once", memory.Config{}},
		{"slow", memory.Config{Join: 5 * time.Second, Leave: 3 * time.Second}},
		{"slow, and seen late", memory.Config{Join: 5 * time.Second, Leave: 3 * time.Second, Lag: 3}},
		{"weights", memory.Config{Offers: []memory.Offer{
			{Market: pools.Market{InstanceType: "s", Zone: "a"}, Weight: 1},
			{Market: pools.Market{InstanceType: "l", Zone: "b"}, Weight: 2.5},
			{Market: pools.Market{InstanceType: "xl", Zone: "b"}, Weight: 4},
		}}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			pooltest.Run(t, func(t *testing.T, s pooltest.Setup) pooltest.Harness {
				config := kind.config
				config.ID, config.Min, config.Max, config.Target = s.ID, s.Min, s.Max, s.Target
				g, now := memory.New(config, start), start
				return pooltest.Harness{
					Group: g,
					Lose: func(t *testing.T, id string) {
						if !g.Lose(id) {
							t.Fatalf("%s is not there", id)
						}
					},
					Pass: func(context.Context) {
						now = now.Add(time.Second)
						g.Advance(now)
					},
				}
			})
		})
	}
}

func snapshot(t *testing.T, g *memory.Group) pools.GroupSnapshot {
	t.Helper()
	s, err := g.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count returns how many instances are in that state.
func count(s pools.GroupSnapshot, state pools.InstanceState) int {
	n := 0
	for _, i := range s.Instances {
		if i.State == state {
			n++
		}
	}
	return n
}

func TestJoinAndLeaveTakeTheirTime(t *testing.T) {
	g := memory.New(memory.Config{ID: "a", Target: 2, Join: time.Minute, Leave: time.Second}, start)
	for _, step := range []struct {
		after            time.Duration
		pending, running int
	}{{0, 2, 0}, {time.Minute - 1, 2, 0}, {time.Minute, 0, 2}} {
		g.Advance(start.Add(step.after))
		s := snapshot(t, g)
		if count(s, pools.InstancePending) != step.pending || count(s, pools.InstanceRunning) != step.running {
			t.Errorf("after %v: %+v, want %d pending and %d running", step.after, s.Instances, step.pending, step.running)
		}
	}
	if err := g.Terminate(t.Context(), []string{"a-1"}); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, g); count(s, pools.InstanceTerminating) != 1 {
		t.Errorf("%+v, want one terminating", s.Instances)
	}
	g.Advance(start.Add(time.Minute + time.Second))
	if s := snapshot(t, g); len(s.Instances) != 1 || s.Target != 1 {
		t.Errorf("%+v, want one left", s)
	}
}

func TestShortage(t *testing.T) {
	g := memory.New(memory.Config{ID: "a", Target: 3}, start)
	g.Stock(4)
	if err := g.SetTarget(t.Context(), 5); !errors.Is(err, memory.ErrShortage) {
		t.Errorf("SetTarget(5) = %v, want %v", err, memory.ErrShortage)
	}
	if err := g.SetTarget(t.Context(), 4); err != nil {
		t.Errorf("SetTarget(4) = %v", err)
	}
	g.Stock(2)
	g.Lose("a-1")
	g.Advance(start.Add(time.Hour))
	if s := snapshot(t, g); s.Target != 4 || s.Fulfilled() != 3 {
		t.Errorf("target %d, fulfilled %v, want 4 and 3: the lost one cannot be had again", s.Target, s.Fulfilled())
	}
}

func TestRefusal(t *testing.T) {
	ctx, no := t.Context(), errors.New("throttled")
	g := memory.New(memory.Config{ID: "a", Target: 3}, start)
	for op, call := range map[memory.Operation]func() error{
		memory.Snapshot:  func() error { _, err := g.Snapshot(ctx); return err },
		memory.SetTarget: func() error { return g.SetTarget(ctx, 5) },
		memory.Terminate: func() error { return g.Terminate(ctx, []string{"a-1"}) },
	} {
		g.Refuse(op, no)
		if err := call(); !errors.Is(err, no) {
			t.Errorf("%s = %v, want %v", op, err, no)
		}
		g.Refuse(op, nil)
	}
	if s := snapshot(t, g); s.Target != 3 || s.Fulfilled() != 3 {
		t.Errorf("refused, and yet: %+v", s)
	}
}

func TestProtection(t *testing.T) {
	g := memory.New(memory.Config{ID: "a", Target: 3}, start)
	g.Protect("a-2", true)
	if err := g.Terminate(t.Context(), []string{"a-1", "a-2"}); !errors.Is(err, memory.ErrProtected) {
		t.Errorf("Terminate = %v, want %v", err, memory.ErrProtected)
	}
	if s := snapshot(t, g); s.Fulfilled() != 3 || !s.Instances[1].Protected {
		t.Errorf("%+v, want three, the second protected", s)
	}
	g.Protect("a-2", false)
	if err := g.Terminate(t.Context(), []string{"a-1", "a-2"}); err != nil {
		t.Errorf("Terminate = %v", err)
	}
}

func TestStaleGroupLaunchesNothing(t *testing.T) {
	g := memory.New(memory.Config{ID: "a", Target: 3}, start)
	g.MarkStale()
	g.Lose("a-1")
	g.Advance(start.Add(time.Hour))
	if s := snapshot(t, g); !s.Stale || len(s.Instances) != 2 || !s.Instances[0].Stale {
		t.Errorf("%+v, want two stale instances", s)
	}
}

func TestWritesOfOthersAreSeenLate(t *testing.T) {
	ours := memory.New(memory.Config{ID: "a", Target: 1, Lag: 2}, start)
	others := ours.Other()
	set := func(g *memory.Group, target int) {
		if err := g.SetTarget(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	set(others, 5)
	for read, want := range []int{1, 1, 5} {
		if s := snapshot(t, ours); s.Target != want {
			t.Errorf("read %d: target %d, want %d", read, s.Target, want)
		}
	}
	if s := snapshot(t, others); s.Target != 5 {
		t.Errorf("its own write: target %d, want 5", s.Target)
	}
	set(others, 6)
	set(ours, 7)
	if s := snapshot(t, ours); s.Target != 7 {
		t.Errorf("its own write: target %d, want 7", s.Target)
	}
}
