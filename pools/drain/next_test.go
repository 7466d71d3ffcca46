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
	for _, change := range changes {
		change(&r)
	}
	return r
}

func asked(r *drain.Record) { r.Asked = start }

// view returns a fresh view of a cordoned node with a task, a minute later.
func view(changes ...func(*drain.View)) drain.View {
	later := start.Add(time.Minute)
	v := drain.View{
		Instance: drain.Present, At: later, Node: pools.NodeRunning, FactsAt: later, Cordoned: true, Tasks: 1,
	}
	for _, change := range changes {
		change(&v)
	}
	return v
}

func noTasks(v *drain.View)    { v.Node, v.Tasks = pools.NodeIdle, 0 }
func uncordoned(v *drain.View) { v.Cordoned = false }
func orphaned(v *drain.View)   { v.Node, v.Cordoned, v.Tasks = pools.NodeOrphaned, false, 0 }
func silent(v *drain.View)     { v.Node, v.Cordoned, v.Tasks = pools.NodeUnknown, false, 0 }
func unseen(v *drain.View)     { v.Instance = drain.Unseen }
func ending(v *drain.View)     { v.Instance = drain.Ending }
func absent(v *drain.View)     { v.Instance = drain.Absent }
func protected(v *drain.View)  { v.Protected = true }
func oldFacts(v *drain.View)   { v.FactsAt = start }
func oldAnswer(v *drain.View)  { v.At = start }

func TestNext(t *testing.T) {
	soon, late := start.Add(2*time.Minute), deadline
	for _, test := range []struct {
		name   string
		config drain.Config
		now    time.Time
		record drain.Record
		view   drain.View
		state  drain.State
		action drain.Action
	}{
		{"chosen: to be cordoned", config, soon, record(drain.Chosen), view(uncordoned), drain.Chosen, drain.Cordon},
		{"chosen, silent: wait", config, soon, record(drain.Chosen), view(silent), drain.Chosen, drain.None},
		{"chosen, an orphan: nothing to wait for", config, soon, record(drain.Chosen), view(orphaned), drain.Terminating, drain.Terminate},
		{"chosen, an orphan the provider does not tell of: wait", config, soon, record(drain.Chosen), view(orphaned, unseen), drain.Chosen, drain.None},
		{"chosen, protected: it stays", config, soon, record(drain.Chosen), view(protected), drain.Returning, drain.None},

		{"cordoned, facts from before: wait", config, soon, record(drain.Cordoned), view(oldFacts, noTasks), drain.Cordoned, drain.None},
		{"cordoned, not confirmed: again", config, soon, record(drain.Cordoned), view(uncordoned), drain.Cordoned, drain.Cordon},
		{"cordoned, confirmed", config, soon, record(drain.Cordoned), view(), drain.Draining, drain.None},
		{"cordoned, unknown: wait", config, soon, record(drain.Cordoned), drain.View{}, drain.Cordoned, drain.None},

		{"draining, tasks left: wait", config, soon, record(drain.Draining), view(), drain.Draining, drain.None},
		{"draining, no tasks", config, soon, record(drain.Draining), view(noTasks), drain.Drained, drain.None},
		{"draining, silent: wait", config, soon, record(drain.Draining), view(silent), drain.Draining, drain.None},
		{"draining, unknown: wait", config, soon, record(drain.Draining), drain.View{}, drain.Draining, drain.None},
		{"draining, lost its cordon", config, soon, record(drain.Draining), view(uncordoned, noTasks), drain.Chosen, drain.Cordon},
		{"draining, ended by somebody else", config, soon, record(drain.Draining), view(ending), drain.Terminating, drain.None},
		{"draining, disappeared", config, soon, record(drain.Draining), view(absent), drain.Gone, drain.None},

		{"drained", config, soon, record(drain.Drained), view(noTasks), drain.Terminating, drain.Terminate},
		{"drained, tasks again", config, soon, record(drain.Drained), view(), drain.Draining, drain.None},
		{"drained, lost its cordon", config, soon, record(drain.Drained), view(uncordoned, noTasks), drain.Chosen, drain.Cordon},
		{"drained, silent: wait", config, soon, record(drain.Drained), view(silent), drain.Drained, drain.None},
		{"drained, unseen: wait", config, soon, record(drain.Drained), view(noTasks, unseen), drain.Drained, drain.None},
		{"drained, protected: it stays", config, soon, record(drain.Drained), view(noTasks, protected), drain.Returning, drain.None},

		{"too late, chosen: it stays", config, late, record(drain.Chosen), view(uncordoned), drain.Returning, drain.Uncordon},
		{"too late, not confirmed: it stays", config, late, record(drain.Cordoned), view(uncordoned), drain.Returning, drain.Uncordon},
		{"too late, tasks left: it stays", config, late, record(drain.Draining), view(), drain.Returning, drain.Uncordon},
		{"too late, unknown: it stays", config, late, record(drain.Draining), drain.View{}, drain.Returning, drain.Uncordon},
		{"too late, drained but silent: it stays", config, late, record(drain.Drained), view(silent), drain.Returning, drain.Uncordon},
		{"too late, but just drained", config, late, record(drain.Draining), view(noTasks), drain.Drained, drain.None},
		{"too late, but drained", config, late, record(drain.Drained), view(noTasks), drain.Terminating, drain.Terminate},
		{"a moment before the deadline: wait", config, late.Add(-1), record(drain.Draining), view(), drain.Draining, drain.None},
		{"forced, tasks left", forced, late, record(drain.Draining), view(), drain.Terminating, drain.Terminate},
		{"forced, unknown", forced, late, record(drain.Draining), drain.View{}, drain.Terminating, drain.Terminate},
		{"forced, but it is not late yet", forced, soon, record(drain.Draining), drain.View{}, drain.Draining, drain.None},
		{"forced, protected: it stays", forced, late, record(drain.Draining), view(protected), drain.Returning, drain.None},

		{"terminating, nobody knows whether it was asked for", config, soon, record(drain.Terminating), view(), drain.Terminating, drain.Terminate},
		{"terminating, unseen: wait", config, soon, record(drain.Terminating), view(unseen), drain.Terminating, drain.None},
		{"terminating, it ends", config, soon, record(drain.Terminating, asked), view(ending), drain.Terminating, drain.None},
		{"terminating, asked for, an older answer", config, soon, record(drain.Terminating, asked), view(oldAnswer), drain.Terminating, drain.None},
		{"terminating, asked for, and still untouched", config, soon, record(drain.Terminating, asked), view(), drain.Terminating, drain.Terminate},
		{"terminating, gone", config, soon, record(drain.Terminating, asked), view(absent), drain.Gone, drain.None},
		{"terminating has no deadline", config, late, record(drain.Terminating, asked), drain.View{}, drain.Terminating, drain.None},

		{"gone", config, soon, record(drain.Gone), view(absent), drain.Gone, drain.Forget},
		{"returning", config, soon, record(drain.Returning), drain.View{}, drain.Returning, drain.Uncordon},
		{"returning, ended by somebody else", config, soon, record(drain.Returning), view(ending), drain.Terminating, drain.None},
		{"returning, disappeared", config, soon, record(drain.Returning), view(absent), drain.Gone, drain.None},
		{"returned", config, soon, record(drain.Returned), view(), drain.Returned, drain.Forget},
		{"a state of a later version: untouched", config, late, record("later"), view(absent), "later", drain.None},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, action := test.config.Next(test.now, test.record, test.view)
			if got.State != test.state || action != test.action {
				t.Errorf("Next = %s, %q, want %s, %q", got.State, action, test.state, test.action)
			}
			if got.State != test.record.State && (got.Why == "" || !got.Since.Equal(test.now)) {
				t.Errorf("entered %s since %v, why %q", got.State, got.Since, got.Why)
			}
		})
	}
}

func drawView(t *rapid.T) drain.View {
	at := func(name string) time.Time {
		return start.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, name)) * time.Minute)
	}
	return drain.View{
		Instance:  rapid.SampledFrom([]drain.Presence{drain.Unseen, drain.Present, drain.Ending, drain.Absent}).Draw(t, "instance"),
		At:        at("at"),
		Protected: rapid.IntRange(0, 5).Draw(t, "protected") == 0,
		Node:      rapid.SampledFrom([]pools.NodeState{pools.NodeUnknown, pools.NodeOrphaned, pools.NodeIdle, pools.NodeRunning}).Draw(t, "node"),
		FactsAt:   at("facts at"),
		Cordoned:  rapid.Bool().Draw(t, "cordoned"),
		Tasks:     rapid.IntRange(0, 2).Draw(t, "tasks"),
	}
}

// TestNextNeverLosesTasks: whatever is seen, a node that is not known to have
// nothing to lose is ended only after its deadline, with force.
func TestNextNeverLosesTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drain.Config{Threshold: config.Threshold, Force: rapid.Bool().Draw(t, "force")}
		r := record(rapid.SampledFrom([]drain.State{
			drain.Chosen, drain.Cordoned, drain.Draining, drain.Drained, drain.Returning, drain.Returned, drain.Gone,
		}).Draw(t, "state"))
		v := drawView(t)
		now := start.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
		for range 10 {
			next, action := c.Next(now, r, v)
			if action == drain.Terminate {
				safe := v.Instance == drain.Present && !v.Protected &&
					(v.Node == pools.NodeOrphaned || v.Node != pools.NodeUnknown && v.Cordoned && v.Tasks == 0)
				if late := c.Force && !now.Before(r.Deadline); !r.State.Leaving() || v.Protected || !safe && !late {
					t.Fatalf("%s terminated on %+v", r.State, v)
				}
			}
			if action != drain.None || next == r {
				return
			}
			r = next
		}
		t.Fatalf("does not come to rest at %s", r.State)
	})
}

func TestDone(t *testing.T) {
	now := start.Add(time.Minute)
	for action, want := range map[drain.Action]drain.Record{
		drain.Cordon:    record(drain.Cordoned, func(r *drain.Record) { r.Since, r.Why = now, "waiting for the node to confirm its cordon" }),
		drain.Uncordon:  record(drain.Returned, func(r *drain.Record) { r.Since = now }),
		drain.Terminate: record(drain.Chosen, func(r *drain.Record) { r.Asked = now }),
		drain.Forget:    record(drain.Chosen),
		drain.None:      record(drain.Chosen),
	} {
		if diff := cmp.Diff(want, drain.Done(now, record(drain.Chosen), action)); diff != "" {
			t.Errorf("Done(%q), -want +got:\n%s", action, diff)
		}
	}
}
