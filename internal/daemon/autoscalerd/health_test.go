package autoscalerd

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Node health reports a pause of the whole pool while it lasts. While the orders are unreadable, the last known state
// stays.
func TestPauseWatch(t *testing.T) {
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, bus.Config{Data: t.TempDir(), Name: t.Name(), Log: log, Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	bustest.Streams(t, b.JetStream(), "c", 1, "p")
	orders, err := state.OpenOrders(ctx, b.JetStream(), "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	p := &pauseWatch{orders: orders, log: log}
	if _, known := p.state(); known {
		t.Error("it is known before it was read")
	}
	now := time.Now()
	for _, step := range []struct {
		name string
		give func() error
		want string
	}{
		{"nothing is ordered", func() error { return nil }, ""},
		{"paused", func() error { return orders.Pause(ctx, api.Note{By: "ann", Why: "an audit", At: now}) }, "the pool is paused by ann: an audit"},
		{"it is over", func() error {
			return orders.Pause(ctx, api.Note{By: "ann", At: now.Add(-time.Hour), Until: now.Add(-time.Minute)})
		}, ""},
		{"paused anew", func() error { return orders.Pause(ctx, api.Note{By: "bob", At: now}) }, "the pool is paused by bob"},
	} {
		if err := step.give(); err != nil {
			t.Fatal(err)
		}
		if err := p.read(ctx); err != nil {
			t.Fatal(err)
		}
		if why, known := p.state(); why != step.want || !known {
			t.Errorf("%s: %q, %t, want %q", step.name, why, known, step.want)
		}
	}
	b.Close()
	if err := p.read(ctx); err == nil {
		t.Error("orders are read from a bus that is gone")
	}
	if why, known := p.state(); !known || !strings.Contains(why, "bob") {
		t.Errorf("state() = %q, %t, want what was known", why, known)
	}
}

// Metrics are those of the current term. Between terms there are no metrics.
func TestLateCollector(t *testing.T) {
	var c lateCollector
	registry := prometheus.NewRegistry()
	if err := registry.Register(&c); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			all = append(all, f.GetName())
		}
		return all
	}
	gauge := func(name string) prometheus.Gauge { return prometheus.NewGauge(prometheus.GaugeOpts{Name: name}) }
	before := names()
	first := c.serve(gauge("first"))
	one := names()
	second := c.serve(gauge("second"))
	first() // another term has taken its place
	two := names()
	second()
	if len(before) > 0 || len(one) != 1 || one[0] != "first" || len(two) != 1 || two[0] != "second" || len(names()) > 0 {
		t.Errorf("before %v, then %v, then %v, then %v", before, one, two, names())
	}
}
