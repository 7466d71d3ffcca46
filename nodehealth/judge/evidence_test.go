package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// senses returns a detection by two polls and the heartbeat, in this order.
func senses(t *testing.T, join Conditional) *detection {
	t.Helper()
	p := Policy{Detection: Detection{Conditional: join, UnknownAlarm: dur(10 * time.Minute), Modes: []DetectionMode{
		{Type: api.DetectNodeStatus}, {Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}}, {Type: api.DetectAgentHeartbeat},
	}}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return new(newDetection(compile(p.WithDefaults())))
}

func TestEvidence(t *testing.T) {
	const status, url, beat = 0, 1, 2
	type obs struct {
		mode    int
		verdict api.HealthVerdict
		reason  string
	}
	twice := func(o obs) []obs { return []obs{o, o} }
	fit := []obs{{status, api.CheckOK, ""}, {url, api.CheckOK, ""}, {beat, api.CheckOK, ""}}
	for _, test := range []struct {
		name        string
		join        Conditional
		state       Provided
		seen        []obs
		later       time.Duration // time of the evaluation
		proven      bool          // the path is proven then
		verdict     api.HealthVerdict
		provisional api.HealthVerdict
		decisive    bool
		why         string
	}{
		{"nothing is known", AnyFailed, Running, nil, 0, true, api.CheckUnknown, api.CheckUnknown, false, ""},
		{"fit", AnyFailed, Running, fit, 0, true, api.CheckOK, api.CheckOK, false, ""},
		{"what is unknown changes nothing", AnyFailed, Running, append(fit, obs{url, api.CheckUnknown, "no route"}), 0, true, api.CheckOK, api.CheckOK, false, ""},
		{"one failure is below the threshold", AnyFailed, Running, append(fit, obs{url, api.CheckFail, "503"}), 0, true, api.CheckOK, api.CheckFail, false, ""},
		{"two in a row", AnyFailed, Running, append(fit, twice(obs{url, api.CheckFail, "503"})...), 0, true, api.CheckFail, api.CheckFail, false, "NODE_STATUS_POLL_URL: 503"},
		{"not all fail", AllFailed, Running, append(fit, twice(obs{url, api.CheckFail, "503"})...), 0, true, api.CheckOK, api.CheckOK, false, "NODE_STATUS_POLL_URL: 503"},
		{"a heartbeat vetoes the provider", AnyFailed, Running, append(fit, twice(obs{status, api.CheckFail, "impaired"})...), 0, true, api.CheckOK, api.CheckOK, false, ""},
		{"but not that it is stopped", AnyFailed, Running, append(fit, twice(obs{status, api.CheckFail, reasonStopped})...), 0, true, api.CheckFail, api.CheckFail, true, "NODE_STATUS_POLLING: stopped"},
		{"the list says so at once", AnyFailed, Stopped, fit, 0, true, api.CheckFail, api.CheckFail, true, "NODE_STATUS_POLLING: stopped"},
		{"or that it is terminated", AllFailed, Terminated, fit, 0, true, api.CheckFail, api.CheckFail, true, reasonTerminated},
		{"silent for too long", AnyFailed, Running, fit, 31 * time.Second, true, api.CheckFail, api.CheckFail, false, "AGENT_HEARTBEAT: silent"},
		{"silent while the path is not proven", AnyFailed, Running, fit, 31 * time.Second, false, api.CheckOK, api.CheckOK, false, ""},
		{"all is stale", AnyFailed, Running, fit, time.Hour, false, api.CheckUnknown, api.CheckUnknown, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, e, now, n := senses(t, test.join), &evidence{}, start(), &Node{ID: "n", State: test.state}
			e.begin(now, len(d.modes))
			d.path.prove(now)
			for _, o := range test.seen {
				e.addObservation(now, d, o.mode, Observation{Verdict: o.verdict, Reason: o.reason})
			}
			now = now.Add(test.later)
			if test.proven {
				d.path.last = now // by other nodes
			}
			e.assess(now, d, n)
			if want := (opinion{verdict: test.verdict, provisional: test.provisional, why: test.why, decisive: test.decisive}); e.opinion != want {
				t.Errorf("opinion %+v, want %+v", e.opinion, want)
			}
		})
	}
}

// A failure is over only when the mode that failed is ok, not when it is unknown.
func TestEvidenceHolds(t *testing.T) {
	d, e, n := senses(t, AnyFailed), &evidence{}, &Node{ID: "n"}
	now, url := start(), 1
	e.begin(now, len(d.modes))
	say := func(v api.HealthVerdict, want api.HealthVerdict, steady bool) {
		t.Helper()
		now = now.Add(30 * time.Second)
		for i := range d.modes {
			o := Observation{Verdict: api.CheckOK}
			if i == url {
				o = Observation{Verdict: v, Reason: "503"}
			}
			e.addObservation(now, d, i, o)
		}
		if e.assess(now, d, n); e.verdict != want || e.steady(now, d) != steady {
			t.Errorf("after %s: %+v, steady %t, want %s, %t", v, e.opinion, e.steady(now, d), want, steady)
		}
	}
	say(api.CheckOK, api.CheckOK, true)
	say(api.CheckFail, api.CheckOK, false)
	say(api.CheckFail, api.CheckFail, false)
	since := now.Add(time.Second)
	if e.confirmed(now, d, n, since) {
		t.Error("what failed before is confirmed")
	}
	say(api.CheckFail, api.CheckFail, false)
	if !e.confirmed(now, d, n, since) {
		t.Error("what fails again is not confirmed")
	}
	say(api.CheckUnknown, api.CheckFail, false)
	now = now.Add(10 * time.Minute) // the failure is stale
	say(api.CheckUnknown, api.CheckUnknown, false)
	say(api.CheckOK, api.CheckFail, false) // one success is below the threshold
	say(api.CheckOK, api.CheckOK, true)
	e.forget(now)
	if e.assess(now, d, n); e.verdict != api.CheckUnknown || !e.serves(now, d, n) {
		t.Errorf("after all is forgotten: %+v", e.opinion)
	}
}

func TestLongUnknownIsReportedOnce(t *testing.T) {
	d, e, n := senses(t, AnyFailed), &evidence{}, &Node{ID: "n"}
	e.begin(start(), len(d.modes))
	for _, s := range []struct {
		at   time.Duration
		want bool
	}{{0, false}, {10*time.Minute - 1, false}, {10 * time.Minute, true}, {time.Hour, false}} {
		now := start().Add(s.at)
		e.assess(now, d, n)
		if got := e.losesData(now, d); got != s.want {
			t.Errorf("after %v: %t, want %t", s.at, got, s.want)
		}
	}
}

// The next wake is not later than any change that time alone makes.
func TestEvidenceWakes(t *testing.T) {
	d, e, n, now := senses(t, AnyFailed), &evidence{}, &Node{ID: "n"}, start()
	e.begin(now, len(d.modes))
	for i := range d.modes {
		e.addObservation(now, d, i, Observation{Verdict: api.CheckOK})
	}
	e.assess(now, d, n)
	w := soonest{now: now}
	e.wakeAt(&w, d, n)
	before, at := e.opinion, w.at.Add(-1)
	d.path.last = at
	if e.assess(at, d, n); e.opinion != before {
		t.Errorf("right before the wake: %+v, want %+v", e.opinion, before)
	}
	d.path.last = w.at
	if e.assess(w.at, d, n); e.opinion == before {
		t.Errorf("at the wake nothing changed: %+v", e.opinion)
	}
}

// A node whose every other probe fails is found within its window, and stays found, over a takeover
// too. One failure of three does not count. Neither causes a flood of events.
func TestEveryOtherProbeFails(t *testing.T) {
	for _, test := range []struct {
		name     string
		every    int // probe fails
		takeover bool
		want     bool
	}{
		{"every other", 2, false, true},
		{"every other, over takeovers", 2, true, true},
		{"one of three", 3, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, polled(Action{Name: api.ActionReboot}), ten()...)
			w.pass(time.Minute)
			for i := range 24 {
				if delete(w.verdicts, "n4"); i%test.every == 0 {
					w.fail("n4", api.DetectPollURL, "503")
				}
				w.pass(30 * time.Second)
				if test.takeover && i%5 == 4 {
					w.takeOver()
				}
			}
			if got := len(w.acts()) > 0; got != test.want {
				t.Errorf("repaired within 12 minutes: %t, want %t:\n%s", got, test.want, w.dump())
			}
			if n := len(slices.DeleteFunc(w.events(), func(e api.HealthEvent) bool { return e != api.HealthNodeSuspect && e != api.HealthNodeOK })); n > 5 {
				t.Errorf("%d events of a node that fails now and then, want at most 5:\n%s", n, w.dump())
			}
		})
	}
}

// A heartbeat that is ok does not veto an announced end, also after a takeover. It vetoes other
// failures of the control plane.
func TestAnnouncedEndIsNotVetoed(t *testing.T) {
	for _, announced := range []bool{false, true} {
		p := plain(Action{Name: api.ActionRecreate})
		p.Detection.Modes[0].Type = api.DetectHypervisorStatus
		w := newWorld(t, p, ten()...)
		w.pass(time.Minute)
		w.verdicts["n4"] = map[api.DetectionType]Observation{api.DetectHypervisorStatus: {Node: "n4", Mode: api.DetectHypervisorStatus, Verdict: api.CheckFail, Reason: "instance-retirement", Announced: announced}}
		w.notify(Pause{Owner: "ops", TTL: time.Minute})
		w.pass(50 * time.Second)
		w.takeOver()
		w.pass(5 * time.Minute)
		if got := slices.Contains(w.acts(), "RECREATE n4"); got != announced {
			t.Errorf("announced %t: replaced: %t, want %t:\n%s", announced, got, announced, w.dump())
		}
		vetoed := slices.DeleteFunc(w.found, func(f api.HealthFinding) bool { return f.Event != api.HealthCheckVetoed })
		if (len(vetoed) != 1) != announced {
			t.Errorf("announced %t: vetoed %v, want one finding if it is not", announced, vetoed)
		}
	}
}

// An announced failure is not repaired in place, because that does not avert it.
func TestAnnouncedEndIsNotRepairedInPlace(t *testing.T) {
	for _, test := range []struct {
		actions []Action
		acts    []string
		gates   []api.Gate
	}{
		{[]Action{{Name: api.ActionReboot}, {Name: api.ActionRecreate}}, []string{"RECREATE n4"}, nil},
		{[]Action{{Name: api.ActionReboot}}, nil, []api.Gate{api.GateAction}},
	} {
		p := plain(test.actions...)
		p.Detection.Modes[0].Type = api.DetectHypervisorStatus
		w := newWorld(t, p, ten()...)
		w.pass(time.Minute)
		w.verdicts["n4"] = map[api.DetectionType]Observation{api.DetectHypervisorStatus: {Node: "n4", Mode: api.DetectHypervisorStatus, Verdict: api.CheckFail, Reason: "system-reboot", Announced: true}}
		w.pass(5 * time.Minute)
		w.wantActs(test.acts...)
		if got := w.gates("n4"); !slices.Equal(got, test.gates) {
			t.Errorf("refused by %v, want %v", got, test.gates)
		}
	}
}

// Announced ends of most of a pool open no breaker. The machines are replaced one after the other
// before their dates.
func TestAnnouncedEndsOfMost(t *testing.T) {
	p := plain(Action{Name: api.ActionRecreate})
	p.Detection.Modes[0].Type = api.DetectHypervisorStatus
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	for _, id := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
		w.verdicts[id] = map[api.DetectionType]Observation{api.DetectHypervisorStatus: {Node: id, Mode: api.DetectHypervisorStatus, Verdict: api.CheckFail, Reason: "instance-retirement", Announced: true}}
	}
	w.pass(2 * time.Hour)
	if slices.Contains(w.events(), api.HealthBreakerOpened) {
		t.Errorf("the breaker opened:\n%s", w.dump())
	}
	for _, id := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
		if !slices.Contains(w.acts(), "RECREATE "+id) {
			t.Errorf("%s was not replaced:\n%s", id, w.dump())
		}
	}
}

// A silent machine that is missing from the last list has ended: no finding.
func TestSilenceOfAMachineThatHasLeft(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRecreate}), ten()...)
	w.pass(time.Minute)
	left := w.nodes[4].ID
	w.nodes = slices.Delete(w.nodes, 4, 5)
	for range 8 { // longer than miss beats
		w.now = w.now.Add(5 * time.Second)
		for _, n := range w.nodes {
			w.observe(n.ID, true)
		}
	}
	w.notify(Nodes{List: slices.Clone(w.nodes)}, Tick{})
	w.pass(2 * time.Minute)
	if slices.Contains(w.events(), api.HealthNodeSuspect) || !slices.Contains(w.events(), api.HealthNodeGone) {
		t.Errorf("%s has left:\n%s", left, w.dump())
	}
}

// A node is silent after two missing heartbeats, long before it fails by its policy.
func TestVerdictOfASilentNode(t *testing.T) {
	d, e, n, now := senses(t, AnyFailed), &evidence{}, &Node{ID: "n"}, start()
	e.begin(now, len(d.modes))
	for i := range d.modes {
		e.addObservation(now, d, i, Observation{Verdict: api.CheckOK})
	}
	word := func(age time.Duration) api.ModeVerdict {
		d.path.last = now.Add(age) // other nodes report
		return e.modeVerdicts(now.Add(age), d, n)[d.beat]
	}
	limit := d.beatEvery * 5 / 2
	if w := word(limit); w.Silent || w.Verdict != api.CheckOK {
		t.Errorf("after 2.5 periods: %+v, want it not silent", w)
	}
	if w := word(limit + 1); !w.Silent || w.Verdict != api.CheckOK {
		t.Errorf("beyond 2.5 periods: %+v, want it silent and not failed", w)
	}
	d.path.last = now
	if w := e.modeVerdicts(now.Add(time.Hour), d, n)[d.beat]; w.Silent {
		t.Errorf("while the path is not proven: %+v, want no claim", w)
	}
}
