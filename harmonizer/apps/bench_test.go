package apps

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// full returns a machine that leads, with n running instances, 100 a node, one an
// app, and the heartbeats of its nodes.
func full(tb testing.TB, n int) (*Machine, []Heartbeat, time.Time) {
	tb.Helper()
	cfg := Config{Brake: 1}.WithDefaults()
	m, now := NewMachine(cfg), start()
	m.Step(now, BusUp{})
	m.Step(now, Lead{})
	tellRows(m, now, n)
	beats := nodes(n)
	for _, hb := range beats {
		m.Step(now, hb)
	}
	now = now.Add(12 * time.Second)
	m.Step(now, Tick{})
	for m.Busy() {
		m.Step(now, Tick{})
	}
	if got := m.total.Running; got != n {
		tb.Fatalf("%d instances run, want %d: %+v", got, n, m.total)
	}
	return m, beats, now
}

func tellRows(m *Machine, now time.Time, n int) (longest time.Duration) {
	for i := 0; i < n; i += 500 {
		var rows []message.App
		for j := i; j < min(i+500, n); j++ {
			rows = append(rows, message.App{Name: fmt.Sprintf("app%d", j), Pool: "p", Version: "v1", Instances: 1})
		}
		longest = max(longest, took(m, now, ExpectedRows{rows}))
	}
	return max(longest, took(m, now, ExpectedComplete{}))
}

func nodes(n int) (beats []Heartbeat) {
	for i := 0; i < n; i += 100 {
		var list []message.Beat
		for j := i; j < min(i+100, n); j++ {
			list = append(list, message.Beat{Partition: "default", App: fmt.Sprintf("app%d", j), Version: "v1",
				Instance: fmt.Sprintf("%032x", j), State: message.Running, Since: 1})
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

// BenchmarkHeartbeat100 is a heartbeat of 100 copies that nothing changed in.
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

// BenchmarkTickNothingDue is a Tick at a million copies, all healthy. It tells too
// what an app of one copy costs, with its row and all that known keeps.
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

// BenchmarkMassLoss is half of 100 000 copies lost at once, with the brake off:
// how long the longest Step takes until all are judged, and after that, while the
// queue drains. Of several runs the best counts: the machine is not ours alone.
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
		run := massLoss(m, now)
		for i := range best {
			best[i] = min(best[i], run[i])
		}
		if m.total.Missing != 50_000 {
			b.Fatalf("%d are missing", m.total.Missing)
		}
	}
	for i, name := range []string{"longest-ms", "all-ms", "longest-after-ms"} {
		b.ReportMetric(best[i].Seconds()*1000, name)
	}
}

// massLoss returns the longest Step and all until the machine is not busy, and the
// longest of the next 20 seconds.
func massLoss(m *Machine, now time.Time) (d [3]time.Duration) {
	for first := true; first || m.Busy(); first = false {
		step := took(m, now, Tick{})
		d[0], d[1] = max(d[0], step), d[1]+step
	}
	for range 100 {
		now = now.Add(200 * time.Millisecond)
		d[2] = max(d[2], took(m, now, Tick{}))
	}
	return d
}

// BenchmarkExplain is to explain an app of as many instances as there may be: one
// that runs, and one of which all are missing.
func BenchmarkExplain(b *testing.B) {
	for _, running := range []bool{true, false} {
		b.Run(fmt.Sprintf("running=%v", running), func(b *testing.B) {
			m, now := NewMachine(Config{Brake: 1}.WithDefaults()), start()
			m.Step(now, BusUp{})
			m.Step(now, Lead{})
			m.Step(now, ExpectedRows{[]message.App{{Name: "web", Pool: "p", Version: "v1", Instances: message.MaxInstances}}})
			m.Step(now, ExpectedComplete{})
			for i := 0; running && i < message.MaxInstances; i += 100 {
				var list []message.Beat
				for j := range 100 {
					list = append(list, message.Beat{App: "web", Version: "v1", Instance: fmt.Sprintf("%032x", i+j), Index: i + j,
						State: message.Running, Since: 1})
				}
				m.Step(now, beat(fmt.Sprintf("node%d", i/100), list...))
			}
			now = now.Add(12 * time.Second)
			for m.Step(now, Tick{}); m.Busy(); m.Step(now, Tick{}) {
			}
			b.ReportAllocs()
			for b.Loop() {
				if e, ok := m.Explain(now, "web"); !ok || e.Count.Expected != message.MaxInstances {
					b.Fatalf("%+v", e.Summary)
				}
			}
		})
	}
}

// BenchmarkRestart is a machine that begins with 100 000 apps: the rows, the beats
// of all nodes, and the Steps until the first decision.
func BenchmarkRestart(b *testing.B) {
	const n = 100_000
	beats := nodes(n)
	best, all := time.Hour, time.Hour
	for b.Loop() {
		m, now := NewMachine(Config{}.WithDefaults()), start()
		began := time.Now()
		longest := took(m, now, BusUp{})
		m.Step(now, Lead{})
		longest = max(longest, tellRows(m, now, n))
		for _, hb := range beats[1:] {
			longest = max(longest, took(m, now, hb))
		}
		now = now.Add(12 * time.Second)
		for m.starts.Len() == 0 || m.Busy() {
			longest = max(longest, took(m, now, Tick{}))
		}
		best, all = min(best, longest), min(all, time.Since(began))
	}
	b.ReportMetric(best.Seconds()*1000, "longest-ms")
	b.ReportMetric(all.Seconds()*1000, "all-ms")
}
