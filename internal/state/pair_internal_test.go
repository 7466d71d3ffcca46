package state

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	cpusOfNode = 4               // that a unit of weight offers
	beat       = 5 * time.Second // between two heartbeats of a node
	mostOfApp  = 6               // nodes that an app needs
)

// pair is one day of a pool with two autoscalers, a holder and a standby: two processes over one
// bucket and one provider, in virtual time.
type pair struct {
	ctx       context.Context
	r         *rand.Rand
	began     time.Time
	model     *model
	config    autoscaler.Config
	ttl       time.Duration
	groups    []*cloud.Group
	shortages bool // groups may be short, or refuse
	others    others
	work      work
	resting   bool    // all is well, and copies that get a place end
	heaviest  float64 // weight of a machine
	lag       int     // reads that show the group as it was before a write of another
	processes []*process
	gone      []*process // killed ones, whose requests may still arrive
	uncut     map[*process]time.Time
	steps     int
	logs      bool

	mu      sync.Mutex
	apps    map[string]*app // without the default signal
	standIn app             // the default signal
	tasks   map[string]int
	// scheduled: a scheduler answers where copies fit.
	scheduled bool
	cordoned  map[string]bool
	// cordonedBy has the last accepted request of each node.
	cordonedBy map[string]pools.Sequence
	needs      []need
	broken     string
	log        []string
	takeovers  int
	chosen     int
	acts       int
	raises     int
	lowered    int
	lowest     int     // of the sums of all targets so far
	lost       float64 // weight of the machines that the provider lost
	lostAt     time.Time
}

// app is what one application needs, and what its signal makes of it.
type app struct {
	demand  int // nodes
	mode    mode
	valueAt time.Time // when the last value was answered
	value   int
}

// mode is how a signal answers.
type mode int

const (
	value     mode = iota
	noOpinion      // it has no opinion
	stale
	failing
	hanging
	modes
)

func newPair(ctx context.Context, seed uint64) *pair {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &pair{
		ctx: ctx, r: r, began: time.Now(), model: newModel(), ttl: DefaultTTL, shortages: r.IntN(2) == 0, others: newOthers(seed), work: newWork(seed), scheduled: seed%2 == 0,
		tasks: map[string]int{}, cordoned: map[string]bool{}, cordonedBy: map[string]pools.Sequence{}, uncut: map[*process]time.Time{}, standIn: app{demand: 1}, lowest: math.MaxInt,
		apps: map[string]*app{"mail": {demand: 1 + r.IntN(mostOfApp)}, "web": {demand: 1 + r.IntN(mostOfApp)}},
	}
	offers := [][]float64{{1}, {1}, {2}, {0.5}, {1, 2}, {2.5, 1}}[r.IntN(6)]
	w.lag = max(0, r.IntN(5)-2)
	for _, id := range []string{"a", "b", "c"} {
		c := cloud.Config{ID: id, Min: max(0, r.IntN(3)-1), Max: 12, Target: 2, Join: 20 * time.Second, Leave: 20 * time.Second, Boot: 20 * time.Second, Lag: w.lag}
		for _, weight := range offers {
			c.Offers = append(c.Offers, cloud.Offer{Market: pools.Market{InstanceType: "m", Zone: "zone-a"}, Weight: weight})
			w.heaviest = max(w.heaviest, weight)
		}
		w.groups = append(w.groups, cloud.New(c, w.began))
	}
	tick := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}[r.IntN(3)]
	signal := func(app string) ask.Signal {
		return ask.Signal{App: app, Name: "Need", Period: tick, HoldFor: tick * time.Duration(r.IntN(4))}
	}
	w.config = autoscaler.Config{
		Cluster: "here", Pool: "web", Tick: tick, Drain: drain.Config{Threshold: time.Minute, Force: true}, OrphansAfter: 2 * time.Minute,
		Drift: []autoscaler.Drift{autoscaler.Obey, autoscaler.Correct}[r.IntN(2)],
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Period: tick,
			Limits: api.TargetLimits{Min: 2, Max: 10 + float64(r.IntN(10)), MaxAdd: api.Unlimited, MaxRemove: []float64{1, 3, api.Unlimited}[r.IntN(3)]},
		},
		Prune:   api.PruneLimits{MaxWeight: 3 + 3*float64(r.IntN(2)), MaxTasks: api.Unbounded},
		Default: signal(sigproto.DefaultApp), Apps: []ask.Signal{signal("mail"), signal("web")},
	}
	w.work.limits(&w.config.Policy, tick)
	return w
}

func (w *pair) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *pair) noteLocked(format string, args ...any) {
	if w.logs {
		w.log = append(w.log, fmt.Sprintf("%9v  ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// evaluate answers as the signal of an app does now.
func (w *pair) evaluate(ctx context.Context, name string) (sigproto.Response, error) {
	w.mu.Lock()
	of := w.apps[name]
	if of == nil {
		of = &w.standIn
	}
	now, demand := of.mode, of.demand
	w.mu.Unlock()
	switch now {
	case noOpinion:
		return sigproto.Response{Verdict: sigproto.VerdictNoOpinion}, nil
	case stale:
		return sigproto.Response{Verdict: sigproto.VerdictStale}, nil
	case failing:
		return sigproto.Response{}, errors.New("no metrics")
	case hanging:
		<-ctx.Done()
		return sigproto.Response{}, ctx.Err()
	}
	return sigproto.Response{Resources: sigproto.Resources{CPUs: new(float64(demand * cpusOfNode))}, Verdict: sigproto.VerdictValue}, nil
}

// cordon cordons a node as its agent does: a late request is rejected.
func (w *pair) cordon(node string, on bool, at pools.Sequence) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Before(w.cordonedBy[node]) {
		return errors.New("a later request was accepted")
	}
	w.cordonedBy[node], w.cordoned[node] = at, on
	return nil
}

// report is what all nodes report.
func (w *pair) report() (all []api.NodeFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		for _, i := range w.real(g).Instances {
			boot := g.Boot(i.ID)
			if boot == "" {
				continue
			}
			if w.cordoned[i.ID] && w.tasks[i.ID] > 0 {
				w.tasks[i.ID]--
			}
			all = append(all, api.NodeFacts{
				ID: i.ID, Pool: "web", Group: i.Group, At: time.Now(), BootID: boot, Draining: w.cordoned[i.ID], SafeToEvict: !w.work.unsafe[i.ID],
				Resources: resource.Vector{resource.CPUs: cpusOfNode * i.Weight, resource.Mem: 1000},
				Allocated: resource.Vector{resource.CPUs: float64(w.tasks[i.ID])}, Tasks: w.tasks[i.ID], BatchTasks: min(w.work.batch[i.ID], w.tasks[i.ID]),
			})
		}
	}
	return all
}

// step lets the time of a heartbeat pass, and the cloud and the bus with it.
func (w *pair) step() {
	wait(w.ctx, beat)
	w.steps++
	for _, g := range w.groups {
		g.Advance(time.Now())
	}
	facts := w.report()
	w.placeWaiting(facts)
	for _, p := range w.processes {
		if until, cut := w.uncut[p]; cut && time.Now().After(until) {
			delete(w.uncut, p)
			p.set(func(p *process) { p.cut = false })
		}
		p.hear(facts)
		if w.steps%4 == 0 {
			p.follow()
		}
		p.arrive()
	}
	for _, p := range w.gone {
		if w.r.IntN(4) == 0 {
			p.arrive()
		}
	}
}

// seconds draws a time.
func (w *pair) seconds(most int) time.Duration { return time.Duration(1+w.r.IntN(most)) * time.Second }

// cut cuts a process off the bus for some time.
func (w *pair) cut(p *process) {
	w.uncut[p] = time.Now().Add(w.seconds(90))
	p.set(func(p *process) { p.cut = true })
	w.note("%s is cut off until %v", p.name, w.uncut[p].Sub(w.began))
}

// happen lets something happen to the processes.
func (w *pair) happen() {
	i := w.r.IntN(2)
	p := w.processes[i]
	switch w.r.IntN(8) {
	case 0, 1:
		w.cut(p)
	case 2:
		w.cut(w.processes[0])
		w.cut(w.processes[1])
	case 3, 4:
		d := w.seconds(40)
		w.note("%s is stopped for %v", p.name, d)
		p.set(func(p *process) { p.stopped = time.Now().Add(d) })
	case 5:
		w.restart(i)
	case 6:
		n := w.r.IntN(6)
		p.set(func(p *process) { p.behind = n })
		w.note("%s reads the bucket up to %d changes late", p.name, n)
	case 7:
		p.set(func(p *process) { p.slow = !p.slow })
	}
}

// restart kills a process, and starts it again.
func (w *pair) restart(i int) {
	p := w.processes[i]
	w.note("%s is killed", p.name)
	p.kill()
	p.done.Wait()
	p.set(func(p *process) { p.cut = false })
	delete(w.uncut, p)
	w.gone = append(w.gone, p)
	w.processes[i] = w.start(p.name)
}

// change lets something happen to the groups.
func (w *pair) change() {
	g := w.groups[w.r.IntN(len(w.groups))]
	name := []string{"mail", "web"}[w.r.IntN(2)]
	var ids []string
	for _, i := range w.real(g).Instances {
		if i.State == api.InstanceRunning {
			ids = append(ids, i.ID)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.others.act && w.others.r.IntN(3) == 0 {
		w.byOthers(g)
		return
	}
	if w.work.r.IntN(4) == 0 {
		w.changeWork(ids)
		return
	}
	switch what := w.r.IntN(10); {
	case what <= 2:
		w.apps[name].demand = 1 + w.r.IntN(mostOfApp)
		w.noteLocked("%s needs %d", name, w.apps[name].demand)
	case what <= 4:
		w.apps[name].mode = mode(w.r.IntN(int(modes)))
		w.noteLocked("the signal of %s is in mode %d", name, w.apps[name].mode)
	case what == 5:
		w.standIn.mode = mode(w.r.IntN(int(modes)))
	case what == 6 && len(ids) > 0:
		w.tasks[ids[w.r.IntN(len(ids))]] = w.r.IntN(4)
	case what == 7 && len(ids) > 0:
		g.Lose(ids[w.r.IntN(len(ids))])
		w.lost, w.lostAt = w.lost+w.heaviest, time.Now()
	case what == 8:
		g.Drop([]cloud.Operation{cloud.SetTarget, cloud.Terminate}[w.r.IntN(2)], 1)
	case what == 9 && w.shortages && w.r.IntN(2) == 0:
		g.Stock(float64(w.r.IntN(12)))
	case what == 9 && w.shortages:
		op := []cloud.Operation{cloud.SetTarget, cloud.Terminate}[w.r.IntN(2)]
		g.Refuse(op, []error{nil, pools.ErrRefused, pools.ErrThrottled}[w.r.IntN(3)])
	}
}

// rest lets all be well, and requires that the pool comes to what it is to be.
func (w *pair) rest() {
	w.note("all is well from now on")
	for _, p := range w.processes {
		p.set(func(p *process) { p.cut, p.slow, p.behind, p.stopped = false, false, 0, time.Time{} })
		delete(w.uncut, p)
	}
	for _, g := range w.groups {
		g.Stock(36)
		g.Refuse(cloud.SetTarget, nil)
		g.Refuse(cloud.Terminate, nil)
		g.Drop(cloud.SetTarget, 0)
		g.Drop(cloud.Terminate, 0)
	}
	w.mu.Lock()
	w.restWork()
	clear(w.others.hidden)
	clear(w.others.stale)
	clear(w.others.unread)
	for _, a := range w.apps {
		a.mode = value
	}
	w.mu.Unlock()
	why := ""
	for range 2 {
		for deadline := time.Now().Add(90 * time.Minute); time.Now().Before(deadline); {
			w.step()
			if why = w.unrest(); why == "" {
				return
			}
		}
		// A record whose writer got no answer is in the bucket, and unknown to the writer. The next
		// term follows it.
		w.restart(0)
		w.restart(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breach("the pool does not come to rest: %s", why)
}

// unrest returns the differences from the state at rest.
func (w *pair) unrest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	limits, need, weight, floor := w.config.Policy.Limits, 0.0, 0.0, 0.0
	for _, a := range w.apps {
		need += float64(a.demand)
	}
	need = min(max(need, limits.Min), limits.Max)
	for _, g := range w.groups {
		s := w.real(g)
		floor += float64(s.Min)
		for _, i := range s.Instances {
			if i.State != api.InstanceRunning {
				return i.ID + " is " + string(i.State)
			}
			if weight += i.Weight; w.cordoned[i.ID] {
				return i.ID + " is cordoned"
			}
		}
	}
	if w.unplaced() {
		return fmt.Sprintf("copies wait: %+v", w.work.waiting)
	}
	if left := w.leaving(); left > 0 {
		return fmt.Sprintf("nodes of the weight %v are leaving: %s", left, w.recordsText())
	}
	if weight < need || w.heaviest <= 1 && weight > max(need, floor)+w.heaviest {
		return fmt.Sprintf("nodes of the weight %v run, %v are needed", weight, need)
	}
	return ""
}

// day plays one day, and returns what must not be; empty: all was well.
func (w *pair) day(end context.CancelFunc) string {
	w.processes = []*process{w.start("first"), w.start("second")}
	w.note("groups%s; weights up to %v, reads up to %d writes late", w.groupsText(), w.heaviest, w.lag)
	for range 30 + w.r.IntN(60) {
		switch w.r.IntN(8) {
		case 0:
			w.happen()
		case 1, 2:
			w.change()
		}
		w.step()
		if w.broken != "" {
			break
		}
	}
	if w.broken == "" {
		w.rest()
	}
	end()
	for _, p := range w.processes {
		p.done.Wait()
	}
	return w.broken
}

// playPair plays the day of a seed.
func playPair(t *testing.T, seed uint64, logs bool) (w *pair) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		w = newPair(ctx, seed)
		w.logs = logs
		w.day(end)
	})
	return w
}

// fromEnv returns the value of an environment variable, or another if it is not set.
func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: want a number", name, text)
	}
	return n
}

// TestTwoAutoscalers plays days of a pool with two autoscalers. The bus is cut for one or both.
// Processes are stopped between reading and acting, killed and started. The bucket is read late.
// Requests and answers are lost or arrive late. Signals fail, and groups are short of capacity. A
// human changes targets, and groups are hidden, stale or unreadable. Copies wait for a place, nodes are not safe to evict, an
// operator pins the target, and cooldowns and limits hold back the changes.
// No rule in pairoracle_internal_test.go may be broken, and the pool must settle. SOAK is the number of
// days, FROM the first seed. SEED=n plays one day and prints its events.
func TestTwoAutoscalers(t *testing.T) {
	if testprograms.WithoutRace(t, "internal/state") {
		return
	}
	if os.Getenv("SEED") != "" {
		w := playPair(t, fromEnv(t, "SEED", 0), true)
		t.Log(strings.Join(w.log, "\n"))
		if w.broken != "" {
			t.Fatal(w.broken)
		}
		return
	}
	days, from := fromEnv(t, "SOAK", testsize.Pick[uint64](300, 60)), fromEnv(t, "FROM", 0)
	var takeovers, chosen, raises, lowered int
	for seed := from; seed < from+days; seed++ {
		w := playPair(t, seed, false)
		if w.broken != "" {
			t.Fatalf("day %d: %s; SEED=%d go test -run 'TestTwoAutoscalers$' -v ./internal/state shows its events", seed, w.broken, seed)
		}
		takeovers, chosen, raises, lowered = takeovers+w.takeovers, chosen+w.chosen, raises+w.raises, lowered+w.lowered
	}
	t.Logf("%d days: %d takeovers, %d nodes chosen, %d targets raised, %d lowered", days, takeovers, chosen, raises, lowered)
	if takeovers == 0 || chosen == 0 || raises == 0 || lowered == 0 {
		t.Error("the days show nothing")
	}
}
