package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

var dayStart = time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)

const (
	zoneA, zoneB, zoneC = "us-west-2a", "us-west-2b", "us-west-2c"

	// reaction is how many ticks the pool has for what receives a request of it.
	reaction = 5
	// excused is for how long a group that failed may be left aside: the longest
	// quarantine, and what it takes to see the failure and the end of it.
	excused = time.Hour + 3*dayTick
	// granularity is what weights above 1 leave of a target.
	granularity = 4
	// modifying is how long a fleet takes to be changed.
	modifying = time.Second
)

// dayGroup is one group of the pool. No two have a market in common.
type dayGroup struct {
	awsfake.ASG
	specs []awsfake.LaunchSpec // of a fleet
	stock int                  // of each of its markets
}

// dayGroups are 500 instances of the weight 750.
func dayGroups() []dayGroup {
	three, tags := []string{zoneA, zoneB, zoneC}, map[string]string{dayTag: dayOwner}
	return []dayGroup{
		{ASG: awsfake.ASG{
			Name: "even", Min: 40, Max: 260, Desired: 120, Zones: three, Types: []awsfake.Type{{Name: "m5.large"}}, ProtectNew: true,
		}},
		{ASG: awsfake.ASG{
			Name: "lone", Min: 10, Max: 160, Desired: 80, Zones: []string{zoneA}, Types: []awsfake.Type{{Name: "m4.large"}}, ProtectNew: true,
		}},
		{ASG: awsfake.ASG{
			Name: "mixed", Min: 0, Max: 300, Desired: 200, Zones: three, ProtectNew: true,
			Types: []awsfake.Type{{Name: "m5.xlarge", Weight: 2}, {Name: "m5.2xlarge", Weight: 4}},
		}},
		{ASG: awsfake.ASG{
			Name: "spot", Min: 20, Max: 300, Desired: 200, Zones: three, Spot: true, Types: []awsfake.Type{{Name: "c5.xlarge", Weight: 2}},
		}},
		{ASG: awsfake.ASG{Name: "sfr-day", Desired: 150, Tags: tags}, stock: 40, specs: []awsfake.LaunchSpec{
			{Type: "r5.large", Zone: zoneA, Weight: 1}, {Type: "r5.xlarge", Zone: zoneA, Weight: 2},
			{Type: "r5.large", Zone: zoneB, Weight: 1}, {Type: "r5.xlarge", Zone: zoneB, Weight: 2},
		}},
	}
}

// newDay returns a pool that is so many times as large, without a process.
func newDay(t testing.TB, seed uint64, scale int) *day {
	installations.take(t)
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: t.Name(), Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	d := &day{
		t: t, log: log, seed: seed, random: rand.New(rand.NewPCG(seed, 4)), js: b.JetStream(), store: &memory.Store{}, groups: dayGroups(), config: dayConfig(),
		server: awstest.New(t, awsfake.Config{Start: dayStart, Modify: modifying}), spikes: []spike{{3, 6.5, 170}, {14.5, 18, 220}},
		intent: map[string]bool{}, warned: map[string]bool{}, taken: map[string]bool{}, removed: map[string]bool{},
		chosen: map[string]bool{}, drains: map[string]api.Drain{}, reads: map[string]int{}, book: newBook(),
	}
	d.config.Policy.Limits.Max *= float64(scale)
	d.nodes = &dayNodes{server: d.server, seed: seed, cordoned: map[string]bool{}, tasks: map[string]int{}}
	bustest.Streams(t, d.js, dayCluster, 1, dayPool)
	if d.ledger, err = state.OpenLedger(t.Context(), d.js, dayCluster, dayPool); err != nil {
		t.Fatal(err)
	}
	if d.orders, err = state.OpenOrders(t.Context(), d.js, dayCluster, dayPool); err != nil {
		t.Fatal(err)
	}
	for _, g := range d.groups {
		g.Max, g.Desired, g.stock = g.Max*scale, g.Desired*scale, g.stock*scale
		for _, s := range g.specs {
			d.server.SetStock(awsfake.Market{Type: s.Type, Zone: s.Zone}, g.stock)
		}
		if g.specs != nil {
			d.server.AddFleet(awsfake.SpotFleet{ID: g.Name, Tags: g.Tags, Specs: g.specs, Target: g.Desired})
			continue
		}
		g.Tags = map[string]string{dayTag: dayOwner}
		d.server.AddGroup(g.ASG)
	}
	return d
}

// TestDayOfAPool holds a pool of 500 instances against the test server for a day, as
// real as can be: the AWS adapter over HTTP, the state and the ledger on NATS, three
// deaths of ours between any two calls. See check for what must hold.
func TestDayOfAPool(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "cmd/weir") {
		return
	}
	type part struct {
		seed   uint64
		length time.Duration
	}
	whole := part{1, 24 * time.Hour}
	for _, test := range testsize.Pick([]part{whole, {2, 11 * time.Hour}}, []part{whole}) {
		t.Run(fmt.Sprint("seed ", test.seed), func(t *testing.T) {
			t.Parallel()
			d := newDay(t, test.seed, 1)
			d.born()
			defer func() { d.life.buried() }()
			plan := d.program()
			for n := range int(test.length / dayTick) {
				d.server.Advance(dayStart.Add(time.Duration(n+1) * dayTick).Sub(d.server.Now()))
				d.nodes.pass()
				d.happen(plan, n+1)
				d.measure()
				d.round()
				if len(d.problems) > 0 {
					break
				}
			}
			d.finish(test.length == 24*time.Hour)
			for _, p := range d.problems {
				t.Error(p)
			}
		})
	}
}

// round is a tick. If the process dies in it, another one is there soon, and makes its
// first one.
func (d *day) round() {
	d.t.Helper()
	d.tick(d.server.QueueLength())
	if d.life.dead() {
		d.life.buried()
		d.deaths, d.killable = d.deaths+1, 0
		d.forgiven++
		d.server.Advance(time.Duration(1+d.random.IntN(60)) * time.Second)
		d.born()
		clear(d.book.raises)
		d.tick(0) // what the dead one has received comes again later
	}
}

// tick makes a tick, and handles the pending warnings.
func (d *day) tick(warnings int) {
	d.t.Helper()
	before, had := d.server.Now(), d.alive()
	d.appended = nil
	d.mu.Lock()
	clear(d.reads)
	d.mu.Unlock()
	for _, g := range d.groups {
		d.book.targets[g.Name] = d.server.Target(g.Name)
	}
	var err error
	if warnings > 0 {
		err = d.life.handleWarnings()
	} else {
		err = d.life.loop.Tick(d.life.ctx, before)
	}
	select {
	case <-d.life.wrote:
		d.records++
	default:
	}
	if d.life.dead() {
		d.life.running.Wait()
		d.life.front.CloseClientConnections()
		d.life.front.Close()
	} else if err != nil {
		d.problem("the tick has failed: %v", err)
	}
	d.check(before, had, warnings)
}

// program is what happens at which tick.
func (d *day) program() map[int][]func() {
	p := map[int][]func(){}
	at := func(hour float64, do func()) { n := int(hour * float64(time.Hour/dayTick)); p[n] = append(p[n], do) }
	at(1, func() { d.server.LagFor(15 * time.Second) })
	at(4, func() { d.setZone(0) })
	at(9.6, func() { d.setZone(-1) })
	at(6, func() { d.lowered = 20; d.server.SetTarget("even", max(40, d.server.Target("even")-20)) })
	at(8, func() { d.lowered = 0 })
	at(18, func() { d.server.SetTarget("mixed", min(300, d.server.Target("mixed")+30)) })
	at(19, func() { d.server.StartRefresh("lone") })
	at(11.5, func() {
		for range 12 {
			d.someone(false, d.server.Lose)
		}
	})
	at(12, func() {
		d.blind, d.misled = true, d.seed%2 == 1
		d.server.Throttle("TerminateInstances", 0)
	})
	at(13.5, func() { d.blind = false })
	at(14.8, func() { d.denied = "mixed"; d.server.Deny("SetDesiredCapacity", "mixed") })
	at(16.6, func() { d.denied = ""; d.server.Allow() })
	for n, action := range []string{
		"SetDesiredCapacity", "TerminateInstances", "DescribeAutoScalingGroups",
	} {
		hour := 1 + 7*float64(n) + 3*d.random.Float64()
		// A client that was throttled takes its time from then on, so the process dies
		// soon after; at the latest when nothing was throttled for a while.
		at(hour, func() { d.killable = 6 + d.random.IntN(60); d.server.Throttle(action, 3) })
		at(hour+2.5, func() {
			if d.server.Throttle(action, 0); d.killable > 0 {
				d.life.dieAfter(d.killable)
			}
		})
	}
	for _, action := range []string{"SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup", "ModifySpotFleetRequest", "TerminateInstances"} {
		at(1+20*d.random.Float64(), func() { d.server.Drop(action, 1) })
	}
	for range 12 {
		at(0.5+21*d.random.Float64(), func() { d.someone(true, d.interrupt) })
		at(0.5+21*d.random.Float64(), func() { d.someone(true, d.rebalance) })
	}
	for range 40 {
		at(0.5+21*d.random.Float64(), func() { d.someone(false, d.server.Lose) })
	}
	for range 3 {
		at(0.5+21*d.random.Float64(), func() { d.someone(false, d.remove) })
	}
	return p
}

func (d *day) happen(program map[int][]func(), tick int) {
	for _, do := range program[tick] {
		do()
	}
}

// setZone has zone a give that many more; less than 0: as ever.
func (d *day) setZone(more int) {
	d.out = more == 0
	for _, g := range d.groups {
		for _, m := range g.markets() {
			if m.Zone != zoneA {
				continue
			}
			if n := more; g.specs != nil && n < 0 {
				d.server.SetStock(m, g.stock)
			} else {
				d.server.SetStock(m, n)
			}
		}
	}
}

func (g dayGroup) markets() (out []awsfake.Market) {
	for _, s := range g.specs {
		out = append(out, awsfake.Market{Type: s.Type, Zone: s.Zone})
	}
	for _, t := range g.Types {
		for _, zone := range g.Zones {
			out = append(out, awsfake.Market{Type: t.Name, Zone: zone})
		}
	}
	return out
}

// someone does something to an instance that has been there for a while.
func (d *day) someone(spot bool, do func(id string)) {
	var ids []string
	for _, i := range d.server.Instances("") {
		_, leaves := d.drains[i.ID]
		if i.State == "running" && (i.Spot || !spot) && !leaves && d.server.Now().Sub(i.Launched) > 2*dayTick {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) > 0 {
		do(ids[d.random.IntN(len(ids))])
	}
}

func (d *day) interrupt(id string) { d.taken[id] = true; d.server.Interrupt(id) }
func (d *day) rebalance(id string) { d.warned[id] = true; d.server.Rebalance(id) }

func (d *day) remove(id string) {
	d.removed[id] = true
	note := api.Note{By: "operator", At: d.server.Now()}
	if err := d.orders.Remove(d.t.Context(), api.Removal{Note: note, Node: id}); err != nil {
		d.t.Fatal(err)
	}
}

// letGo is a node that was let go because the pool needs less, or it had not joined.
type letGo struct {
	at     time.Time
	weight float64
	tasks  int
	reason api.DrainReason
}

// put checks a drain record that was kept.
func (d *day) put(r api.Drain) {
	now, tasks := d.server.Now(), d.nodes.tasksOf(r.Node)
	d.mu.Lock()
	old, known := d.drains[r.Node]
	d.drains[r.Node] = r
	begins := r.State == api.DrainChosen && (!known || old.State == api.DrainReturning || old.State == api.DrainReturned)
	why := map[api.DrainReason]bool{
		api.DrainScaleIn: d.intent[r.Node], api.DrainOrphan: d.intent[r.Node], api.DrainRebalance: d.warned[r.Node],
		api.DrainSpot: d.taken[r.Node], api.DrainRemoval: d.removed[r.Node],
	}[r.Reason]
	if begins {
		d.chosen[r.Node] = d.chosen[r.Node] || r.Reason != api.DrainSpot
		if r.Reason == api.DrainScaleIn || r.Reason == api.DrainOrphan {
			d.released = append(d.released, letGo{now, r.Weight, tasks, r.Reason})
		} else {
			d.book.leaves += r.Weight
		}
		if r.Reason == api.DrainOrphan {
			d.book.leaves += r.Weight
		}
	}
	d.mu.Unlock()
	if begins && !why {
		d.problem("%s is drained for %q, which nobody has chosen it for", r.Node, r.Reason)
	}
	if r.State == api.DrainTerminating && !r.ProviderEnds && tasks > 0 && now.Before(r.Deadline) && old.State != api.DrainTerminating {
		d.problem("%s is ended with %d tasks before its deadline: %+v", r.Node, tasks, r)
	}
}

func (d *day) forgot(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.drains, node)
}

// alive is the weight that each group has.
func (d *day) alive() map[string]float64 {
	out := map[string]float64{}
	for _, i := range d.server.Instances("") {
		if i.State != "shutting-down" {
			out[i.Owner] += i.Weight
		}
	}
	return out
}

// committed is the weight that is on its way out though it is there still.
func (d *day) committed() map[string]float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]float64{}
	for _, i := range d.server.Instances("") {
		if r, ok := d.drains[i.ID]; ok && drain.IsCommitted(r) && i.State != "shutting-down" {
			out[i.Owner] += i.Weight
		}
	}
	return out
}

// book is what the checks remember from tick to tick.
type dayBook struct {
	ended             int             // endings that were checked
	terminated        map[string]bool // requested, and done
	raises            map[string][]time.Time
	targets           map[string]int       // before the tick
	short             map[string]int       // ticks in a row that a group has less than its target
	trouble           map[string]time.Time // when a group has failed last
	needed, can, lost []float64            // by tick
	leaves            float64              // weight that leaves in this tick though the pool needs no less
	healthy           float64              // target when the need was known last
	happened          map[string]int       // how often each thing happened
}

// count counts events for the report at the end.
func (d *day) count(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.happened[what]++
}

func newBook() dayBook {
	return dayBook{
		terminated: map[string]bool{}, raises: map[string][]time.Time{}, targets: map[string]int{}, short: map[string]int{},
		trouble: map[string]time.Time{}, happened: map[string]int{},
	}
}

// check checks what must hold after each tick, whole or cut off:
//
//   - no instance is ended twice, nor by Amazon's choice, nor without that a plan, an
//     order, the rule about orphans or a notice has chosen it;
//   - the groups are within their bounds;
//   - a tick reads everything once, and each batch of notices does;
//   - a group that cannot give receives a request once for each quarantine;
//   - what may be let go in a period and in a budget's window is not exceeded;
//   - every record comes out of its case again, byte for byte;
//   - the target does not fall while the metrics are stale;
//   - what was needed, could be had and was not lost through the last ticks is there.
func (d *day) check(at time.Time, had map[string]float64, warnings int) {
	d.checkCalls(at, had, warnings)
	lost := d.checkEndings()
	d.checkReleases()
	for _, g := range d.groups {
		if target := d.server.Target(g.Name); g.specs == nil && (target < g.Min || target > g.Max) {
			d.problem("group %s is to have %d: want %d to %d", g.Name, target, g.Min, g.Max)
		}
	}
	r := d.checkRecord()
	d.checkIgnorance(r)
	d.checkDemand(r, lost)
}

func (d *day) checkCalls(at time.Time, had map[string]float64, warnings int) {
	calls := d.server.Calls()
	for _, c := range calls[d.seen:] {
		d.count(c.Action + " " + c.Err)
		switch c.Action {
		case "TerminateInstanceInAutoScalingGroup", "TerminateInstances":
			for key, id := range c.Params {
				if !strings.HasPrefix(key, "InstanceId") || c.Err != "" {
					continue
				}
				// TerminateInstances may be repeated when its answer was lost: it lowers no target.
				if d.book.terminated[id] && (c.Action != "TerminateInstances" || d.forgiven == 0) {
					d.problem("%s is terminated twice", id)
				} else if d.book.terminated[id] {
					d.forgiven--
				}
				d.book.terminated[id] = true
			}
		case "SetDesiredCapacity":
			d.checkRaise(at, had, c.Params["AutoScalingGroupName"], c.Params["DesiredCapacity"])
		case "ModifySpotFleetRequest":
			d.checkRaise(at, had, c.Params["SpotFleetRequestId"], c.Params["TargetCapacity"])
		}
	}
	d.seen = len(calls)
	for _, action := range []string{"DescribeAutoScalingGroups", "DescribeSpotFleetRequests", "DescribeTags"} {
		d.mu.Lock()
		n := d.reads[action]
		d.mu.Unlock()
		if n > 1+2*warnings { // a warning may come twice
			d.problem("%d sequences of %s in one tick with %d warnings", n, action, warnings)
		}
	}
}

// dry reports whether a group can have no more than it has.
func (d *day) dry(g dayGroup) bool {
	zones := map[string]bool{}
	for _, m := range g.markets() {
		zones[m.Zone] = true
	}
	return d.denied == g.Name || d.out && len(zones) == 1 && zones[zoneA]
}

// checkRaise checks the quarantines of a group that is dry, by when it is requested
// more than it has.
func (d *day) checkRaise(at time.Time, had map[string]float64, group, target string) {
	n, err := strconv.Atoi(target)
	if err != nil {
		d.problem("group %s is asked for %q", group, target)
	}
	i := slices.IndexFunc(d.groups, func(g dayGroup) bool { return g.Name == group })
	before, wanted := d.book.raises[group], d.book.targets[group]
	again := len(before) > 0 && before[len(before)-1].Equal(at) // the answer was lost
	if !d.dry(d.groups[i]) || float64(n) <= had[group] || n <= wanted || again {
		return
	}
	d.book.raises[group] = append(before, at)
	if len(before) == 0 {
		return
	}
	least := min(5*time.Minute<<(len(before)-1), time.Hour)
	if after := at.Sub(before[len(before)-1]); after < least {
		d.problem("group %s has nothing, and is asked for %d (it has %v) for the %dth time, %v after the last one: want %v",
			group, n, had[group], len(before)+1, after, least)
	}
}

// checkEndings returns the weight that was lost.
func (d *day) checkEndings() (lost float64) {
	endings := d.server.Endings()
	for _, e := range endings[d.book.ended:] {
		lost += d.checkEnding(e)
	}
	d.book.ended = len(endings)
	if d.weights == nil {
		d.weights = map[string]float64{}
	}
	for _, i := range d.server.Instances("") {
		d.weights[i.ID] = i.Weight
	}
	return lost
}

// checkEnding returns the weight that was lost with one instance.
func (d *day) checkEnding(e awsfake.Ending) (lost float64) {
	d.count("end by " + string(e.By))
	switch e.By {
	case awsfake.ByTerminate, awsfake.ByGroup:
		if !d.chosen[e.Instance] {
			d.problem("%s of %s was ended, and nobody has chosen it", e.Instance, e.Owner)
		}
	case awsfake.ByScaleIn:
		d.problem("%s of %s was ended by Amazon's choice", e.Instance, e.Owner)
	default:
		return d.weights[e.Instance]
	}
	return 0
}

func (d *day) checkReleases() {
	d.mu.Lock()
	all := d.released
	d.mu.Unlock()
	c := d.config
	var weight, scaled float64
	tasks, now := 0, d.server.Now()
	for _, r := range slices.Backward(all) {
		age := now.Sub(r.at)
		if age < c.Policy.Period-dayTick/2 {
			weight += r.weight
			tasks += r.tasks
		}
		if age < c.Policy.Budgets[0].Within-dayTick/2 && r.reason == api.DrainScaleIn {
			scaled += r.weight
		}
	}
	if weight > c.Policy.Limits.MaxRemove+1e-9 || tasks > c.Prune.MaxTasks || scaled > c.Policy.Budgets[0].Weight+d.lowered+granularity {
		d.problem("a weight of %v with %d tasks let go within a period, %v within the budget's window", weight, tasks, scaled)
	}
}

// checkRecord returns the tick's record; nil without a record or a decision.
func (d *day) checkRecord() *api.TickRecord {
	if d.appended == nil {
		if !d.life.dead() {
			d.problem("the tick is not recorded")
		}
		return nil
	}
	var raw struct {
		Answer json.RawMessage `json:"result"`
	}
	var r api.TickRecord
	if err := json.Unmarshal(d.appended, &raw); err != nil {
		d.problem("record: %v", err)
	}
	if err := json.Unmarshal(d.appended, &r); err != nil {
		d.problem("record: %v", err)
	}
	for _, p := range r.Problems {
		d.count("problem: " + p[:min(len(p), 60)])
	}
	if r.Case == nil {
		d.count("failed: " + r.Failed)
		return nil
	}
	again, err := json.Marshal(resolve.Resolve(*r.Case).Result())
	if err != nil || !bytes.Equal(again, raw.Answer) {
		d.problem("the answer does not come out again (%v):\n%s\n%s", err, again, raw.Answer)
	}
	planned := map[string]bool{}
	for _, ids := range r.Result.Terminate {
		for _, id := range ids {
			planned[id] = true
		}
	}
	for _, a := range r.Actions {
		if a.Op == api.OpRemove && a.Error == "" && !planned[a.Node] && !d.removed[a.Node] && !d.warned[a.Node] && !d.taken[a.Node] {
			d.problem("%s was let go (%+v), and is not in the plan %v", a.Node, a, r.Result.Terminate)
		}
	}
	return &r
}

// checkIgnorance compares with the last target of when the need was known.
func (d *day) checkIgnorance(r *api.TickRecord) {
	if r == nil {
		return
	}
	opinions := 0
	for _, a := range r.Case.Input.Apps {
		if a.Opinion.Verdict == "value" {
			opinions++
		}
	}
	if opinions == len(dayApps) {
		have, leaving := r.Account.Sum(api.EntryPendingIncrease), d.committed()
		for _, g := range d.groups {
			have += float64(d.server.Target(g.Name)) - leaving[g.Name]
		}
		d.book.healthy = min(r.Result.Target, have)
		return
	}
	d.count("blind")
	if r.Result.Target < d.book.healthy-1e-9 {
		d.problem("no metrics, and the target is %v; it was %v", r.Result.Target, d.book.healthy)
	}
}

// checkDemand compares what is there and stays with what was needed and could be had
// in all of the last ticks.
func (d *day) checkDemand(r *api.TickRecord, lost float64) {
	alive, leaving, now := d.alive(), d.committed(), d.server.Now()
	var stays, can float64
	for _, g := range d.groups {
		stays += alive[g.Name] - leaving[g.Name]
		if d.book.short[g.Name]++; alive[g.Name]+granularity > float64(d.server.Target(g.Name)) {
			d.book.short[g.Name] = 0
		}
		busy := r != nil && slices.ContainsFunc(r.Snapshot.Groups, func(s api.GroupSnapshot) bool { return s.ID == g.Name && s.Busy != "" })
		if d.book.short[g.Name] > 1 || d.dry(g) || busy {
			d.book.trouble[g.Name] = now
		}
		if at, ok := d.book.trouble[g.Name]; ok && now.Sub(at) < excused {
			can += alive[g.Name] - leaving[g.Name]
		} else {
			can += d.most(g) - leaving[g.Name]
		}
	}
	need := min(d.load(now), d.config.Policy.Limits.Max) / (1 + dayMargin)
	if r == nil || d.blind {
		need = 0 // nothing could show it
	}
	b := &d.book
	b.needed, b.can, b.lost = append(b.needed, min(need, can)), append(b.can, can), append(b.lost, lost+b.leaves)
	b.leaves = 0
	if len(b.needed) < reaction {
		return
	}
	floor := slices.Min(b.needed[len(b.needed)-reaction:])
	for _, weight := range b.lost[len(b.lost)-reaction:] {
		floor -= weight
	}
	if stays < floor-granularity {
		d.problem("a weight of %v stays, and %v was needed and could be had for %d ticks: groups %v, leaving %v", stays, floor, reaction, alive, leaving)
	}
	if floor > 0 {
		d.count("demand checked")
	}
	if need > can {
		d.count("more needed than can be had")
	}
}

// most is what a group that is well can have.
func (d *day) most(g dayGroup) float64 {
	if g.specs == nil {
		return float64(g.Max)
	}
	sum := 0.0
	for _, s := range g.specs {
		if !d.out || s.Zone != zoneA {
			sum += float64(g.stock) * max(s.Weight, 1)
		}
	}
	return sum
}

// finish checks the ledger and, of a whole day, its end, which was calm.
func (d *day) finish(whole bool) {
	d.t.Logf("%d ticks recorded, %d deaths, %d let go", d.records, d.deaths, len(d.released))
	for _, what := range slices.Sorted(maps.Keys(d.book.happened)) {
		d.t.Logf("%6d %s", d.book.happened[what], what)
	}
	if len(d.problems) > 0 {
		return
	}
	kept := 0
	if err := d.ledger.Since(context.Background(), time.Time{}, func([]byte) error { kept++; return nil }); err != nil || kept != d.records {
		d.problem("%d records in the ledger (%v), want %d", kept, err, d.records)
	}
	if !whole {
		return
	}
	joined := 0.0
	for _, f := range d.nodes.Facts(d.server.Now()) {
		joined += f.Resources[0] / cpusPerWeight
	}
	need := d.load(d.server.Now())
	if joined < need/(1+dayMargin)-50 || joined > need*(1+2*dayMargin)+50 || d.deaths != 3 {
		d.problem("%v have joined, the need is %v; %d deaths", joined, need, d.deaths)
	}
}
