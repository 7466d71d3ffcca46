package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// health is a node-health policy.
type health struct {
	mu          sync.Mutex
	condition   snapshot.Condition
	told        []drain.Event
	repairCalls []pools.InPlaceRepair // of all calls of Mend
	workflow    func(pools.InPlaceRepair) (done bool, err error)
}

func (h *health) Condition() snapshot.Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.condition
}

func (h *health) Drained(events []drain.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, events...)
}

func (h *health) RepairInPlace(m pools.InPlaceRepair) (done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repairCalls = append(h.repairCalls, m)
	return h.workflow(m)
}

func (h *health) set(c snapshot.Condition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.condition = c
}

// last returns the newest event of an attempt.
func (h *health) last(attempt string) drain.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Backward(h.told) {
		if e.Attempt == attempt {
			return e
		}
	}
	return drain.Event{}
}

// guarded returns a steady pool with a node-health policy, under the test's time.
func guarded(t *testing.T, targets ...int) (*world, *health, *need) {
	t.Helper()
	w, _, web := steady(t, targets...)
	h := &health{}
	w.health = h
	w.clock = func() time.Time { return w.now }
	w.now = w.now.Add(30 * time.Second)
	w.tick()
	return w, h, web
}

func (w *world) repair(node, attempt string, kind api.RepairKind, hold bool) pools.RepairRequest {
	r := pools.RepairRequest{Node: node, Attempt: attempt, Hold: hold, Deadline: w.now.Add(15 * time.Minute), Why: "it is sick"}
	if kind != "" {
		r.RepairInPlace = &pools.InPlaceRepair{Kind: kind}
	}
	return r
}

// beginRepair makes the loop handle one repair, as Run does.
func (w *world) beginRepair(r pools.RepairRequest) error {
	w.t.Helper()
	answer, err := w.loop.repair(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

// A replaced node leaves, and another one comes, once. It is drained if it reports, and ended at
// once if not. With hold, the replacement comes first. The same holds when the need is unknown.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		for _, hold := range []bool{false, true} {
			t.Run(fmt.Sprintf("silent %t, hold %t", silent, hold), func(t *testing.T) {
				t.Parallel()
				w, h, _ := guarded(t, 3)
				w.groups[0].Group = slowly(w)
				w.nodes.groups = w.groups
				w.start()
				w.health, w.clock = h, func() time.Time { return w.now }
				w.tick()
				w.nodes.change(func(n *nodes) { n.mute["a-2"], n.tasks["a-2"] = silent, 1 })
				w.tick()
				if err := w.beginRepair(w.repair("a-2", "attempt-1", "", hold)); err != nil {
					t.Fatal(err)
				}
				least := 3
				for range 8 {
					w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
					w.tick()
					least = min(least, len(w.instances()))
				}
				w.wantInstances("a-1", "a-3", "a-4")
				w.wantTarget(3)
				w.wantBalanced()
				if hold && least < 3 {
					t.Errorf("there were %d instances meanwhile, want 3 at least", least)
				}
				if e := h.last("attempt-1"); e.To != api.DrainGone || e.Reason != api.DrainRepair || e.Failed != "" {
					t.Errorf("the last that was told is %+v", e)
				}
			})
		}
	}
}

// slowly returns a group of three that take 90 s to start.
func slowly(w *world) *cloud.Group {
	return cloud.New(cloud.Config{ID: "a", Max: 100, Target: 3, Join: 90 * time.Second, Boot: 90 * time.Second}, w.now.Add(-time.Hour))
}

// In a group at its maximum no replacement can be launched first. That is returned at once. Without
// hold, the node is replaced.
func TestRepairWithoutRoom(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: 3, Target: 3}, w.now.Add(-time.Hour))
	w.nodes.groups = w.groups
	w.start()
	w.health, w.clock = h, func() time.Time { return w.now }
	w.tick()
	w.tick()
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); !errors.Is(err, pools.ErrNoRoom) {
		t.Fatalf("Repair = %v, want %v", err, pools.ErrNoRoom)
	}
	w.wantBalanced()
	if len(w.records.stored) > 0 {
		t.Errorf("records %v: want nothing begun", w.records.stored)
	}
	if err := w.beginRepair(w.repair("a-2", "attempt-2", "", false)); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
	w.wantTarget(3)
}

// A node at the minimum of its group that waits for its replacement gets one.
func TestRepairAtTheMinimum(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Min: 3, Max: 10, Target: 3}, w.now.Add(-time.Hour))
	w.nodes.groups = w.groups
	w.start()
	w.health, w.clock = h, func() time.Time { return w.now }
	w.tick()
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
		t.Fatal(err)
	}
	least := 3
	for range 8 {
		w.tick()
		least = min(least, len(w.instances()))
	}
	w.wantInstances("a-1", "a-3", "a-4")
	w.wantTarget(3)
	w.wantBalanced()
	if least < 3 {
		t.Errorf("there were %d instances meanwhile, want 3 at least", least)
	}
}

// A pool at its maximum size gets a replacement beside the node, and has its old size at the end.
func TestRepairOfALargestPool(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 3)
	w.config.Policy.Limits.Max = 3
	w.reconfigure()
	w.tick()
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
	w.wantTarget(3)
}

// If no node reports for a while, that has no meaning for a node under repair: its tasks are still
// waited for.
func TestRepairWhileNoNodeReports(t *testing.T) {
	t.Parallel()
	for _, target := range []int{3, 1} {
		t.Run(fmt.Sprint("of ", target), func(t *testing.T) {
			t.Parallel()
			w, _, _ := guarded(t, target)
			w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 9 })
			w.tick()
			if err := w.beginRepair(w.repair("a-1", "attempt-1", "", false)); err != nil {
				t.Fatal(err)
			}
			w.tick()
			everybody := func(mute bool) {
				w.nodes.change(func(n *nodes) {
					for i := range 9 {
						n.mute[fmt.Sprint("a-", i)] = mute
					}
				})
			}
			everybody(true)
			w.tick()
			w.tick()
			if !slices.Contains(w.instances(), "a-1") {
				t.Error("it is ended with its tasks, as nobody is heard")
			}
			everybody(false)
			w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 0 })
			for range 4 {
				w.tick()
			}
			if slices.Contains(w.instances(), "a-1") {
				t.Errorf("it is there still: %v", w.instances())
			}
		})
	}
}

// The only node of a pool is silent from the start: it is replaced.
func TestRepairOfTheOnlyNode(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 1)
	w.nodes.change(func(n *nodes) { n.mute["a-1"] = true })
	w.tick()
	if err := w.beginRepair(w.repair("a-1", "attempt-1", "", false)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.tick()
	}
	w.wantInstances("a-2")
}

// A node whose replacement does not join stays, and the pool keeps its size.
func TestRepairWithoutReplacement(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	w.groups[0].Stock(3)
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
		t.Fatal(err)
	}
	for range 14 {
		w.tick()
		if !slices.Contains(w.instances(), "a-2") || w.nodes.cordoned["a-2"] {
			t.Fatal("it is gone, or cordoned, before its replacement has come")
		}
	}
	w.groups[0].Stock(100)
	for range 80 { // beyond the group's backoff
		w.tick()
	}
	w.wantInstances("a-1", "a-2", "a-3")
	w.wantTarget(3)
	if e := h.last("attempt-1"); e.To != api.DrainReturned || e.Failed != "its replacement did not come" {
		t.Errorf("the last that was told is %+v", e)
	}
	w.wantBalanced()
}

// Another unhealthy node does not block a replacement.
func TestRepairBesideAnUnhealthyNode(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	h.set(snapshot.Condition{Unhealthy: map[string]string{"a-2": "silent", "a-3": "silent"}})
	w.nodes.change(func(n *nodes) { n.mute["a-2"], n.mute["a-3"] = true, true })
	w.tick()
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
}

// An unhealthy replacement does not count.
func TestRepairWithAnUnhealthyReplacement(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", true)); err != nil {
		t.Fatal(err)
	}
	h.set(snapshot.Condition{Unhealthy: map[string]string{"a-2": "silent", "a-4": "its disk is full"}})
	for range 4 {
		w.tick()
	}
	w.wantInstances("a-1", "a-2", "a-3", "a-4")
	h.set(snapshot.Condition{Unhealthy: map[string]string{"a-2": "silent"}})
	for range 4 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
}

// A repair continues between two ticks.
func TestRepairsGoOnBetweenTicks(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	w.config.Tick = 10 * time.Minute
	w.reconfigure()
	w.tick()
	if err := w.beginRepair(w.repair("a-2", "attempt-1", api.RepairReboot, false)); err != nil {
		t.Fatal(err)
	}
	if !w.loop.writer.Tending() {
		t.Fatal("a repair is under way, and nobody tends it")
	}
	for range 5 {
		w.now = w.now.Add(apply.TendEvery)
		w.groups[0].Advance(w.now)
		if err := w.loop.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if e := h.last("attempt-1"); e.To != api.DrainReturned || e.Failed != "" || w.loop.writer.Tending() {
		t.Errorf("the last that was told is %+v", e)
	}
}

// A node that has not reported yet does not count as silent.
func TestRepairWaitsForTheFirstReport(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 3)
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 9 })
	if err := w.beginRepair(w.repair("a-2", "attempt-1", "", false)); err != nil {
		t.Fatal(err)
	}
	w.tick()
	w.nodes.change(func(n *nodes) { n.mute["a-2"] = true })
	w.start()
	w.clock = func() time.Time { return w.now }
	w.tick()
	if !slices.Contains(w.instances(), "a-2") {
		t.Error("it is ended by a process that has not listened for long")
	}
	w.tick()
	if slices.Contains(w.instances(), "a-2") {
		t.Error("it is there still, and nobody hears it")
	}
}

// A node under in-place repair is drained, repaired and in service again, and no replacement is
// ordered.
func TestRepairInPlace(t *testing.T) {
	t.Parallel()
	w, h, _ := guarded(t, 3)
	if err := w.beginRepair(w.repair("a-2", "attempt-1", api.RepairReboot, false)); err != nil {
		t.Fatal(err)
	}
	r := w.tick()
	i := slices.IndexFunc(r.Case.Nodes, func(c api.Candidate) bool { return c.ID == "a-2" })
	if i < 0 || !r.Case.Nodes[i].Repairing || r.Case.Input.Capacity.Target != 3 {
		t.Errorf("the case has %+v, target %v: want it there, and mended", r.Case.Nodes, r.Case.Input.Capacity.Target)
	}
	for range 5 {
		w.tick()
	}
	w.wantInstances("a-1", "a-2", "a-3")
	w.wantTarget(3)
	w.wantCalls()
	if w.nodes.cordoned["a-2"] || w.groups[0].Boot("a-2") != "a-2-boot-2" || len(w.records.stored) > 0 {
		t.Errorf("cordoned %t, boot %q, records %s", w.nodes.cordoned["a-2"], w.groups[0].Boot("a-2"), w.records.stored)
	}
	if e := h.last("attempt-1"); e.To != api.DrainReturned || e.Failed != "" {
		t.Errorf("the last that was told is %+v", e)
	}
	w.wantBalanced()
}

// A workflow is an in-place repair. Its node is cordoned and empty when the workflow begins, counts
// as out of service, and is in service again after the workflow.
func TestWorkflowIsARepairInPlace(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"done": nil, "failed": fmt.Errorf("%w: no luck", pools.ErrRepairFailed)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h, _ := guarded(t, 3)
			w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
			ends := false
			h.workflow = func(m pools.InPlaceRepair) (bool, error) {
				if m.Kind != api.RepairWorkflow || m.Instance != "a-2" || m.Attempt != "attempt-1" {
					t.Errorf("Mend(%+v)", m)
				}
				if !ends {
					return false, nil
				}
				return failure == nil, failure
			}
			if err := w.beginRepair(w.repair("a-2", "attempt-1", api.RepairWorkflow, false)); err != nil {
				t.Fatal(err)
			}
			w.tick()
			if !w.nodes.cordoned["a-2"] || len(h.repairCalls) > 0 {
				t.Errorf("cordoned %t, %d calls: want a cordon, and no workflow while there is a task", w.nodes.cordoned["a-2"], len(h.repairCalls))
			}
			w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
			for range 3 {
				w.tick()
			}
			if !w.nodes.cordoned["a-2"] || len(h.repairCalls) < 2 {
				t.Errorf("cordoned %t, %d calls: want the workflow under way", w.nodes.cordoned["a-2"], len(h.repairCalls))
			}
			h.set(snapshot.Condition{Budget: disruption.Budget{Limit: 1}})
			w.tick()
			if err := w.beginRepair(w.repair("a-3", "attempt-2", api.RepairReboot, false)); !errors.Is(err, pools.ErrRefused) {
				t.Errorf("a second repair: %v, want %v: one node may be out of service", err, pools.ErrRefused)
			}
			ends = true
			for range 3 {
				w.tick()
			}
			w.wantInstances("a-1", "a-2", "a-3")
			w.wantTarget(3)
			w.wantCalls()
			e := h.last("attempt-1")
			if w.nodes.cordoned["a-2"] || len(w.records.stored) > 0 || e.To != api.DrainReturned || (e.Failed == "") != (failure == nil) {
				t.Errorf("cordoned %t, records %s, the last event %+v", w.nodes.cordoned["a-2"], w.records.stored, e)
			}
		})
	}
}

// A node under in-place repair that an operator removes meanwhile is replaced.
func TestRemovalOfANodeThatIsRepaired(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 3)
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	if err := w.beginRepair(w.repair("a-2", "attempt-1", api.RepairReboot, false)); err != nil {
		t.Fatal(err)
	}
	w.tick()
	if err := w.loop.Notice(t.Context(), pools.Notice{Instance: "a-2", Kind: pools.Rebalance}); err != nil {
		t.Fatal(err)
	}
	w.wantBalanced()
	w.remove("a-2")
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	for range 6 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
	w.wantTarget(3)
}

func TestRepairIsRefused(t *testing.T) {
	t.Parallel()
	paused := &api.Note{By: "me", Why: "an audit"}
	tests := []struct {
		name   string
		change func(w *world, r *pools.RepairRequest)
		want   error
		says   string
	}{
		{"unknown", func(_ *world, r *pools.RepairRequest) { r.Node = "x-1" }, pools.ErrUnknownNode, ""},
		{"on its way out", func(w *world, r *pools.RepairRequest) {
			w.nodes.change(func(n *nodes) { n.tasks["a-3"] = 9 })
			w.remove("a-3")
			r.Node = "a-3"
		}, pools.ErrLeaving, "removed by name"},
		{"under another repair", func(w *world, r *pools.RepairRequest) {
			if err := w.beginRepair(w.repair("a-2", "attempt-0", "", true)); err != nil {
				w.t.Fatal(err)
			}
		}, pools.ErrLeaving, "repair"},
		{"paused", func(w *world, _ *pools.RepairRequest) { w.book.change(func(o *api.Orders) { o.Pause = paused }) }, pools.ErrPaused, "by me: an audit"},
		{"dry run", func(w *world, _ *pools.RepairRequest) { w.config.DryRun = true; w.reconfigure() }, apply.ErrDryRun, "dry run"},
		{"the lease is lost", func(w *world, _ *pools.RepairRequest) { w.lease.set(0) }, pools.ErrNotHolder, ""},
		{"the lease ends", func(w *world, _ *pools.RepairRequest) { w.lease.set(time.Second) }, apply.ErrLeaseEnds, ""},
		{"orders cannot be read", func(w *world, _ *pools.RepairRequest) { w.book.fail = errors.New("no bus") }, nil, "no bus"},
		{"it cannot be kept", func(w *world, _ *pools.RepairRequest) { w.memory.fail = errors.New("no bus") }, nil, "no bus"},
		{"its record cannot be kept", func(w *world, _ *pools.RepairRequest) { w.records.fail = errors.New("no bus") }, nil, "no bus"},
		{"protected", func(w *world, _ *pools.RepairRequest) { w.groups[0].Protect("a-2", true) }, pools.ErrRefused, "protected"},
		{"busy", func(w *world, _ *pools.RepairRequest) { w.groups[0].Busy("a refresh") }, pools.ErrRefused, "a refresh"},
		{"too late", func(w *world, r *pools.RepairRequest) { r.Deadline = w.now }, nil, "deadline"},
		{"in place, and held", func(_ *world, r *pools.RepairRequest) {
			r.RepairInPlace, r.Hold = &pools.InPlaceRepair{Kind: api.RepairReboot}, true
		}, nil, "in place"},
		{"in place, as the group cannot", func(_ *world, r *pools.RepairRequest) { r.RepairInPlace = &pools.InPlaceRepair{Kind: "hammer"} }, pools.ErrRefused, "hammer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := guarded(t, 3)
			r := w.repair("a-2", "attempt-1", "", false)
			test.change(w, &r)
			before := len(w.records.stored)
			w.calls()
			err, _ := w.loop.repair(t.Context(), r) // it ends a loop whose lease is lost
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Repair = %v, want %v that says %q", err, test.want, test.says)
			}
			if len(w.records.stored) != before || w.loop.account().PendingIncrease() > float64(before) {
				t.Errorf("records %s, account %+v: want nothing begun", w.records.stored, w.loop.account())
			}
			w.wantCalls()
		})
	}
}

// A repair that is requested again under the same attempt does not begin again, also in another
// process, and is owed once.
func TestRepairTwice(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 3)
	r := w.repair("a-2", "attempt-1", "", true)
	for range 3 {
		if err := w.beginRepair(r); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.clock = func() time.Time { return w.now }
	}
	if got := *w.memory.memo(t).State.Wanted; got != 3 {
		t.Errorf("wanted %v, want 3", got)
	}
	for range 6 {
		w.tick()
	}
	w.wantInstances("a-1", "a-3", "a-4")
}

// Run handles repairs of many callers between two ticks, and lets no caller wait for ever.
func TestRunServesRepairs(t *testing.T) {
	w, _, _ := steady(t, 4)
	w.config.Tick = time.Hour
	w.now = time.Now().Add(-time.Hour)
	loop := w.newLoop()
	w.ledger.appended = make(chan struct{}, 1)
	ended, stop := w.runLoop(loop)
	await.Value(t, "the first tick", w.ledger.appended)
	var wg sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		wg.Go(func() {
			errs[i] = loop.writer.Repair(t.Context(), pools.RepairRequest{
				Node: fmt.Sprint("a-", i%4+1), Attempt: fmt.Sprint("attempt-", i%4), Hold: true, Deadline: time.Now().Add(time.Hour),
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("Repair = %v", err)
	}
	records, known := loop.writer.Records()
	if !known || len(records) != 4 || !records[0].Hold {
		t.Errorf("records %+v, known %t, want one of each node", records, known)
	}
	if g, ok := loop.writer.Group("a"); !ok || g.ID() != "a" {
		t.Errorf("Group = %v, %t", g, ok)
	}
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Errorf("Run = %v", err)
	}
	if err := loop.writer.Repair(t.Context(), w.repair("a-1", "attempt-9", "", false)); !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("after the end Repair = %v, want %v", err, pools.ErrNotHolder)
	}
	if err := loop.writer.Repair(t.Context(), pools.RepairRequest{Node: "a-1"}); err == nil {
		t.Error("Repair without an attempt = nil, want an error")
	}
}

func TestRepairWithoutARunningLoop(t *testing.T) {
	w, _, _ := steady(t, 1)
	gone := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := w.loop.writer.Repair(ctx, w.repair("a-1", "attempt-1", "", false)); !errors.Is(err, gone) {
		t.Errorf("Repair = %v, want %v", err, gone)
	}
	select {
	case request := <-w.loop.writer.Requests(): // it arrived in time
		if err := w.loop.serve(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	default:
	}
	if len(w.records.stored) > 0 {
		t.Errorf("records %s, want none: nobody waited", w.records.stored)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(w *world)
		want   error
	}{
		{"well", func(*world) {}, nil},
		{"paused", func(w *world) { w.book.change(func(o *api.Orders) { o.Pause = &api.Note{By: "me"} }) }, pools.ErrPaused},
		{"the lease is lost", func(w *world) { w.lease.set(0) }, pools.ErrNotHolder},
		{"the lease ends", func(w *world) { w.lease.set(time.Second) }, apply.ErrLeaseEnds},
		{"dry run", func(w *world) { w.config.DryRun = true; w.reconfigure() }, apply.ErrDryRun},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := guarded(t, 1)
			test.change(w)
			called := false
			err := w.loop.writer.Write(t.Context(), func(ctx context.Context) error {
				_, limited := ctx.Deadline()
				called = limited
				return nil
			})
			if !errors.Is(err, test.want) || called != (test.want == nil) {
				t.Errorf("Write = %v, called %t, want %v", err, called, test.want)
			}
		})
	}
}

// Unhealthy nodes are removed first. While the policy blocks scale-in, nothing shrinks. A step
// reports that, and the record resolves to the same answer.
func TestCondition(t *testing.T) {
	t.Parallel()
	w, h, web := guarded(t, 4)
	h.set(snapshot.Condition{Unhealthy: map[string]string{"a-3": "its disk is full"}, Barred: "the breaker is open: 1 of 4 nodes"})
	web.set(cpus(3*cpusPerNode), nil)
	r := w.tick()
	i := slices.IndexFunc(r.Result.Steps, func(s api.Step) bool { return s.Rule == api.RuleHealth })
	if r.Case.Input.Barred == "" || i < 0 || r.Result.Steps[i].After != 4 || !strings.Contains(r.Result.Steps[i].Why, "the breaker is open") {
		t.Errorf("barred %q, steps %+v", r.Case.Input.Barred, r.Result.Steps)
	}
	if r.Result.Target != 4 || len(r.Result.Terminate["a"]) > 0 {
		t.Errorf("target %v, let go %v: want nothing to shrink", r.Result.Target, r.Result.Terminate)
	}
	web.set(cpus(5*cpusPerNode), nil)
	if r := w.tick(); r.Result.Target != 5 {
		t.Errorf("target %v, want it to grow", r.Result.Target)
	}
	web.set(cpus(4*cpusPerNode), nil)
	h.set(snapshot.Condition{Unhealthy: map[string]string{"a-3": "its disk is full"}})
	if r := w.tick(); !slices.Equal(r.Result.Terminate["a"], []string{"a-3"}) {
		t.Errorf("let go %v, want the sick one", r.Result.Terminate)
	}
}

// A repair that is withdrawn before it reaches its machine is not carried out: the node stays,
// uncordoned, also if it is withdrawn twice. After that point the repair continues.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	w, _, _ := guarded(t, 3)
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	if err := w.beginRepair(w.repair("a-2", "attempt-1", api.RepairReboot, false)); err != nil {
		t.Fatal(err)
	}
	w.tick()
	for _, attempt := range []string{"attempt-1", "attempt-1", "another"} {
		if answer, end := w.loop.withdraw(t.Context(), attempt); answer != nil || end != nil {
			t.Errorf("withdraw %s: %v, %v", attempt, answer, end)
		}
	}
	for range 3 {
		w.tick()
	}
	if len(w.records.stored) > 0 || w.nodes.cordoned["a-2"] {
		t.Errorf("records %v, cordoned %v: want none", w.loop.drains(), w.nodes.cordoned)
	}
	if err := w.beginRepair(w.repair("a-2", "attempt-2", "", false)); err != nil {
		t.Fatal(err)
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	for range 3 {
		w.tick()
	}
	if answer, _ := w.loop.withdraw(t.Context(), "attempt-2"); len(w.loop.drains()) > 0 && !errors.Is(answer, pools.ErrBegun) {
		t.Errorf("withdraw what is terminated: %v, want ErrBegun; %+v", answer, w.loop.drains())
	}
}
