package signals

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// BenchmarkDeltaTick sends requests to a signal of this package in another process, as columnar bodies. Each window has
// lost its first point and got a new one. x_empty is the ratio of the median time to that of a request without windows
// on the same connection; the two alternate.
func BenchmarkDeltaTick(b *testing.B) {
	for _, size := range []struct{ series, points int }{{10, 1000}, {100, 1440}, {1000, 1440}} {
		b.Run(fmt.Sprintf("columnar/%dx%d", size.series, size.points), func(b *testing.B) {
			benchmarkDelta(b, newSlide(size.series, size.points))
		})
	}
}

func benchmarkDelta(b *testing.B, windows *slide) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("delta_%d", os.Getpid())
	startMain(b, name)
	connect := func() *sigproto.Client {
		c := sigproto.NewClient(sigproto.ClientConfig{Address: sigproto.Address("signals", name, "web"), Columnar: true})
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	signalFunc, empty := connect(), connect()
	ask := func(c *sigproto.Client, e sigproto.Evaluation) time.Duration {
		begin := time.Now()
		if _, err := c.Evaluate(ctx, e); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	for range 3 {
		ask(signalFunc, windows.next())
		ask(empty, sigproto.Evaluation{})
	}
	var ticks, trips []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		e := windows.next()
		b.StartTimer()
		ticks = append(ticks, ask(signalFunc, e))
		b.StopTimer()
		trips = append(trips, ask(empty, sigproto.Evaluation{}))
		b.StartTimer()
	}
	tick, trip := median(ticks), median(trips)
	b.ReportMetric(float64(tick)/float64(trip), "x_empty")
	b.ReportMetric(tick.Seconds()*1e3, "ms_p50")
	b.ReportMetric(trip.Seconds()*1e3, "ms_empty")
}

// startMain runs the test binary as a signal until the benchmark ends.
func startMain(b *testing.B, name string) {
	b.Helper()
	child := exec.Command(os.Args[0], "signals", name, "web")
	child.Env = append(os.Environ(), asMain+"=1")
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
	})
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// slide is a set of windows that move by one point a tick, as those of a metrics store do.
type slide struct {
	evaluation sigproto.Evaluation
	points     int
	random     *rand.Rand
}

// spare is the number of ticks for which a window has memory.
const spare = 256

func newSlide(series, points int) *slide {
	s := &slide{points: points, random: rand.New(rand.NewPCG(1, 2))}
	for i := range series {
		one := sigproto.Series{Name: fmt.Sprintf("metric_%d", i), Lineage: 1}
		for j := range points {
			one.Times = append(one.Times, 1_700_000_000+60*int64(j))
			one.Values = append(one.Values, s.value())
		}
		s.evaluation.Series = append(s.evaluation.Series, one)
	}
	s.evaluation.Timestamp = 1_700_000_000 + 60*int64(points)
	return s
}

func (s *slide) value() float64 { return float64(s.random.IntN(1_000_000)) / 1000 }

func (s *slide) next() sigproto.Evaluation {
	s.evaluation.Timestamp += 60
	for i := range s.evaluation.Series {
		one := &s.evaluation.Series[i]
		if len(one.Times) == cap(one.Times) {
			one.Times = append(make([]int64, 0, s.points+spare), one.Times...)
			one.Values = append(make([]float64, 0, s.points+spare), one.Values...)
		}
		one.Times = append(one.Times, s.evaluation.Timestamp)[1:]
		one.Values = append(one.Values, s.value())[1:]
	}
	return s.evaluation
}
