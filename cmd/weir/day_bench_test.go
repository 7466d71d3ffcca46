package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/pools"
)

// timed adds up how long the provider's calls take.
type timed struct {
	pools.Provider
	took *atomic.Int64 // ns
}

type timedGroup struct {
	pools.Group
	took *atomic.Int64
}

func (t timed) Groups(ctx context.Context) (pools.Listing, error) {
	defer add(t.took, time.Now())
	found, err := t.Provider.Groups(ctx)
	out := make([]pools.Group, len(found.Groups))
	for i, g := range found.Groups {
		out[i] = timedGroup{g, t.took}
	}
	found.Groups = out
	return found, err
}

func (t timedGroup) SetTarget(ctx context.Context, target int) error {
	defer add(t.took, time.Now())
	return t.Group.SetTarget(ctx, target)
}

func (t timedGroup) Terminate(ctx context.Context, ids []string) error {
	defer add(t.took, time.Now())
	return t.Group.Terminate(ctx, ids)
}

func add(to *atomic.Int64, began time.Time) { to.Add(int64(time.Since(began))) }

// BenchmarkDayTick is a whole tick of a pool of 2000 instances in 5 groups with 4
// signals, against the test server and the embedded NATS, in which nothing is to be
// done:
//
//	provider-ms  of it, the provider's calls
//	rest-ms      all else: windows, decision, plan, state, ledger  (figure: 20)
//	record-KB    its record in the ledger, packed, with its headers
//	ledger-days  how many days the default ledger keeps with a tick each 10 s
func BenchmarkDayTick(b *testing.B) {
	d := newDay(b, 1, 4)
	d.born()
	defer func() { d.life.buried() }()
	d.flat = 4 * 750 // what it is
	var rest, provider time.Duration
	for b.Loop() {
		d.server.Advance(dayTick)
		d.measure()
		before, began := d.life.provider.Load(), time.Now()
		if err := d.life.loop.Tick(d.life.ctx, d.server.Now()); err != nil {
			b.Fatal(err)
		}
		in := time.Duration(d.life.provider.Load() - before)
		provider, rest = provider+in, rest+time.Since(began)-in
		<-d.life.wrote
	}
	b.ReportMetric(float64(provider.Microseconds())/1e3/float64(b.N), "provider-ms")
	b.ReportMetric(float64(rest.Microseconds())/1e3/float64(b.N), "rest-ms")
	stream, err := d.js.Stream(d.life.ctx, names.LedgerStream(dayCluster, dayPool))
	if err != nil {
		b.Fatal(err)
	}
	stored := stream.CachedInfo().State
	record := float64(stored.Bytes) / float64(stored.Msgs)
	b.ReportMetric(record/1e3, "record-KB")
	b.ReportMetric(float64(streams.LedgerBytes)/record*10/(24*3600), "ledger-days")
}
