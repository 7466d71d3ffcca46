package apps

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// evaluationOf returns an evaluation of index 0 of an app that should run one instance of v1,
// with these copies, all listed by one node.
func evaluationOf(t *testing.T, beats ...api.Beat) *evaluation {
	t.Helper()
	cfg, c := steady(), &clock{}
	c.set(start())
	k := known.New(known.Config{DropletLost: cfg.DropletLost, HeartbeatPeriod: cfg.HeartbeatPeriod})
	k.Connected(c.wall)
	if err := k.Heartbeat(c.wall, message.Node{}, beat("n1", beats...).Data); err != nil {
		t.Fatal(err)
	}
	a := &app{id: k.App("web"), row: rowPresent, want: api.App{
		Name: "web", Version: "v1", Instances: 1, State: api.AppStarted, Package: api.PackageStaged}}
	l := &evaluation{
		cfg: &cfg, clock: c, known: k, source: &source{isComplete: true, since: c.now}, rowLoss: &rowLoss{}, rowStops: &rowStops{},
		apps: &inventory{slots: map[indexKey]*slot{}},
		app:  a, slot: &slot{app: a, cause: api.WhyNew}, confirmed: unknown,
	}
	k.Hold(a.id)
	k.Want(a.id, 1)
	l.apps.slots[l.slot.indexKey()] = l.slot
	for c := range k.Copies(a.id, 0) {
		if runs(c.State()) {
			l.copies = append(l.copies, c)
		}
	}
	l.count()
	return l
}

// copyOf returns a copy of the app of evaluationOf. since orders copies by age.
func copyOf(id, version string, state api.CopyState, since float64) api.Beat {
	return api.Beat{App: "web", Instance: id, Version: version, State: state, Since: since}
}

func TestVerdictRules(t *testing.T) {
	var (
		runs    = copyOf("runs", "v1", api.CopyRunning, 1)
		younger = copyOf("younger", "v1", api.CopyRunning, 2)
		starts  = copyOf("starts", "v1", api.CopyStarting, 0)
		leaves  = copyOf("leaves", "v1", api.CopyEvacuating, 1)
		old     = copyOf("old", "v0", api.CopyRunning, 1)
		odd     = copyOf("odd", "v1", "ODD", 1)
	)
	none := func(*evaluation) {}
	for _, tt := range []struct {
		name   string
		rule   func(*evaluation)
		copies []api.Beat
		set    func(*evaluation)
		start  api.AppRule
		why    api.AppReason
		stops  []string
		again  bool
	}{
		{"missing: no copy", (*evaluation).missing, nil, none, api.AppRuleMissing, api.WhyNew, nil, false},
		{"missing: no slot", (*evaluation).missing, nil, func(l *evaluation) { l.slot = nil }, api.AppRuleMissing, api.WhyNew, nil, false},
		{"missing: only another version", (*evaluation).missing, []api.Beat{old}, none, api.AppRuleMissing, api.WhyNew, nil, false},
		{"missing: node lost", (*evaluation).missing, nil, func(l *evaluation) { l.slot.cause = api.WhyNodeLost }, api.AppRuleMissing, api.WhyNodeLost, nil, false},
		{"missing: crashed", (*evaluation).missing, nil, func(l *evaluation) { l.slot.cause, l.slot.crashes = api.WhyCrashed, 1 }, api.AppRuleExitCrashed, api.WhyCrashed, nil, false},
		{"missing: crashed again", (*evaluation).missing, nil, func(l *evaluation) { l.slot.cause, l.slot.crashes = api.WhyCrashed, 2 }, api.AppRuleFlapping, api.WhyCrashed, nil, false},
		{"missing: stopped", (*evaluation).missing, nil, func(l *evaluation) { l.slot.cause = api.WhyStopped }, api.AppRuleExitStopped, api.WhyStopped, nil, false},
		{"missing: node shuts down", (*evaluation).missing, nil, func(l *evaluation) { l.slot.cause = api.WhyShutdown }, api.AppRuleExitShutdown, api.WhyShutdown, nil, false},
		{"missing: a copy starts", (*evaluation).missing, []api.Beat{starts}, none, "", "", nil, false},
		{"missing: an unknown state runs", (*evaluation).missing, []api.Beat{odd}, none, "", "", nil, false},
		{"missing: a copy evacuates", (*evaluation).missing, []api.Beat{leaves}, none, "", "", nil, false},

		{"evacuation: alone", (*evaluation).evacuation, []api.Beat{leaves}, none, api.AppRuleEvacuation, api.WhyEvacuating, nil, false},
		{"evacuation: another one starts", (*evaluation).evacuation, []api.Beat{leaves, starts}, none, "", "", nil, false},
		{"evacuation: another one runs", (*evaluation).evacuation, []api.Beat{leaves, runs}, none, "", "", []string{"leaves"}, false},

		{"extra version: the live one runs", (*evaluation).extraVersion, []api.Beat{old, runs}, none, "", "", []string{"old"}, false},
		{"extra version: the live one starts", (*evaluation).extraVersion, []api.Beat{old, starts}, none, "", "", nil, false},
		{"extra version: not staged", (*evaluation).extraVersion, []api.Beat{old, runs}, func(l *evaluation) { l.app.want.Package = api.PackagePending }, "", "", nil, false},

		{"duplicates: one copy", (*evaluation).duplicates, []api.Beat{runs}, none, "", "", nil, false},
		{"duplicates: the oldest stays", (*evaluation).duplicates, []api.Beat{runs, younger}, none, "", "", []string{"younger"}, true},
		{"duplicates: the running one stays", (*evaluation).duplicates, []api.Beat{starts, younger}, none, "", "", []string{"starts"}, true},
		{"duplicates: one by one", (*evaluation).duplicates, []api.Beat{runs, younger, starts}, none, "", "", []string{"starts"}, true},
		{"duplicates: the same victim", (*evaluation).duplicates, []api.Beat{runs, younger}, func(l *evaluation) { l.slot.liveCopies.toStop = "runs" }, "", "", []string{"runs"}, true},
		{"duplicates: beside an evacuation", (*evaluation).duplicates, []api.Beat{runs, younger, leaves}, none, "", "", nil, false},

		{"undesired: every copy", (*evaluation).undesired, []api.Beat{old, runs}, func(l *evaluation) { l.app.row = rowDeleted }, "", "", []string{"old", "runs"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := evaluationOf(t, tt.copies...)
			tt.set(l)
			tt.rule(l)
			var stops []string
			for _, s := range l.surplus {
				stops = append(stops, s.copy.ID())
			}
			slices.Sort(stops)
			if l.start != tt.start || l.why != tt.why || !slices.Equal(stops, tt.stops) || l.again > 0 != tt.again {
				t.Errorf("start %q (%s), stops %v, again %v, want %q (%s), %v, %v", l.start, l.why, stops, l.again, tt.start, tt.why, tt.stops, tt.again)
			}
		})
	}
}

func TestUndesired(t *testing.T) {
	for _, tt := range []struct {
		row   rowState
		state api.AppState
		rule  api.AppRule
		why   api.AppReason
	}{
		{rowDeleted, api.AppStarted, api.AppRuleExtraApp, api.WhyAppDeleted},
		{rowVanished, api.AppStarted, api.AppRuleExtraApp, api.WhyAppVanished},
		{rowUnknown, api.AppStarted, api.AppRuleExtraApp, api.WhyAppUnknown},
		{rowPresent, api.AppStopped, api.AppRuleExtraState, api.WhyAppStopped},
		{rowPresent, api.AppStarted, api.AppRuleExtraIndex, api.WhyBeyond},
	} {
		a := &app{row: tt.row, want: api.App{State: tt.state}}
		if rule, why := a.undesired(); rule != tt.rule || why != tt.why {
			t.Errorf("row %d, %s: %s (%s), want %s (%s)", tt.row, tt.state, rule, why, tt.rule, tt.why)
		}
	}
}

// TestUnreadableRowHasNoVerdict: with an unreadable row, an index has no verdict.
func TestUnreadableRowHasNoVerdict(t *testing.T) {
	l := evaluationOf(t, copyOf("a", "v1", api.CopyRunning, 1), copyOf("b", "v1", api.CopyRunning, 2))
	l.app.row = rowUnreadable
	if l.judge(); l.troubled() || l.redundant != 0 {
		t.Errorf("verdict %+v, want none", l.verdict)
	}
}

var phases = [...]struct {
	name  string
	phase phase
}{{"judge", judging}, {"send", sending}, {"explain", explaining}, {"confirm", confirming}}

func TestStartRules(t *testing.T) {
	future := func(l *evaluation) instant { return l.clock.in(time.Minute) }
	for _, tt := range []struct {
		name string
		set  func(*evaluation)
		want [len(phases)]api.AppRule // of each phase
	}{
		{"nothing holds", func(*evaluation) {}, [...]api.AppRule{"", "", "", ""}},
		{"row older than the app", func(l *evaluation) { l.app.stale = true },
			[...]api.AppRule{api.AppRuleUpdateRequired, api.AppRuleUpdateRequired, api.AppRuleUpdateRequired, api.AppRuleUpdateRequired}},
		{"package not staged", func(l *evaluation) { l.app.want.Package = api.PackagePending },
			[...]api.AppRule{api.AppRulePackageState, api.AppRulePackageState, api.AppRulePackageState, ""}},
		{"given up", func(l *evaluation) { l.slot.givenUp = true }, [...]api.AppRule{api.AppRuleGiveUp, api.AppRuleGiveUp, api.AppRuleGiveUp, ""}},
		{"restart delay", func(l *evaluation) { l.slot.restart = future(l) }, [...]api.AppRule{api.AppRuleFlapping, api.AppRuleFlapping, api.AppRuleFlapping, ""}},
		{"sent, not confirmed", func(l *evaluation) { l.slot.pending = future(l) }, [...]api.AppRule{api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive, ""}},
		{"sent and confirmed", func(l *evaluation) { l.slot.pending, l.slot.sent = future(l), future(l) },
			[...]api.AppRule{api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive}},
		{"app just changed", func(l *evaluation) { l.app.grace = future(l) }, [...]api.AppRule{api.AppRuleResetGrace, api.AppRuleResetGrace, api.AppRuleResetGrace, ""}},
		{"index just stopped", func(l *evaluation) { l.slot.grace = future(l) }, [...]api.AppRule{api.AppRuleResetGrace, api.AppRuleResetGrace, api.AppRuleResetGrace, ""}},
		{"a crash waits for no grace", func(l *evaluation) { l.app.grace, l.start = future(l), api.AppRuleExitCrashed }, [...]api.AppRule{"", "", "", ""}},
		{"the first rule is the reason", func(l *evaluation) { l.slot.givenUp, l.slot.pending = true, future(l) },
			[...]api.AppRule{api.AppRuleGiveUp, api.AppRuleGiveUp, api.AppRuleGiveUp, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := evaluationOf(t)
			l.judge()
			tt.set(l)
			for i, p := range phases {
				if h, held := l.holdStart(p.phase); h.rule != tt.want[i] || held != (tt.want[i] != "") {
					t.Errorf("%s: held %v by %q, want %q", p.name, held, h.rule, tt.want[i])
				}
			}
		})
	}
	l := evaluationOf(t)
	l.slot = nil
	if _, held := l.holdStart(confirming); held {
		t.Error("a start of an index without a slot is not confirmed")
	}
}

// TestStopRules: one list decides in all phases whether a copy may be stopped. It differs by
// phase only where the list defines that.
func TestStopRules(t *testing.T) {
	const unlisted = "unlisted" // held without a rule to report
	future := func(l *evaluation) instant { return l.clock.in(time.Minute) }
	rowless := func(l *evaluation) {
		l.app.row, l.app.rowlessAt = rowVanished, l.source.trust(l.clock.now)
		l.judge()
	}
	for _, tt := range []struct {
		name string
		set  func(*evaluation, *extra)
		want [len(phases)]api.AppRule
	}{
		{"nothing holds", func(*evaluation, *extra) {}, [...]api.AppRule{"", "", "", ""}},
		{"row older than the app", func(l *evaluation, _ *extra) { l.app.stale = true },
			[...]api.AppRule{api.AppRuleUpdateRequired, api.AppRuleUpdateRequired, api.AppRuleUpdateRequired, api.AppRuleUpdateRequired}},
		{"sent, not confirmed", func(l *evaluation, x *extra) { x.until = future(l) }, [...]api.AppRule{api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive, ""}},
		{"sent and confirmed", func(l *evaluation, x *extra) { x.until, x.sent = future(l), future(l) },
			[...]api.AppRule{api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive, api.AppRuleKeepAlive}},
		{"row gone, in its grace", func(l *evaluation, _ *extra) { rowless(l) }, [...]api.AppRule{api.AppRuleExtraApp, api.AppRuleExtraApp, api.AppRuleExtraApp, ""}},
		{"row gone, after its grace", func(l *evaluation, _ *extra) { rowless(l); l.source.trusted += future(l) }, [...]api.AppRule{"", "", "", ""}},
		{"row gone, source incomplete", func(l *evaluation, _ *extra) { rowless(l); l.source.isComplete = false },
			[...]api.AppRule{api.AppRuleFreshness, api.AppRuleFreshness, api.AppRuleFreshness, ""}},
		{"row gone with many others", func(l *evaluation, _ *extra) { rowless(l); l.rowLoss.rows.since = 1 },
			[...]api.AppRule{api.AppRuleDisruptionLimit, api.AppRuleDisruptionLimit, api.AppRuleDisruptionLimit, api.AppRuleDisruptionLimit}},
		{"many rows gone, not this one", func(l *evaluation, _ *extra) { l.rowLoss.rows.since = 1 }, [...]api.AppRule{"", "", "", ""}},
		{"row deleted, many others gone", func(l *evaluation, _ *extra) { l.app.row, l.rowLoss.rows.since = rowDeleted, 1; l.judge() }, [...]api.AppRule{"", "", "", ""}},
		{"duplicate, unconfirmed", func(l *evaluation, _ *extra) { l.surplus[0].rule = api.AppRuleDuplicate; l.liveCopies = l.copies },
			[...]api.AppRule{api.AppRuleDuplicate, api.AppRuleDuplicate, api.AppRuleDuplicate, ""}},
		{"the controller would stop the whole app", func(l *evaluation, _ *extra) { l.cfg.StopsWholeApps, l.app.want.Instances = true, 1 },
			[...]api.AppRule{api.AppRuleWholeApp, api.AppRuleWholeApp, api.AppRuleWholeApp, api.AppRuleWholeApp}},
		{"the whole app is meant", func(l *evaluation, _ *extra) { l.cfg.StopsWholeApps = true }, [...]api.AppRule{"", "", "", ""}},
		{"not listed", func(l *evaluation, _ *extra) { l.surplus[0].copy = unlistedCopy(t) }, [...]api.AppRule{unlisted, unlisted, "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := evaluationOf(t, copyOf("a", "v1", api.CopyRunning, 1))
			l.app.want.Instances = 0
			l.judge()
			var x extra
			tt.set(l, &x)
			for i, p := range phases {
				h, held := l.holdStop(&l.surplus[0], &x, p.phase)
				got := h.rule
				if held && got == "" {
					got = unlisted
				}
				if got != tt.want[i] || held != (tt.want[i] != "") {
					t.Errorf("%s: held %v by %q, want %q", p.name, held, got, tt.want[i])
				}
			}
		})
	}
}

// unlistedCopy returns a copy that its node no longer lists.
func unlistedCopy(t *testing.T) known.Copy {
	t.Helper()
	k := known.New(known.Config{DropletLost: 30 * time.Second, HeartbeatPeriod: 10 * time.Second})
	k.Connected(start())
	for _, hb := range []Heartbeat{beat("n1", copyOf("b", "v1", api.CopyRunning, 1)), beat("n1")} {
		if err := k.Heartbeat(start(), message.Node{}, hb.Data); err != nil {
			t.Fatal(err)
		}
	}
	c, ok := k.Find("b")
	if !ok || listed(c) {
		t.Fatalf("copy %v, found %v, want one that is not listed", c, ok)
	}
	return c
}

// TestDuplicatesConfirmed: a duplicate may be stopped only after each node listed its copy
// twice while exactly these duplicates are known.
func TestDuplicatesConfirmed(t *testing.T) {
	k := known.New(known.Config{DropletLost: 30 * time.Second, HeartbeatPeriod: 10 * time.Second})
	k.Connected(start())
	var state liveCopies
	now := start()
	for i, want := range []bool{false, true, false, false, true} {
		beats := []api.Beat{copyOf("a", "v1", api.CopyRunning, 1), copyOf("b", "v1", api.CopyRunning, 2)}
		if i >= 2 { // a third one appears
			beats = append(beats, copyOf("c", "v1", api.CopyRunning, 3))
		}
		if err := k.Heartbeat(now, message.Node{}, beat("n1", beats...).Data); err != nil {
			t.Fatal(err)
		}
		now = now.Add(10 * time.Second)
		if got := state.confirmed(slices.Collect(k.Copies(k.App("web"), 0))); got != want {
			t.Errorf("after heartbeat %d: confirmed %v, want %v", i+1, got, want)
		}
	}
}

func TestGate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		set    func(*gate)
		start  api.AppRule // rule that holds starts; "": none
		stop   api.AppRule // rule that holds stops; queue: they wait only for their turn
		closed bool
	}{
		{"open", func(*gate) {}, "", api.AppRuleQueue, false},
		{"a state is incomplete", func(g *gate) { g.acting = false }, api.AppRuleFreshness, api.AppRuleFreshness, true},
		{"following", func(g *gate) { g.leading = false }, api.AppRuleFollow, api.AppRuleFollow, true},
		{"limit holds", func(g *gate) { g.limit.state = api.LimitHeld }, api.AppRuleDisruptionLimit, api.AppRuleDisruptionLimit, true},
		{"limit throttled", func(g *gate) { g.limit.state = api.LimitThrottled }, "", api.AppRuleDisruptionLimit, false},
		{"limit throttled, nodes return", func(g *gate) { g.limit.state, g.limit.returned = api.LimitThrottled, 1 }, api.AppRuleDisruptionLimit, api.AppRuleDisruptionLimit, true},
		{"backlog", func(g *gate) { g.backlog.mark(at(0, 0)) }, api.AppRuleQueue, api.AppRuleQueue, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := steady()
			g := &gate{leading: true, acting: true, limit: &disruptionLimit{cfg: &cfg, clock: &clock{now: 1}}, rowLoss: &rowLoss{}, backlog: &backlog{}}
			tt.set(g)
			h, held := g.starts()
			if held != (tt.start != "") || held && h.rule != tt.start {
				t.Errorf("starts held %v by %s, want %q", held, h.rule, tt.start)
			}
			if got := g.stops().rule; got != tt.stop {
				t.Errorf("stops wait for %s, want %s", got, tt.stop)
			}
			if _, closed := g.closed(); closed != tt.closed {
				t.Errorf("closed %v, want %v", closed, tt.closed)
			}
			if got, want := g.passesStops(), tt.name == "open"; got != want {
				t.Errorf("passes stops %v, want %v", got, want)
			}
		})
	}
	g := &gate{leading: true, acting: true, limit: &disruptionLimit{}, rowLoss: &rowLoss{copiesUncounted: true}, backlog: &backlog{}}
	if g.passesStops() {
		t.Error("stops pass before the copies without a row are counted")
	}
}
