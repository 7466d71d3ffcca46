package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
)

// story is a list of failures of a pool's nodes, and the effects of the actions.
type story struct {
	nodes     int
	actions   []Action
	unhealthy map[int]int         // node -> second
	cures     map[string][]string // node -> actions that repair it
	takes     int                 // seconds of an action
}

const (
	storySeconds = 45 * 60
	lastSick     = 10 * 60
	lastRestart  = 40 * 60 // after it, all nodes are observed again
)

func drawStory(t *rapid.T) story {
	s := story{
		nodes: rapid.IntRange(5, 8).Draw(t, "nodes"), takes: rapid.IntRange(1, 50).Draw(t, "takes"),
		unhealthy: map[int]int{}, cures: map[string][]string{},
		actions: []Action{
			{Name: api.ActionReboot, Timeout: dur(4 * time.Minute), MaxAttempts: new(rapid.IntRange(1, 2).Draw(t, "max_attempts"))},
			{Name: api.ActionReboot, Params: Params{Type: "hard"}, Timeout: dur(4 * time.Minute)},
			{Name: api.ActionRebuild, Timeout: dur(4 * time.Minute)},
		},
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, s.nodes-1), 1, 2, rapid.ID).Draw(t, "sick") {
		s.unhealthy[i] = rapid.IntRange(60, lastSick).Draw(t, "from")
		for _, a := range s.actions {
			if rapid.Bool().Draw(t, "cures") {
				s.cures[fmt.Sprint("n", i)] = append(s.cures[fmt.Sprint("n", i)], a.key())
			}
		}
	}
	return s
}

// play runs the story with a judge that is restored from its state in these seconds. It returns the
// actions of each node in order, and its last state.
func (s story) play(t *testing.T, r *rapid.T, restarts []int) (done map[string][]string, ends map[string]api.HealthState) {
	p := plain(s.actions...)
	p.Detection.Modes[0].Options.FailureThreshold = new(3)
	p.Safety.MaxInProgress = &Limit{Value: 2}
	p.Safety.MaxUnhealthy = &Limit{60, true}
	var names []string
	for i := range s.nodes {
		names = append(names, fmt.Sprint("n", i))
	}
	w := newWorld(t, p, names...)
	done, ends = map[string][]string{}, map[string]api.HealthState{}
	due := map[int][]Order{}
	second := 0
	w.heal = func(_ *world, o Order) []Event {
		if o.Kind == OrderAct && !o.Resumed {
			done[o.Node] = append(done[o.Node], o.Action.key())
			due[second+s.takes] = append(due[second+s.takes], o)
		}
		return nil
	}
	for second = range storySeconds {
		for i, from := range s.unhealthy {
			if from == second {
				w.unhealthy(names[i])
			}
		}
		for _, o := range due[second] {
			if slices.Contains(s.cures[o.Node], o.Action.key()) {
				w.cure(o.Node)
			}
			w.notify(Outcome{Node: o.Node, Attempt: o.Attempt, Action: o.Action.Name, Step: StepDone, OK: true})
		}
		if slices.Contains(restarts, second) {
			w.survive(r)
		}
		w.pass(time.Second)
	}
	for _, n := range w.j.Status() {
		ends[n.Node] = n.State
		if n.State == api.StateHeld { // the two failed nodes compete for one place out of service
			ends[n.Node] = api.StateQuarantined
		}
	}
	return done, ends
}

// survive replaces the judge by a restored one. Its failures, repairs and requests must be the same
// before and after.
func (w *world) survive(t *rapid.T) {
	before := remembered(w.j)
	w.takeOver()
	after := remembered(w.j)
	for id, n := range before.nodes {
		if m, there := after.nodes[id]; there && n.failing.IsZero() {
			m.failing = time.Time{} // it may be suspect until its other modes are observed
			after.nodes[id] = m
		}
	}
	if diff := cmp.Diff(before, after, cmpopts.EquateEmpty(), cmp.AllowUnexported(memories{}, nodeMemory{}, step{})); diff != "" {
		t.Fatalf("at %v a restart changed what is remembered (-before +after):\n%s", w.now, diff)
	}
}

// memories are the parts of a judge's state that must survive.
type memories struct {
	attempts uint64
	lineages []Lineage
	pauses   []api.RepairPause
	nodes    map[string]nodeMemory
}

type nodeMemory struct {
	failing     time.Time
	streaks     []ModeRecord // of the modes that fail, or failed within the window
	repair      step
	quarantined bool
	notBefore   time.Time
	requester   string
}

// step is the position of a repair in the list of actions.
type step struct {
	origin, action, attempt string
	index, tries            int
	fenced, acted           bool
}

func remembered(j *Judge) memories {
	s := j.State()
	out := memories{s.Attempts, s.Lineages, s.Pauses, map[string]nodeMemory{}}
	for _, n := range s.Nodes {
		m := nodeMemory{failing: n.Failing, quarantined: n.State == api.StateQuarantined, notBefore: n.NotBefore, requester: n.Requester}
		for _, mode := range n.Modes {
			if mode.Run < 0 {
				m.streaks = append(m.streaks, mode)
			}
		}
		if r := n.Repair; r != nil && r.Begun {
			m.repair = step{r.Origin, r.Action.key(), r.Attempt, r.Index, r.Tries, r.Fenced, r.Acted}
		}
		out.nodes[n.Node.ID] = m
	}
	return out
}

// A story with restarts has the same repairs, in the same order and with the same end, as without
// them. The streaks, the first failures and the position in the list of actions survive.
func TestRestartPreservesState(t *testing.T) {
	acts := 0
	rapid.Check(t, func(r *rapid.T) {
		s := drawStory(r)
		restarts := rapid.SliceOfN(rapid.IntRange(1, lastRestart), 1, 12).Draw(r, "restarts")
		want, ends := s.play(t, r, nil)
		got, endsToo := s.play(t, r, restarts)
		if diff := cmp.Diff(want, got) + cmp.Diff(ends, endsToo); diff != "" {
			r.Fatalf("repairs and ends (-without restarts +with restarts):\n%s", diff)
		}
		for _, all := range want {
			acts += len(all)
		}
	})
	if acts == 0 {
		t.Error("nothing was repaired")
	}
}
