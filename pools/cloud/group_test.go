package cloud_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

var start = time.Unix(1_700_000_000, 0)

func TestConformance(t *testing.T) {
	for _, kind := range []struct {
		name   string
		config cloud.Config
		short  func(*cloud.Group) func(*testing.T)
	}{
		{"at once", cloud.Config{}, outOfStock},
		{"slow", cloud.Config{Join: 5 * time.Second, Leave: 3 * time.Second}, atQuota},
		{"slow, and seen late", cloud.Config{Join: 5 * time.Second, Leave: 3 * time.Second, Lag: 3}, atQuota},
		{"weights", cloud.Config{Offers: []cloud.Offer{
			{Market: pools.Market{InstanceType: "s", Zone: "a"}, Weight: 1},
			{Market: pools.Market{InstanceType: "l", Zone: "b"}, Weight: 2.5},
			{Market: pools.Market{InstanceType: "xl", Zone: "b"}, Weight: 4},
		}}, outOfStock},
	} {
		t.Run(kind.name, func(t *testing.T) {
			pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness {
				config := kind.config
				config.ID, config.Min, config.Max, config.Target = s.ID, s.Min, s.Max, s.Target
				g, now := cloud.New(config, start), start
				return pooltest.Harness{
					Group: g,
					Lose: func(t *testing.T, id string) {
						if !g.Lose(id) {
							t.Fatalf("%s is not there", id)
						}
					},
					Short: kind.short(g),
					Busy: func(_ *testing.T, on bool) {
						g.Busy(map[bool]string{true: "an instance refresh"}[on])
					},
					Protect:  func(_ *testing.T, id string, on bool) { g.Protect(id, on) },
					Deny:     refuse(g, pools.ErrRefused),
					Throttle: refuse(g, pools.ErrThrottled),
					Pass: func(context.Context) {
						now = now.Add(time.Second)
						g.Advance(now)
					},
				}
			})
		})
	}
}

func outOfStock(g *cloud.Group) func(*testing.T) {
	return func(t *testing.T) { g.Stock(snapshot(t, g).Fulfilled()) }
}

func atQuota(g *cloud.Group) func(*testing.T) {
	return func(t *testing.T) { g.Quota(snapshot(t, g).Fulfilled()) }
}

// refuse returns a function that switches the rejection of all writes on and off.
func refuse(g *cloud.Group, err error) func(*testing.T, bool) {
	return func(_ *testing.T, on bool) {
		for _, op := range []cloud.Operation{cloud.SetTarget, cloud.Terminate} {
			g.Refuse(op, map[bool]error{true: err}[on])
		}
	}
}

func snapshot(t *testing.T, g *cloud.Group) pools.GroupSnapshot {
	t.Helper()
	s, err := g.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count returns the number of instances in that state.
func count(s pools.GroupSnapshot, state api.InstanceState) int {
	n := 0
	for _, i := range s.Instances {
		if i.State == state {
			n++
		}
	}
	return n
}

func TestJoinAndLeaveTakeTheirTime(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 2, Join: time.Minute, Leave: time.Second}, start)
	for _, step := range []struct {
		after            time.Duration
		pending, running int
	}{{0, 2, 0}, {time.Minute - 1, 2, 0}, {time.Minute, 0, 2}} {
		g.Advance(start.Add(step.after))
		s := snapshot(t, g)
		if count(s, api.InstancePending) != step.pending || count(s, api.InstanceRunning) != step.running {
			t.Errorf("after %v: %+v, want %d pending and %d running", step.after, s.Instances, step.pending, step.running)
		}
	}
	if err := g.Terminate(t.Context(), []string{"a-1"}); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(t, g); count(s, api.InstanceTerminating) != 1 {
		t.Errorf("%+v, want one terminating", s.Instances)
	}
	g.Advance(start.Add(time.Minute + time.Second))
	if s := snapshot(t, g); len(s.Instances) != 1 || s.Target != 1 {
		t.Errorf("%+v, want one left", s)
	}
}

func TestShortage(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.Stock(4)
	if err := g.SetTarget(t.Context(), 5); !errors.Is(err, pools.ErrShort) {
		t.Errorf("SetTarget(5) = %v, want %v", err, pools.ErrShort)
	}
	if err := g.SetTarget(t.Context(), 4); err != nil {
		t.Errorf("SetTarget(4) = %v", err)
	}
	g.Stock(2)
	g.Lose("a-1")
	g.Advance(start.Add(time.Hour))
	if s := snapshot(t, g); s.Target != 4 || s.Fulfilled() != 3 || s.Short == "" || !s.ShortAt.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v, want three for four and why: the lost one cannot be had again", s)
	}
	g.Stock(4)
	g.Advance(start.Add(2 * time.Hour))
	if s := snapshot(t, g); s.Fulfilled() != 4 || s.Short != "" || !s.ShortAt.IsZero() {
		t.Errorf("%+v, want four, and short of nothing", s)
	}
}

func TestQuota(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.Quota(4)
	if err := g.SetTarget(t.Context(), 6); err != nil {
		t.Errorf("SetTarget(6) = %v: a quota does not refuse it", err)
	}
	if s := snapshot(t, g); s.Target != 6 || s.Fulfilled() != 4 || s.Short != "the quota is 4" {
		t.Errorf("%+v, want four for six, and why", s)
	}
}

func TestInterrupt(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 2, Leave: time.Minute}, start)
	if !g.Interrupt("a-1", start.Add(2*time.Minute)) || g.Interrupt("a-9", start) {
		t.Error("Interrupt returns the wrong result")
	}
	for minute, want := range []int{0, 0, 1, 0} {
		g.Advance(start.Add(time.Duration(minute) * time.Minute))
		if s := snapshot(t, g); count(s, api.InstanceTerminating) != want || s.Target != 2 || s.Fulfilled() != 2 {
			t.Errorf("after %d minutes: %+v, want %d terminating, and two that stay", minute, s, want)
		}
	}
}

func TestLog(t *testing.T) {
	ctx := t.Context()
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.Drop(cloud.Terminate, 1)
	if err := g.Terminate(ctx, []string{"a-1", "a-1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that is lost = %v, want %v", err, context.DeadlineExceeded)
	}
	g.Advance(start.Add(time.Minute))
	if err := g.Other().Terminate(ctx, []string{"a-1", "a-2"}); err != nil {
		t.Errorf("Terminate = %v", err)
	}
	refused := g.SetTarget(ctx, -1)
	got := g.Log()
	for i := range got {
		if (got[i].Err != nil) != (i == 2) {
			t.Errorf("write %d: %v, and the caller got %v", i, got[i].Err, refused)
		}
		got[i].Err = nil
	}
	want := []cloud.Write{
		{At: start, Op: cloud.Terminate, IDs: []string{"a-1", "a-1"}, Before: 3, After: 2, Ended: []string{"a-1"}, Lost: true},
		{At: start.Add(time.Minute), Op: cloud.Terminate, IDs: []string{"a-1", "a-2"}, Before: 2, After: 1, Ended: []string{"a-2"}},
		{At: start.Add(time.Minute), Op: cloud.SetTarget, Target: -1, Before: 1, After: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Log, -want +got:\n%s", diff)
	}
}

func TestBusy(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.Busy("an instance refresh")
	for name, err := range map[string]error{
		"SetTarget": g.SetTarget(t.Context(), 4),
		"Terminate": g.Terminate(t.Context(), []string{"a-1"}),
	} {
		if !errors.Is(err, pools.ErrRefused) {
			t.Errorf("%s = %v, want %v", name, err, pools.ErrRefused)
		}
	}
	if s := snapshot(t, g); s.Busy != "an instance refresh" || s.Target != 3 || s.Fulfilled() != 3 {
		t.Errorf("%+v, want it as it was", s)
	}
}

func TestRefusal(t *testing.T) {
	ctx, no := t.Context(), errors.New("throttled")
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	for op, call := range map[cloud.Operation]func() error{
		cloud.Snapshot:  func() error { _, err := g.Snapshot(ctx); return err },
		cloud.SetTarget: func() error { return g.SetTarget(ctx, 5) },
		cloud.Terminate: func() error { return g.Terminate(ctx, []string{"a-1"}) },
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
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.Protect("a-2", true)
	if err := g.Terminate(t.Context(), []string{"a-1", "a-2"}); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("Terminate = %v, want %v", err, pools.ErrRefused)
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
	g := cloud.New(cloud.Config{ID: "a", Target: 3}, start)
	g.MarkStale()
	g.Lose("a-1")
	g.Advance(start.Add(time.Hour))
	if s := snapshot(t, g); !s.Stale || len(s.Instances) != 2 || !s.Instances[0].Stale {
		t.Errorf("%+v, want two stale instances", s)
	}
}

// A read shows nothing that is older than LagFor.
func TestLagIsBounded(t *testing.T) {
	ours := cloud.New(cloud.Config{ID: "a", Target: 1, Lag: 5, LagFor: time.Minute}, start)
	if err := ours.Other().SetTarget(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	ours.Advance(start.Add(time.Minute - time.Second))
	if s := snapshot(t, ours); s.Target != 1 {
		t.Errorf("within LagFor: target %d, want 1", s.Target)
	}
	ours.Advance(start.Add(time.Minute))
	if s := snapshot(t, ours); s.Target != 5 {
		t.Errorf("after LagFor: target %d, want 5", s.Target)
	}
}

func TestLagHidesWritesOfOthers(t *testing.T) {
	ours := cloud.New(cloud.Config{ID: "a", Target: 1, Lag: 2}, start)
	others := ours.Other()
	set := func(g *cloud.Group, target int) {
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

// Only an id that the group has given out is the id of one of its instances.
func TestIDsOfOthersAreNotOwned(t *testing.T) {
	g := cloud.New(cloud.Config{ID: "a", Target: 2}, start)
	for _, id := range []string{"", "a", "a-", "a-0", "a-3", "a-01", "a-+1", "a--1", "b-1", "aa-1", "a-99999999999999999999"} {
		if err := g.Terminate(t.Context(), []string{id}); !errors.Is(err, pools.ErrNotOwned) {
			t.Errorf("Terminate(%q) = %v, want ErrNotOwned", id, err)
		}
	}
	if err := g.Terminate(t.Context(), []string{"a-2"}); err != nil {
		t.Error(err)
	}
}
