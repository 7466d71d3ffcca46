package known

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const perNode = 100

// beatOf returns the instance of the measurements: 233 bytes, one app each.
func beatOf(i int) api.Beat {
	return api.Beat{
		Partition: "default",
		App:       fmt.Sprintf("0f8fad5b-d9cb-469f-a165-%012x", i),
		Version:   fmt.Sprintf("7c9e6679-7425-40de-944b-%012x", i),
		Instance:  fmt.Sprintf("%032x", uint64(i)*0x9e3779b97f4a7c15),
		State:     api.CopyRunning,
		Since:     1369251231.125,
	}
}

// heartbeats returns one message of each node.
func heartbeats(t testing.TB, nodes int, edit func(i int, b *api.Beat)) [][]byte {
	out := make([][]byte, nodes)
	for n := range out {
		hb := api.Heartbeat{Node: fmt.Sprintf("a1b2c3d4-0000-4000-8000-%012x", n)}
		for i := range perNode {
			b := beatOf(n*perNode + i)
			if edit != nil {
				edit(i, &b)
			}
			hb.Beats = append(hb.Beats, b)
		}
		var err error
		if out[n], err = json.Marshal(hb); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func sendAll(t testing.TB, s *Store, now time.Time, messages [][]byte) {
	for _, data := range messages {
		if err := s.Heartbeat(now, message.Node{}, data); err != nil {
			t.Fatal(err)
		}
		s.Changes()
	}
}

// cpu returns the processor time of the process, which other processes do not affect.
func cpu() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func benchConfig() Config { return Config{DropletLost: 30 * time.Second, Partition: "default"} }

// floor returns a reference rate: the instances per second of processor time if each message
// is only summed twice, as a store does first.
func floor(messages [][]byte) float64 {
	s, from, rounds := New(benchConfig()), cpu(), 0
	for ; cpu()-from < 200*time.Millisecond; rounds++ {
		for _, data := range messages {
			if s.reader.Sum(data) == (message.Sum{}) {
				panic("no sum")
			}
		}
	}
	return float64(rounds*len(messages)*perNode) / (cpu() - from).Seconds()
}

// BenchmarkHeartbeat measures the instances per second that a store processes, with 10 000
// copies on 100 nodes. It also reports the rate as a share of the floor.
func BenchmarkHeartbeat(b *testing.B) {
	const nodes = 100
	plain := heartbeats(b, nodes, nil)
	later := heartbeats(b, nodes, func(_ int, beat *api.Beat) { beat.Since += 10 })
	other := heartbeats(b, nodes, func(_ int, beat *api.Beat) { beat.State = api.CopyStarting })
	one := heartbeats(b, nodes, func(i int, beat *api.Beat) {
		if i == perNode/2 {
			beat.Since += 10
		}
	})
	least := floor(plain)
	for _, bb := range []struct {
		name   string
		report [][][]byte
	}{
		{"same", [][][]byte{plain}},
		{"one of 100 changed", [][][]byte{plain, one}},
		{"all changed", [][][]byte{plain, later}},
		{"all changed their state", [][][]byte{plain, other}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s, now := New(benchConfig()), start
			sendAll(b, s, now, plain)
			from := cpu()
			for i := 0; b.Loop(); i++ {
				now = now.Add(10 * time.Second)
				sendAll(b, s, now, bb.report[(i+1)%len(bb.report)])
			}
			rate := nodes * perNode * float64(b.N) / (cpu() - from).Seconds()
			b.ReportMetric(rate/1e6, "M/cpu-s")
			b.ReportMetric(nodes*perNode*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
			b.ReportMetric(rate/least, "of-floor")
			b.ReportMetric(float64(len(plain[0]))/perNode, "bytes/instance")
		})
	}
	b.Run("first sight", func(b *testing.B) {
		from := cpu()
		for b.Loop() {
			sendAll(b, New(benchConfig()), start, plain)
		}
		b.ReportMetric(nodes*perNode*float64(b.N)/(cpu()-from).Seconds()/1e6, "M/cpu-s")
		b.ReportMetric(nodes*perNode*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
	})
}

// BenchmarkTick has a million copies on ten thousand nodes.
func BenchmarkTick(b *testing.B) {
	const nodes = 10_000
	messages := heartbeats(b, nodes, nil)
	s, now := New(benchConfig()), start
	for n, data := range messages { // nodes send at different moments
		sendAll(b, s, now.Add(time.Duration(n)*time.Millisecond), [][]byte{data})
	}
	now = now.Add(nodes * time.Millisecond)
	b.Run("nothing due", func(b *testing.B) {
		for b.Loop() {
			s.Tick(now)
		}
	})
	b.Run("nodes to look at again", func(b *testing.B) {
		var took []time.Duration
		for range min(b.N, 20) {
			for tick := range 100 { // in a heartbeat period, in which each node sends once
				now = now.Add(100 * time.Millisecond)
				sendAll(b, s, now, messages[tick*nodes/100:(tick+1)*nodes/100])
				from := cpu()
				s.Tick(now)
				took = append(took, cpu()-from)
			}
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms/median")
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1e3, "ms/worst")
		if s.Len() != nodes*perNode {
			b.Fatalf("%d copies are left", s.Len())
		}
	})
	b.Run("50000 due", func(b *testing.B) {
		sendAll(b, s, now, messages)
		var ticks, next []time.Duration
		for range min(b.N, 20) {
			now = now.Add(20 * time.Second)
			sendAll(b, s, now, messages[500:])
			now = now.Add(11 * time.Second)
			from := cpu()
			s.Tick(now)
			ticks = append(ticks, cpu()-from)
			if got := len(s.Changes()); got != 50_500 {
				b.Fatalf("%d changes", got)
			}
			from = cpu()
			s.Tick(now)
			next = append(next, cpu()-from)
			sendAll(b, s, now, messages[:500])
		}
		slices.Sort(ticks)
		slices.Sort(next)
		b.ReportMetric(float64(ticks[len(ticks)/2].Microseconds())/1e3, "ms/median")
		b.ReportMetric(float64(ticks[len(ticks)-1].Microseconds())/1e3, "ms/worst")
		b.ReportMetric(float64(next[len(next)/2].Microseconds())/1e3, "ms/next-median")
	})
}

// BenchmarkMemory reports the live heap of a hundred thousand copies, each of its own app.
func BenchmarkMemory(b *testing.B) {
	const nodes = 1000
	messages := heartbeats(b, nodes, nil)
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6
	}
	for b.Loop() {
		before := heap()
		s := New(benchConfig())
		sendAll(b, s, start, messages)
		b.ReportMetric(heap()-before, "MB/100k")
		runtime.KeepAlive(s)
	}
	runtime.KeepAlive(messages)
}
