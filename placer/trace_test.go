package placer

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/pools"
	provider "github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// pod is a piece of work of a trace.
type pod struct {
	name           string
	size           resource.Vector
	created, ended int // seconds
}

// readPods reads a list of pods with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, creation_time and deletion_time.
func readPods(path string) ([]pod, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	pods := make([]pod, 0, len(rows))
	for line, row := range rows[1:] {
		n := map[string]int{}
		for _, name := range []string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time"} {
			i, ok := column[name]
			if !ok {
				return nil, fmt.Errorf("%s has no column %s", path, name)
			}
			if n[name], err = strconv.Atoi(row[i]); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %w", path, line+2, name, err)
			}
		}
		pods = append(pods, pod{
			name:    row[column["name"]],
			size:    resource.Vector{float64(n["cpu_milli"]) / 1000, float64(n["memory_mib"]), 0, float64(n["num_gpu"]*n["gpu_milli"]) / 1000},
			created: n["creation_time"], ended: n["deletion_time"],
		})
	}
	return pods, nil
}

// samplePods returns made-up pods of a few shapes: most use a GPU or a part of one, some none, a few all of a machine, and one is
// too large for any machine.
func samplePods() (pods []pod) {
	shapes := []resource.Vector{
		{3, 6000, 0, 0.8}, {3, 6000, 0, 1}, {11, 48000, 0, 1}, {12, 46000, 0, 0.5}, {8, 30000, 0, 0.5}, {4, 24000, 0, 0.25}, {19, 64000, 0, 1},
		{13, 58000, 0, 0}, {32, 50000, 0, 0}, {8, 30000, 0, 0}, {2, 4000, 0, 0}, {16, 90000, 0, 2}, {48, 180000, 0, 4}, {90, 340000, 0, 8},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range testsize.Pick(600, 150) {
		p := pod{name: fmt.Sprint("pod", i), size: shapes[min(r.IntN(len(shapes)), r.IntN(len(shapes)))], created: r.IntN(30_000)}
		p.ended = p.created + 60 + int(r.ExpFloat64()*1500)
		pods = append(pods, p)
	}
	pods[0].size = resource.Vector{200, 6000, 0, 1}
	return pods
}

// traced is a pool of three kinds of machines for the pods of a trace, and what happens in it.
type traced struct {
	*autoscaled
	ticks   int
	removed map[string]int             // group -> tick of its latest removal
	needed  map[string]resource.Vector // group -> what all copies needed at that tick
	targets map[string]int             // group -> the latest order
	grown   int                        // tick of the latest new pod
	came    map[string]int             // app -> tick of its latest new copy
	since   map[slot]int               // tick from which a copy runs, or waits
	runs    map[slot]string            // the node of a copy
	counts  traceCounts
}

type traceCounts struct {
	removals, moved, regrown int
	renewed                  int           // orders soon after a removal of the group, without a larger sum of footprints
	forNew                   int           // the part of renewed for a copy that came after the removal
	evicted                  int           // copies that stopped without another place
	wait                     int           // the longest one of a copy that some machine can hold, in ticks
	unplaced                 int           // copies that ended before they had a place
	now, spent, most         time.Duration // processor time of placer and autoscaler: in this tick, in all, the most in one
	weights, least           float64       // sums over the ticks: weight, and that of the oracle
	peak                     snapshotOfTrace
}

// snapshotOfTrace is the pool at one time.
type snapshotOfTrace struct {
	copies   int
	machines string // by group
	weight   float64
	oracle   float64 // it packs largest first: a pool may be smaller
	volume   float64 // no pool is smaller
}

func (s snapshotOfTrace) String() string {
	return fmt.Sprintf("%d copies, %s, weight %v, oracle %.0f (volume %.0f)", s.copies, s.machines, s.weight, s.oracle, s.volume)
}

// newTraced returns an empty pool. Its machines are the three kinds that are most frequent in the list of nodes of the trace (1065 of
// 1523): 32 cpus without a GPU, 104 cpus with two, 96 cpus with eight. The weights are about their prices.
func newTraced(setpoint float64) *traced {
	w := &autoscaled{
		sim: &sim{now: time.Unix(1_700_000_000, 0).UTC(), rows: map[string]api.App{}, nodes: map[string]*simNode{}, saved: map[string]Assignments{}},
		r:   rand.New(rand.NewPCG(1, 7)), machines: map[string]resource.Vector{}, drains: map[string]api.Drain{}, tick: 10 * time.Second, lostNodes: map[string]bool{}, bySize: true, gpus: true,
	}
	w.c = newCore(Config{Cluster: "c", Pool: "p"}.WithDefaults(), "seed")
	w.c.loaded()
	const most = 20_000
	for i, kind := range []struct {
		size   resource.Vector
		weight float64
	}{{resource.Vector{32, 256 << 10, 0, 0}, 2}, {resource.Vector{104, 512 << 10, 0, 2}, 6}, {resource.Vector{96, 384 << 10, 0, 8}, 8}} {
		g := &sizedGroup{size: kind.size, weight: kind.weight, max: most, offered: true}
		g.Group = provider.New(provider.Config{
			ID: string(rune('a' + i)), Max: g.max, Join: 3 * w.tick, Leave: w.tick,
			Offers: []provider.Offer{{Market: pools.Market{InstanceType: "m", Zone: "z" + strconv.Itoa(i%2)}, Weight: g.weight}},
		}, w.now)
		w.groups = append(w.groups, g)
	}
	w.config = autoscaler.Config{
		Cluster: "c", Pool: "p", Tick: w.tick, Drain: drain.Config{Threshold: 5 * time.Minute}, OrphansAfter: 10 * time.Minute,
		Policy: api.DecisionPolicy{
			Setpoint: setpoint, MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum, Period: w.tick,
			Limits: api.TargetLimits{Max: 3 * most, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
		},
		Prune:   api.PruneLimits{MaxWeight: most, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: w.tick},
	}
	w.begin()
	out := &traced{autoscaled: w, removed: map[string]int{}, needed: map[string]resource.Vector{}, targets: map[string]int{}, since: map[slot]int{}, runs: map[slot]string{}, came: map[string]int{}}
	w.timed = func(run func()) {
		before := processor()
		run()
		out.counts.now += processor() - before
	}
	return out
}

// add adds n copies of a size to an app; n may be negative.
func (w *traced) add(name string, size resource.Vector, n int) {
	row := w.rows[name]
	row = api.App{
		Name: name, Pool: "p", Version: "v1", Command: "run", Instances: row.Instances + n,
		CPUs: size[resource.CPUs], Mem: size[resource.Mem], GPUs: size[resource.GPUs],
	}
	if n < 0 && w.held(size) && w.runs[slot{name, "v1", row.Instances}] == "" {
		w.counts.unplaced++
	}
	if w.setApp(row); n > 0 {
		w.grown, w.came[name] = w.ticks+1, w.ticks+1
	}
}

// observe runs a tick, and counts what happens in it.
func (w *traced) observe() {
	const soon = 30 // ticks
	w.ticks++
	w.counts.now = 0
	w.step()
	w.counts.spent += w.counts.now
	w.counts.most = max(w.counts.most, w.counts.now)
	for _, a := range w.last.Actions {
		switch a.Op {
		case api.OpRemove:
			w.counts.removals++
			w.removed[a.Group], w.needed[a.Group] = w.ticks, w.sum()
		case api.OpSetTarget:
			at, ended := w.removed[a.Group]
			again := ended && w.machinesFor(a.Group, a.Target) > w.machinesFor(a.Group, w.targets[a.Group]) && w.ticks-at <= soon
			if again && w.sum().Fits(w.needed[a.Group]) {
				w.counts.renewed++
				if w.neededByNew(a.Group, at) {
					w.counts.forNew++
				}
			}
			if again && w.grown < at {
				w.counts.regrown++
			}
			w.targets[a.Group] = a.Target
		}
	}
	w.follow()
}

// machinesFor returns how many machines a group has at a target. A target that rises by less than a machine orders none.
func (w *traced) machinesFor(group string, target int) int {
	i := slices.IndexFunc(w.groups, func(g *sizedGroup) bool { return g.ID() == group })
	return int(math.Ceil(float64(target) / w.groups[i].weight))
}

// neededByNew reports whether the first copy that needs a machine of the group came after a tick.
func (w *traced) neededByNew(group string, tick int) bool {
	return slices.ContainsFunc(w.last.Case.Places.Machines(), func(n api.PlacesNeed) bool {
		return n.Group == group && w.came[n.First[:strings.LastIndex(n.First, "/")]] > tick
	})
}

// follow counts what happened to the copies.
func (w *traced) follow() {
	runs := map[slot]string{}
	for id, n := range w.nodes {
		for _, c := range n.copies {
			if runs[c.slot] == "" || w.runs[c.slot] == id { // while it moves, the old one counts
				runs[c.slot] = id
			}
		}
	}
	for s, at := range runs {
		if was := w.runs[s]; was != at {
			if w.runs[s] = at; was != "" {
				w.counts.moved++
			}
		}
	}
	for s := range w.since {
		if w.rows[s.app].Instances <= s.index {
			delete(w.runs, s)
			delete(w.since, s)
		}
	}
	for name, row := range w.rows {
		for i := range row.Instances {
			s := slot{name, "v1", i}
			switch _, known := w.since[s]; {
			case runs[s] != "":
				w.since[s] = w.ticks
			case !known:
				w.since[s] = w.ticks - 1
			case w.held(row.Footprint()):
				w.counts.wait = max(w.counts.wait, w.ticks-w.since[s])
			}
			if w.runs[s] != "" && runs[s] == "" {
				w.counts.evicted++
				delete(w.runs, s)
			}
		}
	}
}

// snapshot returns the pool as it is now.
func (w *traced) snapshot() snapshotOfTrace {
	by := map[string]int{}
	for id := range w.nodes {
		by[id[:1]]++
	}
	s := snapshotOfTrace{machines: fmt.Sprint(by), weight: w.weight(), oracle: w.oracle()}
	for _, row := range w.rows {
		s.copies += row.Instances
	}
	for k, x := range w.sum() {
		most := 0.0 // of the resource, per weight
		for _, g := range w.groups {
			most = max(most, g.size[k]/g.weight)
		}
		if x > 0 {
			s.volume = max(s.volume, x/most)
		}
	}
	return s
}

// sum returns the footprints of all copies that some machine can hold.
func (w *traced) sum() (sum resource.Vector) {
	for _, row := range w.rows {
		if w.held(row.Footprint()) {
			sum = sum.Add(row.Footprint().Scale(float64(row.Instances)))
		}
	}
	return sum
}

// replay gives the pods to the pool in the order of the trace, each as an app of one copy, or pods of one size as an app. A tick is
// `perTick` seconds of the arrivals, and `life` seconds of what a pod lasts.
func (w *traced) replay(pods []pod, byShape bool, perTick, life int) {
	type change struct {
		at, n int
		pod   *pod
	}
	var changes []change
	pods = slices.SortedFunc(slices.Values(pods), func(a, b pod) int { return a.created - b.created })
	first := pods[len(pods)/20].created // those before it came long before
	last := (pods[len(pods)-1].created-first)/perTick + 50
	for i := range pods {
		p := &pods[i]
		from := max(0, p.created-first) / perTick
		changes = append(changes, change{from, 1, p}, change{min(last, from+1+max(0, p.ended-p.created)/life), -1, p})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at - b.at })
	end := changes[len(changes)-1].at
	for tick, i := 0, 0; tick <= end; tick++ {
		for ; i < len(changes) && changes[i].at == tick; i++ {
			c := changes[i]
			w.add(appOf(*c.pod, byShape), c.pod.size, c.n)
		}
		if w.observe(); tick%10 == 0 {
			w.sample()
		}
	}
}

// sample compares the weight with the oracle's.
func (w *traced) sample() {
	s := w.snapshot()
	w.counts.weights += s.weight
	w.counts.least += s.oracle
	if s.oracle > w.counts.peak.oracle {
		w.counts.peak = s
	}
}

func appOf(p pod, byShape bool) string {
	if byShape {
		return fmt.Sprintf("shape-%v-%v-%v", p.size[resource.CPUs], p.size[resource.Mem], p.size[resource.GPUs])
	}
	return p.name
}

// settle runs the pool until it rests, and reports copies without a place.
func (w *traced) settle() {
	for range 40 {
		w.observe()
	}
	for range 12 {
		if w.observe(); len(w.changed) > 0 {
			w.problem("changes at rest: %v", w.changed)
		}
	}
	never, waits := 0, w.waits()
	for _, s := range waits {
		if !w.held(w.rows[s.app].Footprint()) {
			never++
		}
	}
	if p := w.last.Case.Places; len(waits) != never || p.NeverCopies != never {
		w.problem("%d copies wait, %d of them fit on no machine; the scheduler names %d", len(waits), never, p.NeverCopies)
	}
}

// TestTrace gives the pods of a trace to a pool of three kinds of machines: first as they come and go, then all at once. Then a tenth
// of them ends at a time. Each pod is an app of one copy, or pods of one size are an app. TRACE is a file of pods; without it they are made up. Every
// pod that a machine can hold gets a place, and the others are named. No copy stops without another place. No group orders a
// machine soon after it ended one, unless there are more pods.
func TestTrace(t *testing.T) {
	if testprograms.WithoutRace(t, "placer") {
		return
	}
	pods, perTick := samplePods(), 60
	if path := os.Getenv("TRACE"); path != "" {
		var err error
		if pods, err = readPods(path); err != nil {
			t.Fatal(err)
		}
		perTick = 5000
	}
	for _, setpoint := range []float64{1, 0.8} {
		for _, byShape := range []bool{false, true} {
			t.Run(fmt.Sprintf("setpoint %v, by shape %v", setpoint, byShape), func(t *testing.T) {
				w := newTraced(setpoint)
				defer w.loop.Close()
				w.replay(pods, byShape, perTick, 30)
				w.report(t, "as they come and go")
				w = newTraced(setpoint)
				defer w.loop.Close()
				w.fillAndEmpty(t, pods, byShape)
			})
		}
	}
}

// TestScarceResource gives pods to a pool in which some machines have no GPU, others few, and the setpoint requires more GPUs than the
// copies need. The pool grows by machines that have many.
func TestScarceResource(t *testing.T) {
	t.Parallel()
	w := newTraced(0.8)
	defer w.loop.Close()
	w.add("learn", resource.Vector{4, 16_000, 0, 1}, 400)
	w.add("serve", resource.Vector{8, 60_000, 0, 0}, 200)
	w.settle()
	w.sample()
	w.report(t, "at rest")
	const most = 1.5 // 2.1 if all groups grow
	if part := w.weight() / w.oracle(); part > most {
		t.Errorf("the weight over the oracle's is %.2f", part)
	}
	w.add("learn", resource.Vector{4, 16_000, 0, 1}, -200)
	w.settle()
	w.report(t, "at rest with less")
	if part := w.weight() / w.oracle(); part > most {
		t.Errorf("with less, the weight over the oracle's is %.2f", part)
	}
}

// fillAndEmpty gives all pods to the pool at once, and takes them away in parts.
func (w *traced) fillAndEmpty(t *testing.T, pods []pod, byShape bool) {
	for _, p := range pods {
		w.add(appOf(p, byShape), p.size, 1)
	}
	w.settle()
	w.sample()
	w.report(t, "all at once, at rest")
	// With a lower setpoint, GPUs are the most used resource, and the oracle adds no weight of the kinds that the copies use.
	if most := 1.08 * w.counts.peak.oracle; w.config.Policy.Setpoint == 1 && w.weight() > most {
		t.Errorf("the weight is %v: want at most %v", w.weight(), most)
	}
	const parts = 10
	w.counts.weights, w.counts.least = 0, 0
	for part := range parts {
		for i := part; i < len(pods); i += parts {
			w.add(appOf(pods[i], byShape), pods[i].size, -1)
		}
		for range 10 {
			w.observe()
		}
		w.sample()
	}
	w.settle()
	w.report(t, "while a tenth of them ends at a time")
	if w.weight() > 0 {
		t.Errorf("the empty pool has a weight of %v", w.weight())
	}
}

func (w *traced) report(t *testing.T, title string) {
	c := w.counts
	t.Logf("%s: %d ticks, of a processor time of %v, at most %v", title, w.ticks, (c.spent / time.Duration(w.ticks)).Round(time.Microsecond), c.most.Round(time.Microsecond))
	t.Logf("  %d copies evicted, %d regrowths (%d orders soon after a removal with no larger sum, %d of them for a copy that came later); %d machines removed, %d copies moved; the longest wait %d ticks, %d pods ended before they had a place",
		c.evicted, c.regrown, c.renewed, c.forNew, c.removals, c.moved, c.wait, c.unplaced)
	if places := w.last.Case.Places; places.NeverCopies > 0 {
		t.Logf("  named as too large: %d; %s", places.NeverCopies, places.Never[0].NeverText())
	}
	t.Logf("  weight over the oracle's %.3f; peak: %v", c.weights/c.least, c.peak)
	if c.evicted+c.regrown > 0 {
		t.Errorf("%s: %d copies evicted, %d regrowths", title, c.evicted, c.regrown)
	}
	for _, p := range w.problems[:min(len(w.problems), 3)] {
		t.Error(p)
	}
	w.problems = nil
}

func processor() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
