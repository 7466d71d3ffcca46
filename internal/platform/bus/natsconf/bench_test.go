package natsconf_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// BenchmarkBorder compares acts of a pool through the imports of its account with the same acts within the account of the
// streams, on three servers with TLS. The unit "x" is the ratio of the medians.
func BenchmarkBorder(b *testing.B) {
	c := bustest.ServeEdited(b, addOpenUsers, prod)
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(b.Context(), deadline)
		b.Cleanup(cancel)
		return ctx
	}
	connect := func(account string) *nats.Conn {
		return bustest.Connect(b, c.URL(0), nats.UserInfo(openUser+" "+account, openUser), nats.Secure(c.TLS()), nats.Timeout(deadline))
	}
	inside := connect(roles.AccountStore)
	outside := connect(roles.User{Role: roles.Pool, Cluster: "prod", Pool: "web"}.Account())
	js, err := jetstream.New(inside)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range storeOf("prod", []string{"web"}) {
		if _, err := js.CreateStream(within(), s); err != nil {
			b.Fatal(err)
		}
	}
	const key = "$KV.weir-pool:prod:web.state"
	value, revision := make([]byte, 1024), uint64(0)
	acts := map[string]func(nc *nats.Conn) error{
		"compare-and-set of 1 kB": func(nc *nats.Conn) error {
			js, err := jetstream.New(nc)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: key, Data: value}, jetstream.WithExpectLastSequencePerSubject(revision))
			if err == nil {
				revision = ack.Sequence
			}
			return err
		},
		"direct get": func(nc *nats.Conn) error {
			m, err := nc.Request("$JS.API.DIRECT.GET.KV_weir-pool:prod:web."+key, nil, deadline)
			if err == nil && m.Header.Get("Nats-Sequence") == "" {
				return fmt.Errorf("no message: %v", m.Header)
			}
			return err
		},
	}
	first, err := js.Publish(within(), key, value)
	if err != nil {
		b.Fatal(err)
	}
	revision = first.Sequence
	for name, act := range acts {
		b.Run(name, func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, nc := range []*nats.Conn{inside, outside} { // in turn, so that both have the same load
					began := time.Now()
					if err := act(nc); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			median := func(all []time.Duration) float64 {
				slices.Sort(all)
				return float64(all[len(all)/2].Microseconds())
			}
			b.ReportMetric(median(took[0]), "µs-inside")
			b.ReportMetric(median(took[1]), "µs-import")
			b.ReportMetric(median(took[1])/median(took[0]), "x")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkAgents connects 2000 agents of a pool to three servers with TLS, and has each send a heartbeat, which the account of the
// harmonizer imports.
func BenchmarkAgents(b *testing.B) {
	const agents = 2000
	c := bustest.ServeEdited(b, addOpenUsers, prod)
	connect := func(u roles.User, server int) (*nats.Conn, error) {
		return nats.Connect(c.URL(server), nats.UserInfo(openUser+" "+u.Account(), openUser), nats.Secure(c.TLS()), nats.Timeout(deadline))
	}
	harmonizer, err := connect(roles.User{Role: roles.Harmonizer, Cluster: "prod"}, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer harmonizer.Close()
	received := make(chan *nats.Msg, agents)
	if _, err := harmonizer.ChanSubscribe("weir.prod.heartbeat.web.*", received); err != nil {
		b.Fatal(err)
	}
	heartbeat := make([]byte, 1024)
	var connected, arrived time.Duration
	for b.Loop() {
		began := time.Now()
		all := make([]*nats.Conn, agents)
		var g errgroup.Group
		g.SetLimit(32)
		for i := range all {
			g.Go(func() (err error) {
				all[i], err = connect(roles.User{Role: roles.Agent, Cluster: "prod", Pool: "web"}, i%len(c.Site.Servers))
				return err
			})
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
		for n := range all {
			select {
			case <-received:
			case <-time.After(deadline):
				b.Fatalf("%d of %d heartbeats arrived", n, agents)
			}
		}
		arrived = time.Since(began)
		for _, nc := range all {
			nc.Close()
		}
	}
	b.ReportMetric(connected.Seconds()*1000, "ms-connect")
	b.ReportMetric(arrived.Seconds()*1000, "ms-heartbeats")
	b.ReportMetric(0, "ns/op")
}
