package autoscaler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// untouchable are ports that fail the test on any write.
type untouchable struct {
	t *testing.T
	pools.Group
	*nodes
	*records
	*kept
	*book
}

func (u untouchable) fail(what string) error {
	u.t.Errorf("written: %s", what)
	return errors.New("no write is allowed")
}

func (u untouchable) SetTarget(context.Context, int) error       { return u.fail("target") }
func (u untouchable) Terminate(context.Context, []string) error  { return u.fail("termination") }
func (u untouchable) Cordon(context.Context, string, bool) error { return u.fail("cordon") }
func (u untouchable) Put(context.Context, api.Drain) error       { return u.fail("drain record") }
func (u untouchable) Delete(context.Context, string) error       { return u.fail("drain record deleted") }
func (u untouchable) Save(context.Context, []byte) error         { return u.fail("memory") }
func (u untouchable) Removed(context.Context, string) error      { return u.fail("removal struck") }
func (u untouchable) Rolled(context.Context, string) error       { return u.fail("mark struck") }

// forbid makes the next loop of w fail the test on any write.
func (w *world) forbid() {
	w.t.Helper()
	u := untouchable{t: w.t, nodes: w.nodes, records: w.records, kept: w.memory, book: w.book}
	w.start()
	p := pools.Static{}
	for _, g := range w.groups {
		one := u
		one.Group = g
		p = append(p, guardedGroup{g, one})
	}
	world := w.loop.world
	world.Provider, world.Cordon = p, u
	world.Records, world.Memory, world.Orders = guardedRecords{u}, apply.Encoded{Bytes: guardedMemory{u}}, guardedBook{u}
	w.loop.Close()
	w.loop = NewLoop(w.config, world, logger(w.t))
	w.t.Cleanup(w.loop.Close)
}

type guardedGroup struct {
	*group
	u untouchable
}

func (g guardedGroup) SetTarget(ctx context.Context, n int) error { return g.u.SetTarget(ctx, n) }
func (g guardedGroup) Terminate(ctx context.Context, ids []string) error {
	return g.u.Terminate(ctx, ids)
}

type guardedRecords struct{ u untouchable }

func (r guardedRecords) Load(ctx context.Context) ([]api.Drain, error) {
	return r.u.records.Load(ctx)
}
func (r guardedRecords) Put(ctx context.Context, one api.Drain) error  { return r.u.Put(ctx, one) }
func (r guardedRecords) Delete(ctx context.Context, node string) error { return r.u.Delete(ctx, node) }

type guardedMemory struct{ u untouchable }

func (m guardedMemory) Load(ctx context.Context) ([]byte, bool, error) { return m.u.kept.Load(ctx) }
func (m guardedMemory) Save(ctx context.Context, data []byte) error    { return m.u.Save(ctx, data) }

type guardedBook struct{ u untouchable }

func (b guardedBook) Read(ctx context.Context, now time.Time) (api.Orders, error) {
	return b.u.book.Read(ctx, now)
}
func (b guardedBook) Removed(ctx context.Context, node string) error { return b.u.Removed(ctx, node) }
func (b guardedBook) Rolled(ctx context.Context, group string) error { return b.u.Rolled(ctx, group) }

// busyWorld returns a world with all kinds of changes: one group grows, and nodes drain, leave, are
// removed and rolled.
func busyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, []int{4, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 4*cpusPerNode)
	w.config.OrphansAfter = time.Minute
	w.tick()
	w.tick()
	web.set(cpus(9*cpusPerNode), nil)
	w.book.change(func(o *api.Orders) {
		o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "b-1"}, {Note: api.Note{By: "me"}, Node: "nobody"}}
		o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: w.now}, Group: "a"}, {Note: api.Note{By: "me"}, Group: "z"}}
	})
	w.calls()
	return w
}

// Nothing is written when it is forbidden.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world)
		failed bool
		ends   bool
	}{
		{"in a dry run", func(w *world) { w.config.DryRun = true }, false, false},
		{"in a dry run without a lease", func(w *world) { w.config.DryRun = true; w.lease.set(0) }, false, false},
		{"while paused", func(w *world) { w.book.orders.Pause = &api.Note{By: "me"} }, false, false},
		{"orders are not known", func(w *world) { w.book.fail = errors.New("no bus") }, true, false},
		{"memory cannot be read", func(w *world) { w.memory.fail = errors.New("no bus") }, true, false},
		{"drains cannot be read", func(w *world) { w.records.fail = errors.New("no bus") }, true, false},
		{"the groups are not known", func(w *world) {
			for _, g := range w.groups {
				g.tamper = func(s *pools.GroupSnapshot) { s.ID = "x" }
			}
		}, true, false},
		{"the lease ends soon", func(w *world) { w.lease.set(w.config.callTimeout()) }, false, false},
		{"the lease is lost", func(w *world) { w.lease.set(0) }, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := busyWorld(t)
			w.config.DryRun = test.name == "in a dry run" || test.name == "in a dry run without a lease"
			w.forbid()
			test.change(w)
			before := w.ledger.len()
			w.now = w.now.Add(time.Minute)
			err := w.loop.Tick(t.Context(), w.now)
			if errors.Is(err, pools.ErrNotHolder) != test.ends || err != nil && !test.ends {
				t.Errorf("Tick = %v; ends: want %t", err, test.ends)
			}
			if test.ends {
				if w.ledger.len() != before {
					t.Error("a record of who does not hold the pool")
				}
				return
			}
			r := w.ledger.last(t)
			if (r.Failed != "") != test.failed || len(r.Actions) > 0 {
				t.Errorf("failed %q, done %q: want failed %t", r.Failed, ops(r), test.failed)
			}
			if err := w.loop.Tick(t.Context(), w.now.Add(time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPreviewChangesNothing(t *testing.T) {
	t.Parallel()
	w := busyWorld(t)
	w.forbid()
	w.now = w.now.Add(time.Minute)
	w.clock = func() time.Time { return w.now }
	n := w.ledger.len()
	r, err := w.loop.Preview(t.Context(), api.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	wantExplained(t, r)
	if r.Case == nil || w.ledger.len() != n {
		t.Errorf("preview %+v, %d records more: want a case, and none", r, w.ledger.len()-n)
	}
	again, err := w.loop.Preview(t.Context(), api.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, "second preview", again.Result, r.Result)
}

// The preview of a tick equals the next tick if the signals respond the same.
func TestPreviewIsTheNextTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 4*cpusPerNode)
	w.tick()
	web.set(cpus(2*cpusPerNode), nil)
	w.config.Policy.Limits.MaxRemove = 1
	w.reconfigure()
	w.tick()
	w.now = w.now.Add(time.Minute)
	w.clock = func() time.Time { return w.now }
	preview, err := w.loop.Preview(t.Context(), api.WhatIf{})
	if err != nil {
		t.Fatal(err)
	}
	r := w.tickAgain()
	wantJSON(t, "groups of the preview", preview.Result.Groups, r.Result.Groups)
	wantJSON(t, "choices of the preview", preview.Result.Terminate, r.Result.Terminate)
}

// An intent that cannot be saved is not carried out. The next tick tries again.
func TestIntentThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.start()
	w.memory.fail = errors.New("no bus")
	r := w.tick()
	if want := "nothing is done: keep what is handed on: no bus"; !slices.Equal(r.Problems, []string{want}) {
		t.Errorf("problems = %q, want %q", r.Problems, want)
	}
	w.wantCalls()
	w.memory.fail = nil
	wantOps(t, w.tick(), "set target a: 4")
}

// The intent is saved before the changes, and the outcome after them.
func TestIntent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	seen := false
	w.groups[0].raise = func(context.Context) {
		seen = true
		if i := w.memory.memo(t).Intent; i == nil || i.Targets["a"] != 4 {
			t.Errorf("kept %+v when the group is asked, want the target 4", i)
		}
	}
	w.tick()
	m := w.memory.memo(t)
	if !seen || m.Intent != nil || *m.State.Groups["a"].LastTarget != 4 {
		t.Errorf("kept %+v after the tick, want 4 to have been asked for", m)
	}
}

// A process that was killed in the middle of a tick has no record of its last requests: the targets
// that it finds are not drift.
func TestKilledInATick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.config.Drift = Correct
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 2*cpusPerNode)
	w.tick()
	web.set(cpus(4*cpusPerNode), nil)
	saves := 0
	w.memory.before = func() {
		if saves++; saves == 2 {
			panic("killed")
		}
	}
	func() {
		defer func() { _ = recover() }()
		w.tick()
	}()
	w.memory.before = nil
	w.wantTarget(4)
	w.loop = nil
	if r := w.tick(); r.Drift != nil || len(r.Actions) > 0 {
		t.Errorf("drift %+v, done %q: want none", r.Drift, ops(r))
	}
}

func TestLeaseIsLostInATick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 9*cpusPerNode)
	w.memory.before = func() { w.lease.set(0) }
	w.start()
	w.now = w.now.Add(time.Minute)
	if err := w.loop.Tick(t.Context(), w.now); !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("Tick = %v, want pools.ErrNotHolder", err)
	}
	w.wantCalls()
}

func TestRunEndsWithItsLease(t *testing.T) {
	w := newWorld(t, []int{1})
	w.asks(sigproto.DefaultApp, 1)
	w.lease.set(0)
	ended, _ := w.run()
	if err := await.Value(t, "the end", ended); !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("Run = %v, want pools.ErrNotHolder", err)
	}
}

// A pause ends at its time, and then the drains continue.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.book.orders.Pause = &api.Note{By: "me", Why: "migration", Until: w.now.Add(2 * time.Minute)}
	r := w.tick()
	if r.Paused == nil || r.Paused.By != "me" || r.Case != nil || len(w.store.values(t, "metadata", "target_capacity", w)) > 0 {
		t.Errorf("record %+v, want it paused", r)
	}
	w.wantCalls()
	wantOps(t, w.tick(), "set target a: 4")
}
