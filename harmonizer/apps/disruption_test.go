package apps

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// losses is a disruption limit with slots, without a Machine.
type losses struct {
	disruptionLimit
	slots   map[indexKey]*slot
	running int
}

// newLosses returns a limit over the given number of running indices. Up to 30 % of them, and
// always three, may be lost.
func newLosses(indices int) *losses {
	cfg := steady()
	cfg.DisruptionFloor = new(3)
	c := &clock{}
	c.set(start())
	l := &losses{slots: map[indexKey]*slot{}, running: indices}
	l.disruptionLimit = disruptionLimit{cfg: &cfg, clock: c, journal: &journal{clock: c},
		known: known.New(known.Config{DropletLost: cfg.DropletLost, HeartbeatPeriod: cfg.HeartbeatPeriod})}
	l.known.Connected(c.wall)
	a := &app{want: api.App{Name: "web"}}
	for i := range indices {
		l.slots[at(0, i)] = &slot{app: a, index: i}
	}
	return l
}

// loseIndices loses the indices from first to last by the silence of a node.
func (l *losses) loseIndices(node string, first, last int) {
	l.loseNode(message.Node{Name: node})
	for i := first; i <= last; i++ {
		l.lose(l.slots[at(0, i)])
		l.running--
	}
	l.disruptionLimit.watch(l.running, l.slots)
}

func (l *losses) watch(regained ...int) {
	for _, i := range regained {
		l.regain(l.slots[at(0, i)])
		l.running++
	}
	l.disruptionLimit.watch(l.running, l.slots)
}

func (l *losses) pass(d time.Duration) { l.clock.set(l.clock.wall.Add(d)) }

func (l *losses) check(t *testing.T, step string, state api.LimitState, missing int) {
	t.Helper()
	if s := l.status(); s.State != state || state != api.LimitOff && s.Missing != missing {
		t.Fatalf("%s: %q with %d missing, want %q with %d", step, s.State, s.Missing, state, missing)
	}
	if want := map[api.LimitState]float64{api.LimitOff: 1, api.LimitHeld: 1, api.LimitThrottled: throttledShare}[state]; l.share() != want {
		t.Fatalf("%s: share %v, want %v", step, l.share(), want)
	}
}

func TestDisruptionLimitHoldsAboveItsShare(t *testing.T) {
	for _, tt := range []struct {
		indices, lost int
		want          api.LimitState
	}{
		{100, 30, api.LimitOff},
		{100, 31, api.LimitHeld},
		{5, 3, api.LimitOff}, // the floor
		{5, 4, api.LimitHeld},
	} {
		t.Run(fmt.Sprintf("%d of %d", tt.lost, tt.indices), func(t *testing.T) {
			l := newLosses(tt.indices)
			l.loseIndices("n1", 0, tt.lost-1)
			l.check(t, "lost", tt.want, tt.lost)
		})
	}
}

func TestDisruptionLimitCountsWithinItsWindow(t *testing.T) {
	l := newLosses(100)
	l.loseIndices("n1", 0, 19)
	l.pass(41 * time.Second) // droplet_lost and a heartbeat period
	l.loseIndices("n2", 20, 39)
	l.check(t, "the first loss is older than the window", api.LimitOff, 0)
	l.pass(10 * time.Second)
	l.loseIndices("n3", 40, 59)
	l.check(t, "two losses within it", api.LimitHeld, 40)
}

func TestDisruptionLimitCountsOverdueNodes(t *testing.T) {
	l := newLosses(100)
	var beats []api.Beat
	for i := range 25 {
		beats = append(beats, api.Beat{App: "web", Instance: fmt.Sprint("i", i), Index: i, Version: "v1", State: api.CopyRunning})
	}
	if err := l.known.Heartbeat(l.clock.wall, message.Node{}, beat("late", beats...).Data); err != nil {
		t.Fatal(err)
	}
	l.pass(25 * time.Second)
	l.known.Tick(l.clock.wall)
	l.expect()
	l.watch()
	l.check(t, "overdue alone", api.LimitOff, 0)
	l.loseIndices("n1", 30, 39)
	l.check(t, "overdue beside a loss", api.LimitHeld, 10)
	if s := l.status(); s.Indices != 35 || s.Nodes != 2 {
		t.Errorf("held for %d indices of %d nodes, want 35 of 2", s.Indices, s.Nodes)
	}
}

// TestDisruptionLimitThrottledByProof: the limit is throttled after our own probe returned and
// another node sent a heartbeat. It ends when enough is back.
func TestDisruptionLimitThrottledByProof(t *testing.T) {
	l := newLosses(100)
	l.loseIndices("n1", 0, 49)
	l.probed = true
	l.watch()
	l.check(t, "only the probe", api.LimitHeld, 50)
	l.heartbeat(message.Node{Name: "n1"})
	l.pass(5 * time.Second)
	l.heartbeat(message.Node{Name: "n1"})
	l.watch()
	l.check(t, "a lost node, too soon", api.LimitHeld, 50)
	l.pass(5 * time.Second)
	l.heartbeat(message.Node{Name: "n1"})
	l.watch()
	l.check(t, "a lost node, a period later", api.LimitThrottled, 50)

	var back []int
	for i := range 35 {
		back = append(back, i)
	}
	l.watch(back...)
	l.check(t, "few enough are missing, others may follow", api.LimitThrottled, 15)
	l.pass(12 * time.Second)
	l.watch()
	l.check(t, "no node follows", api.LimitOff, 0)
}

func TestDisruptionLimitWaitsForReturningNodes(t *testing.T) {
	l := newLosses(100)
	l.loseIndices("n1", 0, 24)
	l.loseIndices("n2", 25, 49)
	l.probed = true
	l.heartbeat(message.Node{Name: "other"})
	l.watch()
	l.check(t, "proven", api.LimitThrottled, 50)
	if l.returning() {
		t.Error("returning before a lost node sent a heartbeat")
	}
	l.pass(time.Second)
	l.heartbeat(message.Node{Name: "n1"})
	if !l.returning() {
		t.Error("not returning after a lost node sent a heartbeat")
	}
	l.pass(12 * time.Second)
	if l.returning() {
		t.Error("returning a heartbeat period later")
	}
}

func TestDisruptionLimitReleased(t *testing.T) {
	l := newLosses(100)
	l.release(l.slots)
	l.loseIndices("n1", 0, 49)
	l.release(l.slots)
	l.check(t, "released", api.LimitOff, 0)
	l.watch()
	l.check(t, "what was lost counts no more", api.LimitOff, 0)
	var got []api.AppFindingKind
	for _, f := range l.journal.found {
		got = append(got, f.Kind)
	}
	if want := []api.AppFindingKind{api.AppFindingLimitHeld, api.AppFindingReleased}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
