package drain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

const (
	victim  = "a-2"
	endless = 1000 // more tasks than a node loses during a test
)

var (
	short       = drain.Config{Threshold: 10 * time.Minute}
	shortForced = drain.Config{Threshold: 10 * time.Minute, Force: true}
)

// path is one way of a node through the machine, in a group of three instances of weight 1.
type path struct {
	name   string
	config drain.Config
	reason api.DrainReason
	tasks  int
	// setup is called before the first tick. during is called at each tick, counted from 1, before
	// the machine.
	setup    func(*world)
	during   func(w *world, tick int)
	takeBack bool // the need returns at the third tick
	choose   func(*drain.Choice)
	end      outcome
}

// outcome is the expected end of the node.
type outcome string

const (
	gone     outcome = "ended by us"      // and the target is lower
	replaced outcome = "replaced"         // ended by the provider
	either   outcome = "ended by one"     // by us or by the provider
	stays    outcome = "stays"            // in service
	spared   outcome = "stays, untouched" // it was never cordoned
	once     outcome = "is repaired"      // repaired once, and stays
)

// at returns a function that calls do at one tick.
func at(tick int, do func(*world)) func(*world, int) {
	return func(w *world, now int) {
		if now == tick {
			do(w)
		}
	}
}

// as makes the choice a repair.
func as(kind api.RepairKind, hold bool) func(*drain.Choice) {
	return func(c *drain.Choice) {
		c.Attempt, c.Hold, c.Deadline = "attempt-1", hold, start.Add(25*time.Minute)
		if kind != "" {
			c.RepairInPlace = &pools.InPlaceRepair{Kind: kind}
		}
	}
}

// releaseRepairs makes the provider leave stopped instances as they are.
func releaseRepairs(w *world) {
	if err := cloud.NewProvider(w.group).ReleaseRepair(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// untilRestart silences the victim until it has restarted.
func untilRestart(w *world, _ int) { w.silent[victim] = w.group.Boot(victim) == victim+"-boot-1" }

func repairPaths() []path {
	silent := func(w *world) { w.silent[victim] = true }
	stop := func(w *world) { releaseRepairs(w); w.group.Stop(victim) }
	broken := func(w *world) { releaseRepairs(w); w.group.Break(victim, true) }
	r := api.DrainRepair
	return []path{
		{name: "repair", config: short, reason: r, choose: as("", false), tasks: 2, end: gone},
		{name: "repair, with more tasks than time", config: short, reason: r, choose: as("", false), tasks: endless, end: gone},
		{name: "repair of a silent node", config: short, reason: r, choose: as("", false), tasks: 1, setup: silent, end: gone},
		{name: "repair, protected", config: short, reason: r, choose: as("", false), setup: protect, end: spared},
		{name: "repair, lost", config: short, reason: r, choose: as("", false), tasks: endless, during: at(3, func(w *world) { w.group.Lose(victim) }), end: replaced},
		{name: "launch first", config: short, reason: r, choose: as("", true), tasks: 1, during: at(4, (*world).order), end: gone},
		{name: "launch first, of a silent node", config: short, reason: r, choose: as("", true), setup: silent, during: at(4, (*world).order), end: gone},
		{name: "launch first, without a replacement", config: short, reason: r, choose: as("", true), tasks: 1, end: spared},
		{name: "reboot", config: short, reason: r, choose: as(api.RepairReboot, false), tasks: 1, end: once},
		{name: "reboot, with more tasks than time", config: short, reason: r, choose: as(api.RepairReboot, false), tasks: endless, end: once},
		{name: "reset of a silent node", config: short, reason: r, choose: as(api.RepairReset, false), during: untilRestart, end: once},
		{name: "start of a stopped node", config: short, reason: r, choose: as(api.RepairStart, false), setup: stop, end: once},
		{name: "rebuild", config: short, reason: r, choose: as(api.RepairRebuild, false), tasks: 1, end: once},
		{name: "reboot, lost", config: short, reason: r, choose: as(api.RepairReboot, false), tasks: endless, during: at(3, func(w *world) { w.group.Lose(victim) }), end: replaced},
		{name: "reboot, and comes up late", config: short, reason: r, choose: as(api.RepairReboot, false), setup: broken, during: at(12, func(w *world) {
			w.group.Break(victim, false)
			if _, err := w.group.RepairInPlace(context.Background(), pools.InPlaceRepair{Instance: victim, Kind: api.RepairStart, Attempt: "by hand"}); err != nil {
				w.t.Fatal(err)
			}
		}), end: stays},
	}
}

func protect(w *world)   { w.group.Protect(victim, true) }
func interrupt(w *world) { w.group.Interrupt(victim, start.Add(3*time.Minute)) }

func paths() []path {
	refuse := func(w *world) { w.group.Refuse(cloud.Terminate, pools.ErrRefused) }
	orphan := func(w *world) { delete(w.facts, victim) }
	return []path{
		{name: "scale-in", config: short, reason: api.DrainScaleIn, tasks: 2, end: gone},
		{name: "scale-in of an orphan", config: short, reason: api.DrainScaleIn, setup: orphan, end: gone},
		{name: "orphan", config: short, reason: api.DrainOrphan, setup: orphan, end: gone},
		{name: "orphan that has joined", config: short, reason: api.DrainOrphan, end: spared},
		{name: "removal", config: short, reason: api.DrainRemoval, tasks: 1, end: gone},
		{name: "rebalance", config: short, reason: api.DrainRebalance, tasks: 1, end: gone},
		{name: "stale rolling", config: short, reason: api.DrainRolling, tasks: 1, end: gone},
		{name: "spot", config: shortForced, reason: api.DrainSpot, tasks: 1, setup: interrupt, end: replaced},
		{name: "spot, with more tasks than time", config: shortForced, reason: api.DrainSpot, tasks: endless, setup: interrupt, end: replaced},
		{name: "spot, ours to end", config: drain.Config{Threshold: short.Threshold, EndSpot: true}, reason: api.DrainSpot, setup: interrupt, end: either},
		{name: "spot, and not taken", config: shortForced, reason: api.DrainSpot, tasks: 1, end: stays},
		{name: "taken back", config: short, reason: api.DrainScaleIn, tasks: endless, takeBack: true, end: stays},
		{name: "protected", config: short, reason: api.DrainScaleIn, setup: protect, end: spared},
		{name: "protected by and by", config: shortForced, reason: api.DrainScaleIn, tasks: endless, during: at(3, protect), end: stays},
		{name: "changed by others", config: short, reason: api.DrainScaleIn, setup: func(w *world) { w.group.Busy("refresh") }, end: spared},
		{name: "refused by the provider", config: short, reason: api.DrainScaleIn, setup: refuse, end: stays},
		{name: "deadline", config: short, reason: api.DrainScaleIn, tasks: endless, end: stays},
		{name: "deadline with force", config: shortForced, reason: api.DrainScaleIn, tasks: endless, end: gone},
		{name: "ended by the provider", config: short, reason: api.DrainScaleIn, tasks: endless, setup: interrupt, end: replaced},
		{name: "lost", config: short, reason: api.DrainRemoval, tasks: endless, during: at(3, func(w *world) { w.group.Lose(victim) }), end: replaced},
		{name: "silent for a while", config: short, reason: api.DrainScaleIn, tasks: 1, end: gone, during: func(w *world, tick int) {
			w.silent[victim] = tick == 2 || tick == 4
		}},
	}
}

// run takes the node through the path with faults, until nothing changes. After a crash the next
// tick starts a new process.
func (p path) run(t testing.TB, lag int, faults map[int]fault) *world {
	w := newLagging(t, 3, lag)
	w.tasks[victim] = p.tasks
	w.faults = faults
	if p.setup != nil {
		p.setup(w)
	}
	var m *drain.Machine
	chosen := false
	for tick := 1; tick <= 60; tick++ {
		if m == nil {
			m = w.open(p.config)
		}
		w.pass()
		if p.during != nil {
			p.during(w, tick)
		}
		if p.takeBack && tick >= 3 {
			_, _ = m.TakeBack(context.Background(), w.clock(), victim) // the next tick retries it
		}
		if !chosen { // a choice that was not stored is repeated too
			c := drain.Choice{Node: victim, Group: "a", Weight: 1, Reason: p.reason}
			if p.choose != nil {
				p.choose(&c)
			}
			chosen = m.Add(context.Background(), w.clock(), c) == nil
		}
		_, _ = w.advance(m)
		if w.dead {
			m = nil
		}
		if chosen && tick > 6 && len(w.stored) == 0 && m != nil {
			break
		}
	}
	for range 5 {
		w.pass()
	}
	return w
}

// check returns the mistakes at the end.
func (p path) check(w *world) []string {
	wrong := w.audit()
	s := w.snapshot()
	there := slices.ContainsFunc(s.Instances, func(i pools.Instance) bool { return i.ID == victim })
	if want := p.end == stays || p.end == spared || p.end == once; there != want {
		wrong = append(wrong, fmt.Sprintf("it is there: %t", there))
	}
	if target := map[outcome]int{gone: 2, either: s.Target}[p.end]; s.Target != max(target, 3) && s.Target != target {
		wrong = append(wrong, fmt.Sprintf("the target is %d", s.Target))
	}
	endAccepted := 0
	for _, write := range w.group.Log() {
		// A repair terminates a silent node at once. With lag, a lost instance may still be listed.
		if write.Err == nil && write.Op == cloud.Terminate && (len(write.Ended) > 0 || p.reason != api.DrainRepair) {
			endAccepted++
		}
	}
	switch most := 1 + len(w.faults); {
	case p.end == spared && w.count("cordon "+victim) > 0:
		wrong = append(wrong, "it was cordoned")
	case p.end != gone && p.end != either && endAccepted > 0, endAccepted > most:
		wrong = append(wrong, fmt.Sprintf("%d requests to the provider", endAccepted))
	}
	if n := w.repairs(); p.end == once && n != 1 || n > 2 || p.reason != api.DrainRepair && n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d repairs in place were begun", n))
	}
	if boot := w.group.Boot(victim); there && p.end == once && boot != victim+"-boot-2" {
		wrong = append(wrong, fmt.Sprintf("it is up as %q", boot))
	}
	if len(w.unsafe) > 0 && !p.config.Force && p.reason != api.DrainRepair {
		wrong = append(wrong, "it had something to lose")
	}
	return wrong
}

func (p path) try(t *testing.T, lag int, faults map[int]fault) (calls int) {
	t.Helper()
	w := p.run(t, lag, faults)
	if wrong := p.check(w); len(wrong) > 0 {
		t.Errorf("lag %d, %v:\n%s\n\ncalls:\n%s", lag, faults, strings.Join(wrong, "\n"), strings.Join(w.calls, "\n"))
	}
	return w.begun
}

// TestCrashAtEveryTransition injects each fault into each call of each path, and then a second
// fault soon after it. At the end the node is drained and gone, or in service. It is terminated at
// most once. With the race detector only one of the sixteen second faults is tested for each call.
func TestCrashAtEveryTransition(t *testing.T) {
	kinds := []fault{dies, diesAfter, fails, answerLost}
	for _, p := range slices.Concat(paths(), repairPaths()) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			calls := p.try(t, 0, nil)
			if calls < 2 {
				t.Errorf("only %d calls", calls)
			}
			for _, first := range kinds {
				for n := 1; n <= calls && !t.Failed(); n++ {
					p.try(t, 0, map[int]fault{n: first})
					p.try(t, 2, map[int]fault{n: first})
					for i, second := range kinds {
						for then := n + 1; then <= n+4; then++ {
							if testsize.Full() || i == n%4 && then == n+1+n/4%4 {
								p.try(t, 0, map[int]fault{n: first, then: second})
							}
						}
					}
				}
			}
		})
	}
}

// TestRandomFaults drains nodes for all reasons at the same time. Meanwhile calls fail, nodes
// become silent, the clock is set back, and the provider interrupts or protects instances.
func TestRandomFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newLagging(t, 6, rapid.IntRange(0, 2).Draw(r, "lag"))
		c := drain.Config{Threshold: 10 * time.Minute, Concurrency: 1, EndSpot: rapid.Bool().Draw(r, "end spot")}
		for range rapid.IntRange(0, 8).Draw(r, "faults") {
			kind := rapid.SampledFrom([]fault{dies, diesAfter, fails, answerLost}).Draw(r, "fault")
			w.faults[rapid.IntRange(1, 80).Draw(r, "call")] = kind
		}
		var m *drain.Machine
		for tick := range 80 {
			if m == nil || w.dead {
				m = w.open(c)
			}
			w.pass()
			if tick < 25 {
				disturb(r, w, m)
			} else if tick == 25 {
				clear(w.faults)
				clear(w.silent)
				w.group.Refuse(cloud.Terminate, nil)
			}
			_, _ = w.advance(m)
		}
		if wrong := w.audit(); len(wrong) > 0 || len(w.unsafe) > 0 {
			r.Fatalf("%s\nended with something to lose: %v\ncalls:\n%s",
				strings.Join(wrong, "\n"), w.unsafe, strings.Join(w.calls, "\n"))
		}
	})
}

// disturb makes one random disturbance.
func disturb(r *rapid.T, w *world, m *drain.Machine) {
	node := fmt.Sprintf("a-%d", rapid.IntRange(1, 6).Draw(r, "node"))
	switch rapid.IntRange(0, 12).Draw(r, "what") {
	case 0, 1, 2:
		w.tasks[node] = rapid.IntRange(0, 4).Draw(r, "tasks")
		reason := rapid.SampledFrom(reasons).Draw(r, "reason")
		if reason == api.DrainSpot && rapid.Bool().Draw(r, "taken") {
			w.group.Interrupt(node, w.now.Add(2*time.Minute))
		}
		c := drain.Choice{Node: node, Group: "a", Weight: 1, Reason: reason}
		if reason == api.DrainRepair {
			c.Attempt = fmt.Sprint("attempt-", rapid.IntRange(1, 20).Draw(r, "attempt"))
			switch rapid.IntRange(0, 5).Draw(r, "repair") {
			case 0:
				w.mayLose[node] = true
			case 1:
				c.Hold, w.mayLose[node] = true, true
			default:
				c.RepairInPlace = &pools.InPlaceRepair{Kind: rapid.SampledFrom([]api.RepairKind{
					api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild,
				}).Draw(r, "kind")}
			}
		}
		_ = m.Add(context.Background(), w.clock(), c)
	case 3:
		_, _ = m.TakeBack(context.Background(), w.clock(), node, "a-1")
	case 4:
		w.silent[node] = !w.silent[node]
	case 12:
		w.group.Refuse(cloud.Terminate, rapid.SampledFrom([]error{pools.ErrThrottled, nil}).Draw(r, "refusal"))
	case 5:
		w.group.Protect(node, rapid.Bool().Draw(r, "protected"))
	case 6:
		w.wrong -= time.Duration(rapid.IntRange(0, 30).Draw(r, "back")) * time.Minute
	case 7:
		w.group.Lose(node)
	case 8:
		w.group.Break(node, rapid.Bool().Draw(r, "broken"))
	case 9:
		w.ordered = !w.ordered
	}
}
