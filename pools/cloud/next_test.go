package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// A group that is advanced only to the moments of Next is at each second as one that is advanced to each second. Its version changes
// with its snapshot only, and each instance ends once.
func TestNextIsTheNextChange(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		config := cloud.Config{
			ID: "a", Max: 20, Target: r.IntN(5), Leave: time.Duration(r.IntN(20)) * time.Second, Shared: seed%2 == 0, NoLog: true,
			Launch: func(number int) cloud.Launch {
				return cloud.Launch{ID: fmt.Sprintf("a-%d", number), Weight: float64(number % 3), Join: time.Duration(number%7*3) * time.Second}
			},
		}
		ended := [2]map[string]string{{}, {}}
		var groups [2]*cloud.Group
		for i := range groups {
			c := config
			c.Ended = func(in pools.Instance, at time.Time, byProvider bool) {
				if before, twice := ended[i][in.ID]; twice {
					t.Errorf("seed %d: %s ended twice, first %s", seed, in.ID, before)
				}
				ended[i][in.ID] = fmt.Sprint(at.Unix(), byProvider)
			}
			groups[i] = cloud.New(c, start)
		}
		each, jumps := groups[0], groups[1]
		for second := range 300 {
			now := start.Add(time.Duration(second) * time.Second)
			each.Advance(now)
			for next := jumps.Next(); !next.IsZero() && !next.After(now); next = jumps.Next() {
				jumps.Advance(next)
			}
			if change := changeOf(r, now); change != nil {
				jumps.Advance(now)
				change(each)
				change(jumps)
				each.Advance(now)
				jumps.Advance(now)
			}
			if a, b := snapshotOf(t, each), snapshotOf(t, jumps); !cmp.Equal(a, b) {
				t.Fatalf("seed %d, second %d: %s", seed, second, cmp.Diff(a, b))
			}
			version, before := each.Version(), snapshotOf(t, each)
			each.Advance(now)
			if each.Version() != version || !cmp.Equal(before, snapshotOf(t, each)) {
				t.Fatalf("seed %d, second %d: the group changed without a cause", seed, second)
			}
		}
		if diff := cmp.Diff(ended[0], ended[1]); diff != "" || len(ended[0]) == 0 {
			t.Errorf("seed %d: %d ended: %s", seed, len(ended[0]), diff)
		}
	}
}

// changeOf returns a random change of a group, mostly none.
func changeOf(r *rand.Rand, now time.Time) func(*cloud.Group) {
	n := r.IntN(20)
	id := fmt.Sprintf("a-%d", 1+r.IntN(20))
	switch r.IntN(20) {
	case 0:
		return func(g *cloud.Group) { _ = g.SetTarget(context.Background(), n) }
	case 1:
		return func(g *cloud.Group) { _ = g.Terminate(context.Background(), []string{id}) }
	case 2:
		return func(g *cloud.Group) { g.Lose(id) }
	case 3:
		return func(g *cloud.Group) { g.Interrupt(id, now.Add(time.Duration(n)*time.Second)) }
	}
	return nil
}

func snapshotOf(t *testing.T, g *cloud.Group) pools.GroupSnapshot {
	t.Helper()
	s, err := g.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A late launch appears at its time, and counts before. A machine stays listed as long as its launch says, a write that is not admitted
// changes nothing, and weight beyond the target ends first where the group does that.
func TestLaunchesAndEndsOfARecording(t *testing.T) {
	refuse := true
	g := cloud.New(cloud.Config{
		ID: "a", Max: 20, Target: 1, SurplusFirst: true,
		Launch: func(number int) cloud.Launch {
			return cloud.Launch{ID: fmt.Sprint("m", number), Weight: 2, After: time.Duration(number-1) * 10 * time.Second, Leave: 5 * time.Second}
		},
		Admit: func(w *cloud.Write) error {
			if refuse && w.Op == cloud.Terminate {
				return pools.ErrThrottled
			}
			return nil
		},
	}, start)
	if err := g.SetTarget(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		at   time.Duration
		want int
	}{{9 * time.Second, 1}, {10 * time.Second, 2}} {
		g.Advance(start.Add(one.at))
		if n := len(snapshotOf(t, g).Instances); n != one.want {
			t.Errorf("%d instances after %v, want %d", n, one.at, one.want)
		}
	}
	if err := g.Terminate(t.Context(), []string{"m1"}); !errors.Is(err, pools.ErrThrottled) || snapshotOf(t, g).Target != 3 {
		t.Errorf("error %v of a termination that is not admitted, target %d", err, snapshotOf(t, g).Target)
	}
	refuse = false
	if err := g.Terminate(t.Context(), []string{"m1"}); err != nil || snapshotOf(t, g).Target != 2 {
		t.Errorf("target %d (%v), want 2: one of the weight was beyond it", snapshotOf(t, g).Target, err)
	}
	g.Advance(start.Add(14 * time.Second))
	if n := len(snapshotOf(t, g).Instances); n != 2 {
		t.Errorf("%d instances before the ended one leaves, want 2", n)
	}
	g.Advance(start.Add(15 * time.Second))
	if n := len(snapshotOf(t, g).Instances); n != 1 {
		t.Errorf("%d instances after it, want 1", n)
	}
}
