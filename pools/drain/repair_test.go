package drain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// repair returns the choice of a node for a repair.
func repair(node, attempt string, kind pools.RepairKind, hold bool) drain.Choice {
	c := chosenFor(drain.Repair, node)
	c.Attempt, c.Hold, c.Deadline, c.Why = attempt, hold, start.Add(30*time.Minute), "it is silent"
	if kind != "" {
		c.RepairInPlace = &pools.InPlaceRepair{Kind: kind}
	}
	return c
}

// steps returns a short form of events.
func steps(events []drain.Event) []string {
	var out []string
	for _, e := range events {
		text := fmt.Sprintf("%s %s %s", e.From, e.To, e.Action)
		if e.Failed != "" {
			text += " failed: " + e.Failed
		}
		if e.Reason != drain.Repair || e.Attempt == "" {
			text += " of an unknown attempt"
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

func TestReboot(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-2"] = 1
	m := w.open(config)
	add(t, w, m, repair("a-2", "attempt-1", pools.RepairReboot, false))
	if got := m.Committed(everywhere); len(got) != 0 {
		t.Errorf("Committed = %v, want nothing: it stays", got)
	}
	want := []string{
		"chosen cordoned cordon",
		"cordoned draining",
		"draining drained",
		"drained repairing repair in place",
		"repairing repairing repair in place", // the provider has finished
		"repairing returning",
		"returning returned uncordon",
		"returned returned forget",
	}
	if diff := cmp.Diff(want, steps(ticks(t, w, m, 8))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if w.cordoned["a-2"] || w.repairs() != 1 || w.group.Boot("a-2") != "a-2-boot-2" || len(w.stored) != 0 {
		t.Errorf("cordoned %t, %d repairs, boot %q", w.cordoned["a-2"], w.repairs(), w.group.Boot("a-2"))
	}
}

// TestWorkflowIsResumed checks that a machine reports a repair as resumed only if an earlier
// machine may have begun it.
func TestWorkflowIsResumed(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-2"] = 1
	m := w.open(config)
	add(t, w, m, repair("a-2", "attempt-1", pools.RepairWorkflow, false))
	ticks(t, w, m, 1)
	w.repairFunc = func(pools.InPlaceRepair) (bool, error) { return false, nil }
	m = w.open(config)
	if got, want := steps(ticks(t, w, m, 6)), "drained repairing repair in place"; len(got) == 0 || got[len(got)-1] != want {
		t.Errorf("steps %q, want the last one %q", got, want)
	}
	if len(w.repairedAt) == 0 || slices.ContainsFunc(w.repairedAt, func(m pools.InPlaceRepair) bool { return m.Resumed }) {
		t.Errorf("called with %+v, want it not to be resumed", w.repairedAt)
	}
	w.repairedAt, w.repairFunc = nil, func(m pools.InPlaceRepair) (bool, error) { return true, nil }
	ticks(t, w, w.open(config), 6)
	if len(w.repairedAt) != 1 || !w.repairedAt[0].Resumed || w.cordoned["a-2"] || len(w.stored) != 0 {
		t.Errorf("called with %+v, want it resumed; cordoned %t, records %s", w.repairedAt, w.cordoned["a-2"], w.stored)
	}
}

func TestFailedReboot(t *testing.T) {
	w := newWorld(t, 3)
	releaseRepairs(w)
	w.group.Break("a-2", true)
	w.silent["a-2"] = true
	m := w.open(config)
	add(t, w, m, repair("a-2", "attempt-1", pools.RepairReset, false))
	got := steps(ticks(t, w, m, 6))
	if len(got) != 3 || got[0] != "chosen repairing repair in place" || !strings.HasPrefix(got[1], "repairing returned repair in place failed: ") ||
		!strings.Contains(got[1], pools.ErrRepairFailed.Error()) || !strings.HasPrefix(got[2], "returned returned forget failed: ") {
		t.Errorf("steps %q, want it to fail, and that it was never cordoned", got)
	}
	if w.count("uncordon a-2") != 0 {
		t.Error("it was uncordoned")
	}
}

func TestLaunchFirst(t *testing.T) {
	w := newWorld(t, 3)
	m := w.open(config)
	add(t, w, m, repair("a-2", "attempt-1", "", true))
	if diff := cmp.Diff(map[string]float64{"a": 1}, m.Committed(everywhere)); diff != "" {
		t.Errorf("Committed, so that a replacement is ordered (-want +got):\n%s", diff)
	}
	if events := ticks(t, w, m, 5); len(events) > 0 {
		t.Errorf("events %+v before its replacement is there", events)
	}
	if kept, err := m.TakeBack(t.Context(), w.now, "a-2"); kept != 0 || err != nil {
		t.Errorf("TakeBack = %v, %v, want 0: it is sick", kept, err)
	}
	w.order()
	ticks(t, w, m, 8)
	if s := w.snapshot(); s.Target != 3 || s.Fulfilled() != 3 || len(w.stored) > 0 || w.count("terminate a-2") != 1 {
		t.Errorf("left is %+v, records %s, want the others and one more", s, w.stored)
	}
}

// TestAddOfRepairs checks the record of a repair for a node with a record, and of later choices for
// a node under repair.
func TestAddOfRepairs(t *testing.T) {
	asIs := func(r drain.Record) drain.Record { return r }
	told := func(r *drain.Record) { r.CordonSent = start }
	as := func(state drain.State, changes ...func(*drain.Record)) drain.Record {
		return record(state, append([]func(*drain.Record){func(r *drain.Record) { r.Node, r.Weight = "a-1", 1 }}, changes...)...)
	}
	removal := chosenFor(drain.Removal, "a-1")
	removal.Deadline = deadline
	spot := chosenFor(drain.Spot, "a-1")
	reboot := inPlace(pools.RepairReboot)
	for _, test := range []struct {
		name   string
		old    drain.Record
		choice drain.Choice
		want   func(old drain.Record) drain.Record
	}{
		{"the same attempt", as(drain.Draining, repaired), repair("a-1", "attempt-1", "", true), asIs},
		{"the same attempt, done", as(drain.Returning, reboot), repair("a-1", "attempt-1", pools.RepairReboot, false), asIs},
		{"another attempt", as(drain.Draining, repaired), repair("a-1", "attempt-2", "", false), asIs},
		{"of a node that leaves", as(drain.Draining), repair("a-1", "attempt-1", "", true), func(r drain.Record) drain.Record {
			r.Reason, r.Why, r.Attempt = drain.Repair, "it is silent", "attempt-1"
			return r
		}},
		{"in place, of a node that leaves", as(drain.Draining), repair("a-1", "attempt-1", pools.RepairReboot, false), asIs},
		{"of a node that returns", as(drain.Returning), repair("a-1", "attempt-1", "", true), func(drain.Record) drain.Record {
			return as(drain.Chosen, held, told, func(r *drain.Record) { r.Why = "it is silent" })
		}},
		{"of a node that ends", as(drain.Terminating), repair("a-1", "attempt-1", "", false), asIs},
		{"removal of a held one", as(drain.Chosen, held), removal, func(r drain.Record) drain.Record {
			r.Reason, r.Why, r.Hold = drain.Removal, "", false
			return r
		}},
		{"removal of a node under repair", as(drain.Repairing, reboot), removal, func(drain.Record) drain.Record {
			return as(drain.Cordoned, because(drain.Removal), told, func(r *drain.Record) { r.Attempt = "attempt-1" })
		}},
		{"removal of a node before its repair", as(drain.Chosen, reboot), removal, func(drain.Record) drain.Record {
			return as(drain.Chosen, because(drain.Removal), func(r *drain.Record) { r.Attempt = "attempt-1" })
		}},
		{"spot notice for a node under repair", as(drain.Repairing, reboot, cordonNotSent), spot, func(drain.Record) drain.Record {
			return as(drain.Chosen, leftToProvider, func(r *drain.Record) { r.Attempt, r.Deadline = "attempt-1", start.Add(2*time.Minute) })
		}},
		{"scale-in of a node under repair", as(drain.Draining, reboot), choice("a-1"), asIs},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			if err := w.Put(t.Context(), test.old); err != nil {
				t.Fatal(err)
			}
			m := w.open(config)
			add(t, w, m, test.choice)
			got := theRecord(t, m)
			if test.want(test.old).State == drain.Cordoned {
				got.Why = ""
			}
			if diff := cmp.Diff(test.want(test.old), got); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDeadlineOfARepair(t *testing.T) {
	for _, test := range []struct {
		name             string
		kind             pools.RepairKind
		given            time.Duration // from start; 0: none
		deadline, giveUp time.Duration
	}{
		{"replaced, none", "", 0, 30 * time.Minute, 0},
		{"replaced, beyond the threshold", "", 2 * time.Hour, 2 * time.Hour, 0},
		{"replaced, in a week", "", 168 * time.Hour, 24 * time.Hour, 0},
		{"in place, none", pools.RepairReboot, 0, 15 * time.Minute, 30 * time.Minute},
		{"in place, soon", pools.RepairReboot, 4 * time.Minute, 2 * time.Minute, 4 * time.Minute},
		{"in place, late", pools.RepairReboot, 3 * time.Hour, 30 * time.Minute, 3 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			m := w.open(config)
			c := repair("a-1", "attempt-1", test.kind, false)
			c.Deadline = time.Time{}
			if test.given > 0 {
				c.Deadline = start.Add(test.given)
			}
			add(t, w, m, c)
			r := theRecord(t, m)
			giveUp := time.Duration(0)
			if !r.RepairBy.IsZero() {
				giveUp = r.RepairBy.Sub(start)
			}
			if got := r.Deadline.Sub(start); got != test.deadline || giveUp != test.giveUp {
				t.Errorf("drained by %v, given up after %v, want %v and %v", got, giveUp, test.deadline, test.giveUp)
			}
		})
	}
}

func TestInvalidRepairChoicesRejected(t *testing.T) {
	of := func(change func(*drain.Choice)) drain.Choice {
		c := repair("a-1", "attempt-1", pools.RepairReboot, false)
		change(&c)
		return c
	}
	for name, c := range map[string]drain.Choice{
		"a removal with an attempt": of(func(c *drain.Choice) { c.Reason, c.RepairInPlace = drain.Removal, nil }),
		"scale-in that waits":       of(func(c *drain.Choice) { c.Reason, c.RepairInPlace, c.Attempt, c.Hold = drain.ScaleIn, nil, "", true }),
		"in place, and waits":       of(func(c *drain.Choice) { c.Hold = true }),
		"in place, without a name":  of(func(c *drain.Choice) { c.Attempt = "" }),
		"of an unknown kind":        of(func(c *drain.Choice) { c.RepairInPlace.Kind = "hammer" }),
		"of another instance":       of(func(c *drain.Choice) { c.RepairInPlace.Instance = "a-2" }),
		"of another attempt":        of(func(c *drain.Choice) { c.RepairInPlace.Attempt = "attempt-2" }),
		"with too long a name":      of(func(c *drain.Choice) { c.Attempt = strings.Repeat("x", 257) }),
		"with too long an image":    of(func(c *drain.Choice) { c.RepairInPlace.Image = strings.Repeat("x", 257) }),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			m := w.open(config)
			if err := m.Add(t.Context(), w.now, c); err == nil || len(m.Records()) > 0 || len(w.stored) > 0 {
				t.Errorf("Add = %v, records %+v, want an error and none", err, m.Records())
			}
		})
	}
	w := newWorld(t, 1)
	m, err := drain.Open(t.Context(), config, drain.Ports{Records: w, Scheduler: w, Groups: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(t.Context(), w.now, repair("a-1", "attempt-1", pools.RepairReboot, false)); err == nil {
		t.Error("Add to a machine that cannot repair in place = nil, want an error")
	}
}

// TestDurableForm checks that records of an earlier version and of repairs are read as written, and
// that invalid records of repairs are rejected.
func TestDurableForm(t *testing.T) {
	const old = `{"node":"i-1","group":"a","weight":2,"state":"draining","reason":"scaling down",` +
		`"since":"2023-11-14T22:13:20Z","deadline":"2023-11-14T22:43:20Z","cordon_sent":"2023-11-14T22:13:20Z"}`
	data, err := json.Marshal(record(drain.Draining))
	if err != nil || string(data) != old {
		t.Errorf("a record without a repair is written as\n%s (%v), want\n%s", data, err, old)
	}
	full := record(drain.Repairing, inPlace(pools.RepairRebuild), repairedAt, func(r *drain.Record) { r.Image = "ami-1" })
	data, err = json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var again drain.Record
	if err := json.Unmarshal(data, &again); err != nil || again.Validate() != nil {
		t.Fatalf("read again: %v, %v", err, again.Validate())
	}
	if diff := cmp.Diff(full, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*drain.Record){
		"mending nothing": func(r *drain.Record) {
			r.RepairInPlace, r.Boot, r.RepairedAt, r.RepairBy, r.Image = "", "", time.Time{}, time.Time{}, ""
		},
		"an image of nothing":     func(r *drain.Record) { r.State, r.RepairInPlace = drain.Draining, "" },
		"an unknown kind":         func(r *drain.Record) { r.RepairInPlace = "hammer" },
		"no attempt":              func(r *drain.Record) { r.Attempt = "" },
		"another reason":          func(r *drain.Record) { r.Reason = drain.Removal },
		"no end":                  func(r *drain.Record) { r.RepairBy = time.Time{} },
		"an end before the drain": func(r *drain.Record) { r.RepairBy = r.Deadline.Add(-1) },
		"it waits":                func(r *drain.Record) { r.Hold = true },
		"ended by us":             func(r *drain.Record) { r.State = drain.Terminating },
		"a boot id of 1 KiB":      func(r *drain.Record) { r.Boot = strings.Repeat("x", 1<<10) },
		"a failure of 1 MiB":      func(r *drain.Record) { r.Failed = strings.Repeat("x", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			r := full
			change(&r)
			if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "i-1") {
				t.Errorf("Validate = %v, want an error of i-1", err)
			}
		})
	}
}

// TestRepairMovesWithClock checks that the times of a repair move back with the clock.
func TestRepairMovesWithClock(t *testing.T) {
	w := newWorld(t, 2)
	releaseRepairs(w)
	w.group.Break("a-1", true)
	m := w.open(config)
	add(t, w, m, repair("a-1", "attempt-1", pools.RepairReboot, false))
	ticks(t, w, m, 1)
	w.wrong = -time.Hour
	ticks(t, w, m, 1)
	r := theRecord(t, m)
	if left := r.RepairBy.Sub(w.clock()); left > 30*time.Minute || left < 27*time.Minute || r.RepairBy.Before(r.Deadline) {
		t.Errorf("it is given up in %v, want in about half an hour: %+v", left, r)
	}
}

// TestEventsEndWithDeleteRecord checks that the last event of an attempt is recognizable.
func TestEventsEndWithDeleteRecord(t *testing.T) {
	w := newWorld(t, 3)
	m := w.open(config)
	add(t, w, m, repair("a-1", "attempt-1", "", false), repair("a-2", "attempt-2", pools.RepairRebuild, false))
	last := map[string]drain.Event{}
	for _, e := range ticks(t, w, m, 10) {
		last[e.Attempt] = e
	}
	if one := last["attempt-1"]; one.To != drain.Gone || one.Action != drain.DeleteRecord || one.Failed != "" {
		t.Errorf("the last event of the replaced is %+v", one)
	}
	if one := last["attempt-2"]; one.To != drain.Returned || one.Action != drain.DeleteRecord || one.Failed != "" {
		t.Errorf("the last event of the repair is %+v", one)
	}
	if ids := []string{w.snapshot().Instances[0].ID, w.snapshot().Instances[1].ID}; !slices.Equal(ids, []string{"a-2", "a-3"}) {
		t.Errorf("left are %q", ids)
	}
}
