package judge

import (
	"maps"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestSenlin runs the scenarios of Senlin's health policy about verdicts: the observations of one
// node of ten, and whether it is recovered. differs is the reason for a different result.
func TestSenlin(t *testing.T) {
	const ok, fail, unknown = api.CheckOK, api.CheckFail, api.CheckUnknown
	status, url, hyper := api.DetectNodeStatus, api.DetectPollURL, api.DetectHypervisorStatus
	type verdicts map[api.DetectionType]api.HealthVerdict
	tests := []struct {
		row      string
		name     string
		join     Conditional
		verdicts verdicts
		age      time.Duration // since the launch; 0: a day
		state    Provided
		want     bool // recovered
		differs  string
	}{
		{row: "22", name: "the backend says healthy", verdicts: verdicts{status: ok}},
		{row: "23", name: "the backend's check raises", verdicts: verdicts{status: unknown}, differs: "unknown, where Senlin says healthy: no recovery either"},
		{row: "24", name: "unhealthy, and the grace is over", verdicts: verdicts{status: fail}, want: true},
		{row: "25", name: "unhealthy within the grace", verdicts: verdicts{status: fail}, age: time.Minute},
		{row: "26", name: "hypervisor healthy", verdicts: verdicts{hyper: ok}},
		{row: "26", name: "hypervisor raises", verdicts: verdicts{hyper: unknown}, differs: "unknown, as 23"},
		{row: "26", name: "hypervisor unhealthy", verdicts: verdicts{hyper: fail}, want: true},
		{row: "26", name: "hypervisor unhealthy within the grace", verdicts: verdicts{hyper: fail}, age: time.Minute},
		{row: "27", name: "server answers 503", verdicts: verdicts{status: unknown}, differs: "unknown, as 23"},
		{row: "28", name: "server is away", verdicts: verdicts{status: ok}, state: Terminated, want: true},
		{row: "29", name: "hypervisor lookup answers 503", verdicts: verdicts{hyper: unknown}, differs: "unknown, as 23"},
		{row: "30", name: "hypervisor is down", verdicts: verdicts{hyper: fail}, want: true},
		{row: "32", name: "the body matches", verdicts: verdicts{url: ok}},
		{row: "34", name: "the body does not match, within the grace", verdicts: verdicts{url: fail}, age: time.Minute},
		{row: "36", name: "the body does not match", verdicts: verdicts{url: fail}, want: true},
		{row: "37", name: "connection error that counts", verdicts: verdicts{url: fail}, want: true},
		{row: "38", name: "connection error that does not count", verdicts: verdicts{url: unknown}, differs: "unknown, where Senlin says healthy: no recovery either"},
		{row: "39", name: "the URL cannot be expanded", verdicts: verdicts{url: unknown}, differs: "unknown, as 38"},
		{row: "40", name: "any of three that pass", verdicts: verdicts{status: ok, hyper: ok, url: ok}},
		{row: "41", name: "any of three, one fails", verdicts: verdicts{status: ok, hyper: ok, url: fail}, want: true},
		{row: "42", name: "all of two that fail", join: AllFailed, verdicts: verdicts{status: fail, url: fail}, want: true},
		{row: "43", name: "all of two, one passes", join: AllFailed, verdicts: verdicts{status: fail, url: ok}},
		{row: "43", name: "all of two, one is unknown", join: AllFailed, verdicts: verdicts{status: fail, url: unknown}, differs: "unknown never triggers"},
		{row: "79", name: "stopped, and its URL answers", verdicts: verdicts{status: ok, url: ok}, state: Stopped, want: true},
		{row: "81", name: "all failed: active, its URL is down", join: AllFailed, verdicts: verdicts{status: ok, url: fail}},
	}
	for _, test := range tests {
		t.Run(test.row+" "+test.name, func(t *testing.T) {
			p := Policy{Mode: api.ModeAct, Detection: Detection{Conditional: test.join}}
			for _, m := range []api.DetectionType{status, hyper, url} {
				if _, used := test.verdicts[m]; used {
					mode := DetectionMode{Type: m}
					if m == api.DetectPollURL {
						mode.Options.PollURL = "http://{private_ip}/healthz"
					}
					p.Detection.Modes = append(p.Detection.Modes, mode)
				}
			}
			w := newWorld(t, p, ten()...)
			w.heal = heals
			if test.age > 0 {
				w.nodes[4].Since = start().Add(-test.age)
			}
			for m, v := range test.verdicts {
				w.fail("n4", m, "")
				w.verdicts["n4"][m] = Observation{Node: "n4", Mode: m, Verdict: v, Reason: "as told"}
			}
			w.set("n4", test.state)
			w.pass(3 * time.Minute)
			if got := len(w.acts()) > 0; got != test.want {
				t.Errorf("recovered: %v, want %v (%s):\n%s", got, test.want, test.differs, w.dump())
			}
		})
	}
}

// TestSenlinPolicies checks policies as Senlin does (rows 4 to 9 and 50).
func TestSenlinPolicies(t *testing.T) {
	poll := DetectionMode{Type: api.DetectNodeStatus}
	tests := []struct {
		row     string
		modes   []DetectionMode
		actions []api.RepairAction
		every   Duration
		valid   bool
		differs string
	}{
		{"4", []DetectionMode{poll}, []api.RepairAction{api.ActionRebuild}, seconds(60), true, ""},
		{"5", []DetectionMode{poll}, []api.RepairAction{api.ActionRebuild, api.ActionRecreate}, seconds(60), true, "a list escalates, where Senlin takes one action"},
		{"6", []DetectionMode{poll}, nil, seconds(20), true, ""},
		{"7", []DetectionMode{poll}, nil, seconds(4), false, "the least is 5 s, and no option"},
		{"8", []DetectionMode{poll, poll}, nil, seconds(60), false, ""},
		{"9", []DetectionMode{poll, {Type: api.DetectLifecycleEvents}}, nil, seconds(60), true, "events are hints beside a poll, where Senlin wants them alone"},
		{"50", []DetectionMode{{Type: "blah"}}, nil, seconds(60), false, ""},
	}
	for _, test := range tests {
		t.Run(test.row, func(t *testing.T) {
			p := Policy{Detection: Detection{Interval: &test.every, Modes: test.modes}}
			for _, name := range test.actions {
				p.Recovery.Actions = append(p.Recovery.Actions, Action{Name: name})
			}
			if err := p.Validate(); (err == nil) != test.valid {
				t.Errorf("Validate() = %v, want valid: %v (%s)", err, test.valid, test.differs)
			}
		})
	}
	p := Policy{}.WithDefaults()
	if *p.Detection.NodeUpdateTimeout != seconds(300) || p.Detection.Conditional != AnyFailed || p.Recovery.NodeForceRecreate {
		t.Errorf("defaults are not those of row 4: %+v", p)
	}
}

// One failing node is recovered once, and nothing else happens meanwhile (44, 47, 49).
func TestSenlinRecoversOnce(t *testing.T) {
	for _, outcome := range []string{"succeeded", "failed", "never told"} {
		w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
		w.heal = func(w *world, o Order) []Event {
			switch outcome {
			case "succeeded":
				return heals(w, o)
			case "failed":
				return []Event{Outcome{Node: o.Node, Action: o.Action.Name, Reason: "failed or cancelled"}}
			}
			return nil
		}
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(time.Hour)
		want := []string{"REBOOT n4"}
		if outcome != "succeeded" {
			want = append(want, "quarantine n4") // Senlin warns, and retries for ever
		}
		w.wantActs(want...)
	}
}

// TestVerdict joins modes; each row has the last verdicts of three modes.
func TestVerdict(t *testing.T) {
	beat := api.DetectAgentHeartbeat
	tests := []struct {
		name     string
		join     Conditional
		quorum   int
		verdicts map[api.DetectionType]Observation
		state    Provided
		want     api.HealthState
	}{
		{"at least 2 of 3, one fails", AtLeast, 2, obs(api.DetectPollURL, api.CheckFail, ""), Running, api.StateHealthy},
		{"at least 2 of 3, two fail", AtLeast, 2, both(obs(api.DetectPollURL, api.CheckFail, ""), obs(beat, api.CheckFail, "kernel")), Running, api.StateUnhealthy},
		{"at least 2 of 3, one fails and one is unknown", AtLeast, 2, both(obs(api.DetectPollURL, api.CheckFail, ""), obs(api.DetectNodeStatus, api.CheckUnknown, "")), Running, api.StateHealthy},
		{"a heartbeat vetoes the control plane", AnyFailed, 0, obs(api.DetectNodeStatus, api.CheckFail, "impaired"), Running, api.StateHealthy},
		{"not that it is terminated", AnyFailed, 0, obs(api.DetectNodeStatus, api.CheckFail, reasonTerminated), Running, api.StateUnhealthy},
		{"not that it is stopped", AnyFailed, 0, obs(api.DetectNodeStatus, api.CheckFail, reasonStopped), Running, api.StateUnhealthy},
		{"not what the list says", AnyFailed, 0, nil, Stopped, api.StateUnhealthy},
		{"nor a spot notice", AnyFailed, 0, nil, Spot, api.StateUnhealthy},
		{"not what others see too", AnyFailed, 0, both(obs(api.DetectNodeStatus, api.CheckFail, ""), obs(api.DetectPollURL, api.CheckFail, "")), Running, api.StateUnhealthy},
		{"the agent's own condition", AnyFailed, 0, obs(beat, api.CheckFail, "read_only_fs"), Running, api.StateUnhealthy},
		{"which vetoes nothing", AnyFailed, 0, both(obs(beat, api.CheckFail, "disk_full"), obs(api.DetectNodeStatus, api.CheckFail, "impaired")), Running, api.StateUnhealthy},
		{"what leaves is not judged sick by its state", AnyFailed, 0, nil, Leaving, api.StateHealthy},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := Policy{Detection: Detection{Conditional: test.join, Modes: []DetectionMode{
				{Type: api.DetectNodeStatus}, {Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}}, {Type: api.DetectAgentHeartbeat},
			}}}
			if test.quorum > 0 {
				p.Detection.Quorum = &test.quorum
			}
			w := newWorld(t, p, ten()...)
			w.notify(Pause{Owner: "test", TTL: time.Hour}) // evaluated, but not repaired
			w.pass(time.Minute)
			for m, o := range test.verdicts {
				w.fail("n4", m, o.Reason)
				w.verdicts["n4"][m] = Observation{Node: "n4", Mode: m, Verdict: o.Verdict, Reason: o.Reason}
			}
			w.set("n4", test.state)
			w.pass(5 * time.Minute)
			if got := w.state("n4"); got != test.want {
				t.Errorf("n4 is %s, want %s:\n%s", got, test.want, w.dump())
			}
		})
	}
}

func obs(m api.DetectionType, v api.HealthVerdict, reason string) map[api.DetectionType]Observation {
	return map[api.DetectionType]Observation{m: {Mode: m, Verdict: v, Reason: reason}}
}

func both(a, b map[api.DetectionType]Observation) map[api.DetectionType]Observation {
	maps.Copy(a, b)
	return a
}

// A failure in every second round makes a node suspect, not unhealthy.
func TestThresholds(t *testing.T) {
	p := plain()
	p.Detection.Modes = []DetectionMode{{Type: api.DetectNodeStatus}}
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	w.notify(Pause{Owner: "test"})
	say := func(v api.HealthVerdict, want api.HealthState) {
		t.Helper()
		w.notify(Observation{Node: "n4", Mode: api.DetectNodeStatus, Verdict: v})
		w.now = w.now.Add(31 * time.Second)
		w.notify(Tick{})
		if got := w.state("n4"); got != want {
			t.Errorf("after %s it is %s, want %s", v, got, want)
		}
	}
	w.unobserved["n4"] = true
	say(api.CheckFail, api.StateSuspect)
	say(api.CheckOK, api.StateHealthy)
	say(api.CheckFail, api.StateSuspect)
	say(api.CheckUnknown, api.StateSuspect)
	say(api.CheckFail, api.StateUnhealthy)
	say(api.CheckOK, api.StateUnhealthy)
	say(api.CheckFail, api.StateUnhealthy)
	say(api.CheckOK, api.StateUnhealthy)
	say(api.CheckOK, api.StateHealthy)
}

// A node without observations is not healthy, is not repaired, and is reported.
func TestUnknownNeitherTriggersNorClears(t *testing.T) {
	w := newWorld(t, Policy{Mode: api.ModeAct, Detection: Detection{Modes: []DetectionMode{
		{Type: api.DetectNodeStatus}, {Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}},
	}}}, ten()...)
	w.pass(time.Minute)
	w.notify(Pause{Owner: "test", TTL: 5 * time.Minute})
	w.fail("n4", api.DetectPollURL, "503")
	w.pass(2 * time.Minute)
	w.verdicts["n4"][api.DetectPollURL] = Observation{Node: "n4", Mode: api.DetectPollURL, Verdict: api.CheckUnknown, Reason: "no route"}
	w.pass(30 * time.Minute) // the other mode is always ok
	w.wantActs()
	if got := w.state("n4"); got != api.StateUnhealthy {
		t.Errorf("n4 is %s, want unhealthy still", got)
	}
	if got := w.gates("n4"); got[len(got)-1] != api.GateUnknown {
		t.Errorf("refused by %q, want unknown", got)
	}
	if got := w.alarms(); len(got) != 1 || got[0] != "unknown" {
		t.Errorf("alarms %q", got)
	}
}

func TestCandidateOrder(t *testing.T) {
	p := plain(Action{Name: api.ActionRecreate})
	p.Safety.MaxUnhealthy, p.Safety.Rate.Burst, p.Safety.MaxUnhealthyZone = &Limit{100, true}, new(9), &Limit{100, true}
	w := newWorld(t, p, ten()...)
	w.heal = func(w *world, o Order) []Event {
		if o.Kind != OrderAct {
			return nil
		}
		w.replace(o.Node, "new-"+o.Node)
		return []Event{Outcome{Node: o.Node, OK: true, Replacement: "new-" + o.Node}}
	}
	w.pass(time.Minute)
	w.notify(Pause{Owner: "test", TTL: 7 * time.Minute})
	w.unhealthy("n6")
	w.pass(time.Minute)
	w.unhealthy("n2")
	w.pass(time.Minute)
	w.unhealthy("n1")
	w.pass(time.Minute)
	w.set("n8", Terminated)
	w.pass(40 * time.Minute)
	w.wantActs("RECREATE n8", "RECREATE n6", "RECREATE n2", "RECREATE n1")
}
