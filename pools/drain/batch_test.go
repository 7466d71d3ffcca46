package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// slow is a scheduler that does not respond for some nodes until the context ends.
type slow struct {
	*world
	nodes       map[string]bool
	atOnce, max atomic.Int32
	quick       atomic.Int64 // time of the latest cordon of another node, after start
	began       time.Time
}

func (s *slow) Cordon(ctx context.Context, node string, on bool) error {
	n := s.atOnce.Add(1)
	defer s.atOnce.Add(-1)
	for {
		if most := s.max.Load(); n <= most || s.max.CompareAndSwap(most, n) {
			break
		}
	}
	if s.nodes[node] {
		<-ctx.Done()
		return ctx.Err()
	}
	s.quick.Store(int64(time.Since(s.began)))
	return s.world.Cordon(ctx, node, on)
}

// begin chooses all nodes of a pool whose scheduler is slow for some of them.
func begin(t *testing.T, config drain.Config, nodes int, stuck ...string) (*slow, *drain.Machine) {
	t.Helper()
	s := &slow{world: newWorld(t, nodes), nodes: map[string]bool{}, began: time.Now()}
	for _, node := range stuck {
		s.nodes[node] = true
	}
	m, err := drain.Open(t.Context(), config, drain.Ports{Records: s, Scheduler: s, Groups: s})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		add(t, s.world, m, chosenFor(api.DrainSpot, fmt.Sprintf("a-%d", i+1)))
	}
	return s, m
}

func TestSlowNodeDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drain.Config{Threshold: time.Hour, CallTimeout: 3 * time.Second, Concurrency: 8}
		s, m := begin(t, c, 101, "a-1", "a-50")
		events, err := s.tick(m)
		if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "cordon node") != 2 {
			t.Errorf("Advance = %v, want the deadlines of two nodes", err)
		}
		if took := time.Since(s.began); took != c.CallTimeout || s.quick.Load() != 0 {
			t.Errorf("took %v, and the others %v, want %v and no time", took, time.Duration(s.quick.Load()), c.CallTimeout)
		}
		inOrder := slices.IsSortedFunc(events, func(a, b drain.Event) int { return strings.Compare(a.Node, b.Node) })
		if len(events) != 101 || !inOrder {
			t.Errorf("%d events, in order of node: %t", len(events), inOrder)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drain.Config{Threshold: time.Hour, CallTimeout: 3 * time.Second, Concurrency: 4}
		s, m := begin(t, c, 10, "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8", "a-9", "a-10")
		if _, err := s.tick(m); err == nil {
			t.Error("Advance = nil, want deadlines")
		}
		if took, most := time.Since(s.began), s.max.Load(); took != 3*c.CallTimeout || most != 4 {
			t.Errorf("took %v with %d at the same time, want %v with 4", took, most, 3*c.CallTimeout)
		}
	})
}

func TestCancelStopsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := drain.Config{Threshold: time.Hour, Concurrency: 1}
		s, m := begin(t, c, 3, "a-1")
		stop := errors.New("the lease is lost")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stop)
		defer cancel()
		_, err := m.Advance(ctx, s.clock(), s.snapshots())
		if !errors.Is(err, stop) || s.count("cordon a-2") != 0 {
			t.Errorf("Advance = %v, calls %v, want %v, and no other node", err, s.calls, stop)
		}
		if took := time.Since(s.began); took != time.Second {
			t.Errorf("took %v, want %v", took, time.Second)
		}
	})
}

// TestUnreadableRecordsAreNotChanged checks that the node of an unreadable record is not changed by any
// choice, and that the other nodes continue.
func TestUnreadableRecordsAreNotChanged(t *testing.T) {
	w := newWorld(t, 4)
	w.stored["a-1"] = []byte("\x00garbage")
	w.stored["a-2"] = []byte(`{"node":"a-2","group":"a","weight":1,"state":"draining","reason":"whim","since":"2023-11-14T22:13:20Z","deadline":"2023-11-14T22:13:20Z"}`)
	w.stored["a-3"] = []byte(`{"node":"a-3","group":"a","weight":1,"state":"draining","reason":"scaling down","since":"2023-11-14T22:13:20Z"}`)
	m := w.open(forced)
	told := func(err error) {
		for _, want := range []string{"leave node a-1 unchanged", "invalid character", "leave node a-2 unchanged", `"whim"`, "leave node a-3 unchanged"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want also %q", err, want)
			}
		}
	}
	told(m.Add(t.Context(), w.clock(), choice("a-1"), choice("a-2"), choice("a-3"), choice("a-4")))
	for range 6 {
		_, err := w.tick(m)
		told(err)
	}
	if s := w.snapshot(); len(s.Instances) != 3 || w.count("terminate a-4") != 1 || len(w.stored) != 3 {
		t.Errorf("left is %+v, calls %v, want all but the fourth", s, w.calls)
	}
	if len(m.Records()) != 3 {
		t.Errorf("records are %+v, want the three", m.Records())
	}
}
