package judge

import (
	"slices"
	"testing"
	"time"
)

// senses returns a detection by two polls and the heartbeat, in this order.
func senses(t *testing.T, join Conditional) *detection {
	t.Helper()
	p := Policy{Detection: Detection{Conditional: join, UnknownAlarm: dur(10 * time.Minute), Modes: []DetectionMode{
		{Type: NodeStatus}, {Type: PollURL, Options: Options{PollURL: "http://x"}}, {Type: AgentHeartbeat},
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
		verdict Verdict
		reason  string
	}
	twice := func(o obs) []obs { return []obs{o, o} }
	fit := []obs{{status, OK, ""}, {url, OK, ""}, {beat, OK, ""}}
	for _, test := range []struct {
		name        string
		join        Conditional
		state       Provided
		seen        []obs
		later       time.Duration // time of the evaluation
		proven      bool          // the path is proven then
		verdict     Verdict
		provisional Verdict
		decisive    bool
		why         string
	}{
		{"nothing is known", AnyFailed, Running, nil, 0, true, Unknown, Unknown, false, ""},
		{"fit", AnyFailed, Running, fit, 0, true, OK, OK, false, ""},
		{"what is unknown changes nothing", AnyFailed, Running, append(fit, obs{url, Unknown, "no route"}), 0, true, OK, OK, false, ""},
		{"one failure is below the threshold", AnyFailed, Running, append(fit, obs{url, Fail, "503"}), 0, true, OK, Fail, false, ""},
		{"two in a row", AnyFailed, Running, append(fit, twice(obs{url, Fail, "503"})...), 0, true, Fail, Fail, false, "NODE_STATUS_POLL_URL: 503"},
		{"not all fail", AllFailed, Running, append(fit, twice(obs{url, Fail, "503"})...), 0, true, OK, OK, false, "NODE_STATUS_POLL_URL: 503"},
		{"a heartbeat vetoes the provider", AnyFailed, Running, append(fit, twice(obs{status, Fail, "impaired"})...), 0, true, OK, OK, false, ""},
		{"but not that it is stopped", AnyFailed, Running, append(fit, twice(obs{status, Fail, ReasonStopped})...), 0, true, Fail, Fail, true, "NODE_STATUS_POLLING: stopped"},
		{"the list says so at once", AnyFailed, Stopped, fit, 0, true, Fail, Fail, true, "NODE_STATUS_POLLING: stopped"},
		{"or that it is terminated", AllFailed, Terminated, fit, 0, true, Fail, Fail, true, ReasonTerminated},
		{"silent for too long", AnyFailed, Running, fit, 31 * time.Second, true, Fail, Fail, false, "AGENT_HEARTBEAT: silent"},
		{"silent while the path is not proven", AnyFailed, Running, fit, 31 * time.Second, false, OK, OK, false, ""},
		{"all is stale", AnyFailed, Running, fit, time.Hour, false, Unknown, Unknown, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, e, now, n := senses(t, test.join), &evidence{}, start(), &Node{ID: "n", State: test.state}
			e.begin(now, len(d.modes))
			d.path.prove(now)
			for _, o := range test.seen {
				e.take(now, d, o.mode, Observation{Verdict: o.verdict, Reason: o.reason})
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
	say := func(v Verdict, want Verdict, steady bool) {
		t.Helper()
		now = now.Add(30 * time.Second)
		for i := range d.modes {
			o := Observation{Verdict: OK}
			if i == url {
				o = Observation{Verdict: v, Reason: "503"}
			}
			e.take(now, d, i, o)
		}
		if e.assess(now, d, n); e.verdict != want || e.steady(now, d) != steady {
			t.Errorf("after %s: %+v, steady %t, want %s, %t", v, e.opinion, e.steady(now, d), want, steady)
		}
	}
	say(OK, OK, true)
	say(Fail, OK, false)
	say(Fail, Fail, false)
	since := now.Add(time.Second)
	if e.confirmed(now, d, n, since) {
		t.Error("what failed before is confirmed")
	}
	say(Fail, Fail, false)
	if !e.confirmed(now, d, n, since) {
		t.Error("what fails again is not confirmed")
	}
	say(Unknown, Fail, false)
	now = now.Add(10 * time.Minute) // the failure is stale
	say(Unknown, Unknown, false)
	say(OK, Fail, false) // one success is below the threshold
	say(OK, OK, true)
	e.forget(now)
	if e.assess(now, d, n); e.verdict != Unknown || !e.serves(now, d, n) {
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
		e.take(now, d, i, Observation{Verdict: OK})
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
			w := newWorld(t, polled(Action{Name: Reboot}), ten()...)
			w.pass(time.Minute)
			for i := range 24 {
				if delete(w.verdicts, "n4"); i%test.every == 0 {
					w.fail("n4", PollURL, "503")
				}
				w.pass(30 * time.Second)
				if test.takeover && i%5 == 4 {
					w.takeOver()
				}
			}
			if got := len(w.acts()) > 0; got != test.want {
				t.Errorf("repaired within 12 minutes: %t, want %t:\n%s", got, test.want, w.dump())
			}
			if n := len(slices.DeleteFunc(w.events(), func(e FindingEvent) bool { return e != NodeSuspect && e != NodeOK })); n > 5 {
				t.Errorf("%d events of a node that fails now and then, want at most 5:\n%s", n, w.dump())
			}
		})
	}
}

// A heartbeat that is ok does not veto an announced end, also after a takeover. It vetoes other
// failures of the control plane.
func TestAnnouncedEndIsNotVetoed(t *testing.T) {
	for _, announced := range []bool{false, true} {
		p := plain(Action{Name: Recreate})
		p.Detection.Modes[0].Type = HypervisorStatus
		w := newWorld(t, p, ten()...)
		w.pass(time.Minute)
		w.verdicts["n4"] = map[ModeType]Observation{HypervisorStatus: {Node: "n4", Mode: HypervisorStatus, Verdict: Fail, Reason: "instance-retirement", Announced: announced}}
		w.notify(Pause{Owner: "ops", TTL: time.Minute})
		w.pass(50 * time.Second)
		w.takeOver()
		w.pass(5 * time.Minute)
		if got := slices.Contains(w.acts(), "RECREATE n4"); got != announced {
			t.Errorf("announced %t: replaced: %t, want %t:\n%s", announced, got, announced, w.dump())
		}
		vetoed := slices.DeleteFunc(w.found, func(f Finding) bool { return f.Event != CheckVetoed })
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
		gates   []Gate
	}{
		{[]Action{{Name: Reboot}, {Name: Recreate}}, []string{"RECREATE n4"}, nil},
		{[]Action{{Name: Reboot}}, nil, []Gate{GateAction}},
	} {
		p := plain(test.actions...)
		p.Detection.Modes[0].Type = HypervisorStatus
		w := newWorld(t, p, ten()...)
		w.pass(time.Minute)
		w.verdicts["n4"] = map[ModeType]Observation{HypervisorStatus: {Node: "n4", Mode: HypervisorStatus, Verdict: Fail, Reason: "system-reboot", Announced: true}}
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
	p := plain(Action{Name: Recreate})
	p.Detection.Modes[0].Type = HypervisorStatus
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	for _, id := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
		w.verdicts[id] = map[ModeType]Observation{HypervisorStatus: {Node: id, Mode: HypervisorStatus, Verdict: Fail, Reason: "instance-retirement", Announced: true}}
	}
	w.pass(2 * time.Hour)
	if slices.Contains(w.events(), BreakerOpened) {
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
	w := newWorld(t, plain(Action{Name: Recreate}), ten()...)
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
	if slices.Contains(w.events(), NodeSuspect) || !slices.Contains(w.events(), NodeGone) {
		t.Errorf("%s has left:\n%s", left, w.dump())
	}
}

// A node is silent after two missing heartbeats, long before it fails by its policy.
func TestVerdictOfASilentNode(t *testing.T) {
	d, e, n, now := senses(t, AnyFailed), &evidence{}, &Node{ID: "n"}, start()
	e.begin(now, len(d.modes))
	for i := range d.modes {
		e.take(now, d, i, Observation{Verdict: OK})
	}
	word := func(age time.Duration) ModeVerdict {
		d.path.last = now.Add(age) // other nodes report
		return e.modeVerdicts(now.Add(age), d, n)[d.beat]
	}
	limit := d.beatEvery * 5 / 2
	if w := word(limit); w.Silent || w.Verdict != OK {
		t.Errorf("after 2.5 periods: %+v, want it not silent", w)
	}
	if w := word(limit + 1); !w.Silent || w.Verdict != OK {
		t.Errorf("beyond 2.5 periods: %+v, want it silent and not failed", w)
	}
	d.path.last = now
	if w := e.modeVerdicts(now.Add(time.Hour), d, n)[d.beat]; w.Silent {
		t.Errorf("while the path is not proven: %+v, want no claim", w)
	}
}
