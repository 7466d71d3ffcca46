package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func start() time.Time { return time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC) }

func dur(d time.Duration) *Duration { return new(Duration(d)) }

// plain returns a policy of two modes without grace and with a threshold of one failure.
func plain(actions ...Action) Policy {
	return Policy{
		Mode: api.ModeAct,
		Detection: Detection{Modes: []DetectionMode{
			{Type: api.DetectNodeStatus, Options: Options{FailureThreshold: new(1), SuccessThreshold: new(1)}},
			{Type: api.DetectAgentHeartbeat},
		}},
		Recovery: Recovery{Actions: actions},
	}
}

// world is a pool whose modes are ok unless verdicts has another one. It has a poll every 30 s and
// a heartbeat every 5 s. heal defines the effects of its repairs.
type world struct {
	t          testing.TB
	policy     Policy
	j          *Judge
	now        time.Time
	nodes      []Node
	verdicts   map[string]map[api.DetectionType]Observation // verdicts other than ok
	unobserved map[string]bool                              // nodes without observations
	cut        bool                                         // the heartbeats' path is down
	heal       func(w *world, o Order) []Event              // immediate effects of an order
	orders     []Order
	found      []api.HealthFinding
}

func newWorld(t testing.TB, p Policy, nodes ...string) *world {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, policy: p, j: New(p), now: start(), verdicts: map[string]map[api.DetectionType]Observation{}, unobserved: map[string]bool{}}
	for _, name := range nodes {
		id, zone, _ := strings.Cut(name, "@")
		w.nodes = append(w.nodes, Node{ID: id, Zone: zone, Since: start().Add(-24 * time.Hour)})
	}
	w.notify(Nodes{List: slices.Clone(w.nodes)})
	return w
}

// fail makes a mode of a node fail from now on; sick makes all of them fail.
func (w *world) fail(id string, mode api.DetectionType, reason string) {
	if w.verdicts[id] == nil {
		w.verdicts[id] = map[api.DetectionType]Observation{}
	}
	w.verdicts[id][mode] = Observation{Node: id, Mode: mode, Verdict: api.CheckFail, Reason: reason}
}

func (w *world) unhealthy(ids ...string) {
	for _, id := range ids {
		for _, m := range w.policy.Detection.Modes {
			w.fail(id, m.Type, "broken")
		}
	}
}

func (w *world) cure(id string) { delete(w.verdicts, id) }

func (w *world) notify(events ...Event) {
	for _, ev := range events {
		orders, found := w.j.Step(w.now, ev)
		w.orders, w.found = append(w.orders, orders...), append(w.found, found...)
		for _, o := range orders {
			switch {
			case o.Kind == OrderRecheck:
				w.observe(o.Node, false)
			case !o.Observe && w.heal != nil:
				w.notify(w.heal(w, o)...)
			}
		}
	}
}

// observe passes the verdict of each mode of a node, or only of the heartbeats.
func (w *world) observe(id string, beats bool) {
	if w.unobserved[id] {
		return
	}
	for _, m := range w.policy.Detection.Modes {
		if (m.Type == api.DetectAgentHeartbeat) != beats && beats || m.Type == api.DetectAgentHeartbeat && w.cut || m.Type == api.DetectLifecycleEvents {
			continue
		}
		o, differs := w.verdicts[id][m.Type]
		if !differs {
			o = Observation{Node: id, Mode: m.Type, Verdict: api.CheckOK}
		}
		if differs && m.Type == api.DetectAgentHeartbeat && o.Reason == "broken" {
			continue // it is silent
		}
		w.notify(o)
	}
}

// pass advances the time, a second at a time.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
		at := int(w.now.Sub(start()) / time.Second)
		for _, n := range slices.Clone(w.nodes) {
			if at%30 == 0 {
				w.observe(n.ID, false)
			} else if at%5 == 0 {
				w.observe(n.ID, true)
			}
		}
		if at%30 == 0 {
			w.notify(Nodes{List: slices.Clone(w.nodes)})
		}
		w.notify(Tick{})
	}
}

// set changes a node in the provider's list.
func (w *world) set(id string, state Provided) {
	for i := range w.nodes {
		if w.nodes[i].ID == id {
			w.nodes[i].State = state
		}
	}
	w.notify(Nodes{List: slices.Clone(w.nodes)})
}

func (w *world) replace(id, by string) {
	w.nodes = slices.DeleteFunc(w.nodes, func(n Node) bool { return n.ID == id })
	w.nodes = append(w.nodes, Node{ID: by, Since: w.now})
	w.notify(Nodes{List: slices.Clone(w.nodes)})
}

// acts returns the ordered actions: "REBOOT n1".
func (w *world) acts() []string {
	var out []string
	for _, o := range w.orders {
		switch o.Kind {
		case OrderAct:
			out = append(out, string(o.Action.Name)+" "+o.Node)
		case OrderFence:
			out = append(out, "fence "+o.Node)
		case OrderQuarantine:
			out = append(out, "quarantine "+o.Node)
		}
	}
	return out
}

func (w *world) alarms() []string {
	var out []string
	for _, o := range w.orders {
		if o.Kind == OrderAlarm {
			out = append(out, o.Alarm)
		}
	}
	return out
}

func (w *world) events() []api.HealthEvent {
	var out []api.HealthEvent
	for _, f := range w.found {
		out = append(out, f.Event)
	}
	return out
}

func (w *world) gates(id string) []api.Gate {
	var out []api.Gate
	for _, f := range w.found {
		if f.Event == api.HealthRepairBlocked && f.Node == id {
			out = append(out, f.Gate)
		}
	}
	return out
}

func (w *world) state(id string) api.HealthState {
	n, ok := w.j.roster.all[id]
	if !ok {
		return "not there"
	}
	return n.state
}

func (w *world) dump() string {
	var b strings.Builder
	for _, f := range w.found {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

func (w *world) wantActs(want ...string) {
	w.t.Helper()
	if got := w.acts(); !slices.Equal(got, want) {
		w.t.Errorf("ordered %q, want %q; found:\n%s", got, want, w.dump())
	}
}

// heals carries out every order at once, and the node is healthy after it.
func heals(w *world, o Order) []Event {
	switch o.Kind {
	case OrderFence:
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepFence, OK: true}}
	case OrderAct:
		w.cure(o.Node)
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Action: o.Action.Name, OK: true}}
	}
	return nil
}

// useless carries out every order at once, without effect on the failure.
func useless(w *world, o Order) []Event {
	switch o.Kind {
	case OrderFence:
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepFence, OK: true}}
	case OrderAct:
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Action: o.Action.Name, OK: true}}
	}
	return nil
}

func ten() []string {
	return []string{"n0@a", "n1@a", "n2@a", "n3@b", "n4@b", "n5@b", "n6@c", "n7@c", "n8@c", "n9@c"}
}
