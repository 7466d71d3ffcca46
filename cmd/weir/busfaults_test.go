package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
)

// busFault is what happens to the servers. The first one of the order leads the bucket of the pool and that of the probes.
type busFault struct {
	name  string
	short bool // also without FAULTS
	// begin does it. It returns when the recovery begins that the table measures.
	begin func(f *busFaultRun)
	end   func(f *busFaultRun) // after the measurement; nil: nothing
	lost  bool                 // the stores are empty afterwards
}

// busFaultRun is one fault in progress.
type busFaultRun struct {
	*busWorld
	order []int // of servers
	began time.Time
	said  *statusLog
}

func busTableFaults() []busFault {
	kill := func(f *busFaultRun, which ...int) {
		for _, i := range which {
			f.servers.Kill(f, f.order[i])
		}
	}
	start := func(f *busFaultRun, which ...int) {
		var all []int
		for _, i := range which {
			all = append(all, f.order[i])
		}
		f.servers.Restart(f, all...)
	}
	return []busFault{
		{name: "follower killed", begin: func(f *busFaultRun) {
			f.order[0], f.order[1] = f.order[1], f.order[0] // probes and the fault are near the follower
			f.begins()
			kill(f, 0)
		}, end: func(f *busFaultRun) { start(f, 0) }},
		{name: "leader killed", short: true, begin: func(f *busFaultRun) { f.begins(); kill(f, 0) }, end: func(f *busFaultRun) { start(f, 0) }},
		{name: "leader terminated", begin: func(f *busFaultRun) { f.begins(); f.servers.Terminate(f, f.order[0]) }, end: func(f *busFaultRun) { start(f, 0) }},
		{name: "leader's server hangs", begin: func(f *busFaultRun) { f.begins(); f.servers.Suspend(f, f.order[0]) },
			end: func(f *busFaultRun) { f.servers.Resume(f, f.order[0]) }},
		{name: "network cut to the leader's server", short: true, begin: func(f *busFaultRun) { f.begins(); f.wires[f.order[0]].Cut() },
			end: func(f *busFaultRun) { f.wires[f.order[0]].Mend() }},
		{name: "two killed, one returns", short: true, begin: func(f *busFaultRun) {
			kill(f, 0, 1)
			f.told("no quorum")
			f.begins()
			start(f, 1)
		}, end: func(f *busFaultRun) { start(f, 0) }},
		{name: "all killed, all return", begin: func(f *busFaultRun) {
			f.begins()
			kill(f, 0, 1, 2)
			f.told("connect to NATS")
			start(f, 0, 1, 2)
		}},
		{name: "all stores empty", short: true, lost: true, begin: func(f *busFaultRun) {
			f.aged()
			kill(f, 0, 1, 2)
			for i := range f.order {
				f.servers.Empty(f, i)
			}
			start(f, 0, 1, 2)
			f.createStreams()
			f.begins()
		}},
	}
}

// begins starts the time of the table.
func (f *busFaultRun) begins() { f.began = time.Now() }

// aged waits until a new bucket would be newer than the machines, as the autoscaler compares them: by more than a minute.
func (f *busFaultRun) aged() {
	f.Helper()
	eventually(f, "machines of more than a minute", func() error {
		for _, i := range f.cloud.Instances(busPool) {
			if age := time.Since(i.Launched); age < 61*time.Second {
				return fmt.Errorf("machine %s is %v old", i.ID, age)
			}
		}
		return nil
	})
}

// told waits until a line of "weir status" has these words.
func (f *busFaultRun) told(words string) {
	f.Helper()
	eventually(f, fmt.Sprintf("a status with %q", words), func() error {
		if f.said.has(words) {
			return nil
		}
		return errors.New(f.said.String())
	})
}

// TestBusFaults measures what the daemons of a pool notice of faults of three real servers: the longest time without a
// success of each kind of act, and what status reports. Nothing is stopped, nothing shrinks, and at no time two hosts act.
// FAULTS, if set, does all faults. FAULT, a regular expression, selects some. RUNS is how often each is done.
func TestBusFaults(t *testing.T) {
	t.Parallel()
	selected, err := regexp.Compile(os.Getenv("FAULT"))
	if err != nil {
		t.Fatal(err)
	}
	w := newBusWorld(t)
	var out strings.Builder
	rows := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	defer func() { // also after a failure
		rows.Flush()
		t.Logf("longest time without a success, near the fault / far from it:\n%s", out.String())
	}()
	fmt.Fprintln(rows, "fault\twrite\tcompare-and-set\tread\twatch\tcore\tlease\tunknown writes")
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("RUNS"), "1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range busTableFaults() {
		for range runs {
			if !selected.MatchString(f.name) || !f.short && os.Getenv("FAULTS") == "" && os.Getenv("FAULT") == "" {
				break
			}
			row, said := w.measure(f)
			fmt.Fprintln(rows, row)
			t.Logf("%s: status said\n%s", f.name, said)
		}
	}
}

// measure does one fault, and returns its row and the lines of status.
func (w *busWorld) measure(f busFault) (row, said string) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	looker := w.open(roles.User{Role: roles.Pool, Cluster: busCluster, Pool: busPool}, w.urls()...)
	run := &busFaultRun{busWorld: w, order: w.leaderFirst(), said: &statusLog{whole: map[string]bool{}}}
	near, far := w.places(f, run.order)
	probes := []*busProbes{w.probe(ctx, &wg, "near", near...), w.probe(ctx, &wg, "far", far...)}
	kv := kvbucket.New(looker.JetStream(), names.PoolBucket(busCluster, busPool))
	lease := &leaseProbe{busProbe: busProbe{name: "lease"}}
	w.repeat(ctx, &wg, &lease.busProbe, lease.follow(kv))
	before, calls := w.instances(), len(w.cloud.Calls())
	eventually(w, "probes that work", func() error { return working(probes, &lease.busProbe, time.Time{}, 1) })
	wg.Go(func() { run.said.follow(ctx, w) })

	f.begin(run)
	eventually(w, "the recovery of all probes after: "+f.name, func() error { return working(probes, &lease.busProbe, run.began, 20) })
	row = tableRow(f.name, run.began, probes, lease)
	if f.lost {
		run.told("state was lost")
	}
	if f.end != nil {
		f.end(run)
	}
	cancel()
	wg.Wait()
	if !f.lost {
		eventually(w, "a pool as before: "+f.name, w.settled)
	}
	w.nothingHappened(f.name, before, calls)
	for _, p := range probes {
		if p.wrong > 0 {
			w.Errorf("%s: %d values that nobody wrote", f.name, p.wrong)
		}
	}
	return row, run.said.String()
}

// places returns the servers of the probes near the fault and far from it.
func (w *busWorld) places(f busFault, order []int) (near, far []string) {
	urls, wired := w.urls(), w.wired()
	first, second, third := order[0], order[1], order[2]
	if strings.HasPrefix(f.name, "follower") {
		first, second = second, first
	}
	return []string{wired[first], urls[second], urls[third]}, []string{urls[third], urls[second], urls[first]}
}

// leaderFirst makes the leader of the pool's bucket that of the probes' bucket too, and returns the servers, with it first.
func (w *busWorld) leaderFirst() (order []int) {
	w.Helper()
	admin := w.open(roles.User{Role: roles.Admin, Cluster: busCluster}, w.urls()...)
	defer admin.Close()
	leader := func(pool string) (string, error) {
		stream, err := kvbucket.Check(w.Context(), admin.JetStream(), names.PoolBucket(busCluster, pool))
		if err != nil {
			return "", err
		}
		return stream.CachedInfo().Cluster.Leader, nil
	}
	eventually(w, "one leader of the buckets of the pool and the probes", func() error {
		want, err := leader(busPool)
		if err != nil {
			return err
		}
		got, err := leader(busProbePool)
		if err != nil || got != want {
			_, moved := admin.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+kvbucket.Stream(names.PoolBucket(busCluster, busProbePool)),
				fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, want), probeTimeout)
			return errors.Join(err, moved, fmt.Errorf("%s leads the bucket of the probes, want %s", got, want))
		}
		order = nil
		for i, s := range w.servers.Site.Servers {
			if s.Name == want {
				order = slices.Insert(order, 0, i)
			} else {
				order = append(order, i)
			}
		}
		return nil
	})
	return order
}

// working returns nil if each act succeeded that often after a time, and if the lease was renewed twice.
func working(probes []*busProbes, lease *busProbe, since time.Time, often int) error {
	for _, place := range probes {
		for _, p := range place.all() {
			if n := p.count(since); n < often {
				return fmt.Errorf("%s: %d successes: %w", p.name, n, p.problem())
			}
		}
	}
	if n := lease.count(since); n < min(often, 2) {
		return fmt.Errorf("the lease was renewed %d times", n)
	}
	return nil
}

// tableRow returns a line of the table.
func tableRow(name string, began time.Time, probes []*busProbes, lease *leaseProbe) string {
	cells := []string{name}
	for kind := range probes[0].all() {
		var both []string
		for _, place := range probes {
			both = append(both, fmt.Sprintf("%.1f", place.all()[kind].gap(began).Seconds()))
		}
		cells = append(cells, strings.Join(both, " / ")+" s")
	}
	cells = append(cells, fmt.Sprintf("%.1f s, epochs %s", lease.gap(began).Seconds(), strings.Join(lease.epochs(), ", ")))
	var unknown []string
	for _, p := range probes {
		p.mu.Lock()
		unknown = append(unknown, fmt.Sprintf("%d (%d applied, %d stale)", p.unknown, p.applied, p.stale))
		p.mu.Unlock()
	}
	return strings.Join(append(cells, strings.Join(unknown, " / ")), "\t")
}

// nothingHappened checks that no instance has ended or started, that no daemon has ended, that the provider received
// no change, and that no two autoscalers ticked in turns.
func (w *busWorld) nothingHappened(fault string, before map[string]bool, calls int) {
	w.Helper()
	if after := w.instances(); !maps.Equal(before, after) {
		w.Errorf("%s: instances by process, and whether they run: %v, before %v", fault, after, before)
	}
	for _, call := range w.cloud.Calls()[calls:] {
		if call.Write {
			w.Errorf("%s: the provider was asked to %s %v", fault, call.Action, call.Params)
		}
	}
	if n := len(w.nodes()); n != busNodes {
		w.Errorf("%s: the pool has %d machines, want %d", fault, n, busNodes)
	}
	for _, d := range w.daemons {
		if d.ended() {
			w.Errorf("%s: %s has ended", fault, d.name)
		}
	}
	w.oneWriter(fault, busPool)
}

// oneWriter checks that in the order of their times the ticks in the ledger never return to an earlier epoch. No tick may begin
// before the last one of another epoch ended, unless the process of that one was paused. It returns the ticks. A host that was cut off sends the record
// of its last tick late, so their order in the ledger may differ.
func (w *busUsers) oneWriter(fault, pool string) (ticks []api.TickRecord) {
	w.Helper()
	b := w.open(roles.User{Role: roles.Pool, Cluster: busCluster, Pool: pool}, w.urls()...)
	defer b.Close()
	eventually(w, "the ledger", func() error {
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		defer cancel()
		ledger, err := state.OpenLedger(ctx, b.JetStream(), busCluster, pool)
		if err != nil {
			return err
		}
		ticks = nil
		return ledger.Since(ctx, time.Now().Add(-time.Hour), func(data []byte) error {
			var r api.TickRecord
			err := json.Unmarshal(data, &r)
			ticks = append(ticks, r)
			return err
		})
	})
	if len(ticks) == 0 {
		w.Errorf("%s: no tick is in the ledger", fault)
	}
	slices.SortStableFunc(ticks, func(a, b api.TickRecord) int { return a.At.Compare(b.At) })
	ended := map[uint64]bool{}
	for i := 1; i < len(ticks); i++ {
		last, r := ticks[i-1], ticks[i]
		if r.Epoch == last.Epoch {
			continue
		}
		if ended[last.Epoch] = true; ended[r.Epoch] || r.At.Before(last.At.Add(last.Took)) && !w.pausedIn(last) {
			w.Errorf("%s: a tick of epoch %d at %v follows one of epoch %d at %v that took %v", fault, r.Epoch, r.At, last.Epoch, last.At, last.Took)
		}
	}
	return ticks
}

// pausedIn reports whether processes were paused during a tick whose lease ended: it ends when its process continues.
func (w *busUsers) pausedIn(r api.TickRecord) bool {
	lost := slices.ContainsFunc(append(r.Problems, r.Failed), func(why string) bool { return strings.Contains(why, pools.ErrNotHolder.Error()) })
	return lost && slices.ContainsFunc(w.paused, func(p pause) bool { return r.At.Before(p.to) && p.from.Before(r.At.Add(r.Took)) })
}

// statusLog has the different first lines of "weir status", in order.
type statusLog struct {
	mu    sync.Mutex
	lines []statusLine
	whole map[string]bool // every line
}

// statusLine is a first line, with how often and how fast it came.
type statusLine struct {
	text    string
	at      time.Time
	times   int
	slowest time.Duration
}

// numbers are what makes equal lines differ.
func numbers() *regexp.Regexp { return regexp.MustCompile(`[0-9]+(\.[0-9]+)?|[a-z0-9]{20,}`) }

// follow runs "weir status" until ctx ends.
func (s *statusLog) follow(ctx context.Context, w *busWorld) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	any := numbers()
	for ctx.Err() == nil {
		began := time.Now()
		r := w.run(w.viewer, "status")
		took := time.Since(began)
		line, _, _ := strings.Cut(r.stdout+r.stderr, "\n")
		s.mu.Lock()
		for one := range strings.Lines(r.stdout + r.stderr) {
			s.whole[one] = true
		}
		i := slices.IndexFunc(s.lines, func(l statusLine) bool { return any.ReplaceAllString(l.text, "#") == any.ReplaceAllString(line, "#") })
		if i < 0 {
			i = len(s.lines)
			s.lines = append(s.lines, statusLine{text: line, at: began})
		}
		s.lines[i].times++
		s.lines[i].slowest = max(s.lines[i].slowest, took)
		s.mu.Unlock()
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// has reports whether a line had these words.
func (s *statusLog) has(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range s.whole {
		if strings.Contains(line, words) {
			return true
		}
	}
	return false
}

// String returns the first lines.
func (s *statusLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, l := range s.lines {
		fmt.Fprintf(&out, "  %s, %d times, at most %.1f s: %.300s\n", l.at.Format(time.TimeOnly), l.times, l.slowest.Seconds(), l.text)
	}
	return out.String()
}
