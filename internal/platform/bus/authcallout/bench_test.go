package authcallout_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
)

// agentsAtOnce is the number of connection attempts that run at the same time.
const agentsAtOnce = 100

// fleet is the number of agents; AGENTS replaces it.
func fleet(b *testing.B) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("AGENTS"), "2000"))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// all calls connect for each agent and returns the whole time and the median of one connection.
func all(b *testing.B, n int, connect func(i int) (*nats.Conn, error)) (total, median time.Duration, conns []*nats.Conn) {
	b.Helper()
	took := make([]time.Duration, n)
	conns = make([]*nats.Conn, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	begin := time.Now()
	for range agentsAtOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				start := time.Now()
				nc, err := connect(i)
				if err != nil {
					b.Errorf("agent %d: %v", i, err)
					continue
				}
				took[i], conns[i] = time.Since(start), nc
			}
		})
	}
	wg.Wait()
	total = time.Since(begin)
	if b.Failed() {
		b.FailNow()
	}
	return total, slices.Sorted(slices.Values(took))[n/2], conns
}

// one measures connections that do not wait for each other.
func one(b *testing.B, connect func(i int) (*nats.Conn, error)) time.Duration {
	b.Helper()
	var took []time.Duration
	for i := range 100 {
		start := time.Now()
		nc, err := connect(i)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		nc.Close()
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkFleet connects a fleet of agents to a cluster of three through two responders, and then ends one server.
// The same number of static users connects in the same run, for comparison.
func BenchmarkFleet(b *testing.B) {
	n := fleet(b)
	for b.Loop() {
		w := newWorld(b, 3, n, false)
		first, _ := w.respond(nil)
		second, _ := w.respond(nil)
		static := func(i int) (*nats.Conn, error) {
			return nats.Connect(w.urls(), nats.Nkey(identitytest.Public(b, w.static[i]), w.static[i].Sign), nats.Timeout(30*time.Second))
		}
		logins := make([]*identity.Login, n)
		for i := range logins {
			logins[i] = w.login(fmt.Sprintf("i-%d", i), w.secret)
		}
		agent := func(i int) (*nats.Conn, error) {
			connected := make(chan struct{}, 2)
			nc, err := w.dial(logins[i], func(o *nats.Options) { // as "weir agent": it tries again after a refusal
				o.RetryOnFailedConnect, o.ConnectedCB = true, func(*nats.Conn) { connected <- struct{}{} }
			})
			if err == nil {
				<-connected
			}
			return nc, err
		}
		staticOne, agentOne := one(b, static), one(b, agent)
		staticTotal, _, conns := all(b, n, static)
		for _, nc := range conns {
			nc.Close()
		}
		whole, _, conns := all(b, n, agent)
		accepted := first.Status().Accepted + second.Status().Accepted

		begin := time.Now()
		w.servers[2].Shutdown()
		w.servers[2].WaitForShutdown()
		w.wait("all agents are back", func() bool {
			return !slices.ContainsFunc(conns, func(nc *nats.Conn) bool { return !nc.IsConnected() })
		})
		back := time.Since(begin)
		moved := first.Status().Accepted + second.Status().Accepted - accepted
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(whole.Seconds(), "s/fleet")
		b.ReportMetric(back.Seconds(), "s/back")
		b.ReportMetric(float64(moved), "moved")
		b.ReportMetric(float64(agentOne.Microseconds())/1000, "ms/connect")
		b.ReportMetric(float64(agentOne)/float64(staticOne), "connect/static")
		b.ReportMetric(float64(whole)/float64(staticTotal), "fleet/static")
		refused := total(first.Status()) + total(second.Status())
		b.ReportMetric(float64(refused), "refused")
	}
}
