package autoscaler

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Between two ticks that are far apart a drain continues to its end, without another reading of the
// provider, and the next tick records it.
func TestDrainsGoOnBetweenTicks(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.clock = func() time.Time { return w.now }
	w.config.Tick = 10 * time.Minute
	w.reconfigure()
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	if !w.loop.writer.Tending() {
		t.Fatal("a drain is under way, and nobody tends it")
	}
	w.book.change(func(o *api.Orders) { o.Removals = nil })
	read := w.loop.writer.Latest().At
	for range 4 {
		w.now = w.now.Add(apply.TendEvery)
		if err := w.loop.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(w.instances(), "a-2") {
		t.Errorf("a-2 is still there: %+v", w.loop.drains())
	}
	if !w.loop.writer.Latest().At.Equal(read) {
		t.Error("the provider was read for it")
	}
	r := w.tick()
	if got := strings.Join(ops(r), "; "); !strings.Contains(got, "draining -> drained") || !strings.Contains(got, "drained -> terminating") {
		t.Errorf("the next tick tells of %q", got)
	}
	if len(w.loop.between) != 0 {
		t.Errorf("%d actions are left to tell", len(w.loop.between))
	}
}

// While the records of the drains must be read again, no drain advances.
func TestNothingIsTendedWithoutRecords(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.config.Tick, w.config.Drain.Threshold = 10*time.Minute, time.Hour
	w.reconfigure()
	if w.loop.writer.Tending() {
		t.Error("nothing is under way, and it is tended")
	}
}

// No drain advances in a pool that is paused between two ticks.
func TestPausedDrainsAreNotTended(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.config.Tick = 10 * time.Minute
	w.reconfigure()
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	before := w.loop.drains()
	w.book.change(func(o *api.Orders) { o.Pause = &api.Note{By: "me", At: w.now} })
	if err := w.loop.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := w.loop.drains(); !slices.Equal(before, after) || w.loop.writer.Tending() {
		t.Errorf("drains %+v, were %+v", after, before)
	}
}

// Drains do not advance by an old reading of the provider.
func TestDrainsWaitForTheProvider(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.clock = func() time.Time { return w.now }
	w.config.Tick = time.Minute
	w.reconfigure()
	w.remove("a-2")
	before := w.loop.drains()
	w.now = w.now.Add(2*time.Minute + time.Second)
	if err := w.loop.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := w.loop.drains(); !slices.Equal(before, after) || w.loop.writer.Tending() {
		t.Errorf("drains %+v, were %+v: want them to wait", after, before)
	}
}

// A drain that waits is not written between two ticks, and the orders are not read for it. Each of these 100 tends once read the orders
// and saved the state twice: 100 reads and 200 durable writes.
func TestWaitingDrainsAreNotSaved(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.clock = func() time.Time { return w.now }
	w.config.Tick, w.config.Drain.Threshold = 10*time.Minute, time.Hour
	w.reconfigure()
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	tend := func() {
		w.now = w.now.Add(apply.TendEvery)
		if err := w.loop.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tend() // it confirms its cordon
	saves, reads, stored := w.memory.saves, w.book.reads, maps.Clone(w.records.stored)
	for range 100 {
		tend()
	}
	saves, reads = w.memory.saves-saves, w.book.reads-reads
	t.Logf("100 tends of a drain that waits: %d reads of the orders, %d saves of the state", reads, saves)
	if saves != 0 || reads != 0 || !maps.EqualFunc(stored, w.records.stored, bytes.Equal) {
		t.Errorf("the state was saved %d times, and the orders were read %d times, while the drain waited for a task", saves, reads)
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	tend()
	if slices.Contains(w.instances(), "a-2") {
		t.Errorf("a-2 has no task and is still there: %+v", w.loop.drains())
	}
}

// countedFacts counts the readings of the nodes.
type countedFacts struct {
	*nodes
	read atomic.Int64
}

func (c *countedFacts) Facts(now time.Time) []api.NodeFacts {
	c.read.Add(1)
	return c.nodes.Facts(now)
}

// The drains advance every 5 s between two ticks, whatever else the loop does, such as its signs of life every 5 s.
func TestSignsOfLifeDoNotDelayDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &group{Group: cloud.New(cloud.Config{ID: "a", Max: 3, Target: 3}, time.Now())}
		scheduler := &countedFacts{nodes: &nodes{groups: []*group{g}, tasks: map[string]int{"a-2": 1}, cordoned: map[string]bool{}, mute: map[string]bool{}}}
		loop := NewLoop(Config{
			Cluster: "here", Pool: "default", Tick: 10 * time.Minute,
			Policy:  api.DecisionPolicy{Setpoint: 1, Combine: api.CombineSum, Limits: api.TargetLimits{Min: 3, Max: 3}},
			Drain:   drain.Config{Threshold: time.Hour},
			Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
		}, World{
			Provider: cloud.NewProvider(g.Group), Scheduler: scheduler, Directory: &directory{}, Metrics: &memory.Store{},
			Memory: apply.Encoded{Bytes: &kept{}}, Orders: &book{orders: api.Orders{Removals: []api.Removal{{Node: "a-2"}}}}, Lease: &lease{left: time.Hour},
			Cordon: scheduler, Records: &records{stored: map[string][]byte{}}, Ledger: EncodedLedger{&ledger{appended: make(chan struct{}, 1)}},
			Dial: func(ask.Endpoint, ask.RequestSpec) ask.Client { return prompt{} },
		}, logger(t))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := loop.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		<-time.After(2 * time.Second)
		before := scheduler.read.Load()
		<-time.After(5 * time.Minute)
		if n := scheduler.read.Load() - before; n < 59 {
			t.Errorf("the drains advanced %d times in 5 minutes, want every 5 s", n)
		}
		stop()
		wg.Wait()
	})
}
