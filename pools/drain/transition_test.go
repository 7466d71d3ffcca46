package drain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

var (
	start    = time.Unix(1_700_000_000, 0).UTC()
	config   = drain.Config{Threshold: 30 * time.Minute}
	forced   = drain.Config{Threshold: 30 * time.Minute, Force: true}
	deadline = start.Add(config.Threshold)
)

// record returns the record of a node that was chosen at start.
func record(state api.DrainState, changes ...func(*api.Drain)) api.Drain {
	r := api.Drain{
		Node: "i-1", Group: "a", Weight: 2, State: state, Reason: api.DrainScaleIn,
		Since: start, Deadline: deadline,
	}
	if state != api.DrainChosen {
		r.CordonSent = start
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func endAccepted(r *api.Drain)   { r.EndAccepted = start }
func cordonNotSent(r *api.Drain) { r.CordonSent = time.Time{} }
func providerEnds(r *api.Drain)  { r.ProviderEnds = true }

func because(reason api.DrainReason) func(*api.Drain) {
	return func(r *api.Drain) { r.Reason = reason }
}

// leftToProvider makes it the record of a node that the provider will end.
func leftToProvider(r *api.Drain) { r.Reason, r.ProviderEnds = api.DrainSpot, true }

// snapshotOf returns a fresh snapshot of a cordoned node with a task, a minute later.
func snapshotOf(changes ...func(*drain.NodeSnapshot)) drain.NodeSnapshot {
	later := start.Add(time.Minute)
	v := drain.NodeSnapshot{
		Instance: drain.Present, At: later, Node: api.NodeRunning, FactsAt: later, Cordoned: true, Tasks: 1,
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// groupLeft returns the snapshot of a node whose group is no longer in the pool.
func groupLeft() drain.NodeSnapshot {
	return drain.NodeSnapshot{At: start.Add(time.Minute), Left: true}
}

// groupLeftReporting returns that of a node that sends facts.
func groupLeftReporting() drain.NodeSnapshot {
	v := groupLeft()
	v.FactsAt = start.Add(time.Minute + time.Second)
	return v
}

func noTasks(v *drain.NodeSnapshot)         { v.Node, v.Tasks = api.NodeIdle, 0 }
func keeps(v *drain.NodeSnapshot)           { v.Keeps = "terminating is suspended" }
func waits(v *drain.NodeSnapshot)           { v.Waits = true }
func uncordoned(v *drain.NodeSnapshot)      { v.Cordoned = false }
func orphaned(v *drain.NodeSnapshot)        { v.Node, v.Cordoned, v.Tasks = api.NodeOrphaned, false, 0 }
func silent(v *drain.NodeSnapshot)          { v.Node, v.Cordoned, v.Tasks = api.NodeUnknown, false, 0 }
func presenceUnknown(v *drain.NodeSnapshot) { v.Instance = drain.PresenceUnknown }
func ending(v *drain.NodeSnapshot)          { v.Instance = drain.Ending }
func absent(v *drain.NodeSnapshot)          { v.Instance = drain.Absent }
func protected(v *drain.NodeSnapshot)       { v.Protected = true }
func proof(p drain.Proof) func(*drain.NodeSnapshot) {
	return func(v *drain.NodeSnapshot) { v.Proof = p }
}
func oldFacts(v *drain.NodeSnapshot)  { v.FactsAt = start }
func busy(v *drain.NodeSnapshot)      { v.Busy = "an instance refresh" }
func oldAnswer(v *drain.NodeSnapshot) { v.At = start }
func readSoon(v *drain.NodeSnapshot)  { v.At = start.Add(20 * time.Second) }
func readLater(v *drain.NodeSnapshot) { v.At = start.Add(2 * time.Minute) }

func TestNext(t *testing.T) {
	soon, late := start.Add(2*time.Minute), deadline
	for _, test := range []struct {
		name       string
		config     drain.Config
		now        time.Time
		record     api.Drain
		snapshotOf drain.NodeSnapshot
		state      api.DrainState
		action     drain.Action
	}{
		{"chosen: to be cordoned", config, soon, record(api.DrainChosen), snapshotOf(uncordoned), api.DrainCordoned, drain.Cordon},
		{"chosen, silent: wait", config, soon, record(api.DrainChosen), snapshotOf(silent), api.DrainChosen, drain.None},
		{"chosen, an orphan: nothing to wait for", config, soon, record(api.DrainChosen), snapshotOf(orphaned), api.DrainTerminating, drain.Terminate},
		{"chosen, an orphan, instance unknown: wait", config, soon, record(api.DrainChosen), snapshotOf(orphaned, presenceUnknown), api.DrainChosen, drain.None},
		{"chosen, protected: it stays, untouched", config, soon, record(api.DrainChosen), snapshotOf(protected), api.DrainReturned, drain.None},
		{"chosen, its group is changed by others: it stays, untouched", config, soon, record(api.DrainChosen), snapshotOf(busy), api.DrainReturned, drain.None},
		{"chosen as an orphan, is one", config, soon, record(api.DrainChosen, because(api.DrainOrphan)), snapshotOf(orphaned), api.DrainTerminating, drain.Terminate},
		{"chosen as an orphan, has joined: it stays", config, soon, record(api.DrainChosen, because(api.DrainOrphan)), snapshotOf(uncordoned, noTasks), api.DrainReturned, drain.None},
		{"chosen as an orphan, silent: wait", forced, soon, record(api.DrainChosen, because(api.DrainOrphan)), snapshotOf(silent), api.DrainChosen, drain.None},

		{"cordoned, facts from before: wait", config, soon, record(api.DrainCordoned), snapshotOf(oldFacts, noTasks), api.DrainCordoned, drain.None},
		{"cordoned, not confirmed: again", config, soon, record(api.DrainCordoned), snapshotOf(uncordoned), api.DrainCordoned, drain.Cordon},
		{"cordoned, confirmed", config, soon, record(api.DrainCordoned), snapshotOf(), api.DrainDraining, drain.None},
		{"cordoned, unknown: wait", config, soon, record(api.DrainCordoned), drain.NodeSnapshot{}, api.DrainCordoned, drain.None},
		{"cordoned, protected: it stays", config, soon, record(api.DrainCordoned), snapshotOf(protected), api.DrainReturning, drain.None},
		{"cordoned, no orphan: it had joined", config, soon, record(api.DrainCordoned), snapshotOf(orphaned), api.DrainCordoned, drain.None},

		{"draining, tasks left: wait", config, soon, record(api.DrainDraining), snapshotOf(), api.DrainDraining, drain.None},
		{"draining, no tasks", config, soon, record(api.DrainDraining), snapshotOf(noTasks), api.DrainDrained, drain.None},
		{"draining, no tasks before the cordon: wait", config, soon, record(api.DrainDraining), snapshotOf(noTasks, oldFacts), api.DrainDraining, drain.None},
		{"draining, silent: wait", config, soon, record(api.DrainDraining), snapshotOf(silent), api.DrainDraining, drain.None},
		{"draining, no orphan: it had joined", config, soon, record(api.DrainDraining), snapshotOf(orphaned), api.DrainDraining, drain.None},
		{"draining, unknown: wait", config, soon, record(api.DrainDraining), drain.NodeSnapshot{}, api.DrainDraining, drain.None},
		{"draining, lost its cordon", config, soon, record(api.DrainDraining), snapshotOf(uncordoned, noTasks), api.DrainCordoned, drain.Cordon},
		{"draining, ended by another party", config, soon, record(api.DrainDraining), snapshotOf(ending), api.DrainTerminating, drain.None},
		{"draining, disappeared", config, soon, record(api.DrainDraining), snapshotOf(absent), api.DrainGone, drain.None},
		{"draining, its group is changed by others: it stays", config, soon, record(api.DrainDraining), snapshotOf(busy), api.DrainReturning, drain.None},

		{"draining, its group left the pool: it stays", config, soon, record(api.DrainDraining), groupLeft(), api.DrainReturning, drain.None},
		{"terminating, its group left the pool: it stays", config, soon, record(api.DrainTerminating), groupLeft(), api.DrainReturning, drain.None},
		{"returning, its group left the pool", config, start.Add(time.Second), record(api.DrainReturning), groupLeft(), api.DrainReturning, drain.Uncordon},
		{"returning for a minute, its group left the pool, and it is silent: wait", config, soon, record(api.DrainReturning), groupLeft(), api.DrainReturning, drain.None},
		{"returning for a minute, its group left the pool, and it reports", config, soon, record(api.DrainReturning), groupLeftReporting(), api.DrainReturning, drain.Uncordon},
		{"returning for a day, its group left the pool: no more", config, start.Add(24 * time.Hour), record(api.DrainReturning), groupLeft(), api.DrainReturned, drain.None},
		{"gone, its group left the pool", config, soon, record(api.DrainGone), groupLeft(), api.DrainGone, drain.DeleteRecord},
		{"draining, its group keeps its nodes: it stays", config, soon, record(api.DrainDraining), snapshotOf(keeps), api.DrainReturning, drain.None},
		{"drained, terminations fail: wait", config, soon, record(api.DrainDrained), snapshotOf(noTasks, waits), api.DrainDrained, drain.None},

		{"drained", config, soon, record(api.DrainDrained), snapshotOf(noTasks), api.DrainTerminating, drain.Terminate},
		{"drained, tasks again", config, soon, record(api.DrainDrained), snapshotOf(), api.DrainDraining, drain.None},
		{"drained, lost its cordon", config, soon, record(api.DrainDrained), snapshotOf(uncordoned, noTasks), api.DrainCordoned, drain.Cordon},
		{"drained, silent: wait", config, soon, record(api.DrainDrained), snapshotOf(silent), api.DrainDrained, drain.None},
		{"drained, unseen: wait", config, soon, record(api.DrainDrained), snapshotOf(noTasks, presenceUnknown), api.DrainDrained, drain.None},
		{"drained, protected: it stays", config, soon, record(api.DrainDrained), snapshotOf(noTasks, protected), api.DrainReturning, drain.None},

		{"too late, chosen: it stays", config, late, record(api.DrainChosen), snapshotOf(uncordoned), api.DrainReturned, drain.None},
		{"too late, not confirmed: it stays", config, late, record(api.DrainCordoned), snapshotOf(uncordoned), api.DrainReturning, drain.None},
		{"too late, tasks left: it stays", config, late, record(api.DrainDraining), snapshotOf(), api.DrainReturning, drain.None},
		{"too late, unknown: it stays", config, late, record(api.DrainDraining), drain.NodeSnapshot{}, api.DrainReturning, drain.None},
		{"too late, drained but silent: it stays", config, late, record(api.DrainDrained), snapshotOf(silent), api.DrainReturning, drain.None},
		{"too late, but just drained", config, late, record(api.DrainDraining), snapshotOf(noTasks), api.DrainDrained, drain.None},
		{"too late, but drained", config, late, record(api.DrainDrained), snapshotOf(noTasks), api.DrainTerminating, drain.Terminate},
		{"a moment before the deadline: wait", config, late.Add(-1), record(api.DrainDraining), snapshotOf(), api.DrainDraining, drain.None},
		{"forced, tasks left", forced, late, record(api.DrainDraining), snapshotOf(), api.DrainTerminating, drain.Terminate},
		{"forced, each copy has a place", forced, late, record(api.DrainDraining), snapshotOf(proof(drain.Proved)), api.DrainTerminating, drain.Terminate},
		{"forced, a copy has no place: it stays", forced, late, record(api.DrainDraining), snapshotOf(proof(drain.Needed)), api.DrainReturning, drain.None},
		{"forced, no answer about its copies: wait", forced, late, record(api.DrainDraining), snapshotOf(proof(drain.Unproved)), api.DrainDraining, drain.None},
		{"a removal is forced, and a copy has no place", forced, late, record(api.DrainDraining, because(api.DrainRemoval)), snapshotOf(proof(drain.Needed)), api.DrainTerminating, drain.Terminate},
		{"forced, silent from the beginning", forced, late, record(api.DrainChosen), snapshotOf(silent), api.DrainTerminating, drain.Terminate},
		{"forced, but never cordoned: it stays", forced, late, record(api.DrainChosen), snapshotOf(uncordoned), api.DrainReturned, drain.None},
		{"forced, unknown", forced, late, record(api.DrainDraining), drain.NodeSnapshot{}, api.DrainTerminating, drain.Terminate},
		{"forced, but it is not late yet", forced, soon, record(api.DrainDraining), drain.NodeSnapshot{}, api.DrainDraining, drain.None},
		{"forced, protected: it stays", forced, late, record(api.DrainDraining), snapshotOf(protected), api.DrainReturning, drain.None},
		{"forced, chosen as an orphan and silent: it stays", forced, late, record(api.DrainChosen, because(api.DrainOrphan)), snapshotOf(silent), api.DrainReturned, drain.None},

		{"spot, chosen", config, soon, record(api.DrainChosen, leftToProvider), snapshotOf(uncordoned), api.DrainCordoned, drain.Cordon},
		{"spot, an orphan: the provider's", config, soon, record(api.DrainChosen, leftToProvider), snapshotOf(orphaned), api.DrainChosen, drain.None},
		{"spot, protected: drained all the same", config, soon, record(api.DrainDraining, leftToProvider), snapshotOf(protected, noTasks), api.DrainDrained, drain.None},
		{"spot, drained: wait for the provider", config, soon, record(api.DrainDrained, leftToProvider), snapshotOf(noTasks), api.DrainDrained, drain.None},
		{"spot, drained, ours to end", config, soon, record(api.DrainDrained, because(api.DrainSpot)), snapshotOf(noTasks), api.DrainTerminating, drain.Terminate},
		{"spot, too late: wait for the provider", forced, late, record(api.DrainDraining, leftToProvider), snapshotOf(), api.DrainDraining, drain.None},
		{"spot, ours to end, too late: wait for the provider", forced, late, record(api.DrainDraining, because(api.DrainSpot)), snapshotOf(), api.DrainDraining, drain.None},
		{"spot, not taken: it stays", forced, late.Add(5 * time.Minute), record(api.DrainDraining, leftToProvider), snapshotOf(), api.DrainReturning, drain.None},
		{"spot, taken", config, soon, record(api.DrainDraining, leftToProvider), snapshotOf(ending), api.DrainTerminating, drain.None},

		{"terminating, request unconfirmed", config, soon, record(api.DrainTerminating), snapshotOf(noTasks, readLater), api.DrainTerminating, drain.Terminate},
		{"terminating, unconfirmed, a reading that may not show it: wait", config, soon, record(api.DrainTerminating), snapshotOf(noTasks, readSoon), api.DrainTerminating, drain.None},
		{"terminating, unconfirmed, an older response: wait", config, soon, record(api.DrainTerminating), snapshotOf(noTasks, oldAnswer), api.DrainTerminating, drain.None},
		{"terminating, unconfirmed, silent: wait", config, soon, record(api.DrainTerminating), snapshotOf(silent), api.DrainTerminating, drain.None},
		{"terminating, unconfirmed, and it has tasks", config, soon, record(api.DrainTerminating), snapshotOf(), api.DrainDraining, drain.None},
		{"terminating, unconfirmed, and it lost its cordon", config, soon, record(api.DrainTerminating), snapshotOf(noTasks, uncordoned), api.DrainDraining, drain.None},
		{"terminating, unconfirmed, facts from before: wait", config, soon, record(api.DrainTerminating), snapshotOf(oldFacts), api.DrainTerminating, drain.None},
		{"terminating, unconfirmed, an orphan", config, soon, record(api.DrainTerminating, cordonNotSent), snapshotOf(orphaned, readLater), api.DrainTerminating, drain.Terminate},
		{"terminating, unconfirmed, an orphan that has joined", config, soon, record(api.DrainTerminating, cordonNotSent), snapshotOf(uncordoned), api.DrainChosen, drain.None},
		{"terminating, unconfirmed, it had joined: wait", config, soon, record(api.DrainTerminating), snapshotOf(orphaned), api.DrainTerminating, drain.None},
		{"terminating, forced, unconfirmed", forced, late.Add(-1), record(api.DrainTerminating, func(r *api.Drain) { r.Deadline = soon }), snapshotOf(readLater), api.DrainTerminating, drain.Terminate},
		{"terminating, protected by now: it stays", config, soon, record(api.DrainTerminating), snapshotOf(noTasks, protected), api.DrainReturning, drain.None},
		{"terminating, an orphan protected by now: it stays, untouched", config, soon, record(api.DrainTerminating, cordonNotSent), snapshotOf(orphaned, protected), api.DrainReturned, drain.None},
		{"terminating, never taken in: it stays", forced, late, record(api.DrainTerminating), snapshotOf(noTasks), api.DrainReturning, drain.None},
		{"terminating, unseen: wait", config, soon, record(api.DrainTerminating), snapshotOf(presenceUnknown), api.DrainTerminating, drain.None},
		{"terminating, it ends", config, soon, record(api.DrainTerminating, endAccepted), snapshotOf(ending), api.DrainTerminating, drain.None},
		{"terminating, confirmed, an older response", config, soon, record(api.DrainTerminating, endAccepted), snapshotOf(oldAnswer), api.DrainTerminating, drain.None},
		{"terminating, confirmed, and still unchanged", config, soon, record(api.DrainTerminating, endAccepted), snapshotOf(readLater), api.DrainTerminating, drain.Terminate},
		{"terminating, gone", config, soon, record(api.DrainTerminating, endAccepted), snapshotOf(absent), api.DrainGone, drain.None},
		{"terminating has no deadline after the request", config, late, record(api.DrainTerminating, endAccepted), drain.NodeSnapshot{}, api.DrainTerminating, drain.None},
		{"terminating by the provider, untouched for now", config, soon, record(api.DrainTerminating, providerEnds), snapshotOf(noTasks), api.DrainTerminating, drain.None},
		{"terminating by the provider, still untouched: it stays", config, start.Add(5 * time.Minute), record(api.DrainTerminating, providerEnds), snapshotOf(noTasks), api.DrainReturning, drain.None},

		{"gone", config, soon, record(api.DrainGone), snapshotOf(absent), api.DrainGone, drain.DeleteRecord},
		{"gone, the same list: another is needed", config, soon, record(api.DrainGone), snapshotOf(absent, oldAnswer), api.DrainGone, drain.None},
		{"gone, unseen: wait", config, soon, record(api.DrainGone), snapshotOf(presenceUnknown), api.DrainGone, drain.None},
		{"gone, and there after all", config, soon, record(api.DrainGone), snapshotOf(), api.DrainReturning, drain.None},
		{"gone, and there after all, untouched", config, soon, record(api.DrainGone, cordonNotSent), snapshotOf(), api.DrainReturned, drain.None},
		{"returning", config, soon, record(api.DrainReturning), drain.NodeSnapshot{}, api.DrainReturning, drain.Uncordon},
		{"returning, ended by another party", config, soon, record(api.DrainReturning), snapshotOf(ending), api.DrainTerminating, drain.None},
		{"returning, disappeared", config, soon, record(api.DrainReturning), snapshotOf(absent), api.DrainGone, drain.None},
		{"returned", config, soon, record(api.DrainReturned), snapshotOf(), api.DrainReturned, drain.DeleteRecord},
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
		Node:      rapid.SampledFrom([]api.NodeState{api.NodeUnknown, api.NodeOrphaned, api.NodeIdle, api.NodeRunning}).Draw(t, "node"),
		FactsAt:   at("facts at"),
		Cordoned:  rapid.Bool().Draw(t, "cordoned"),
		Tasks:     rapid.IntRange(0, 2).Draw(t, "tasks"),
		BootID:    rapid.SampledFrom([]string{"", "boot-1", "boot-2"}).Draw(t, "boot"),
		Replaced:  rapid.Bool().Draw(t, "replaced"),
	}
}

// drawRecord returns a random valid record.
func drawRecord(t *rapid.T) api.Drain {
	r := record(rapid.SampledFrom([]api.DrainState{
		api.DrainChosen, api.DrainCordoned, api.DrainDraining, api.DrainDrained, api.DrainRepairing, api.DrainTerminating, api.DrainReturning, api.DrainReturned, api.DrainGone,
	}).Draw(t, "state"))
	r.Reason = rapid.SampledFrom(reasons).Draw(t, "reason")
	r.ProviderEnds = rapid.Bool().Draw(t, "taken")
	if r.Reason != api.DrainRepair {
		return r
	}
	switch kind := rapid.SampledFrom([]api.RepairKind{"", api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild}).Draw(t, "mend"); {
	case kind != "":
		inPlace(kind)(&r)
		r.ProviderEnds = r.State == api.DrainTerminating
		if r.State == api.DrainRepairing && rapid.Bool().Draw(t, "mended") {
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
func safe(r api.Drain, v drain.NodeSnapshot) bool {
	silent := v.Node == api.NodeUnknown || v.Node == api.NodeOrphaned
	orphan := v.Node == api.NodeOrphaned && r.CordonSent.IsZero()
	empty := !silent && v.Cordoned && v.Tasks == 0 && v.FactsAt.After(r.CordonSent)
	return v.Instance == drain.Present && (orphan || empty || silent && r.Reason == api.DrainRepair)
}

// TestNextNeverLosesTasks checks random snapshots. A node that may lose tasks is terminated only
// after its deadline, with force. Never terminated are nodes that the provider ends, that are
// repaired in place, or that wait for a replacement.
func TestNextNeverLosesTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drain.Config{Threshold: config.Threshold, Force: rapid.Bool().Draw(t, "force")}
		r := drawRecord(t)
		if r.State == api.DrainRepairing && r.RepairInPlace == "" {
			r.State = api.DrainDrained
		}
		v := drawSnapshot(t)
		began := r
		now := start.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
		for range 10 {
			next, action := c.Next(now, r, v)
			if err := drain.ValidateRecord(next); err != nil {
				t.Fatalf("%+v follows on %+v: %v", next, r, err)
			}
			if action == drain.Terminate {
				force := c.Force || r.Reason == api.DrainRepair
				late := force && !now.Before(r.Deadline) && r.Reason != api.DrainSpot && r.Reason != api.DrainOrphan
				waits := began.Hold && began.State == api.DrainChosen && !v.Replaced
				if r.ProviderEnds || v.Protected || v.Busy != "" || r.RepairInPlace != "" || waits || !safe(r, v) && !late {
					t.Fatalf("%s terminated on %+v", r.State, v)
				}
			}
			if action == drain.RepairInPlace && (r.RepairInPlace == "" || v.Busy != "" || !now.Before(r.RepairBy) || next.State != api.DrainRepairing) {
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

var reasons = []api.DrainReason{api.DrainScaleIn, api.DrainOrphan, api.DrainRolling, api.DrainRebalance, api.DrainRepair, api.DrainRemoval, api.DrainSpot}

func TestDone(t *testing.T) {
	now := start.Add(time.Minute)
	for action, want := range map[drain.Action]api.Drain{
		drain.Cordon:        record(api.DrainChosen),
		drain.Uncordon:      record(api.DrainReturned, cordonNotSent, func(r *api.Drain) { r.Since = now }),
		drain.Terminate:     record(api.DrainChosen, func(r *api.Drain) { r.EndAccepted = now }),
		drain.RepairInPlace: record(api.DrainChosen, func(r *api.Drain) { r.RepairedAt = now }),
		drain.DeleteRecord:  record(api.DrainChosen),
		drain.None:          record(api.DrainChosen),
	} {
		if diff := cmp.Diff(want, drain.Done(now, record(api.DrainChosen), action)); diff != "" {
			t.Errorf("Done(%q), -want +got:\n%s", action, diff)
		}
	}
}

// repaired makes it the record of a node to be replaced by a repair.
func repaired(r *api.Drain) { r.Reason, r.Attempt = api.DrainRepair, "attempt-1" }

// held makes the node stay until its replacement has joined.
func held(r *api.Drain) { repaired(r); r.Hold = true }

// inPlace makes it the record of a node to be repaired in place within an hour.
func inPlace(kind api.RepairKind) func(*api.Drain) {
	return func(r *api.Drain) {
		repaired(r)
		r.RepairInPlace, r.RepairBy, r.Boot = kind, deadline.Add(30*time.Minute), "boot-1"
	}
}

func repairedAt(r *api.Drain)                { r.RepairedAt = start }
func bootUnknown(r *api.Drain)               { r.Boot = "" }
func replacedSnapshot(v *drain.NodeSnapshot) { v.Replaced = true }
func booted(id string) func(*drain.NodeSnapshot) {
	return func(v *drain.NodeSnapshot) { v.BootID = id }
}

func TestNextOfRepairs(t *testing.T) {
	soon, late, end := start.Add(2*time.Minute), deadline, deadline.Add(30*time.Minute)
	reboot, begin, rebuild := inPlace(api.RepairReboot), inPlace(api.RepairStart), inPlace(api.RepairRebuild)
	for _, test := range []struct {
		name       string
		now        time.Time
		record     api.Drain
		snapshotOf drain.NodeSnapshot
		state      api.DrainState
		action     drain.Action
		failed     string
	}{
		{"replaced, responding: to be cordoned", soon, record(api.DrainChosen, repaired), snapshotOf(uncordoned), api.DrainCordoned, drain.Cordon, ""},
		{"replaced, silent: ended at once", soon, record(api.DrainChosen, repaired), snapshotOf(silent), api.DrainTerminating, drain.Terminate, ""},
		{"replaced, an orphan: ended at once", soon, record(api.DrainChosen, repaired), snapshotOf(orphaned), api.DrainTerminating, drain.Terminate, ""},
		{"replaced, silent, the provider takes it: waited for", soon, record(api.DrainChosen, repaired, providerEnds), snapshotOf(silent), api.DrainChosen, drain.None, ""},
		{"replaced, silent while it drains: ended at once", soon, record(api.DrainDraining, repaired), snapshotOf(silent), api.DrainTerminating, drain.Terminate, ""},
		{"replaced, instance unknown: wait", soon, record(api.DrainChosen, repaired), snapshotOf(silent, presenceUnknown), api.DrainChosen, drain.None, ""},
		{"replaced, protected: it stays", soon, record(api.DrainChosen, repaired), snapshotOf(silent, protected), api.DrainReturned, drain.None, "the provider protects it from termination"},
		{"replaced, its group is changed by others: it stays", soon, record(api.DrainDraining, repaired), snapshotOf(busy), api.DrainReturning, drain.None, "its group is not changed now: an instance refresh"},
		{"replaced, with tasks at its deadline: ended without force", late, record(api.DrainDraining, repaired), snapshotOf(), api.DrainTerminating, drain.Terminate, ""},
		{"replaced, request unconfirmed, node silent", soon, record(api.DrainTerminating, repaired), snapshotOf(silent, readLater), api.DrainTerminating, drain.Terminate, ""},
		{"replaced, the request was lost and it has tasks", soon, record(api.DrainTerminating, repaired), snapshotOf(), api.DrainDraining, drain.None, ""},

		{"held", soon, record(api.DrainChosen, held), snapshotOf(uncordoned, noTasks), api.DrainChosen, drain.None, ""},
		{"held, silent", soon, record(api.DrainChosen, held), snapshotOf(silent), api.DrainChosen, drain.None, ""},
		{"held, its replacement is there", soon, record(api.DrainChosen, held), snapshotOf(uncordoned, replacedSnapshot), api.DrainCordoned, drain.Cordon, ""},
		{"held, its replacement is there, silent", soon, record(api.DrainChosen, held), snapshotOf(silent, replacedSnapshot), api.DrainTerminating, drain.Terminate, ""},
		{"held, unseen", soon, record(api.DrainChosen, held), snapshotOf(presenceUnknown, replacedSnapshot), api.DrainChosen, drain.None, ""},
		{"held without a replacement: it stays, unchanged", late, record(api.DrainChosen, held), snapshotOf(silent), api.DrainReturned, drain.None, "its replacement did not come"},
		{"held, and gone meanwhile", soon, record(api.DrainChosen, held), snapshotOf(absent), api.DrainGone, drain.None, ""},
		{"held, protected by now: it stays", soon, record(api.DrainChosen, held), snapshotOf(protected), api.DrainReturned, drain.None, "the provider protects it from termination"},

		{"in place, responding: to be cordoned", soon, record(api.DrainChosen, reboot), snapshotOf(uncordoned), api.DrainCordoned, drain.Cordon, ""},
		{"in place, silent: at once", soon, record(api.DrainChosen, reboot), snapshotOf(silent), api.DrainRepairing, drain.RepairInPlace, ""},
		{"started: at once", soon, record(api.DrainChosen, begin), snapshotOf(), api.DrainRepairing, drain.RepairInPlace, ""},
		{"started, unseen: wait", soon, record(api.DrainChosen, begin), snapshotOf(presenceUnknown), api.DrainChosen, drain.None, ""},
		{"in place, protected from termination: repaired anyway", soon, record(api.DrainChosen, reboot), snapshotOf(silent, protected), api.DrainRepairing, drain.RepairInPlace, ""},
		{"in place, its group is changed by others: it stays", soon, record(api.DrainChosen, reboot), snapshotOf(silent, busy), api.DrainReturned, drain.None, "its group is not changed now: an instance refresh"},
		{"in place, with tasks: wait", soon, record(api.DrainDraining, reboot), snapshotOf(), api.DrainDraining, drain.None, ""},
		{"in place, drained", soon, record(api.DrainDrained, reboot), snapshotOf(noTasks), api.DrainRepairing, drain.RepairInPlace, ""},
		{"in place, with tasks at its deadline: repaired anyway", late, record(api.DrainDraining, reboot), snapshotOf(), api.DrainRepairing, drain.RepairInPlace, ""},
		{"in place, chosen long ago: it stays", late, record(api.DrainChosen, reboot), snapshotOf(uncordoned), api.DrainReturned, drain.None, "not begun by its deadline"},
		{"repairing: repeated", soon, record(api.DrainRepairing, reboot), snapshotOf(silent), api.DrainRepairing, drain.RepairInPlace, ""},
		{"repairing, unseen: wait", soon, record(api.DrainRepairing, reboot), snapshotOf(presenceUnknown), api.DrainRepairing, drain.None, ""},
		{"repairing, done, no response: wait", soon, record(api.DrainRepairing, reboot, repairedAt), snapshotOf(silent), api.DrainRepairing, drain.None, ""},
		{"repairing, done, the same boot: wait for another", soon, record(api.DrainRepairing, reboot, repairedAt), snapshotOf(booted("boot-1")), api.DrainRepairing, drain.None, ""},
		{"repairing, done, another boot", soon, record(api.DrainRepairing, reboot, repairedAt), snapshotOf(booted("boot-2")), api.DrainReturning, drain.None, ""},
		{"repairing, done, another boot, never cordoned", soon, record(api.DrainRepairing, reboot, repairedAt, cordonNotSent), snapshotOf(booted("boot-2")), api.DrainReturned, drain.None, ""},
		{"repairing, done, the boot before is not known", soon, record(api.DrainRepairing, reboot, repairedAt, bootUnknown), snapshotOf(silent), api.DrainReturning, drain.None, ""},
		{"repairing, rebuilt, no boot to wait for", soon, record(api.DrainRepairing, rebuild, repairedAt), snapshotOf(silent), api.DrainReturning, drain.None, ""},
		{"repairing, not done by its deadline", end, record(api.DrainRepairing, reboot), snapshotOf(silent), api.DrainReturning, drain.None, "not repaired by its deadline"},
		{"repairing, no other boot by its deadline", end, record(api.DrainRepairing, reboot, repairedAt), snapshotOf(booted("boot-1")), api.DrainReturning, drain.None, "not repaired by its deadline"},
		{"repairing, gone", soon, record(api.DrainRepairing, reboot), snapshotOf(absent), api.DrainGone, drain.None, ""},
		{"repairing, ended by another party", soon, record(api.DrainRepairing, reboot), snapshotOf(ending), api.DrainTerminating, drain.None, ""},
		{"in place, returning", soon, record(api.DrainReturning, reboot, repairedAt), snapshotOf(silent), api.DrainReturning, drain.Uncordon, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, action := config.Next(test.now, test.record, test.snapshotOf)
			if got.State != test.state || action != test.action || got.Failed != test.failed {
				t.Errorf("Next = %s, %q, failed %q, want %s, %q, %q", got.State, action, got.Failed, test.state, test.action, test.failed)
			}
			if got.State != test.record.State && (got.Why == "" || !got.Since.Equal(test.now)) {
				t.Errorf("entered %s since %v, why %q", got.State, got.Since, got.Why)
			}
			if err := drain.ValidateRecord(got); err != nil {
				t.Error(err)
			}
		})
	}
}
