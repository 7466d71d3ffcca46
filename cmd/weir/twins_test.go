package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
)

// TestTwins has two autoscalers on one pool, as design.md §11 promises that they
// may be: one of them writes, and whatever happens to it the other goes on. The
// scenes run at the same time: what they take is mostly the end of leases.
func TestTwins(t *testing.T) {
	t.Parallel()
	bus := startTwinBus(t)
	scenes := map[string]func(*testing.T){}
	for name, scene := range map[string]func(*testing.T, string){
		"orders": twinOrders, "kill": twinKill, "end": twinEnd, "cut one": twinCutOne, "cut both": twinCutBoth,
		"cut in a takeover": twinCutTakeover,
	} {
		scenes[name] = func(t *testing.T) { scene(t, bus) }
	}
	lanes := testsize.Pick(9, 5)
	for i := range lanes {
		scenes[fmt.Sprintf("halt %d", i+1)] = func(t *testing.T) {
			var own []halt
			for n, h := range triedHalts() {
				if n%lanes == i {
					own = append(own, h)
				}
			}
			twinHalt(t, bus, i, own)
		}
	}
	runScenes(t, scenes)
}

// halt is where a holder is halted for longer than its lease.
type halt struct {
	passage
	fate  fate
	lower bool // the pool is to be smaller by one; else larger
	early bool // the request arrives at this passage, not before
	spare bool // the request is withdrawn before the takeover
}

// halts are all points of a tick between its first read and its last write.
func halts() []halt {
	const (
		describe  = "DescribeAutoScalingGroups"
		raise     = "SetDesiredCapacity"
		terminate = "TerminateInstanceInAutoScalingGroup"
		intent    = "keep intent"
		ending    = "keep record terminating"
	)
	requested := func(at, after string) passage { return passage{at: at, after: after} }
	answered := func(at, after string) passage { return passage{at: at, after: after, answer: true} }
	return []halt{
		{passage: requested("list orders", ""), early: true},
		{passage: answered("list orders", ""), early: true},
		{passage: requested(describe, ""), early: true},
		{passage: answered(describe, ""), early: true},
		{passage: requested("DescribeInstanceRefreshes", ""), early: true},
		{passage: answered("DescribeInstanceRefreshes", ""), early: true},
		{passage: requested("ask", ""), early: true},
		{passage: requested("ask", ""), early: true, lower: true},
		{passage: requested(intent, ""), fate: fateLate},
		{passage: requested(intent, ""), fate: fateLate, lower: true},
		{passage: answered(intent, "")},
		{passage: answered(intent, ""), lower: true},
		{passage: requested(describe, intent)},
		{passage: answered(describe, intent)},
		{passage: requested(raise, "")},
		{passage: requested(raise, ""), fate: fateLate},
		{passage: answered(raise, "")},
		{passage: answered(raise, ""), fate: fateLost},
		{passage: requested("keep state", raise), fate: fateLate},
		{passage: answered("keep state", raise)},
		{passage: requested("record the tick", raise), fate: fateLate},
		{passage: requested("keep record chosen", ""), fate: fateLate, lower: true},
		{passage: answered("keep record chosen", ""), lower: true},
		{passage: requested("cordon", ""), fate: fateLate, lower: true},
		{passage: answered("cordon", ""), lower: true},
		{passage: requested("keep record cordoned", ""), fate: fateLate, lower: true},
		{passage: answered("keep record cordoned", ""), lower: true},
		{passage: requested("keep record draining", ""), fate: fateLate, lower: true},
		{passage: answered("keep record draining", ""), lower: true},
		{passage: requested("keep record drained", ""), fate: fateLate, lower: true},
		{passage: answered("keep record drained", ""), lower: true, spare: true},
		{passage: answered("keep record cordoned", ""), lower: true, spare: true},
		{passage: answered(intent, ""), lower: true, spare: true},
		{passage: requested(ending, ""), fate: fateLate, lower: true},
		{passage: answered(ending, ""), lower: true},
		{passage: requested(describe, ending), lower: true},
		{passage: answered(describe, ending), lower: true},
		{passage: requested(terminate, ""), lower: true},
		{passage: requested(terminate, ""), fate: fateLate, lower: true},
		{passage: answered(terminate, ""), lower: true},
		{passage: answered(terminate, ""), fate: fateLost, lower: true},
		{passage: requested(ending+" accepted", ""), fate: fateLate, lower: true},
		{passage: answered(ending+" accepted", ""), lower: true},
		{passage: requested("forget record", ""), fate: fateLate, lower: true},
	}
}

// triedHalts are the halts that this run tries: with the race detector every second one,
// of requests and of answers.
func triedHalts() (tried []halt) {
	for n, h := range halts() {
		if testsize.Full() || n/2%2 == n%2 {
			tried = append(tried, h)
		}
	}
	return tried
}

// twinHalt halts the holder at one point after the other, each time the current one:
// the other twin takes over and does the work; when the first one goes on it
// begins no write, what it has written late is refused, and it becomes the standby.
func twinHalt(t *testing.T, bus string, lane int, halts []halt) {
	w := newTwins(t, bus, fmt.Sprint("halt", lane), twinLease, 12)
	holder, other := w.startBoth()
	for _, h := range halts {
		what := fmt.Sprintf("%v (%d)", h.passage, h.fate)
		began, mark, theirs := time.Now(), holder.mark(), other.mark()
		demand := int64(1)
		if h.lower {
			demand = -1
		}
		want := func() { w.demand.Add(demand) }
		var trap *trap
		if h.early {
			trap = holder.gate.arm(h.passage, h.fate, want)
		} else {
			trap = holder.gate.arm(h.passage, h.fate, nil)
			want()
		}
		w.sprung(what, trap)
		_, before := holder.cloud.log()
		if h.spare {
			w.demand.Add(-demand)
		}
		other.says(theirs, logsHeld)
		w.settled()
		w.expectTakenOver()
		if !h.lower { // so that what the first one was about to do is wrong by now
			w.demand.Add(-demand)
			w.settled()
		}
		trap.let()
		_, halted := holder.cloud.log()
		if n := len(halted) - len(before); n > 1 {
			t.Errorf("%s: %d writes were in flight: %+v", what, n, halted)
		}
		holder.gate.disarm()
		holder.signal(syscall.SIGCONT)
		behind := holder.says(mark, logsLost)
		behind = holder.says(behind, logsStandby)
		if last := holder.log(behind - 1)[0]; !strings.Contains(last, other.id()) {
			t.Errorf("%s: standing by, %s does not say that %s holds the pool: %s", what, holder.name, other.id(), last)
		}
		w.settled()
		w.stays(1)
		w.expectOneWriter()
		if t.Failed() {
			t.Fatalf("after %s of %s", what, holder.name)
		}
		t.Logf("%-60s %v", what, time.Since(began).Round(time.Millisecond))
		holder, other = other, holder
	}
	w.endBoth()
}

func (w *twins) sprung(what string, trap *trap) {
	w.Helper()
	select {
	case <-trap.halted:
	case <-time.After(patience):
		w.Fatalf("no twin came to %s", what)
	}
}

// endBoth ends both, checks the logs a last time, and that no process is left.
func (w *twins) endBoth() {
	w.Helper()
	for _, a := range w.all {
		if a.pid.Load() != 0 {
			a.end()
		}
	}
	w.expectOneWriter()
	for _, a := range w.all {
		if left := processesOf(a.data); left != nil {
			w.Errorf("left: %q", left)
		}
	}
}

// twinKill kills the holder in the middle of a drain. The other one ends it. Then
// the survivor is killed, and its folder's next process does not wait.
func twinKill(t *testing.T, bus string) {
	const ttl = 8 * time.Second
	w := newTwins(t, bus, "kill", ttl, 4)
	for _, i := range w.cloud.Instances(twinGroup) {
		w.node(i.ID, func(n *twinNode) { n.tasks = 1 })
	}
	holder, other := w.startBoth()
	w.demand.Add(-2)
	w.tick("two drains under way", func(r api.TickRecord) error {
		for _, d := range r.Drains {
			if d.State != "draining" {
				return fmt.Errorf("%+v", r.Drains)
			}
		}
		if len(r.Drains) != 2 {
			return fmt.Errorf("%+v", r.Drains)
		}
		return nil
	})
	mark, killed := other.mark(), time.Now()
	holder.kill()
	for _, i := range w.cloud.Instances(twinGroup) {
		w.node(i.ID, func(n *twinNode) { n.tasks = 0 })
	}
	mark = other.says(mark, logsHeld)
	if took := time.Since(killed); took > 3*ttl {
		t.Errorf("%s took over after %v: want the lease of %v, and a margin", other.name, took, ttl)
	}
	w.settled()
	w.stays(1)
	if n := len(w.cloud.Endings()); n != 2 {
		t.Errorf("%d machines were ended, want 2", n)
	}

	other.kill()
	last := slices.MaxFunc(w.held(), func(a, b twinTerm) int { return a.at.Compare(b.at) })
	other.start()
	other.says(mark, logsHeld)
	next := w.held()[len(w.held())-1]
	if i := slices.IndexFunc(w.held(), func(t twinTerm) bool { return t.Epoch == last.Epoch+1 }); i >= 0 {
		next = w.held()[i]
	}
	stoodBy := slices.ContainsFunc(other.log(mark), func(line string) bool { return strings.Contains(line, logsStandby) })
	if stoodBy || next.Holder != last.Holder || next.Epoch != last.Epoch+1 {
		t.Errorf("%s has the lease with epoch %d, after standing by: %v; before %s had it with %d: want the next epoch of the same, at once",
			next.Holder, next.Epoch, stoodBy, last.Holder, last.Epoch)
	}
	w.demand.Add(1)
	w.settled()
	w.endBoth()
}

// twinEnd requests the holder to end while a request of its is on its way: it keeps the
// pool until the answer has come, and then the other one need not wait.
func twinEnd(t *testing.T, bus string) {
	const ttl = twinLease
	w := newTwins(t, bus, "end", ttl, 3)
	holder, other := w.startBoth()
	mark := other.mark()
	w.demand.Add(1)
	ending := make(chan struct{})
	holder.gate.halt = func() { // in place of a halt
		holder.signal(syscall.SIGTERM)
		<-ending
	}
	trap := holder.gate.arm(passage{at: "SetDesiredCapacity", answer: true}, fateArrives, func() {
		renewed := len(w.held())
		go func() {
			defer close(ending)
			look := time.NewTicker(10 * time.Millisecond)
			defer look.Stop()
			for len(w.held()) == renewed {
				<-look.C // the lease changes in any case: it is renewed, released or taken
			}
			if w.held()[renewed].Released {
				t.Error("the lease is released while a request is under way")
			}
		}()
	})
	w.sprung("its request", trap)
	<-holder.done
	holder.pid.Store(0)
	if code := holder.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	other.says(mark, logsHeld)
	terms := w.held()
	released := slices.IndexFunc(terms, func(t twinTerm) bool { return t.Released })
	if released < 0 || released+1 >= len(terms) {
		t.Fatalf("the lease was not released and taken: %+v", terms)
	}
	if wait := terms[released+1].at.Sub(terms[released].at); wait > ttl/2 {
		t.Errorf("the other one waited for %v, though the lease was released", wait)
	}
	w.settled()
	w.demand.Add(1)
	w.settled()
	w.endBoth()
}

// twinCutOne cuts NATS off the holder alone.
func twinCutOne(t *testing.T, bus string) {
	w := newTwins(t, bus, "cutone", twinLease, 3)
	holder, other := w.startBoth()
	w.tick("a tick", func(api.TickRecord) error { return nil })
	mark, theirs := holder.mark(), other.mark()
	holder.bus.setCut(true)
	_, before := holder.cloud.log()
	w.demand.Add(2)
	other.says(theirs, logsHeld)
	w.settled()
	holder.says(mark, "lease cannot be renewed")
	mark = holder.says(mark, logsLost)
	if _, after := holder.cloud.log(); len(after) != len(before) {
		t.Errorf("cut off, %s wrote %+v", holder.name, after[len(before):])
	}
	holder.bus.setCut(false)
	holder.says(mark, logsStandby)
	w.stays(1)
	w.demand.Add(-1)
	w.settled()
	w.endBoth()
}

// twinCutBoth cuts NATS off both, until neither can hold the pool any more.
func twinCutBoth(t *testing.T, bus string) {
	w := newTwins(t, bus, "cutboth", twinLease, 3)
	holder, other := w.startBoth()
	w.tick("a tick", func(api.TickRecord) error { return nil })
	mark, theirs := holder.mark(), other.mark()
	holder.bus.setCut(true)
	other.bus.setCut(true)
	_, before := holder.cloud.log()
	w.demand.Add(2)
	holder.says(mark, "lease cannot be renewed")
	other.says(theirs, "lease cannot be read")
	holder.says(mark, logsLost)
	if target := w.cloud.Target(twinGroup); target != 3 {
		t.Errorf("the target became %d while NATS was away", target)
	}
	if _, after := holder.cloud.log(); len(after) != len(before) {
		t.Errorf("cut off, %s wrote %+v", holder.name, after[len(before):])
	}
	holder.bus.setCut(false)
	other.bus.setCut(false)
	w.settled()
	w.stays(1)
	w.demand.Add(-1)
	w.settled()
	w.endBoth()
}

// twinCutTakeover cuts NATS off while the pool is being taken over.
func twinCutTakeover(t *testing.T, bus string) {
	w := newTwins(t, bus, "takeover", twinLease, 3)
	holder, other := w.startBoth()
	w.tick("a tick", func(api.TickRecord) error { return nil })
	mark := other.mark()
	other.gate.halt = func() {} // it is not halted
	trap := other.gate.arm(passage{at: "keep state"}, fateLost, func() { go other.bus.setCut(true) })
	holder.kill()
	w.sprung("its takeover", trap)
	mark = other.says(mark, logsLost)
	other.bus.setCut(false)
	other.says(mark, logsHeld)
	w.demand.Add(1)
	w.settled()
	w.endBoth()
}

// twinOrders gives the orders of an operator, and checks the provider's log.
func twinOrders(t *testing.T, bus string) {
	w := newTwins(t, bus, "orders", 15*time.Second, 4)
	holder, other := w.startBoth()
	if line := other.log(other.says(0, logsStandby) - 1)[0]; !strings.Contains(line, holder.id()) {
		t.Errorf("the standby does not say that %s holds the pool: %s", holder.id(), line)
	}
	standby, _ := other.cloud.log()

	w.tick("a tick", func(api.TickRecord) error { return nil })
	w.weir("pause", "--why", "a test")
	paused := w.tick("a paused tick", func(r api.TickRecord) error {
		if r.Paused == nil {
			return errors.New("it is not paused")
		}
		return nil
	})
	if paused.Paused.Why != "a test" {
		t.Errorf("paused: %+v", paused.Paused)
	}
	calls, _ := holder.cloud.log()
	w.demand.Add(1)
	for range 3 {
		w.tick("a paused tick", func(api.TickRecord) error { return nil })
	}
	if now, _ := holder.cloud.log(); now != calls {
		t.Errorf("%d calls of the provider in a pause", now-calls)
	}
	w.weir("resume")
	w.settledAt(5)

	w.weir("offset", "2")
	w.settledAt(7)
	w.expectPlan(holder, 7)
	w.weir("offset", "0")
	w.settledAt(5)
	w.weir("pool", "target", "6")
	w.settledAt(6)
	w.weir("pool", "target", "--clear")
	w.settledAt(5)

	w.expectRemoved(holder)
	w.expectRolled()
	w.expectRecomputed()

	if now, writes := other.cloud.log(); now != standby || len(writes) > 0 {
		t.Errorf("the standby called the provider %d times, and wrote %v", now-standby, writes)
	}
	w.endBoth()
}

// expectPlan requests the plan: it is the holder's, and changes nothing.
func (w *twins) expectPlan(holder *twin, target float64) {
	w.Helper()
	_, before := holder.cloud.log()
	r, err := printedRecord([]byte(w.weir("plan", "--output", "json")))
	if err != nil {
		w.Fatal(err)
	}
	_, after := holder.cloud.log()
	terms := w.held()
	if r.Epoch != terms[len(terms)-1].Epoch || r.Result == nil || r.Result.Target != target || !r.DryRun || len(r.Actions) > 0 || len(after) != len(before) {
		w.Errorf("the plan of epoch %d: %+v, actions %v; %d writes", r.Epoch, r.Result, r.Actions, len(after)-len(before))
	}
}

// expectRemoved removes a node by name: it alone is ended, once, and replaced, as
// the signal requests as many as before.
func (w *twins) expectRemoved(holder *twin) {
	w.Helper()
	_, before := holder.cloud.log()
	ended := len(w.cloud.Endings())
	node := w.cloud.Instances(twinGroup)[0].ID
	w.tick("a tick that knows it", func(r api.TickRecord) error { return nil })
	w.weir("pool", "drain", node, "--why", "a test")
	eventually(w, "the end of "+node, func() error {
		if len(w.cloud.Endings()) == ended {
			return errors.New("it lives")
		}
		return nil
	})
	w.settled()
	w.stays(1)
	if all := w.cloud.Endings()[ended:]; len(all) != 1 || all[0].Instance != node {
		w.Errorf("ended: %+v, want %s", all, node)
	}
	_, after := holder.cloud.log()
	for _, x := range after[len(before):] {
		if x.subject != node && x.action != "SetDesiredCapacity" {
			w.Errorf("beside %s: %+v", node, x)
		}
	}
}

// expectRolled marks the group: each of its machines is ended once, and never are
// there fewer in service than requested.
func (w *twins) expectRolled() {
	w.Helper()
	old := w.cloud.Instances(twinGroup)
	ended := len(w.cloud.Endings())
	w.tick("a tick that knows them", func(r api.TickRecord) error { return nil })
	w.weir("pool", "mark-stale", twinGroup, "--why", "a test")
	eventually(w, "the end of all old machines", func() error {
		all := w.cloud.Instances(twinGroup)
		serving := 0
		for _, i := range all {
			if i.Lifecycle == "InService" {
				serving++
			}
		}
		if serving < len(old) {
			w.Errorf("%d in service, want at least %d", serving, len(old))
		}
		if n := len(w.cloud.Endings()) - ended; n < len(old) {
			return fmt.Errorf("%d are ended", n)
		}
		return nil
	})
	w.settled()
	w.stays(2)
	var gone, want []string
	for _, e := range w.cloud.Endings()[ended:] {
		gone = append(gone, e.Instance)
	}
	for _, i := range old {
		want = append(want, i.ID)
	}
	slices.Sort(gone)
	slices.Sort(want)
	if !slices.Equal(gone, want) {
		w.Errorf("ended: %v, want %v", gone, want)
	}
}

// expectRecomputed has all records so far decided again.
func (w *twins) expectRecomputed() {
	w.Helper()
	var records, want strings.Builder
	for line := range strings.Lines(w.weir("explain", "--since", "1h", "--output", "json")) {
		var r struct {
			Answer json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.Fatal(err)
		}
		if r.Answer != nil { // else the pool was paused
			records.WriteString(line)
			want.WriteString(string(r.Answer) + "\n")
		}
	}
	var out, problems strings.Builder
	code := cli.Run([]string{"decide"}, strings.NewReader(records.String()), &out, &problems)
	if n := strings.Count(want.String(), "\n"); code != 0 || n < 10 || out.String() != want.String() {
		w.Errorf("weir decide: exit code %d of %d records, %s; equal: %v", code, n, problems.String(), cmp.Compare(out.String(), want.String()) == 0)
	}
}
