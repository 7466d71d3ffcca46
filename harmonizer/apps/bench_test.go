package apps

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// full returns a leading machine with n running instances, one per app and 100 per node, and
// the heartbeats of its nodes.
func full(tb testing.TB, n int) (*Machine, []Heartbeat, time.Time) {
	tb.Helper()
	cfg := Config{DisruptionLimit: 1}.WithDefaults()
	m, now := NewMachine(cfg), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	addRows(m, now, n)
	beats := nodes(n)
	for _, hb := range beats {
		m.Step(now, hb)
	}
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	for m.Busy() {
		m.Step(now, Tick{})
	}
	if got := m.apps.total.Running; got != n {
		tb.Fatalf("%d instances run, want %d: %+v", got, n, m.apps.total)
	}
	return m, beats, now
}

func addRows(m *Machine, now time.Time, n int) (longest time.Duration) {
	for i := 0; i < n; i += 500 {
		var rows []api.App
		for j := i; j < min(i+500, n); j++ {
			rows = append(rows, api.App{Name: fmt.Sprintf("app%d", j), Pool: "p", Version: "v1", Instances: 1})
		}
		longest = max(longest, took(m, now, ExpectedRows{rows}))
	}
	return max(longest, took(m, now, ExpectedComplete{}))
}

func nodes(n int) (beats []Heartbeat) {
	for i := 0; i < n; i += 100 {
		var list []api.Beat
		for j := i; j < min(i+100, n); j++ {
			list = append(list, api.Beat{Partition: "default", App: fmt.Sprintf("app%d", j), Version: "v1",
				Instance: fmt.Sprintf("%032x", j), State: api.CopyRunning, Since: 1})
		}
		beats = append(beats, beat(fmt.Sprintf("node%d", i/100), list...))
	}
	return beats
}

func took(m *Machine, now time.Time, ev Event) time.Duration {
	began := time.Now()
	m.Step(now, ev)
	return time.Since(began)
}

// BenchmarkHeartbeat100 is an unchanged heartbeat of 100 copies.
func BenchmarkHeartbeat100(b *testing.B) {
	m, beats, now := full(b, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Step(now, beats[i%len(beats)])
		i++
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "instances/s")
}

// BenchmarkTickNothingDue is a Tick with a million healthy copies. It also reports the memory
// of an app with one copy, with its row and its known state.
func BenchmarkTickNothingDue(b *testing.B) {
	const n = 1_000_000
	before := heap()
	m, _, now := full(b, n)
	bytes := heap() - before
	b.ReportAllocs()
	for b.Loop() {
		m.Step(now, Tick{})
	}
	b.ReportMetric(float64(bytes)/n, "heap-B/app")
	runtime.KeepAlive(m)
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkMassLoss loses half of 100 000 copies at once, with the disruption limit off. It
// reports the longest Step until all are evaluated, and the longest Step while the queue
// drains at the configured rate. The best of several runs counts, because other processes use
// the machine too.
func BenchmarkMassLoss(b *testing.B) {
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	for b.Loop() {
		b.StopTimer()
		m, beats, now := full(b, 100_000)
		for range 3 {
			now = now.Add(10 * time.Second)
			for _, hb := range beats[:len(beats)/2] {
				m.Step(now, hb)
			}
		}
		now = now.Add(time.Second)
		runtime.GC()
		b.StartTimer()
		run := massLoss(b, m, now, beats[:len(beats)/2])
		for i := range best {
			best[i] = min(best[i], run[i])
		}
	}
	for i, name := range []string{"longest-ms", "all-ms", "longest-after-ms"} {
		b.ReportMetric(best[i].Seconds()*1000, name)
	}
}

// massLoss returns the longest Step and the total time until the machine is not busy, and the
// longest Step until all missing indices were started. It fails the benchmark unless each
// index is started once, within a second of the time that the rate allows. The other nodes
// send heartbeats.
func massLoss(b *testing.B, m *Machine, now time.Time, beats []Heartbeat) (d [3]time.Duration) {
	const lost = 50_000
	started := make(map[string]bool, lost)
	step := func(ev Event) time.Duration {
		began := time.Now()
		nudges, _ := m.Step(now, ev)
		took := time.Since(began)
		for _, n := range nudges {
			if started[n.Start.App] || len(n.Start.Indices) != 1 {
				b.Fatalf("%s is started again after %d of %d", n.Start.App, len(started), lost)
			}
			started[n.Start.App] = true
		}
		return took
	}
	for first := true; first || m.Busy(); first = false {
		took := step(Tick{})
		d[0], d[1] = max(d[0], took), d[1]+took
	}
	if m.apps.total.Missing != lost {
		b.Fatalf("%d are missing", m.apps.total.Missing)
	}
	batch, every := m.cfg.QueueBatchSize, m.cfg.RequestQueue
	heard := now
	for from := now; len(started) < lost; now = now.Add(200 * time.Millisecond) {
		if now.Sub(heard) >= m.cfg.HeartbeatPeriod {
			heard = now
			for _, hb := range beats {
				step(hb)
			}
		}
		due := batch + int(now.Sub(from)*time.Duration(batch)/every)
		d[2] = max(d[2], step(Tick{}))
		if n := len(started); n > due || n < min(due-batch, lost) {
			b.Fatalf("%d are started after %v, want %d", n, now.Sub(from), due)
		}
	}
	return d
}

// BenchmarkExplain explains an app with the largest number of instances: once all running,
// once all missing.
func BenchmarkExplain(b *testing.B) {
	for _, running := range []bool{true, false} {
		b.Run(fmt.Sprintf("running=%v", running), func(b *testing.B) {
			m, now := NewMachine(Config{DisruptionLimit: 1}.WithDefaults()), start()
			m.Step(now, BusUp{})
			m.Step(now, Lead{})
			m.Step(now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: message.MaxInstances}}})
			m.Step(now, ExpectedComplete{})
			for i := 0; running && i < message.MaxInstances; i += 100 {
				var list []api.Beat
				for j := range 100 {
					list = append(list, api.Beat{App: "web", Version: "v1", Instance: fmt.Sprintf("%032x", i+j), Index: i + j,
						State: api.CopyRunning, Since: 1})
				}
				m.Step(now, beat(fmt.Sprintf("node%d", i/100), list...))
			}
			now = now.Add(12 * time.Second)
			for m.Step(now, Tick{}); m.Busy(); m.Step(now, Tick{}) {
			}
			b.ReportAllocs()
			for b.Loop() {
				if e, ok := m.View().Explain(now, "web"); !ok || e.Count.Expected != message.MaxInstances {
					b.Fatalf("%+v", e.AppSummary)
				}
			}
		})
	}
}

// BenchmarkRestart starts a machine with 100 000 apps, 100 of them missing. It measures the
// rows, one heartbeat of each node, and the Steps until the first decision. The decision must
// be right, and come within a heartbeat period of virtual time after both states are complete.
func BenchmarkRestart(b *testing.B) {
	const n = 100_000
	beats := nodes(n)[1:]
	best, all := time.Hour, time.Hour
	for b.Loop() {
		longest, sum := restart(b, n, beats)
		best, all = min(best, longest), min(all, sum)
	}
	b.ReportMetric(best.Seconds()*1000, "longest-ms")
	b.ReportMetric(all.Seconds()*1000, "all-ms")
}

func restart(b *testing.B, n int, beats []Heartbeat) (longest, sum time.Duration) {
	m, now := NewMachine(Config{}.WithDefaults()), start()
	step := func(ev Event) (nudges []Nudge) {
		began := time.Now()
		nudges, _ = m.Step(now, ev)
		took := time.Since(began)
		longest, sum = max(longest, took), sum+took
		return nudges
	}
	step(BusUp{})
	step(Lead{})
	longest = max(longest, addRows(m, now, n))
	const ticks = 100 // in a heartbeat period
	var whole time.Time
	for i := 0; ; i++ {
		for _, hb := range beats[i%ticks*len(beats)/ticks : (i%ticks+1)*len(beats)/ticks] {
			step(hb)
		}
		nudges := step(Tick{})
		if m.gate.acting && whole.IsZero() {
			whole = now
		}
		if len(nudges) > 0 {
			for _, n := range nudges {
				if n.Start == nil || m.apps.lookup(n.Start.App).tally[missing] != 1 {
					b.Fatalf("nudged %+v", n)
				}
			}
			if after := now.Sub(whole); after > m.cfg.HeartbeatPeriod || m.apps.total.Missing != 100 {
				b.Fatalf("the first decision comes %v after both states are whole, with %d missing", after, m.apps.total.Missing)
			}
			return longest, sum
		}
		if now = now.Add(m.cfg.HeartbeatPeriod / ticks); i > 10*ticks {
			b.Fatal("nothing is decided")
		}
	}
}
