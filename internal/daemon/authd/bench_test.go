package authd

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// BenchmarkAgents connects 2000 agents of a pool to three servers with TLS and the generated configuration. The role auth verifies
// each. Each sends a heartbeat of 1 kB, which the account of the harmonizer imports. Then one server reads its configuration again,
// which ends the connections of its agents, until all are back.
func BenchmarkAgents(b *testing.B) {
	const agents, atOnce = 2000, 100
	servers := bustest.StartProcesses(b, true, prod)
	c := serveAuth(b, servers.Cluster)
	received := make(chan *nats.Msg, agents)
	harmonizer := c.Connect(b, roles.User{Role: roles.Harmonizer, Cluster: "prod"}, c.first)
	if _, err := harmonizer.ChanSubscribe("weir.prod.heartbeat.web.*", received); err != nil {
		b.Fatal(err)
	}
	if err := harmonizer.Flush(); err != nil {
		b.Fatal(err)
	}
	proofs := make([]nats.Option, agents)
	for i := range proofs {
		proofs[i] = c.proves(b, fmt.Sprint("n", i), c.secrets)
	}
	back := make(chan struct{}, agents)
	connect := func(i int) (*nats.Conn, error) {
		connected := make(chan struct{}, 1)
		nc, err := nats.Connect(c.URL(i%len(c.Site.Servers)), nats.Secure(c.TLS()), proofs[i], nats.MaxReconnects(-1), func(o *nats.Options) error {
			o.ConnectedCB = func(*nats.Conn) { connected <- struct{}{} }
			o.ReconnectedCB = func(*nats.Conn) { back <- struct{}{} }
			return nil
		})
		if err == nil {
			<-connected
		}
		return nc, err
	}
	heartbeat := make([]byte, 1024)
	var connected, arrived, returned time.Duration
	for b.Loop() {
		began := time.Now()
		all := make([]*nats.Conn, agents)
		var g errgroup.Group
		g.SetLimit(atOnce)
		for i := range all {
			g.Go(func() (err error) { all[i], err = connect(i); return err })
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		connected = time.Since(began)
		began = time.Now()
		for i, nc := range all {
			if err := nc.Publish(fmt.Sprintf("weir.prod.heartbeat.web.n%d", i), heartbeat); err != nil {
				b.Fatal(err)
			}
		}
		for range all {
			await.Value(b, "a heartbeat of each agent", received)
		}
		arrived = time.Since(began)
		began = time.Now()
		servers.Reload(b, 1)
		for range (agents + 1) / len(c.Site.Servers) { // its agents: those with i%3 = 1
			await.Value(b, "an agent that is back", back)
		}
		returned = time.Since(began)
		for _, nc := range all {
			nc.Close()
		}
	}
	b.ReportMetric(connected.Seconds()*1000, "ms-connect")
	b.ReportMetric(arrived.Seconds()*1000, "ms-heartbeats")
	b.ReportMetric(returned.Seconds()*1000, "ms-back")
	b.ReportMetric(0, "ns/op")
}
