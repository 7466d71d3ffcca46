package bootstrap_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
)

// BenchmarkSwap swaps the version of a signal that is asked all the time, to and
// fro, and reports the longest gap between two answers, in ms: of all swaps, and
// of half of them. The target is 20 ms.
func BenchmarkSwap(b *testing.B) {
	plan := released("benchswap")
	s := newStore(b, plan)
	s.publish(b, pinned(plan, next).Signals[1].Ref(), behaving(four))
	p := start(b, plan, s, long)
	a := p.arrivals.next(b)
	a.awaitEntry(b, "web", "up", up)
	e := a.evaluate(b, patient)
	var gaps []time.Duration
	versions := []string{next, version}
	for b.Loop() {
		e.forget()
		e.awaitAnswers(b, "web", 20)
		want := versions[len(gaps)%2]
		update(b, p, pinned(plan, want))
		a.awaitEntry(b, "web", "switched", runs(want))
		e.awaitAnswers(b, "web", 20)
		h := e.ofApp("web")
		if h.failed > 0 {
			b.Fatalf("%d evaluations failed, the last with %v", h.failed, h.lastErr)
		}
		gaps = append(gaps, h.longest)
	}
	reportGaps(b, gaps)
}

// BenchmarkKill kills a signal with SIGKILL, and reports how long it took until an
// evaluation succeeded that was tried again and again from then on, in ms. The
// target is 50 ms.
func BenchmarkKill(b *testing.B) {
	plan := released("benchkill")
	s := newStore(b, plan)
	p := start(b, plan, s, long)
	a := p.arrivals.next(b)
	entry := a.awaitEntry(b, "web", "up", up)
	var gaps []time.Duration
	for b.Loop() {
		killed := time.Now()
		kill(b, -entry.Group)
		for deaf(entry.Address) || ask(b, entry.Address) != nil {
		}
		gaps = append(gaps, time.Since(killed))
		before := entry
		entry = a.awaitEntry(b, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != before.Group })
		if err := p.Restart("web"); err != nil { // and its failures are forgotten
			b.Fatal(err)
		}
		before = entry
		entry = a.awaitEntry(b, "web", "up after a restart", func(e bootstrap.Entry) bool { return up(e) && e.Group != before.Group })
	}
	reportGaps(b, gaps)
}

// deaf tries to connect, and reports whether that was in vain, after a moment.
func deaf(address string) bool {
	conn, err := net.Dial("unix", "@"+address)
	if err == nil {
		conn.Close()
		return false
	}
	<-time.After(100 * time.Microsecond)
	return true
}

func reportGaps(b *testing.B, gaps []time.Duration) {
	slices.Sort(gaps)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(gaps[len(gaps)/2]), "median-ms")
	b.ReportMetric(ms(gaps[len(gaps)-1]), "longest-ms")
}
