package drain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

var (
	start    = time.Unix(1_700_000_000, 0).UTC()
	config   = drain.Config{Threshold: 30 * time.Minute}
	forced   = drain.Config{Threshold: 30 * time.Minute, Force: true}
	deadline = start.Add(config.Threshold)
)

// record returns the record of a node that was chosen at start.
func record(state drain.State, changes ...func(*drain.Record)) drain.Record {
	r := drain.Record{
		Node: "i-1", Group: "a", Weight: 2, State: state, Reason: drain.ScaleIn,
		Since: start, Deadline: deadline,
	}
	if state != drain.Chosen {
		r.CordonSent = start
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func endAccepted(r *drain.Record)   { r.EndAccepted = start }
func cordonNotSent(r *drain.Record) { r.CordonSent = time.Time{} }
func providerEnds(r *drain.Record)  { r.ProviderEnds = true }

func because(reason drain.Reason) func(*drain.Record) {
	return func(r *drain.Record) { r.Reason = reason }
}

// leftToProvider makes it the record of a node that the provider will end.
func leftToProvider(r *drain.Record) { r.Reason, r.ProviderEnds = drain.Spot, true }

// snapshotOf returns a fresh snapshot of a cordoned node with a task, a minute later.
func snapshotOf(changes ...func(*drain.NodeSnapshot)) drain.NodeSnapshot {
	later := start.Add(time.Minute)
	v := drain.NodeSnapshot{
		Instance: drain.Present, At: later, Node: pools.NodeRunning, FactsAt: later, Cordoned: true, Tasks: 1,
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

func noTasks(v *drain.NodeSnapshot)         { v.Node, v.Tasks = pools.NodeIdle, 0 }
func uncordoned(v *drain.NodeSnapshot)      { v.Cordoned = false }
func orphaned(v *drain.NodeSnapshot)        { v.Node, v.Cordoned, v.Tasks = pools.NodeOrphaned, false, 0 }
func silent(v *drain.NodeSnapshot)          { v.Node, v.Cordoned, v.Tasks = pools.NodeUnknown, false, 0 }
func presenceUnknown(v *drain.NodeSnapshot) { v.Instance = drain.PresenceUnknown }
func ending(v *drain.NodeSnapshot)          { v.Instance = drain.Ending }
func absent(v *drain.NodeSnapshot)          { v.Instance = drain.Absent }
func protected(v *drain.NodeSnapshot)       { v.Protected = true }
func oldFacts(v *drain.NodeSnapshot)        { v.FactsAt = start }
func busy(v *drain.NodeSnapshot)            { v.Busy = "an instance refresh" }
func oldAnswer(v *drain.NodeSnapshot)       { v.At = start }

func TestNext(t *testing.T) {
	soon, late := start.Add(2*time.Minute), deadline
	for _, test := range []struct {
		name       string
		config     drain.Config
		now        time.Time
		record     drain.Record
		snapshotOf drain.NodeSnapshot
		state      drain.State
		action     drain.Action
	}{
		{"chosen: to be cordoned", config, soon, record(drain.Chosen), snapshotOf(uncordoned), drain.Cordoned, drain.Cordon},
		{"chosen, silent: wait", config, soon, record(drain.Chosen), snapshotOf(silent), drain.Chosen, drain.None},
		{"chosen, an orphan: nothing to wait for", config, soon, record(drain.Chosen), snapshotOf(orphaned), drain.Terminating, drain.Terminate},
		{"chosen, an orphan, instance unknown: wait", config, soon, record(drain.Chosen), snapshotOf(orphaned, presenceUnknown), drain.Chosen, drain.None},
		{"chosen, protected: it stays, untouched", config, soon, record(drain.Chosen), snapshotOf(protected), drain.Returned, drain.None},
		{"chosen, its group is changed by others: it stays, untouched", config, soon, record(drain.Chosen), snapshotOf(busy), drain.Returned, drain.None},
		{"chosen as an orphan, is one", config, soon, record(drain.Chosen, because(drain.Orphan)), snapshotOf(orphaned), drain.Terminating, drain.Terminate},
		{"chosen as an orphan, has joined: it stays", config, soon, record(drain.Chosen, because(drain.Orphan)), snapshotOf(uncordoned, noTasks), drain.Returned, drain.None},
		{"chosen as an orphan, silent: wait", forced, soon, record(drain.Chosen, because(drain.Orphan)), snapshotOf(silent), drain.Chosen, drain.None},

		{"cordoned, facts from before: wait", config, soon, record(drain.Cordoned), snapshotOf(oldFacts, noTasks), drain.Cordoned, drain.None},
		{"cordoned, not confirmed: again", config, soon, record(drain.Cordoned), snapshotOf(uncordoned), drain.Cordoned, drain.Cordon},
		{"cordoned, confirmed", config, soon, record(drain.Cordoned), snapshotOf(), drain.Draining, drain.None},
		{"cordoned, unknown: wait", config, soon, record(drain.Cordoned), drain.NodeSnapshot{}, drain.Cordoned, drain.None},
		{"cordoned, protected: it stays", config, soon, record(drain.Cordoned), snapshotOf(protected), drain.Returning, drain.None},
		{"cordoned, no orphan: it had joined", config, soon, record(drain.Cordoned), snapshotOf(orphaned), drain.Cordoned, drain.None},

		{"draining, tasks left: wait", config, soon, record(drain.Draining), snapshotOf(), drain.Draining, drain.None},
		{"draining, no tasks", config, soon, record(drain.Draining), snapshotOf(noTasks), drain.Drained, drain.None},
		{"draining, no tasks before the cordon: wait", config, soon, record(drain.Draining), snapshotOf(noTasks, oldFacts), drain.Draining, drain.None},
		{"draining, silent: wait", config, soon, record(drain.Draining), snapshotOf(silent), drain.Draining, drain.None},
		{"draining, no orphan: it had joined", config, soon, record(drain.Draining), snapshotOf(orphaned), drain.Draining, drain.None},
		{"draining, unknown: wait", config, soon, record(drain.Draining), drain.NodeSnapshot{}, drain.Draining, drain.None},
		{"draining, lost its cordon", config, soon, record(drain.Draining), snapshotOf(uncordoned, noTasks), drain.Cordoned, drain.Cordon},
		{"draining, ended by another party", config, soon, record(drain.Draining), snapshotOf(ending), drain.Terminating, drain.None},
		{"draining, disappeared", config, soon, record(drain.Draining), snapshotOf(absent), drain.Gone, drain.None},
		{"draining, its group is changed by others: it stays", config, soon, record(drain.Draining), snapshotOf(busy), drain.Returning, drain.None},

		{"drained", config, soon, record(drain.Drained), snapshotOf(noTasks), drain.Terminating, drain.Terminate},
		{"drained, tasks again", config, soon, record(drain.Drained), snapshotOf(), drain.Draining, drain.None},
		{"drained, lost its cordon", config, soon, record(drain.Drained), snapshotOf(uncordoned, noTasks), drain.Cordoned, drain.Cordon},
		{"drained, silent: wait", config, soon, record(drain.Drained), snapshotOf(silent), drain.Drained, drain.None},
		{"drained, unseen: wait", config, soon, record(drain.Drained), snapshotOf(noTasks, presenceUnknown), drain.Drained, drain.None},
		{"drained, protected: it stays", config, soon, record(drain.Drained), snapshotOf(noTasks, protected), drain.Returning, drain.None},

		{"too late, chosen: it stays", config, late, record(drain.Chosen), snapshotOf(uncordoned), drain.Returned, drain.None},
		{"too late, not confirmed: it stays", config, late, record(drain.Cordoned), snapshotOf(uncordoned), drain.Returning, drain.None},
		{"too late, tasks left: it stays", config, late, record(drain.Draining), snapshotOf(), drain.Returning, drain.None},
		{"too late, unknown: it stays", config, late, record(drain.Draining), drain.NodeSnapshot{}, drain.Returning, drain.None},
		{"too late, drained but silent: it stays", config, late, record(drain.Drained), snapshotOf(silent), drain.Returning, drain.None},
		{"too late, but just drained", config, late, record(drain.Draining), snapshotOf(noTasks), drain.Drained, drain.None},
		{"too late, but drained", config, late, record(drain.Drained), snapshotOf(noTasks), drain.Terminating, drain.Terminate},
		{"a moment before the deadline: wait", config, late.Add(-1), record(drain.Draining), snapshotOf(), drain.Draining, drain.None},
		{"forced, tasks left", forced, late, record(drain.Draining), snapshotOf(), drain.Terminating, drain.Terminate},
		{"forced, silent from the beginning", forced, late, record(drain.Chosen), snapshotOf(silent), drain.Terminating, drain.Terminate},
		{"forced, but never cordoned: it stays", forced, late, record(drain.Chosen), snapshotOf(uncordoned), drain.Returned, drain.None},
		{"forced, unknown", forced, late, record(drain.Draining), drain.NodeSnapshot{}, drain.Terminating, drain.Terminate},
		{"forced, but it is not late yet", forced, soon, record(drain.Draining), drain.NodeSnapshot{}, drain.Draining, drain.None},
		{"forced, protected: it stays", forced, late, record(drain.Draining), snapshotOf(protected), drain.Returning, drain.None},
		{"forced, chosen as an orphan and silent: it stays", forced, late, record(drain.Chosen, because(drain.Orphan)), snapshotOf(silent), drain.Returned, drain.None},

		{"spot, chosen", config, soon, record(drain.Chosen, leftToProvider), snapshotOf(uncordoned), drain.Cordoned, drain.Cordon},
		{"spot, an orphan: the provider's", config, soon, record(drain.Chosen, leftToProvider), snapshotOf(orphaned), drain.Chosen, drain.None},
		{"spot, protected: drained all the same", config, soon, record(drain.Draining, leftToProvider), snapshotOf(protected, noTasks), drain.Drained, drain.None},
		{"spot, drained: wait for the provider", config, soon, record(drain.Drained, leftToProvider), snapshotOf(noTasks), drain.Drained, drain.None},
		{"spot, drained, ours to end", config, soon, record(drain.Drained, because(drain.Spot)), snapshotOf(noTasks), drain.Terminating, drain.Terminate},
		{"spot, too late: wait for the provider", forced, late, record(drain.Draining, leftToProvider), snapshotOf(), drain.Draining, drain.None},
		{"spot, ours to end, too late: wait for the provider", forced, late, record(drain.Draining, because(drain.Spot)), snapshotOf(), drain.Draining, drain.None},
		{"spot, not taken: it stays", forced, late.Add(5 * time.Minute), record(drain.Draining, leftToProvider), snapshotOf(), drain.Returning, drain.None},
		{"spot, taken", config, soon, record(drain.Draining, leftToProvider), snapshotOf(ending), drain.Terminating, drain.None},

		{"terminating, request unconfirmed", config, soon, record(drain.Terminating), snapshotOf(noTasks), drain.Terminating, drain.Terminate},
		{"terminating, unconfirmed, an older response: wait", config, soon, record(drain.Terminating), snapshotOf(noTasks, oldAnswer), drain.Terminating, drain.None},
		{"terminating, unconfirmed, silent: wait", config, soon, record(drain.Terminating), snapshotOf(silent), drain.Terminating, drain.None},
		{"terminating, unconfirmed, and it has tasks", config, soon, record(drain.Terminating), snapshotOf(), drain.Draining, drain.None},
		{"terminating, unconfirmed, and it lost its cordon", config, soon, record(drain.Terminating), snapshotOf(noTasks, uncordoned), drain.Draining, drain.None},
		{"terminating, unconfirmed, facts from before: wait", config, soon, record(drain.Terminating), snapshotOf(oldFacts), drain.Terminating, drain.None},
		{"terminating, unconfirmed, an orphan", config, soon, record(drain.Terminating, cordonNotSent), snapshotOf(orphaned), drain.Terminating, drain.Terminate},
		{"terminating, unconfirmed, an orphan that has joined", config, soon, record(drain.Terminating, cordonNotSent), snapshotOf(uncordoned), drain.Chosen, drain.None},
		{"terminating, unconfirmed, it had joined: wait", config, soon, record(drain.Terminating), snapshotOf(orphaned), drain.Terminating, drain.None},
		{"terminating, forced, unconfirmed", forced, late.Add(-1), record(drain.Terminating, func(r *drain.Record) { r.Deadline = soon }), snapshotOf(), drain.Terminating, drain.Terminate},
		{"terminating, protected by now: it stays", config, soon, record(drain.Terminating), snapshotOf(noTasks, protected), drain.Returning, drain.None},
		{"terminating, an orphan protected by now: it stays, untouched", config, soon, record(drain.Terminating, cordonNotSent), snapshotOf(orphaned, protected), drain.Returned, drain.None},
		{"terminating, never taken in: it stays", forced, late, record(drain.Terminating), snapshotOf(noTasks), drain.Returning, drain.None},
		{"terminating, unseen: wait", config, soon, record(drain.Terminating), snapshotOf(presenceUnknown), drain.Terminating, drain.None},
		{"terminating, it ends", config, soon, record(drain.Terminating, endAccepted), snapshotOf(ending), drain.Terminating, drain.None},
		{"terminating, confirmed, an older response", config, soon, record(drain.Terminating, endAccepted), snapshotOf(oldAnswer), drain.Terminating, drain.None},
		{"terminating, confirmed, and still unchanged", config, soon, record(drain.Terminating, endAccepted), snapshotOf(), drain.Terminating, drain.Terminate},
		{"terminating, gone", config, soon, record(drain.Terminating, endAccepted), snapshotOf(absent), drain.Gone, drain.None},
		{"terminating has no deadline after the request", config, late, record(drain.Terminating, endAccepted), drain.NodeSnapshot{}, drain.Terminating, drain.None},
		{"terminating by the provider, untouched for now", config, soon, record(drain.Terminating, providerEnds), snapshotOf(noTasks), drain.Terminating, drain.None},
		{"terminating by the provider, still untouched: it stays", config, start.Add(5 * time.Minute), record(drain.Terminating, providerEnds), snapshotOf(noTasks), drain.Returning, drain.None},

		{"gone", config, soon, record(drain.Gone), snapshotOf(absent), drain.Gone, drain.DeleteRecord},
		{"gone, the same list: another is needed", config, soon, record(drain.Gone), snapshotOf(absent, oldAnswer), drain.Gone, drain.None},
		{"gone, unseen: wait", config, soon, record(drain.Gone), snapshotOf(presenceUnknown), drain.Gone, drain.None},
		{"gone, and there after all", config, soon, record(drain.Gone), snapshotOf(), drain.Returning, drain.None},
		{"gone, and there after all, untouched", config, soon, record(drain.Gone, cordonNotSent), snapshotOf(), drain.Returned, drain.None},
		{"returning", config, soon, record(drain.Returning), drain.NodeSnapshot{}, drain.Returning, drain.Uncordon},
		{"returning, ended by another party", config, soon, record(drain.Returning), snapshotOf(ending), drain.Terminating, drain.None},
		{"returning, disappeared", config, soon, record(drain.Returning), snapshotOf(absent), drain.Gone, drain.None},
		{"returned", config, soon, record(drain.Returned), snapshotOf(), drain.Returned, drain.DeleteRecord},
		{"a state of a later version: untouched", config, late, record("later"), snapshotOf(absent), "later", drain.None},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, action := test.config.Next(test.now, test.record, test.snapshotOf)
			if got.State != test.state || action != test.action {
				t.Errorf("Next = %s, %q, want %s, %q", got.State, action, test.state, test.action)
			}
			if got.State != test.record.State && (got.Why == "" || !got.Since.Equal(test.now)) {
				t.Errorf("entered %s since %v, why %q", got.State, got.Since, got.Why)
			}
		})
	}
}

func drawSnapshot(t *rapid.T) drain.NodeSnapshot {
	at := func(name string) time.Time {
		return start.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, name)) * time.Minute)
	}
	return drain.NodeSnapshot{
		Instance:  rapid.SampledFrom([]drain.Presence{drain.PresenceUnknown, drain.Present, drain.Ending, drain.Absent}).Draw(t, "instance"),
		At:        at("at"),
		Protected: rapid.IntRange(0, 5).Draw(t, "protected") == 0,
		Busy:      rapid.SampledFrom([]string{"", "", "", "a refresh"}).Draw(t, "busy"),
		Node:      rapid.SampledFrom([]pools.NodeState{pools.NodeUnknown, pools.NodeOrphaned, pools.NodeIdle, pools.NodeRunning}).Draw(t, "node"),
		FactsAt:   at("facts at"),
		Cordoned:  rapid.Bool().Draw(t, "cordoned"),
		Tasks:     rapid.IntRange(0, 2).Draw(t, "tasks"),
		BootID:    rapid.SampledFrom([]string{"", "boot-1", "boot-2"}).Draw(t, "boot"),
		Replaced:  rapid.Bool().Draw(t, "replaced"),
	}
}

// drawRecord returns a random valid record.
func drawRecord(t *rapid.T) drain.Record {
	r := record(rapid.SampledFrom([]drain.State{
		drain.Chosen, drain.Cordoned, drain.Draining, drain.Drained, drain.Repairing, drain.Terminating, drain.Returning, drain.Returned, drain.Gone,
	}).Draw(t, "state"))
	r.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
	r.ProviderEnds = rapid.Bool().Draw(t, "taken")
	if r.Reason != drain.Repair {
		return r
	}
	switch kind := rapid.SampledFrom([]pools.RepairKind{"", pools.RepairStart, pools.RepairReboot, pools.RepairReset, pools.RepairRebuild}).Draw(t, "mend"); {
	case kind != "":
		inPlace(kind)(&r)
		r.ProviderEnds = r.State == drain.Terminating
		if r.State == drain.Repairing && rapid.Bool().Draw(t, "mended") {
			r.RepairedAt = start
		}
	case rapid.Bool().Draw(t, "hold"):
		held(&r)
	default:
		repaired(&r)
	}
	return r
}

// safe reports whether a snapshot shows that the node has nothing to lose, or that it is a silent
// node under repair.
func safe(r drain.Record, v drain.NodeSnapshot) bool {
	silent := v.Node == pools.NodeUnknown || v.Node == pools.NodeOrphaned
	orphan := v.Node == pools.NodeOrphaned && r.CordonSent.IsZero()
	empty := !silent && v.Cordoned && v.Tasks == 0 && v.FactsAt.After(r.CordonSent)
	return v.Instance == drain.Present && (orphan || empty || silent && r.Reason == drain.Repair)
}

// TestNextNeverLosesTasks checks random snapshots. A node that may lose tasks is terminated only
// after its deadline, with force. Never terminated are nodes that the provider ends, that are
// repaired in place, or that wait for a replacement.
func TestNextNeverLosesTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drain.Config{Threshold: config.Threshold, Force: rapid.Bool().Draw(t, "force")}
		r := drawRecord(t)
		if r.State == drain.Repairing && r.RepairInPlace == "" {
			r.State = drain.Drained
		}
		v := drawSnapshot(t)
		began := r
		now := start.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
		for range 10 {
			next, action := c.Next(now, r, v)
			if err := next.Validate(); err != nil {
				t.Fatalf("%+v follows on %+v: %v", next, r, err)
			}
			if action == drain.Terminate {
				force := c.Force || r.Reason == drain.Repair
				late := force && !now.Before(r.Deadline) && r.Reason != drain.Spot && r.Reason != drain.Orphan
				waits := began.Hold && began.State == drain.Chosen && !v.Replaced
				if r.ProviderEnds || v.Protected || v.Busy != "" || r.RepairInPlace != "" || waits || !safe(r, v) && !late {
					t.Fatalf("%s terminated on %+v", r.State, v)
				}
			}
			if action == drain.RepairInPlace && (r.RepairInPlace == "" || v.Busy != "" || !now.Before(r.RepairBy) || next.State != drain.Repairing) {
				t.Fatalf("%+v is repaired with %+v", r, v)
			}
			if action != drain.None || next == r {
				return
			}
			r = next
		}
		t.Fatalf("does not come to rest at %s", r.State)
	})
}

var reasons = []drain.Reason{drain.ScaleIn, drain.Orphan, drain.Rolling, drain.Rebalance, drain.Repair, drain.Removal, drain.Spot}

func TestDone(t *testing.T) {
	now := start.Add(time.Minute)
	for action, want := range map[drain.Action]drain.Record{
		drain.Cordon:        record(drain.Chosen),
		drain.Uncordon:      record(drain.Returned, cordonNotSent, func(r *drain.Record) { r.Since = now }),
		drain.Terminate:     record(drain.Chosen, func(r *drain.Record) { r.EndAccepted = now }),
		drain.RepairInPlace: record(drain.Chosen, func(r *drain.Record) { r.RepairedAt = now }),
		drain.DeleteRecord:  record(drain.Chosen),
		drain.None:          record(drain.Chosen),
	} {
		if diff := cmp.Diff(want, drain.Done(now, record(drain.Chosen), action)); diff != "" {
			t.Errorf("Done(%q), -want +got:\n%s", action, diff)
		}
	}
}

// repaired makes it the record of a node to be replaced by a repair.
func repaired(r *drain.Record) { r.Reason, r.Attempt = drain.Repair, "attempt-1" }

// held makes the node stay until its replacement has joined.
func held(r *drain.Record) { repaired(r); r.Hold = true }

// inPlace makes it the record of a node to be repaired in place within an hour.
func inPlace(kind pools.RepairKind) func(*drain.Record) {
	return func(r *drain.Record) {
		repaired(r)
		r.RepairInPlace, r.RepairBy, r.Boot = kind, deadline.Add(30*time.Minute), "boot-1"
	}
}

func repairedAt(r *drain.Record)             { r.RepairedAt = start }
func bootUnknown(r *drain.Record)            { r.Boot = "" }
func replacedSnapshot(v *drain.NodeSnapshot) { v.Replaced = true }
func booted(id string) func(*drain.NodeSnapshot) {
	return func(v *drain.NodeSnapshot) { v.BootID = id }
}

func TestNextOfRepairs(t *testing.T) {
	soon, late, end := start.Add(2*time.Minute), deadline, deadline.Add(30*time.Minute)
	reboot, begin, rebuild := inPlace(pools.RepairReboot), inPlace(pools.RepairStart), inPlace(pools.RepairRebuild)
	for _, test := range []struct {
		name       string
		now        time.Time
		record     drain.Record
		snapshotOf drain.NodeSnapshot
		state      drain.State
		action     drain.Action
		failed     string
	}{
		{"replaced, responding: to be cordoned", soon, record(drain.Chosen, repaired), snapshotOf(uncordoned), drain.Cordoned, drain.Cordon, ""},
		{"replaced, silent: ended at once", soon, record(drain.Chosen, repaired), snapshotOf(silent), drain.Terminating, drain.Terminate, ""},
		{"replaced, an orphan: ended at once", soon, record(drain.Chosen, repaired), snapshotOf(orphaned), drain.Terminating, drain.Terminate, ""},
		{"replaced, silent, the provider takes it: waited for", soon, record(drain.Chosen, repaired, providerEnds), snapshotOf(silent), drain.Chosen, drain.None, ""},
		{"replaced, silent while it drains: ended at once", soon, record(drain.Draining, repaired), snapshotOf(silent), drain.Terminating, drain.Terminate, ""},
		{"replaced, instance unknown: wait", soon, record(drain.Chosen, repaired), snapshotOf(silent, presenceUnknown), drain.Chosen, drain.None, ""},
		{"replaced, protected: it stays", soon, record(drain.Chosen, repaired), snapshotOf(silent, protected), drain.Returned, drain.None, "the provider protects it from termination"},
		{"replaced, its group is changed by others: it stays", soon, record(drain.Draining, repaired), snapshotOf(busy), drain.Returning, drain.None, "its group is being changed: an instance refresh"},
		{"replaced, with tasks at its deadline: ended without force", late, record(drain.Draining, repaired), snapshotOf(), drain.Terminating, drain.Terminate, ""},
		{"replaced, request unconfirmed, node silent", soon, record(drain.Terminating, repaired), snapshotOf(silent), drain.Terminating, drain.Terminate, ""},
		{"replaced, the request was lost and it has tasks", soon, record(drain.Terminating, repaired), snapshotOf(), drain.Draining, drain.None, ""},

		{"held", soon, record(drain.Chosen, held), snapshotOf(uncordoned, noTasks), drain.Chosen, drain.None, ""},
		{"held, silent", soon, record(drain.Chosen, held), snapshotOf(silent), drain.Chosen, drain.None, ""},
		{"held, its replacement is there", soon, record(drain.Chosen, held), snapshotOf(uncordoned, replacedSnapshot), drain.Cordoned, drain.Cordon, ""},
		{"held, its replacement is there, silent", soon, record(drain.Chosen, held), snapshotOf(silent, replacedSnapshot), drain.Terminating, drain.Terminate, ""},
		{"held, unseen", soon, record(drain.Chosen, held), snapshotOf(presenceUnknown, replacedSnapshot), drain.Chosen, drain.None, ""},
		{"held without a replacement: it stays, unchanged", late, record(drain.Chosen, held), snapshotOf(silent), drain.Returned, drain.None, "its replacement did not come"},
		{"held, and gone meanwhile", soon, record(drain.Chosen, held), snapshotOf(absent), drain.Gone, drain.None, ""},
		{"held, protected by now: it stays", soon, record(drain.Chosen, held), snapshotOf(protected), drain.Returned, drain.None, "the provider protects it from termination"},

		{"in place, responding: to be cordoned", soon, record(drain.Chosen, reboot), snapshotOf(uncordoned), drain.Cordoned, drain.Cordon, ""},
		{"in place, silent: at once", soon, record(drain.Chosen, reboot), snapshotOf(silent), drain.Repairing, drain.RepairInPlace, ""},
		{"started: at once", soon, record(drain.Chosen, begin), snapshotOf(), drain.Repairing, drain.RepairInPlace, ""},
		{"started, unseen: wait", soon, record(drain.Chosen, begin), snapshotOf(presenceUnknown), drain.Chosen, drain.None, ""},
		{"in place, protected from termination: repaired anyway", soon, record(drain.Chosen, reboot), snapshotOf(silent, protected), drain.Repairing, drain.RepairInPlace, ""},
		{"in place, its group is changed by others: it stays", soon, record(drain.Chosen, reboot), snapshotOf(silent, busy), drain.Returned, drain.None, "its group is being changed: an instance refresh"},
		{"in place, with tasks: wait", soon, record(drain.Draining, reboot), snapshotOf(), drain.Draining, drain.None, ""},
		{"in place, drained", soon, record(drain.Drained, reboot), snapshotOf(noTasks), drain.Repairing, drain.RepairInPlace, ""},
		{"in place, with tasks at its deadline: repaired anyway", late, record(drain.Draining, reboot), snapshotOf(), drain.Repairing, drain.RepairInPlace, ""},
		{"in place, chosen long ago: it stays", late, record(drain.Chosen, reboot), snapshotOf(uncordoned), drain.Returned, drain.None, "not begun by its deadline"},
		{"repairing: repeated", soon, record(drain.Repairing, reboot), snapshotOf(silent), drain.Repairing, drain.RepairInPlace, ""},
		{"repairing, unseen: wait", soon, record(drain.Repairing, reboot), snapshotOf(presenceUnknown), drain.Repairing, drain.None, ""},
		{"repairing, done, no response: wait", soon, record(drain.Repairing, reboot, repairedAt), snapshotOf(silent), drain.Repairing, drain.None, ""},
		{"repairing, done, the same boot: wait for another", soon, record(drain.Repairing, reboot, repairedAt), snapshotOf(booted("boot-1")), drain.Repairing, drain.None, ""},
		{"repairing, done, another boot", soon, record(drain.Repairing, reboot, repairedAt), snapshotOf(booted("boot-2")), drain.Returning, drain.None, ""},
		{"repairing, done, another boot, never cordoned", soon, record(drain.Repairing, reboot, repairedAt, cordonNotSent), snapshotOf(booted("boot-2")), drain.Returned, drain.None, ""},
		{"repairing, done, the boot before is not known", soon, record(drain.Repairing, reboot, repairedAt, bootUnknown), snapshotOf(silent), drain.Returning, drain.None, ""},
		{"repairing, rebuilt, no boot to wait for", soon, record(drain.Repairing, rebuild, repairedAt), snapshotOf(silent), drain.Returning, drain.None, ""},
		{"repairing, not done by its deadline", end, record(drain.Repairing, reboot), snapshotOf(silent), drain.Returning, drain.None, "not repaired by its deadline"},
		{"repairing, no other boot by its deadline", end, record(drain.Repairing, reboot, repairedAt), snapshotOf(booted("boot-1")), drain.Returning, drain.None, "not repaired by its deadline"},
		{"repairing, gone", soon, record(drain.Repairing, reboot), snapshotOf(absent), drain.Gone, drain.None, ""},
		{"repairing, ended by another party", soon, record(drain.Repairing, reboot), snapshotOf(ending), drain.Terminating, drain.None, ""},
		{"in place, returning", soon, record(drain.Returning, reboot, repairedAt), snapshotOf(silent), drain.Returning, drain.Uncordon, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, action := config.Next(test.now, test.record, test.snapshotOf)
			if got.State != test.state || action != test.action || got.Failed != test.failed {
				t.Errorf("Next = %s, %q, failed %q, want %s, %q, %q", got.State, action, got.Failed, test.state, test.action, test.failed)
			}
			if got.State != test.record.State && (got.Why == "" || !got.Since.Equal(test.now)) {
				t.Errorf("entered %s since %v, why %q", got.State, got.Since, got.Why)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}
