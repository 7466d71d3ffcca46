package drain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// repair returns the choice of a node for a repair.
func repair(node, attempt string, kind api.RepairKind, hold bool) drain.Choice {
	c := chosenFor(api.DrainRepair, node)
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
		if e.Reason != api.DrainRepair || e.Attempt == "" {
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
	add(t, w, m, repair("a-2", "attempt-1", api.RepairReboot, false))
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
	add(t, w, m, repair("a-2", "attempt-1", api.RepairWorkflow, false))
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
	add(t, w, m, repair("a-2", "attempt-1", api.RepairReset, false))
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
	asIs := func(r api.Drain) api.Drain { return r }
	told := func(r *api.Drain) { r.CordonSent = start }
	as := func(state api.DrainState, changes ...func(*api.Drain)) api.Drain {
		return record(state, append([]func(*api.Drain){func(r *api.Drain) { r.Node, r.Weight = "a-1", 1 }}, changes...)...)
	}
	removal := chosenFor(api.DrainRemoval, "a-1")
	removal.Deadline = deadline
	spot := chosenFor(api.DrainSpot, "a-1")
	reboot := inPlace(api.RepairReboot)
	for _, test := range []struct {
		name   string
		old    api.Drain
		choice drain.Choice
		want   func(old api.Drain) api.Drain
	}{
		{"the same attempt", as(api.DrainDraining, repaired), repair("a-1", "attempt-1", "", true), asIs},
		{"the same attempt, done", as(api.DrainReturning, reboot), repair("a-1", "attempt-1", api.RepairReboot, false), asIs},
		{"another attempt", as(api.DrainDraining, repaired), repair("a-1", "attempt-2", "", false), asIs},
		{"of a node that leaves", as(api.DrainDraining), repair("a-1", "attempt-1", "", true), func(r api.Drain) api.Drain {
			r.Reason, r.Why, r.Attempt = api.DrainRepair, "it is silent", "attempt-1"
			return r
		}},
		{"in place, of a node that leaves", as(api.DrainDraining), repair("a-1", "attempt-1", api.RepairReboot, false), asIs},
		{"of a node that returns", as(api.DrainReturning), repair("a-1", "attempt-1", "", true), func(api.Drain) api.Drain {
			return as(api.DrainChosen, held, told, func(r *api.Drain) { r.Why = "it is silent" })
		}},
		{"of a node that ends", as(api.DrainTerminating), repair("a-1", "attempt-1", "", false), asIs},
		{"removal of a held one", as(api.DrainChosen, held), removal, func(r api.Drain) api.Drain {
			r.Reason, r.Why, r.Hold = api.DrainRemoval, "", false
			return r
		}},
		{"removal of a node under repair", as(api.DrainRepairing, reboot), removal, func(api.Drain) api.Drain {
			return as(api.DrainCordoned, because(api.DrainRemoval), told, func(r *api.Drain) { r.Attempt = "attempt-1" })
		}},
		{"removal of a node before its repair", as(api.DrainChosen, reboot), removal, func(api.Drain) api.Drain {
			return as(api.DrainChosen, because(api.DrainRemoval), func(r *api.Drain) { r.Attempt = "attempt-1" })
		}},
		{"spot notice for a node under repair", as(api.DrainRepairing, reboot, cordonNotSent), spot, func(api.Drain) api.Drain {
			return as(api.DrainChosen, leftToProvider, func(r *api.Drain) { r.Attempt, r.Deadline = "attempt-1", start.Add(2*time.Minute) })
		}},
		{"scale-in of a node under repair", as(api.DrainDraining, reboot), choice("a-1"), asIs},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			if err := w.Put(t.Context(), test.old); err != nil {
				t.Fatal(err)
			}
			m := w.open(config)
			add(t, w, m, test.choice)
			got := theRecord(t, m)
			if test.want(test.old).State == api.DrainCordoned {
				got.Why = ""
			}
			if diff := cmp.Diff(test.want(test.old), got); diff != "" {
				t.Errorf("the record (-want +got):\n%s", diff)
			}
			if err := drain.ValidateRecord(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDeadlineOfARepair(t *testing.T) {
	for _, test := range []struct {
		name             string
		kind             api.RepairKind
		given            time.Duration // from start; 0: none
		deadline, giveUp time.Duration
	}{
		{"replaced, none", "", 0, 30 * time.Minute, 0},
		{"replaced, beyond the threshold", "", 2 * time.Hour, 2 * time.Hour, 0},
		{"replaced, in a week", "", 168 * time.Hour, 24 * time.Hour, 0},
		{"in place, none", api.RepairReboot, 0, 15 * time.Minute, 30 * time.Minute},
		{"in place, soon", api.RepairReboot, 4 * time.Minute, 2 * time.Minute, 4 * time.Minute},
		{"in place, late", api.RepairReboot, 3 * time.Hour, 30 * time.Minute, 3 * time.Hour},
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
		c := repair("a-1", "attempt-1", api.RepairReboot, false)
		change(&c)
		return c
	}
	for name, c := range map[string]drain.Choice{
		"a removal with an attempt": of(func(c *drain.Choice) { c.Reason, c.RepairInPlace = api.DrainRemoval, nil }),
		"scale-in that waits":       of(func(c *drain.Choice) { c.Reason, c.RepairInPlace, c.Attempt, c.Hold = api.DrainScaleIn, nil, "", true }),
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
	if err := m.Add(t.Context(), w.now, repair("a-1", "attempt-1", api.RepairReboot, false)); err == nil {
		t.Error("Add to a machine that cannot repair in place = nil, want an error")
	}
}

// TestDurableForm checks how a record is stored, that a record of a repair is read as written, and
// that invalid records of repairs are rejected.
func TestDurableForm(t *testing.T) {
	const stored = `{"node":"i-1","group":"a","weight":2,"state":"draining","reason":"scaling down",` +
		`"since":"2023-11-14T22:13:20Z","deadline":"2023-11-14T22:43:20Z","cordon_sent":"2023-11-14T22:13:20Z"}`
	data, err := json.Marshal(record(api.DrainDraining))
	if err != nil || string(data) != stored {
		t.Errorf("a record without a repair is written as\n%s (%v), want\n%s", data, err, stored)
	}
	full := record(api.DrainRepairing, inPlace(api.RepairRebuild), repairedAt, func(r *api.Drain) { r.Image = "ami-1" })
	data, err = json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var again api.Drain
	if err := json.Unmarshal(data, &again); err != nil || drain.ValidateRecord(again) != nil {
		t.Fatalf("read again: %v, %v", err, drain.ValidateRecord(again))
	}
	if diff := cmp.Diff(full, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*api.Drain){
		"mending nothing": func(r *api.Drain) {
			r.RepairInPlace, r.Boot, r.RepairedAt, r.RepairBy, r.Image = "", "", time.Time{}, time.Time{}, ""
		},
		"an image of nothing":     func(r *api.Drain) { r.State, r.RepairInPlace = api.DrainDraining, "" },
		"an unknown kind":         func(r *api.Drain) { r.RepairInPlace = "hammer" },
		"no attempt":              func(r *api.Drain) { r.Attempt = "" },
		"another reason":          func(r *api.Drain) { r.Reason = api.DrainRemoval },
		"no end":                  func(r *api.Drain) { r.RepairBy = time.Time{} },
		"an end before the drain": func(r *api.Drain) { r.RepairBy = r.Deadline.Add(-1) },
		"it waits":                func(r *api.Drain) { r.Hold = true },
		"ended by us":             func(r *api.Drain) { r.State = api.DrainTerminating },
		"a boot id of 1 KiB":      func(r *api.Drain) { r.Boot = strings.Repeat("x", 1<<10) },
		"a failure of 1 MiB":      func(r *api.Drain) { r.Failed = strings.Repeat("x", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			r := full
			change(&r)
			if err := drain.ValidateRecord(r); err == nil || !strings.Contains(err.Error(), "i-1") {
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
	add(t, w, m, repair("a-1", "attempt-1", api.RepairReboot, false))
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
	add(t, w, m, repair("a-1", "attempt-1", "", false), repair("a-2", "attempt-2", api.RepairRebuild, false))
	last := map[string]drain.Event{}
	for _, e := range ticks(t, w, m, 10) {
		last[e.Attempt] = e
	}
	if one := last["attempt-1"]; one.To != api.DrainGone || one.Action != drain.DeleteRecord || one.Failed != "" {
		t.Errorf("the last event of the replaced is %+v", one)
	}
	if one := last["attempt-2"]; one.To != api.DrainReturned || one.Action != drain.DeleteRecord || one.Failed != "" {
		t.Errorf("the last event of the repair is %+v", one)
	}
	if ids := []string{w.snapshot().Instances[0].ID, w.snapshot().Instances[1].ID}; !slices.Equal(ids, []string{"a-2", "a-3"}) {
		t.Errorf("left are %q", ids)
	}
}
