package judge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// sequences returns the number of random sequences: SOAK, or a small number.
func sequences(t *testing.T) uint64 {
	text := os.Getenv("SOAK")
	if text == "" {
		return 100
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SOAK is %q: want a number of sequences", text)
	}
	return n
}

// Random policies, observations, outcomes, drains, pauses, requests, restarts and policy changes
// keep the invariants. A model checks them from the inputs and outputs only:
//
//	1  an unknown node is not repaired
//	3  an action that takes a node out of service keeps the disruption budget
//	6  failures survive a restart: no node becomes healthy while a failed mode was not
//	   ok since, no list of actions begins again, no attempt is lost
//	7  a refused, expired or withdrawn request repairs no node
//
// A sequence is repeated with SEED=n.
func TestSoak(t *testing.T) {
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SEED is %q: want a number", text)
		}
		m := newModel(seed)
		m.logs = true
		if problem := m.run(); problem != "" {
			t.Fatal(problem)
		}
		return
	}
	acts, quarantines, restarts := 0, 0, 0
	for seed := range sequences(t) {
		m := newModel(seed)
		if problem := m.run(); problem != "" {
			t.Fatalf("%s; SEED=%d go test -run TestSoak ./nodehealth/judge shows how", problem, seed)
		}
		acts, quarantines, restarts = acts+m.acts, quarantines+m.quarantines, restarts+m.restarts
	}
	t.Logf("%d sequences: %d actions, %d quarantines, %d restarts", sequences(t), acts, quarantines, restarts)
	if acts == 0 || quarantines == 0 || restarts == 0 {
		t.Error("the sequences test nothing")
	}
}

// model drives a Judge with random events, and checks the permitted acts.
type model struct {
	*rand.Rand
	policy Policy
	j      *Judge
	now    time.Time
	nodes  map[string]*modelNode
	drains map[string]disruption.Kind
	paused map[string]time.Time // by node and owner
	owed   []Order
	logs   bool
	log    []string

	acts, quarantines, restarts int
	problem                     string
}

// modelNode is the model's state of one node.
type modelNode struct {
	state     Provided
	listed    bool
	bad       map[api.DetectionType]bool // actual failures
	run       map[api.DetectionType]int  // observations in a row: positive ok, negative fail
	failed    map[api.DetectionType]bool // enough failures in a row to count, and not ok since
	at        map[api.DetectionType]time.Time
	ok        map[api.DetectionType]time.Time // last ok observation
	requester time.Time                       // a request may act until then; zero: no request
	granted   bool                            // its repair began for a request
	aside     bool                            // in quarantine
	out       bool                            // a repair definitely took it out of service
	index     int                             // of the last action of its repair; -1: no action yet
	tries     map[string]int                  // of its repair, by action
	begun     []time.Time                     // repairs
	fenced    bool
	changed   bool // the list of actions changed during its repair
}

var soakActions = [...]Action{{Name: api.ActionReboot}, {Name: api.ActionWorkflow, Params: Params{Kind: "nats", Subject: "x"}}, {Name: api.ActionRecreate}, {Name: api.ActionRebuild}, {Name: api.ActionReboot, Params: Params{Type: "hard"}}}

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 1)), now: start(), nodes: map[string]*modelNode{}, paused: map[string]time.Time{}}
	p := pollsURL(m.actions()...)
	for i := range p.Detection.Modes {
		p.Detection.Modes[i].Options.FailureThreshold, p.Detection.Modes[i].Options.SuccessThreshold = new(1+m.IntN(3)), new(1+m.IntN(3))
	}
	p.Safety = Safety{
		MaxUnhealthy: &Limit{float64(20 + m.IntN(81)), true}, MaxUnhealthyZone: &Limit{100, true}, MaxInProgress: &Limit{Value: float64(1 + m.IntN(3))},
		MinAvailable: &Limit{float64(m.IntN(101)), true}, Rate: Rate{PerHour: new(600), Burst: new(20)}, MaxAttempts: new(1 + m.IntN(3)),
	}
	if m.IntN(4) == 0 {
		p.Recovery.Fencing = []Level{FenceCompute}
	}
	m.policy = p
	m.j = New(p)
	for i := range 3 + m.IntN(8) {
		m.nodes[fmt.Sprintf("n%d", i)] = newModelNode()
	}
	return m
}

func newModelNode() *modelNode {
	return &modelNode{listed: true, index: -1, bad: map[api.DetectionType]bool{}, run: map[api.DetectionType]int{}, failed: map[api.DetectionType]bool{}, at: map[api.DetectionType]time.Time{}, ok: map[api.DetectionType]time.Time{}}
}

func (m *model) actions() []Action {
	var out []Action
	for _, i := range m.Perm(len(soakActions))[:1+m.IntN(3)] {
		a := soakActions[i]
		a.MaxAttempts = new(1 + m.IntN(2))
		if a.Name == api.ActionRecreate {
			a.Params.LaunchFirst = new(m.IntN(2) == 0)
		}
		out = append(out, a)
	}
	return out
}

func (m *model) run() string {
	m.list(false)
	for range 250 {
		if m.problem != "" {
			break
		}
		m.now = m.now.Add(m.pause())
		m.event()
		m.step(Tick{})
	}
	if m.problem == "" {
		return ""
	}
	var text strings.Builder
	text.WriteString(m.problem)
	for _, line := range m.log[max(0, len(m.log)-1000):] {
		text.WriteString("\n" + line)
	}
	return text.String()
}

// pause returns a random time without events.
func (m *model) pause() time.Duration {
	return [...]time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 4 * time.Minute}[m.IntN(8)]
}

func (m *model) fail(format string, args ...any) {
	if m.problem == "" {
		m.problem = fmt.Sprintf(format, args...)
	}
}

func (m *model) node() string {
	ids := m.ids()
	return ids[m.IntN(len(ids))]
}

func (m *model) ids() []string {
	var ids []string
	for id := range m.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (m *model) event() {
	id := m.node()
	n := m.nodes[id]
	switch what := m.IntN(40); {
	case what < 3:
		n.bad[m.mode()] = true
	case what < 6:
		clear(n.bad)
	case what < 22:
		m.round()
	case what < 28:
		m.outcome()
	case what < 30:
		m.drains = map[string]disruption.Kind{}
		for range m.IntN(3) {
			m.drains[m.node()] = "scaling down"
		}
		m.step(Drains{m.drains})
	case what < 32:
		if m.IntN(3) == 0 {
			id = ""
		}
		m.paused[id+"/ann"] = m.now.Add(time.Duration(1+m.IntN(600)) * time.Second)
		m.step(Pause{Node: id, Owner: "ann", TTL: m.paused[id+"/ann"].Sub(m.now)})
	case what < 34:
		wait := time.Duration(m.IntN(2)*m.IntN(900)) * time.Second
		ids := []string{id}
		if m.IntN(6) == 0 {
			id, ids = "", m.ids()
		}
		for _, one := range ids {
			e, _ := m.j.Explain(m.now, one)
			if n := m.nodes[one]; e.Attempt == "" && n.state != Leaving && (id != "" || e.Requester == "") {
				n.requester = m.now.Add(max(wait, time.Nanosecond))
			}
		}
		m.step(Recover{Node: id, By: "bob", For: wait})
	case what < 35:
		if e, _ := m.j.Explain(m.now, id); e.Attempt == "" || e.State == api.StateFenceFailed {
			n.requester = time.Time{} // otherwise its repair began
		}
		m.step(Release{Node: id, By: "ann"})
	case what < 36:
		all := m.IntN(2) == 0
		for id, n := range m.nodes {
			if e, _ := m.j.Explain(m.now, id); all && e.Attempt == "" {
				n.requester = time.Time{}
			}
		}
		m.step(Release{By: "ann", Requests: all})
	case what < 37:
		n.state = []Provided{Running, Running, Stopped, Terminated, Spot, Leaving}[m.IntN(6)]
		m.list(false)
	default:
		m.restart()
	}
}

func (m *model) mode() api.DetectionType { return m.policy.Detection.Modes[m.IntN(3)].Type }

// round checks some nodes in some modes.
func (m *model) round() {
	for _, id := range m.ids() {
		if m.IntN(8) == 0 {
			continue
		}
		for _, mode := range m.policy.Detection.Modes {
			v := api.CheckOK
			if m.nodes[id].bad[mode.Type] {
				v = api.CheckFail
			}
			if m.IntN(10) == 0 {
				continue
			}
			m.observe(id, mode, v)
		}
	}
	if m.IntN(3) == 0 {
		m.list(m.IntN(4) == 0)
	}
}

func (m *model) observe(id string, mode DetectionMode, v api.HealthVerdict) {
	n, stale := m.nodes[id], 90*time.Second
	if mode.Type == api.DetectAgentHeartbeat {
		stale = 30 * time.Second
	}
	if !n.at[mode.Type].IsZero() && m.now.Sub(n.at[mode.Type]) > stale {
		n.run[mode.Type] = 0
	}
	n.at[mode.Type] = m.now
	if v == api.CheckOK {
		n.ok[mode.Type] = m.now
		if n.run[mode.Type] = max(n.run[mode.Type], 0) + 1; n.run[mode.Type] >= *mode.Options.SuccessThreshold {
			n.failed[mode.Type] = false
		}
	} else if n.run[mode.Type] = min(n.run[mode.Type], 0) - 1; -n.run[mode.Type] >= *mode.Options.FailureThreshold {
		n.failed[mode.Type] = true
	}
	m.step(Observation{Node: id, Mode: mode.Type, Verdict: v, Reason: "broken"})
}

func (m *model) list(again bool) {
	var list []Node
	for _, id := range m.ids() {
		if n := m.nodes[id]; n.listed {
			list = append(list, Node{ID: id, Zone: "a", Since: start().Add(-time.Hour), State: n.state})
		}
	}
	m.step(Nodes{List: list, Again: again})
}

func (m *model) outcome() {
	if len(m.owed) == 0 {
		return
	}
	i := m.IntN(len(m.owed))
	o := m.owed[i]
	m.owed = slices.Delete(m.owed, i, i+1)
	out := Outcome{Node: o.Node, Attempt: o.Attempt, OK: m.IntN(3) == 0, Action: o.Action.Name, Reason: "as it happens"}
	switch {
	case o.Kind == OrderFence:
		out.Step, out.Action = StepFence, ""
		m.nodes[o.Node].fenced = m.nodes[o.Node].fenced || out.OK
	case m.IntN(8) == 0:
		out.Step = StepUndone
	default:
		out.Step = StepDone
	}
	if n := m.nodes[o.Node]; out.Step == StepDone && out.OK && o.Action.Name != api.ActionRecreate && m.j.Awaits(o.Node, o.Attempt) {
		clear(n.failed) // observations before the action do not count
		clear(n.run)
		if m.IntN(2) == 0 {
			clear(n.bad)
		}
	}
	m.step(out)
}

// restart restores the durable state, maybe with another policy.
func (m *model) restart() {
	m.restarts++
	data, err := json.Marshal(m.j.State())
	if err != nil {
		m.fail("%v", err)
		return
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		m.fail("%v", err)
		return
	}
	if m.IntN(3) == 0 {
		m.policy.Recovery.Actions = m.actions()
		for _, n := range m.nodes {
			n.changed, n.tries = true, map[string]int{}
		}
	}
	m.note("restart, actions %s", mustJSON(m.policy.Recovery.Actions))
	if m.j, err = Restore(m.now, m.policy, s); err != nil {
		m.fail("%v", err)
		return
	}
	m.list(false) // a loop drops what it checks before its first snapshot
}

func (m *model) note(format string, args ...any) {
	if !m.logs {
		return
	}
	m.log = append(m.log, fmt.Sprintf("%6.0f ", m.now.Sub(start()).Seconds())+fmt.Sprintf(format, args...))
}

// step passes an event and checks the results: findings first, as an order follows its finding.
func (m *model) step(ev Event) {
	_, tick := ev.(Tick)
	if m.logs && !tick {
		m.note("%T%+v", ev, ev)
	}
	open, _ := m.j.BreakerOpen()
	orders, found := m.j.Step(m.now, ev)
	for _, f := range found {
		m.note("    %v", f)
	}
	for _, o := range orders {
		m.note("  > %s %s %s %s", o.Kind, o.Node, o.Action.Name, o.Attempt)
	}
	stillOpen, _ := m.j.BreakerOpen()
	for _, f := range found {
		if n := m.nodes[f.Node]; n != nil {
			m.found(n, f)
		}
	}
	for _, o := range orders {
		if o.Kind == OrderAct || o.Kind == OrderFence || o.Kind == OrderQuarantine {
			m.ordered(o, open && stillOpen)
		}
	}
	for _, n := range m.nodes {
		if tick && m.now.After(n.requester) {
			n.requester = time.Time{}
		}
	}
}

func (m *model) found(n *modelNode, f api.HealthFinding) {
	switch f.Event {
	case api.HealthNodeOK, api.HealthRepairSucceeded:
		byItself := f.Event == api.HealthNodeOK || f.Why == "healthy without an action" || f.Why == "healthy for 2m0s"
		if mode := api.DetectPollURL; byItself && n.failed[mode] && n.state == Running {
			m.fail("%s: %v, and %s failed and was not ok since", f.Node, f, mode)
		}
	case api.HealthRepairStarted:
		n.index, n.tries, n.changed, n.granted = -1, map[string]int{}, false, n.granted || !n.requester.IsZero()
		n.begun = slices.DeleteFunc(append(n.begun, m.now), func(t time.Time) bool { return m.now.Sub(t) >= 6*time.Hour })
		if len(n.begun) > *m.policy.Safety.MaxAttempts {
			m.fail("%s: repair %d within the window, want at most %d", f.Node, len(n.begun), *m.policy.Safety.MaxAttempts)
		}
	case api.HealthFenceConfirmed: // also by the provider's list
		n.fenced = true
	case api.HealthNodeReleased, api.HealthNodeGone:
		n.aside, n.begun = false, nil
	case api.HealthRequestEnded:
		n.requester = time.Time{}
	}
	switch f.Event {
	case api.HealthRepairEnded:
		if len(n.begun) > 0 { // it may be given back
			n.begun = n.begun[:len(n.begun)-1]
		}
		fallthrough
	case api.HealthRepairSucceeded, api.HealthNodeQuarantined, api.HealthNodeHeld, api.HealthNodeReplaced, api.HealthNodeReleased, api.HealthNodeOK, api.HealthNodeGone, api.HealthRequestEnded:
		n.out, n.fenced, n.granted = false, false, false
		if f.Event != api.HealthRequestEnded && f.Event != api.HealthRepairEnded { // a waiting request outlasts a repair in which nothing was done
			n.requester = time.Time{}
		}
	}
}

func (m *model) ordered(o Order, open bool) {
	n := m.nodes[o.Node]
	if n == nil {
		m.fail("%s of %s, which does not exist", o.Kind, o.Node)
		return
	}
	if o.Resumed {
		m.owed = append(m.owed, o)
		return
	}
	for key, until := range m.paused {
		if (key == "/ann" || key == o.Node+"/ann") && m.now.Before(until) {
			m.fail("%s of %s, which is paused", o.Kind, o.Node)
		}
	}
	if open {
		m.fail("%s of %s while the breaker is open", o.Kind, o.Node)
	}
	if o.Kind == OrderQuarantine {
		m.quarantines++
		m.budget(o, "quarantine")
		n.aside, n.out = true, false
		return
	}
	m.acts++
	m.owed = append(m.owed, o)
	m.evidence(o, n)
	n.granted = n.granted || !n.requester.IsZero() // also if a fence began
	if m.serves(n) && n.state == Running && (o.Kind == OrderFence || o.Action.Name != api.ActionRecreate || !*o.Action.Params.LaunchFirst) {
		m.budget(o, "action")
		n.out = true
	}
	if o.Kind == OrderAct {
		m.position(o, n)
	}
}

// evidence checks that a mode failed, was not ok since, and that the failure is not too old to
// count.
func (m *model) evidence(o Order, n *modelNode) {
	failing := n.state != Running || n.fenced || n.granted || !n.requester.IsZero()
	for _, mode := range m.policy.Detection.Modes {
		failing = failing || n.failed[mode.Type]
	}
	silent := n.ok[api.DetectAgentHeartbeat].IsZero() || m.now.Sub(n.at[api.DetectAgentHeartbeat]) > 30*time.Second
	if !failing && !silent {
		m.fail("%s of %s: nothing failed, and no request", o.Kind, o.Node)
	}
}

// serves reports whether the node definitely serves: a mode was ok recently and often.
func (m *model) serves(n *modelNode) bool {
	for _, mode := range m.policy.Detection.Modes {
		if n.run[mode.Type] >= 3 && m.now.Sub(n.ok[mode.Type]) <= 20*time.Second {
			return true
		}
	}
	return false
}

// budget checks that the other nodes that are definitely out of service leave room for one.
func (m *model) budget(o Order, what string) {
	listed, out := 0, 0
	for id, n := range m.nodes {
		if !n.listed || n.state == Leaving {
			continue
		}
		listed++
		if id != o.Node && (n.aside || n.out || m.drains[id] != "") {
			out++
		}
	}
	keep := int(m.policy.Safety.MinAvailable.Value)*listed + 99
	if limit := max(1, listed-keep/100); out >= limit {
		m.fail("%s of %s: %d of %d nodes are out of service already, %d may be", what, o.Node, out, listed, limit)
	}
}

// position checks that a repair does not go back in the list of actions, and tries each action no
// more often than the policy allows.
func (m *model) position(o Order, n *modelNode) {
	key := o.Action.key()
	i := slices.IndexFunc(m.policy.Recovery.Actions, func(a Action) bool { return a.withDefaults(false).key() == key })
	if i < n.index && i >= 0 && !n.changed {
		m.fail("%s: %s is tried again after a later action", o.Node, o.Action.Name)
	}
	n.index, n.changed = i, false
	if n.tries == nil {
		n.tries = map[string]int{}
	}
	if n.tries[key]++; n.tries[key] > *o.Action.MaxAttempts {
		m.fail("%s: %s is tried %d times in one repair", o.Node, o.Action.Name, n.tries[key])
	}
}

// key identifies an action by its effect.
func (a Action) key() string { return string(a.Name) + mustJSON(a.Params) }

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
