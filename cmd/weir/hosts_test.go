package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

// hostsVariable is set in the process of TestThreeHosts that has its own network namespace.
const hostsVariable = "WEIR_TEST_HOSTS"

// hostsHoldProcess is the time of a fault of one process, at most. The instances of an agent that is silent for 30 s start
// elsewhere.
const hostsHoldProcess = 8 * time.Second

// TestThreeHosts kills, pauses and cuts off each of three hosts, and kills and pauses their processes and the agents, while
// an operator publishes releases and gives orders. No instance ends, no machine ends but those of the orders, each order is obeyed, each pool
// has one writer in every epoch, and soon after the last fault everything is as wanted.
//
// HOSTS is the length of the long form, such as 20m, with 30 agents and 300 instances. Without it, few faults are done
// once in a small world. HOSTS_SEED repeats the order of the faults.
func TestThreeHosts(t *testing.T) {
	t.Parallel()
	if os.Getenv(hostsVariable) == "" {
		smalldisk.Repeat(t, hostsVariable+"=1", unix.CLONE_NEWNET, unix.CAP_NET_ADMIN)
		return
	}
	size := hostsSize{nodes: 3, instances: 12, pause: time.Second, hold: 8 * time.Second, recovery: patience}
	if text := os.Getenv("HOSTS"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("HOSTS is %q: want a duration such as 20m", text)
		}
		size = hostsSize{nodes: 15, instances: 150, length: length, pause: 5 * time.Second, hold: 25 * time.Second, recovery: time.Minute}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("HOSTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	w := newHostsWorld(t, size, seed)
	t.Logf("%v: everything runs; HOSTS_SEED=%d", time.Since(began).Round(time.Second), seed)
	w.doFaults()
	last := time.Now()
	eventually(t, "everything as wanted", func() error {
		w.removeByHand()
		return w.asWanted()
	})
	took := time.Since(last)
	if took > size.recovery {
		t.Errorf("after the last fault everything is as wanted in %v, want at most %v", took, size.recovery)
	}
	t.Logf("as wanted %v after the last fault; %d applications, %d of them of a release", took.Round(100*time.Millisecond), len(w.apps), w.releases)
	for _, e := range w.cloud.Endings() {
		if slices.Contains(w.first, e.Instance) {
			t.Errorf("%v: machine %s of pool %s was ended by %s", e.At.Format(time.TimeOnly), e.Instance, e.Owner, e.By)
		}
	}
	for _, pool := range hostsPools() {
		w.oneKey(pool, w.oneWriter("all faults", pool))
	}
}

// hostFault is a fault of a host or of one process.
type hostFault struct {
	name       string
	pauses     bool
	longest    time.Duration
	begin, end func() error
}

// doFaults does all faults of a round in a random order, in the long form until its time is over. Each fault comes with
// an order. The last one has removed what the orders have added.
func (w *hostsWorld) doFaults() {
	w.Helper()
	began, done := time.Now(), 0
	for left := w.round(); len(left) > 0; left = left[1:] {
		w.wait(w.pause)
		if w.length > 0 || w.added > 0 { // a pool grows at once, but shrinks only after a time with complete metrics
			w.obeyed()
		}
		w.do(left[0])
		done++
		over := time.Since(began) > w.length
		if w.length > 0 && over && w.added == 0 {
			break
		}
		if len(left) == 1 && w.length > 0 {
			left = append(left, w.round()...)
		}
	}
	w.Logf("%d faults in %v", done, time.Since(began).Round(time.Second))
}

// round returns the faults of a round: in the long form each fault of each host, with two faults of processes after it.
func (w *hostsWorld) round() (all []hostFault) {
	var hosts []hostFault
	for _, h := range w.hosts {
		hosts = append(hosts, w.faultsOf(h)...)
	}
	w.random.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	if w.length == 0 { // one of each kind, each on its own host
		first := w.random.IntN(len(w.hosts))
		for kind := range 3 {
			all = append(all, w.faultsOf(w.hosts[(first+kind)%len(w.hosts)])[kind])
		}
		return append(all, w.faultOfProcess(syscall.SIGKILL))
	}
	for _, f := range hosts {
		all = append(all, f, w.faultOfProcess(syscall.SIGKILL), w.faultOfProcess(syscall.SIGSTOP))
	}
	return all
}

// faultsOf returns the faults of a host: killed, cut off, paused. The peers of a killed host get no answer, as after a
// loss of power.
func (w *hostsWorld) faultsOf(h *netHost) []hostFault {
	cut := func() error { return h.link("down") }
	restore := func() error { return h.link("up") }
	return []hostFault{
		{h.name + " killed", false, w.hold, func() error {
			h.power.Lock()
			err := cut()
			for h.signal(syscall.SIGKILL) > 0 {
			}
			return err
		}, func() error {
			defer h.power.Unlock()
			return restore()
		}},
		{h.name + " cut off", false, w.hold, cut, restore},
		{h.name + " paused", true, w.hold, func() error {
			h.power.Lock()
			h.signal(syscall.SIGSTOP)
			h.signal(syscall.SIGSTOP) // also those that started in between
			return nil
		}, func() error {
			defer h.power.Unlock()
			h.signal(syscall.SIGCONT)
			return nil
		}},
	}
}

// faultOfProcess returns a fault of a random process: of any host, or an agent.
func (w *hostsWorld) faultOfProcess(s syscall.Signal) hostFault {
	place, choice := w.random.IntN(len(w.hosts)+1), w.random.Float64()
	pid := 0
	return hostFault{fmt.Sprintf("signal %q for a process", s), s == syscall.SIGSTOP, hostsHoldProcess, func() error {
		name := "agent"
		if place == len(w.hosts) {
			pid = int(w.agents[int(choice*float64(len(w.agents)))].pid.Load())
		} else if pids := w.hosts[place].processes(); len(pids) > 0 {
			name, pid = w.hosts[place].name, pids[int(choice*float64(len(pids)))]
		}
		if pid == 0 {
			return fmt.Errorf("%s has no process", name)
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		w.Logf("%v for process %d of %s: %.150s", s, pid, name, strings.ReplaceAll(string(line), "\x00", " "))
		_ = syscall.Kill(pid, s) // it may have ended
		return nil
	}, func() error {
		_ = syscall.Kill(pid, syscall.SIGCONT) // it has ended, unless it is paused
		return nil
	}}
}

// do does a fault, gives an order meanwhile, and ends the fault after a random time.
func (w *hostsWorld) do(f hostFault) {
	w.Helper()
	hold := max(2*time.Second, time.Duration(w.random.Int64N(int64(f.longest))))
	w.Logf("%v: %s for %v", time.Now().Format(time.TimeOnly), f.name, hold.Round(100*time.Millisecond))
	over := time.NewTimer(hold)
	defer over.Stop()
	began := time.Now()
	err := f.begin()
	defer func() {
		if err := f.end(); err != nil {
			w.Error(err)
		}
		if f.pauses {
			w.paused = append(w.paused, pause{began, time.Now()})
		}
	}()
	if err != nil {
		w.Fatal(err)
	}
	w.order()
	<-over.C
}

// obeyed waits until the provider has the targets of the last order.
func (w *hostsWorld) obeyed() {
	w.Helper()
	eventually(w, "the targets of the last order", func() error {
		w.removeByHand()
		for _, pool := range hostsPools() {
			if n := w.cloud.Target(pool); n != w.nodes+w.added {
				return fmt.Errorf("the target of pool %s is %d, want %d: %s", pool, n, w.nodes+w.added, w.run(w.viewer, "explain", "--pool", pool).stdout)
			}
		}
		return nil
	})
}

// order pins each pool at one machine more, or at its first size, and sets a new application of a new release.
func (w *hostsWorld) order() {
	w.Helper()
	w.added, w.ordered = 1-w.added, true
	for _, pool := range hostsPools() {
		w.command(w.operator(), "pool", "target", fmt.Sprint(w.nodes+w.added), "--pool", pool, "--for", "2h")
	}
	pools := hostsPools()
	w.setApp(fmt.Sprint("order", len(w.apps)), pools[len(w.apps)%len(pools)], 1, 0.001, w.publish())
}

// wait waits for a random time.
func (w *hostsWorld) wait(longest time.Duration) {
	over := time.NewTimer(time.Duration(w.random.Int64N(int64(longest))))
	defer over.Stop()
	<-over.C
}

// oneKey checks the log of the provider: if two calls that change a pool have different keys, the epoch has changed
// between them. A tick that was killed is in no ledger, so the ticks before and after the calls give the bounds.
func (w *hostsWorld) oneKey(pool string, ticks []api.TickRecord) {
	w.Helper()
	last, lastEpoch := "", uint64(0)
	calls, changes := 0, 0
	for _, call := range w.cloud.Calls() {
		if !call.Write || !strings.HasPrefix(call.Key, keyOf(pool)) {
			continue
		}
		calls++
		if last != "" && call.Key != last {
			changes++
			if epoch, known := epochOf(ticks, call.At); known && epoch <= lastEpoch {
				w.Errorf("%s: %s with the key %s in epoch %d, after one with the key %s in epoch %d", call.At, call.Action, call.Key, epoch, last, lastEpoch)
			}
		}
		last = call.Key
		for _, r := range ticks {
			if !r.At.After(call.At) {
				lastEpoch = r.Epoch
			}
		}
	}
	if calls == 0 {
		w.Errorf("pool %s: no call of the provider's log changes it", pool)
	}
	w.Logf("pool %s: %d ticks, the last one in epoch %d, %d calls that change it, %d changes of the key", pool, len(ticks), ticks[len(ticks)-1].Epoch, calls, changes)
}

// epochOf returns the latest epoch that a call at that time may have: that of the ticks at that time, and of the first one after it. A tick
// of a host that hangs ends long after its epoch.
func epochOf(ticks []api.TickRecord, at time.Time) (latest uint64, known bool) {
	for _, r := range ticks {
		if r.At.Add(r.Took).Before(at) {
			continue
		}
		if latest, known = max(latest, r.Epoch), true; r.At.After(at) {
			break
		}
	}
	return latest, known
}
