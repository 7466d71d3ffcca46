package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

func choice(node string) drain.Choice {
	return drain.Choice{Node: node, Group: "a", Weight: 1, Reason: api.DrainScaleIn, Why: "idle"}
}

func add(t *testing.T, w *world, m *drain.Machine, choices ...drain.Choice) {
	t.Helper()
	if err := m.Add(t.Context(), w.now, choices...); err != nil {
		t.Fatal(err)
	}
}

// ticks advances the machine n times without an error.
func ticks(t *testing.T, w *world, m *drain.Machine, n int) []drain.Event {
	t.Helper()
	var events []drain.Event
	for range n {
		happened, err := w.tick(m)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, happened...)
	}
	return events
}

func TestDrainFromChosenToGone(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-2"] = 2
	m := w.open(config)
	add(t, w, m, choice("a-2"))
	add(t, w, m, choice("a-2")) // chosen again by the next tick: no change
	var got []string
	for _, e := range ticks(t, w, m, 6) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%v %s %s %s", e.At.Sub(start), e.From, e.To, e.Action)))
	}
	want := []string{
		"1m0s chosen cordoned cordon",
		"2m0s cordoned draining",
		"3m0s draining drained",
		"3m0s drained terminating terminate",
		"5m0s terminating gone",
		"6m0s gone gone forget",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events, -want +got:\n%s", diff)
	}
	calls := []string{
		"put a-2 chosen", "put a-2 cordoned", "cordon a-2", "put a-2 draining", "put a-2 drained",
		"put a-2 terminating", "terminate a-2", "put a-2 terminating", "put a-2 gone", "delete a-2",
	}
	if diff := cmp.Diff(calls, w.calls); diff != "" {
		t.Errorf("calls, -want +got:\n%s", diff)
	}
	if s := w.snapshot(); s.Target != 2 || len(s.Instances) != 2 {
		t.Errorf("left is %+v, want two of two", s)
	}
}

// TestOpenAtEveryState starts from a record of each state, as after a crash.
func TestOpenAtEveryState(t *testing.T) {
	for state, stays := range map[api.DrainState]bool{
		api.DrainChosen: false, api.DrainCordoned: false, api.DrainDraining: false, api.DrainDrained: false,
		api.DrainTerminating: false, api.DrainReturning: true, api.DrainReturned: true, api.DrainGone: true, // the instance still exists
	} {
		t.Run(string(state), func(t *testing.T) {
			w := newWorld(t, 3)
			w.tasks["a-2"] = 1
			r := record(state, func(r *api.Drain) { r.Node, r.Weight = "a-2", 1 })
			if err := w.Put(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			w.cordoned["a-2"] = r.CordonSent != time.Time{} && state != api.DrainReturned
			ticks(t, w, w.open(config), 10)
			if len(w.stored) != 0 {
				t.Errorf("records left: %s", w.stored)
			}
			if s := w.snapshot(); stays != (len(s.Instances) == 3 && s.Target == 3) || !stays && s.Target != 2 {
				t.Errorf("left is %+v, want that it stays: %t", s, stays)
			}
			if stays && w.cordoned["a-2"] {
				t.Error("it is still cordoned")
			}
		})
	}
}

func TestOneFailureDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, 4)
	m := w.open(config)
	add(t, w, m, choice("a-1"), choice("a-2"), choice("a-3"))
	no := errors.New("throttled")
	w.fail["cordon a-1"], w.fail["terminate a-2"] = no, no
	var failed []string
	for range 5 {
		events, err := w.tick(m)
		if !errors.Is(err, no) {
			t.Fatalf("Advance = %v, want %v", err, no)
		}
		for _, e := range events {
			if e.Err != "" {
				failed = append(failed, fmt.Sprintf("%s %s", e.Action, e.Node))
			}
		}
	}
	if w.count("terminate a-3") != 1 || w.count("terminate a-2") != 0 || w.count("cordon a-1") != 0 {
		t.Errorf("calls:\n%s", strings.Join(w.calls, "\n"))
	}
	if !slices.Contains(failed, "cordon a-1") || !slices.Contains(failed, "terminate a-2") {
		t.Errorf("the events have the failures %v", failed)
	}
	clear(w.fail)
	ticks(t, w, m, 10)
	if s := w.snapshot(); s.Target != 1 || len(s.Instances) != 1 {
		t.Errorf("in the end left is %+v, want one", s)
	}
}

func TestNoActionWithoutStoredRecord(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 1)
	w.fail["put a-1 terminating"] = errors.New("no store")
	for range 5 {
		if _, err := w.tick(m); err == nil {
			t.Fatal("Advance = nil, want an error")
		}
	}
	if w.count("terminate a-1") != 0 {
		t.Error("terminated without a record of it")
	}
	if got := m.Records(); len(got) != 1 || got[0].State != api.DrainDrained {
		t.Errorf("records are %+v, want one that is drained", got)
	}
}

func TestGiveUp(t *testing.T) {
	for _, test := range []struct {
		name      string
		config    drain.Config
		instances int
	}{{"uncordons it", config, 2}, {"with force ends it", forced, 1}} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.tasks["a-1"] = 1000
			m := w.open(test.config)
			add(t, w, m, choice("a-1"))
			ticks(t, w, m, 29)
			if s := w.snapshot(); len(s.Instances) != 2 || !w.cordoned["a-1"] {
				t.Errorf("before the deadline: %+v", s)
			}
			ticks(t, w, m, 4)
			if s := w.snapshot(); len(s.Instances) != test.instances || s.Target != test.instances {
				t.Errorf("after the deadline: %+v, want %d", s, test.instances)
			}
			if test.instances == 2 && w.cordoned["a-1"] {
				t.Error("it stays, but cordoned")
			}
			if len(m.Records()) != 0 {
				t.Errorf("records left: %+v", m.Records())
			}
		})
	}
}

func TestTakeBack(t *testing.T) {
	w := newWorld(t, 6)
	w.tasks["a-1"], w.tasks["a-2"], w.tasks["a-5"] = 9, 9, 9
	m := w.open(config)
	removal := choice("a-5")
	removal.Reason = api.DrainRemoval
	add(t, w, m, choice("a-1"), removal)
	ticks(t, w, m, 2)
	add(t, w, m, choice("a-2"), choice("a-3"))
	ticks(t, w, m, 1)
	add(t, w, m, choice("a-4"))
	if diff := cmp.Diff(map[string]float64{"a": 5}, m.Committed(everywhere)); diff != "" {
		t.Errorf("Committed, -want +got:\n%s", diff)
	}
	var ids []string
	for _, r := range drain.Returnable(m.Records()) {
		ids = append(ids, r.Node)
	}
	if diff := cmp.Diff([]string{"a-4", "a-2", "a-3", "a-1"}, ids); diff != "" {
		t.Errorf("Returnable, those that drain the shortest time first, -want +got:\n%s", diff)
	}
	kept, err := m.TakeBack(t.Context(), w.now, "a-2", "a-4")
	if kept != 2 || err != nil {
		t.Fatalf("TakeBack of two nodes = %v, %v, want 2", kept, err)
	}
	var back []string
	for _, r := range m.Records() {
		if r.State == api.DrainReturning || r.State == api.DrainReturned {
			back = append(back, r.Node+" "+string(r.State))
		}
	}
	if diff := cmp.Diff([]string{"a-2 returning", "a-4 returned"}, back); diff != "" {
		t.Errorf("these nodes, -want +got:\n%s", diff)
	}
	kept, err = w.open(config).TakeBack(t.Context(), w.now, "a-1", "a-3", "a-5", "a-9")
	if kept != 2 || err != nil {
		t.Errorf("TakeBack of every node = %v, %v, want 2: not what an operator named", kept, err)
	}
	m = w.open(config)
	ticks(t, w, m, 10)
	if s := w.snapshot(); len(s.Instances) != 5 || s.Target != 5 {
		t.Errorf("left is %+v, want all but one", s)
	}
	for id, on := range w.cordoned {
		if on && id != "a-5" {
			t.Errorf("%s is still cordoned", id)
		}
	}
}

func TestChosenAgainWhileReturning(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 1)
	if _, err := m.TakeBack(t.Context(), w.now, "a-1"); err != nil {
		t.Fatal(err)
	}
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 10)
	if s := w.snapshot(); len(s.Instances) != 1 {
		t.Errorf("left is %+v, want one", s)
	}
}

func TestCommittedEndsWithTheRequestToTerminate(t *testing.T) {
	w := newWorld(t, 3)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	for range 6 {
		if got := float64(w.snapshot().Target) - m.Committed(everywhere)["a"]; got != 2 {
			t.Fatalf("at %v: target less committed is %v, want 2 all the way", w.now, got)
		}
		ticks(t, w, m, 1)
	}
}

func TestUnknownSnapshotsChangeNothing(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 2)
	before := m.Records()
	events, err := m.Advance(t.Context(), w.now, nil)
	if diff := cmp.Diff(before, m.Records()); err != nil || len(events) != 0 || diff != "" {
		t.Errorf("Advance without views = %v, %v\n%s", events, err, diff)
	}
}

func TestNothingBeginsAfterCancel(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	stop := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if events, err := m.Advance(ctx, w.now, w.snapshots()); !errors.Is(err, stop) || len(events) != 0 {
		t.Errorf("Advance = %v, %v, want %v", events, err, stop)
	}
}

func TestInvalidRecordsAreNotChanged(t *testing.T) {
	w := newWorld(t, 3)
	for _, r := range []api.Drain{
		record("later", func(r *api.Drain) { r.Node = "a-1" }),
		record(api.DrainDrained, func(r *api.Drain) { r.Node, r.Weight = "a-2", -5 }),
	} {
		if err := w.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	m := w.open(config)
	add(t, w, m, choice("a-3"))
	if err := m.Add(t.Context(), w.now, drain.Choice{Node: "a-4"}); err == nil {
		t.Error("Add without a group = nil, want an error")
	}
	for range 6 {
		if _, err := w.tick(m); err == nil {
			t.Fatal("Advance = nil, want an error for each record")
		}
	}
	if s := w.snapshot(); len(s.Instances) != 2 || w.count("terminate a-3") != 1 {
		t.Errorf("left is %+v, want all but the third", s)
	}
	if diff := cmp.Diff(map[string]float64{}, m.Committed(everywhere)); diff != "" {
		t.Errorf("Committed, -want +got:\n%s", diff)
	}
}

// A record that this version cannot read ends with its node, once two complete lists in a row lack the node. It is reported once.
func TestInvalidRecordEndsWithItsNode(t *testing.T) {
	at := func(i int, p drain.Presence, left bool) drain.NodeSnapshot {
		return drain.NodeSnapshot{Instance: p, At: start.Add(time.Duration(i) * time.Minute), Left: left}
	}
	for name, test := range map[string]struct {
		snapshots []drain.NodeSnapshot
		ends      bool // with the last one
	}{
		"gone":              {[]drain.NodeSnapshot{at(1, drain.Absent, false), at(2, drain.Absent, false)}, true},
		"its group left":    {[]drain.NodeSnapshot{at(1, drain.PresenceUnknown, true), at(2, drain.PresenceUnknown, true)}, true},
		"one list":          {[]drain.NodeSnapshot{at(1, drain.Absent, false), at(1, drain.Absent, false)}, false},
		"it is there again": {[]drain.NodeSnapshot{at(1, drain.Absent, false), at(2, drain.Present, false), at(3, drain.Absent, false)}, false},
		"unknown":           {[]drain.NodeSnapshot{at(1, drain.Absent, false), at(2, drain.PresenceUnknown, false), at(3, drain.Absent, false)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0)
			w.stored["x"] = []byte("\x00garbage")
			m := w.open(config)
			for i, s := range test.snapshots {
				events, err := m.Advance(t.Context(), s.At, map[string]drain.NodeSnapshot{"x": s})
				if last := i == len(test.snapshots)-1; !last || !test.ends {
					if err == nil || len(events) > 0 || len(w.stored) != 1 {
						t.Errorf("snapshot %d: events %v, error %v, %d records: want an error, and the record", i, events, err, len(w.stored))
					}
					continue
				}
				if err != nil || len(events) != 1 || events[0].Action != drain.DeleteRecord || len(w.stored)+len(m.Records()) > 0 {
					t.Errorf("events %+v, error %v, %d records: want one that says the end, and no record", events, err, len(w.stored))
				}
			}
		})
	}
}

func TestConfigValidate(t *testing.T) {
	for config, valid := range map[drain.Config]bool{
		{Threshold: time.Second}: true,
		{}:                       false,
		{Threshold: -1}:          false,
		{Threshold: time.Second, CallTimeout: -1}: false,
		{Threshold: time.Second, Concurrency: -1}: false,
	} {
		if err := config.Validate(); (err == nil) != valid {
			t.Errorf("Validate of %+v = %v, want valid %t", config, err, valid)
		}
	}
}

func everywhere(string) bool { return true }

func TestCommittedSkipsMissingNodes(t *testing.T) {
	w := newWorld(t, 0)
	for _, r := range []api.Drain{
		record(api.DrainTerminating, func(r *api.Drain) { r.Node = "answer-lost" }),
		record(api.DrainDraining, func(r *api.Drain) { r.Node = "died" }),
		record(api.DrainDraining, func(r *api.Drain) { r.Node, r.Weight = "drains", 4 }),
		record(api.DrainDraining, func(r *api.Drain) { r.Node, r.ProviderEnds = "the provider takes it", true }),
	} {
		if err := w.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	got := w.open(config).Committed(func(node string) bool { return node != "answer-lost" && node != "died" })
	if diff := cmp.Diff(map[string]float64{"a": 4}, got); diff != "" {
		t.Errorf("Committed (-want +got):\n%s", diff)
	}
}

// modified is a group that refuses terminations, and uses all time of the step for that, like a Spot Fleet that is being modified. Its store
// accepts no record after the end of a context.
type modified struct {
	*world
	end     context.CancelCauseFunc // of the step
	cause   error
	refused int
}

func (b *modified) Terminate(context.Context, string, []string) error {
	b.refused++
	b.end(b.cause)
	return fmt.Errorf("%w: the request is being modified", pools.ErrThrottled)
}

func (b *modified) Put(ctx context.Context, r api.Drain) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return b.world.Put(ctx, r)
}

// A refusal is stored although the call used all time of the step, so the next tick can terminate the node. One that ended with the
// lease is not.
func TestRefusalAtTheEndOfAStep(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{context.DeadlineExceeded, pools.ErrNotHolder} {
		b := &modified{world: newWorld(t, 2), cause: cause}
		m, err := drain.Open(t.Context(), drain.Config{Threshold: time.Hour}, drain.Ports{Records: b, Scheduler: b, Groups: b, Repairers: b})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(t.Context(), b.clock(), drain.Choice{Node: victim, Group: "a", Weight: 1, Reason: api.DrainScaleIn}); err != nil {
			t.Fatal(err)
		}
		for tick := 0; tick < 5 && b.refused == 0; tick++ {
			b.pass()
			var ctx context.Context
			ctx, b.end = context.WithCancelCause(t.Context())
			_, _ = m.Advance(ctx, b.clock(), b.snapshots())
			b.end(nil)
		}
		want := api.DrainDrained
		if cause != context.DeadlineExceeded {
			want = api.DrainTerminating
		}
		if all := m.Records(); b.refused != 1 || len(all) != 1 || all[0].State != want {
			t.Errorf("%v: refused %d times; the records are %+v, want state %s", cause, b.refused, all, want)
		}
	}
}

// A record whose store call lost its answer may be stored, so it is stored again before the node is terminated: a successor never
// finds a terminated node as drained.
func TestRefusalWithALostAnswerIsStoredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 1)
	w.group.Refuse(cloud.Terminate, pools.ErrThrottled)
	w.faults[w.begun+5] = answerLost // of: put draining, drained and terminating, terminate, put drained
	if _, err := w.tick(m); !errors.Is(err, pools.ErrThrottled) {
		t.Fatalf("%v, want the refusal", err)
	}
	if stored := string(w.stored["a-1"]); !strings.Contains(stored, `"drained"`) || m.Records()[0].State != api.DrainTerminating {
		t.Fatalf("stored %s, in memory %+v: want drained and terminating", stored, m.Records())
	}
	w.group.Refuse(cloud.Terminate, nil)
	ticks(t, w, m, 1)
	if len(w.unsafe) > 0 || w.count("terminate a-1") != 1 {
		t.Errorf("terminated %v\ncalls:\n%s", w.unsafe, strings.Join(w.calls, "\n"))
	}
}
