package natsconf_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
