package drain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

func chosenFor(reason api.DrainReason, node string) drain.Choice {
	return drain.Choice{Node: node, Group: "a", Weight: 1, Reason: reason}
}

// theRecord returns the only record.
func theRecord(t *testing.T, m *drain.Machine) api.Drain {
	t.Helper()
	rs := m.Records()
	if len(rs) != 1 {
		t.Fatalf("records are %+v, want one", rs)
	}
	return rs[0]
}

func TestSpotLeftToProvider(t *testing.T) {
	w := newWorld(t, 3)
	w.group.Interrupt("a-1", start.Add(3*time.Minute))
	m := w.open(forced)
	w.pass()
	add(t, w, m, chosenFor(api.DrainSpot, "a-1"))
	for tick := range 4 {
		if got := m.Committed(everywhere); len(got) != 0 {
			t.Errorf("tick %d: Committed = %v, want nothing: its group replaces it", tick, got)
		}
		if _, err := m.Advance(t.Context(), w.clock(), w.snapshots()); err != nil {
			t.Fatal(err)
		}
		w.pass()
	}
	if len(w.group.Log()) != 0 || !w.cordoned["a-1"] {
		t.Errorf("writes %+v, cordoned %t, want none, and a drained node", w.group.Log(), w.cordoned["a-1"])
	}
	if s := w.snapshot(); s.Target != 3 || s.Fulfilled() != 3 {
		t.Errorf("left is %+v, want three, one of them new", s)
	}
}

func TestDeadlineOfAChoice(t *testing.T) {
	ends := start.Add(90 * time.Second)
	for _, test := range []struct {
		name     string
		reason   api.DrainReason
		deadline time.Time
		want     time.Time
	}{
		{"none", api.DrainScaleIn, time.Time{}, start.Add(config.Threshold)},
		{"an earlier one", api.DrainRebalance, ends, ends},
		{"one beyond the threshold", api.DrainRemoval, start.Add(time.Hour), start.Add(config.Threshold)},
		{"a spot notice without", api.DrainSpot, time.Time{}, start.Add(2 * time.Minute)},
		{"a spot notice", api.DrainSpot, ends, ends},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			m := w.open(config)
			c := chosenFor(test.reason, "a-1")
			c.Deadline = test.deadline
			add(t, w, m, c)
			if got := theRecord(t, m).Deadline; !got.Equal(test.want) {
				t.Errorf("the deadline is %v after the choice, want %v", got.Sub(start), test.want.Sub(start))
			}
		})
	}
}

func TestStrongerReasonReplaces(t *testing.T) {
	for _, test := range []struct {
		first, second, want api.DrainReason
	}{
		{api.DrainScaleIn, api.DrainOrphan, api.DrainScaleIn},
		{api.DrainOrphan, api.DrainScaleIn, api.DrainOrphan},
		{api.DrainScaleIn, api.DrainRolling, api.DrainRolling},
		{api.DrainRolling, api.DrainRebalance, api.DrainRebalance},
		{api.DrainRebalance, api.DrainRemoval, api.DrainRemoval},
		{api.DrainRebalance, api.DrainRepair, api.DrainRepair},
		{api.DrainRepair, api.DrainRebalance, api.DrainRepair},
		{api.DrainRepair, api.DrainRemoval, api.DrainRemoval},
		{api.DrainRepair, api.DrainSpot, api.DrainSpot},
		{api.DrainRemoval, api.DrainSpot, api.DrainSpot},
		{api.DrainSpot, api.DrainRemoval, api.DrainSpot},
		{api.DrainRemoval, api.DrainScaleIn, api.DrainRemoval},
	} {
		t.Run(string(test.first+", then "+test.second), func(t *testing.T) {
			w := newWorld(t, 2)
			w.tasks["a-1"] = endless
			m := w.open(config)
			add(t, w, m, chosenFor(test.first, "a-1"))
			before := theRecord(t, m)
			add(t, w, m, chosenFor(test.second, "a-1"))
			got := theRecord(t, m)
			if got.Reason != test.want || got.State != before.State || got.Deadline.After(before.Deadline) {
				t.Errorf("the record is %+v, want it for %q", got, test.want)
			}
			if got.ProviderEnds != before.ProviderEnds {
				t.Errorf("taken by the provider: %t, before %t: want no change", got.ProviderEnds, before.ProviderEnds)
			}
			kept, err := m.TakeBack(t.Context(), w.now, "a-1")
			if want := test.want == api.DrainScaleIn; (kept == 1) != want || err != nil {
				t.Errorf("TakeBack = %v, %v, want that it stays: %t", kept, err, want)
			}
		})
	}
}

// TestNoticeForLeavingNode checks a spot notice for a node that already leaves: we terminate it
// if it is drained in time.
func TestNoticeForLeavingNode(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-1"] = 2
	w.group.Interrupt("a-1", start.Add(10*time.Minute))
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 2)
	add(t, w, m, chosenFor(api.DrainSpot, "a-1"))
	if diff := cmp.Diff(map[string]float64{"a": 1}, m.Committed(everywhere)); diff != "" {
		t.Errorf("Committed, -want +got:\n%s", diff)
	}
	ticks(t, w, m, 8)
	if s := w.snapshot(); s.Target != 2 || s.Fulfilled() != 2 || len(m.Records()) != 0 {
		t.Errorf("left is %+v, records %+v, want two of two", s, m.Records())
	}
}

func TestUnstoredChoiceIsDropped(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(config)
	w.faults[1] = answerLost
	if err := m.Add(t.Context(), w.now, choice("a-1")); err == nil {
		t.Fatal("Add = nil, want an error")
	}
	if len(w.stored) != 1 {
		t.Fatal("want a record without a cordon")
	}
	ticks(t, w, m, 1)
	if len(w.stored) != 0 || w.count("cordon a-1") != 0 {
		t.Errorf("records %s, calls %v, want it deleted", w.stored, w.calls)
	}
}

func TestPreflight(t *testing.T) {
	w := newWorld(t, 3)
	w.group.Protect("a-1", true)
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	events := ticks(t, w, m, 1)
	if w.count("cordon a-1")+w.count("uncordon a-1") != 0 || len(m.Records()) != 0 {
		t.Errorf("calls %v, want that the node is not touched", w.calls)
	}
	if len(events) == 0 || events[0].To != api.DrainReturned || events[0].Why == "" {
		t.Errorf("events %+v, want the event", events)
	}
}

// TestChosenAgainWhileReturningAndProtected checks that a node that may be cordoned is uncordoned
// before it stays.
func TestChosenAgainWhileReturningAndProtected(t *testing.T) {
	w := newWorld(t, 2)
	w.tasks["a-1"] = endless
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 1)
	if kept, err := m.TakeBack(t.Context(), w.now, "a-1"); kept != 1 || err != nil {
		t.Fatalf("TakeBack = %v, %v", kept, err)
	}
	add(t, w, m, choice("a-1"))
	w.group.Protect("a-1", true)
	ticks(t, w, m, 3)
	if w.cordoned["a-1"] || len(w.stored) != 0 {
		t.Errorf("cordoned %t, records %s, want it in service", w.cordoned["a-1"], w.stored)
	}
}

// TestEndedByTheProvider checks that we never terminate an instance that the provider seems to end,
// even if it stays.
func TestEndedByTheProvider(t *testing.T) {
	w := newWorld(t, 2)
	m := w.open(forced)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 1)
	w.pass()
	snapshots := w.snapshots()
	v := snapshots["a-1"]
	v.Instance = drain.Ending
	snapshots["a-1"] = v
	if _, err := m.Advance(t.Context(), w.clock(), snapshots); err != nil {
		t.Fatal(err)
	}
	r := theRecord(t, m)
	if r.State != api.DrainTerminating || !r.ProviderEnds || !r.EndAccepted.IsZero() {
		t.Errorf("the record is %+v, want it taken by the provider", r)
	}
	if got := m.Committed(everywhere); len(got) != 0 {
		t.Errorf("Committed = %v, want nothing: its group replaces it", got)
	}
	ticks(t, w, m, 8)
	if w.cordoned["a-1"] || len(w.stored) != 0 || len(w.group.Log()) != 0 {
		t.Errorf("cordoned %t, records %s, writes %+v, want it in service", w.cordoned["a-1"], w.stored, w.group.Log())
	}
}

// informed is a world whose scheduler receives why a node drains, and until when.
type informed struct {
	*world
	told *[]string
}

func (s informed) CordonFor(ctx context.Context, node string, reason api.DrainReason, deadline time.Time) error {
	*s.told = append(*s.told, fmt.Sprintf("%s %s %s", node, reason, deadline.Format(time.TimeOnly)))
	return s.Cordon(ctx, node, true)
}

// An informed scheduler receives the reason and the deadline of a drain, and again after a notice that shortens it.
func TestInformedSchedulerReceivesTheDeadline(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-1"] = 2
	w.pass()
	var told []string
	m, err := drain.Open(t.Context(), config, drain.Ports{Records: w, Scheduler: informed{w, &told}, Groups: w})
	if err != nil {
		t.Fatal(err)
	}
	add := func(c drain.Choice) {
		t.Helper()
		if err := m.Add(t.Context(), w.clock(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Advance(t.Context(), w.clock(), w.snapshots()); err != nil {
			t.Fatal(err)
		}
	}
	choice := chosenFor(api.DrainScaleIn, "a-1")
	add(choice)
	add(choice)
	choice.Reason, choice.Deadline = api.DrainSpot, w.clock().Add(time.Minute)
	add(choice)
	want := []string{
		fmt.Sprintf("%s scaling down %s", choice.Node, w.clock().Add(config.Threshold).Format(time.TimeOnly)),
		fmt.Sprintf("%s spot interruption %s", choice.Node, choice.Deadline.Format(time.TimeOnly)),
	}
	if !slices.Equal(told, want) {
		t.Errorf("the scheduler received %q, want %q", told, want)
	}
}
