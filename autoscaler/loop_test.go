package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestTickScalesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 1}, "web", "batch")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 15)
	w.asks("batch", 9)
	w.nodes.tasks["a-1"] = 2

	r := w.tick()
	wantOps(t, r, "set target a: 3", "set target b: 3")
	w.wantTarget(6)
	if r.At != w.now || r.Every != w.config.Tick || r.Cluster != "here" || r.Pool != "default" || r.Failed != "" || r.Problems != nil {
		t.Errorf("%+v", r)
	}
	app, resolved := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	if o := app.Opinion; o.Signal != namespace(t)+"/Need" || o.Version != "v1" || o.Request != cpus(15) || !o.At.Equal(w.now) || o.Latency <= 0 {
		t.Errorf("opinion of web = %+v", o)
	}
	if resolved.Source != api.FromSignal {
		t.Errorf("web is served by %s", resolved.Source)
	}
	if s := r.Snapshot; len(r.Case.Nodes) != 3 || s.Joined != 3 || s.Target != 3 || s.Totals[0] != 12 || s.Allocated[0] != 2 || s.Silent != nil {
		t.Errorf("snapshot = %+v", s)
	}
	for name, want := range map[string]float64{"cpus_total": 12, "non_orphan_fulfilled_capacity": 3, "target_capacity": 3, "fulfilled_capacity": 3} {
		if got := w.store.values(t, metrics.Metadata, name, w); len(got) != 1 || got[0] != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := w.store.values(t, metrics.System, "cpus_allocated", w); len(got) != 1 || got[0] != 2 {
		t.Errorf("cpus_allocated = %v, want 2", got)
	}

	r = w.tick()
	wantOps(t, r)
	if r.Result.Target != 6 || r.Snapshot.Joined != 6 {
		t.Errorf("target %v of %v joined, want 6 of 6", r.Result.Target, r.Snapshot.Joined)
	}
}

// A group that cannot be read counts as it was, and is not changed. The others grow, and the pool does not shrink, also after a
// restart that has only the target of the group.
func TestGroupCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{2, 4}, "web")
			w.asks(sigproto.DefaultApp, 1)
			web := w.asks("web", 6*cpusPerNode)
			w.tick()
			if restarted {
				w.loop = nil
			}
			w.groups[1].Refuse(cloud.Snapshot, errors.New("the api is down"))
			web.set(cpus(9*cpusPerNode), nil)
			r := w.tick()
			wantOps(t, r, "set target a: 5")
			if want := "group b could not be read: its last known size counts, it is not changed, and the pool does not shrink: the api is down"; r.Failed != "" || !slices.Contains(r.Problems, want) {
				t.Errorf("failed %q, problems %q: want %q", r.Failed, r.Problems, want)
			}
			if want := []api.Part{{Kind: api.PartGroup, Name: "b", State: api.PartUnknown, Since: r.At, Why: "the api is down"}}; !slices.Equal(r.Parts, want) {
				t.Errorf("parts %+v, want %+v", r.Parts, want)
			}
			web.set(cpus(cpusPerNode), nil)
			for range 3 {
				later := w.tick()
				if wantOps(t, later); !slices.Equal(later.Parts, r.Parts) {
					t.Errorf("parts %+v at a later tick, want %+v", later.Parts, r.Parts)
				}
			}
			if g := w.ledger.last(t).Snapshot.Groups[1]; g.Unknown == nil || g.Target != 4 {
				t.Errorf("group b is %+v, want an unknown one with target 4", g)
			}
			w.groups[1].Refuse(cloud.Snapshot, nil)
			if r := w.tick(); len(r.Problems) > 0 || r.State.Wanted == nil || *r.State.Wanted >= 9 {
				t.Errorf("problems %q, wanted %v: want none and a smaller pool", r.Problems, r.State.Wanted)
			}
		})
	}
}

// After three raises with an unknown result another group takes the share, also of a group that was raised before.
func TestRaisesWithoutAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 4*cpusPerNode)
	w.tick()
	web.set(cpus(6*cpusPerNode), nil)
	wantOps(t, w.tick(), "set target a: 3", "set target b: 3")
	w.tick()
	w.groups[0].Refuse(cloud.SetTarget, errors.New("lost"))
	web.set(cpus(10*cpusPerNode), nil)
	for range 6 {
		w.tick()
	}
	if s, err := w.groups[1].Other().Snapshot(t.Context()); err != nil || s.Target < 7 {
		t.Errorf("group b has the target %d, %v, want at least 7", s.Target, err)
	}
}

// Raises with an unknown result that are far apart do not count together.
func TestUnclearRaisesFarApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 2*cpusPerNode)
	w.tick()
	w.groups[0].Refuse(cloud.SetTarget, errors.New("lost"))
	for range 3 {
		web.set(cpus(6*cpusPerNode), nil)
		r := w.tick()
		if len(r.State.Backoffs) != 1 || r.State.Backoffs[0].Failures != 1 || r.State.Backoffs[0].Holds(r.State.Clock) {
			t.Errorf("backoffs %+v, want one failure and no backoff", r.State.Backoffs)
		}
		web.set(cpus(2*cpusPerNode), nil)
		for range 8 {
			w.tick()
		}
	}
}

// A group that was never read appears when it is read: its target was set by no other party.
func TestGroupIsReadLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 4}, "web")
	w.config.Drift = Correct
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 6*cpusPerNode)
	w.groups[0].Quota(2)
	w.groups[1].Refuse(cloud.Snapshot, errors.New("the api is down"))
	w.tick()
	web.set(resource.Request{}, errors.New("no metrics"))
	w.tick()
	w.groups[1].Refuse(cloud.Snapshot, nil)
	for range 5 {
		if r := w.tick(); len(r.Drift) > 0 || slices.ContainsFunc(r.Actions, func(a api.Action) bool { return a.Op == api.OpRemove }) {
			t.Errorf("drift %+v, done %q: want neither drift nor removals", r.Drift, ops(r))
		}
	}
}

// A node that the provider interrupts is cordoned, also if its group cannot be read.
func TestNoticeOfAnUnreadGroup(t *testing.T) {
	w, _, _ := steady(t, 2)
	w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.ID = "another" }
	w.tick()
	if err := w.loop.Notice(t.Context(), pools.Notice{Instance: "a-1", Kind: pools.Interruption, Done: func() {}}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if !w.nodes.cordoned["a-1"] {
		t.Error("a-1 is not cordoned")
	}
}

// The record of a tick names each instance that the provider listed, also those that leave, and why groups may be missing.
func TestRecordNamesEachInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3, 1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.tick()
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	w.provider.missing = pools.Missing{"asg": errors.New("the list is denied")}
	w.tick()
	want := w.instances()
	r := w.tick()
	names := slices.Clone(r.Snapshot.Others)
	for _, n := range r.Case.Nodes {
		names = append(names, n.ID)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) || !slices.Equal(r.Snapshot.Others, []string{"a-2"}) {
		t.Errorf("the record has %q, others %q: want %q, and a-2, which leaves, as another", names, r.Snapshot.Others, want)
	}
	if r.Snapshot.Missing != "the list is denied" {
		t.Errorf("missing is %q, want why groups may be missing", r.Snapshot.Missing)
	}
}

// Without any known group a tick ends early.
func TestNoGroupCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 40)
	for _, g := range w.groups {
		g.Refuse(cloud.Snapshot, errors.New("the api is down"))
	}
	r := w.tick()
	if want := "read group a: the api is down"; r.Failed != want {
		t.Errorf("failed = %q, want %q", r.Failed, want)
	}
	if web.count() != 0 || len(r.Actions) > 0 {
		t.Errorf("signal asked %d times, actions %v: want nothing to be asked", web.count(), r.Actions)
	}
	w.wantCalls()
}

// A group that the provider lists no more is gone: the others replace it, and this is reported once.
func TestGroupIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 4}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 6*cpusPerNode)
	w.tick()
	w.groups = w.groups[:1]
	r := w.tick()
	if want := "group b is gone: the provider lists it no more, and other groups replace it"; !slices.Contains(r.Problems, want) {
		t.Errorf("problems %q: want %q", r.Problems, want)
	}
	if want := []api.Part{{Kind: api.PartGroup, Name: "b", State: api.PartGone, Since: r.At}}; !slices.Equal(r.Parts, want) {
		t.Errorf("parts %+v, want %+v", r.Parts, want)
	}
	wantOps(t, r, "set target a: 6")
	if r := w.tick(); len(r.Problems)+len(r.Parts) > 0 {
		t.Errorf("problems %q at the next tick, want none", r.Problems)
	}
}

func TestAnswerOfAGroupThatCannotBeTrue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		tamper func(*pools.GroupSnapshot)
		want   string
	}{
		{"another group", func(s *pools.GroupSnapshot) { s.ID = "b" }, `read group a: the answer is of group "b"`},
		{"instance of another", func(s *pools.GroupSnapshot) { s.Instances[1].Group = "b" }, `read group a: instance a-2 is of group "b"`},
		{"no id", func(s *pools.GroupSnapshot) { s.Instances[0].ID = "" }, "read group a: an instance has no id"},
		{"negative", func(s *pools.GroupSnapshot) { s.Instances[0].Weight = -1 }, "read group a: instance a-1 has the weight -1: want 0 to 1099511627776"},
		{"huge", func(s *pools.GroupSnapshot) { s.Instances[0].Weight = 1e300 }, "read group a: instance a-1 has the weight 1e+300: want 0 to 1099511627776"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{2})
			w.groups[0].tamper = test.tamper
			if r := w.tick(); r.Failed != test.want {
				t.Errorf("failed = %q, want %q", r.Failed, test.want)
			}
			w.wantCalls()
		})
	}
}

// A raise that fails for an unknown reason is retried. No other group replaces it, because it may
// have taken effect.
func TestFailedTargetIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1, 1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 16)
	w.groups[0].Refuse(cloud.SetTarget, errors.New("the api is down"))

	r := w.tick()
	wantOps(t, r, "set target a: 2 FAILED", "set target b: 2")
	if want := "set target of group a to 2: the api is down"; r.Actions[0].Error != want {
		t.Errorf("error = %q, want %q", r.Actions[0].Error, want)
	}
	w.wantTarget(3)
	w.groups[0].Refuse(cloud.SetTarget, nil)
	wantOps(t, w.tick(), "set target a: 2")
	w.wantTarget(4)
}

// A provider that is slow for one group does not delay the others: each call returns only when both
// have been made.
func TestGroupsAreRaisedAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1, 1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	var begun sync.WaitGroup
	begun.Add(len(w.groups))
	both := make(chan struct{})
	go func() { begun.Wait(); close(both) }()
	for _, g := range w.groups {
		g.raise = func(ctx context.Context) {
			begun.Done()
			select {
			case <-both:
			case <-ctx.Done():
				t.Errorf("group %s waited for the other: %v", g.ID(), ctx.Err())
			}
		}
	}
	wantOps(t, w.tick(), "set target a: 2", "set target b: 2")
}

func TestNoPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.groups[0].MarkStale()
	r := w.tick()
	if want := "all groups of the pool are stale"; r.Detail.Refused != want || r.Detail.Distribution.Shares != nil {
		t.Errorf("plan = %+v, want it refused: %s", r.Detail, want)
	}
	wantOps(t, r)
	w.wantCalls()
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		need float64
	}{{"grow", 40}, {"shrink", 4}, {"keep", 16}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{2, 2}, "web")
			w.asks(sigproto.DefaultApp, 1)
			w.asks("web", test.need)
			w.config.DryRun = true
			dry := w.tick()
			if !dry.DryRun || dry.Actions != nil || len(w.records.stored) > 0 || len(w.nodes.log) > 0 {
				t.Errorf("dry run: actions %v, drains %v, cordons %v: want none", dry.Actions, w.records.stored, w.nodes.log)
			}
			w.wantCalls()

			w.config.DryRun = false
			w.start()
			acted := w.tickAgain()
			wantJSON(t, "plan of a dry run", acted.Detail, dry.Detail)
			wantJSON(t, "choices of a dry run", acted.Result.Terminate, dry.Result.Terminate)
			if acted.Result.Target != dry.Result.Target {
				t.Errorf("target %v, in a dry run %v", acted.Result.Target, dry.Result.Target)
			}
			if want := test.need != 16; want != (len(acted.Actions) > 0) {
				t.Errorf("actions = %v", ops(acted))
			}
		})
	}
}

func TestMetricsStoreIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	def := w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 1)
	usage := ask.Window{Name: "cpus_allocated", Type: metrics.System, Range: window, MaxAge: window}
	w.config.Default.Windows, w.config.Apps[0].Windows = []ask.Window{usage}, []ask.Window{usage}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	r := w.tick()
	app, resolved := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "window of cpus_allocated is unknown", "closed")
	wantOpinion(t, r.Case.Input.Default, api.VerdictFailed, "window of cpus_allocated is unknown", "closed")
	if resolved.Source != api.FromNone || web.count()+def.count() > 0 {
		t.Errorf("served by %s, asked %d times: want nobody, never", resolved.Source, web.count()+def.count())
	}
	if len(r.Problems) != 1 {
		t.Errorf("problems = %q, want one", r.Problems)
	}
	wantOps(t, r)
	w.wantCalls()
}

func TestLedgerIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 8)
	w.start()
	w.ledger.fail = errors.New("no bus")
	if err := w.loop.Tick(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	w.wantCalls("set target a 2") // a pool is served without its ledger
	w.ledger.fail = nil
	wantOps(t, w.tick())
}
