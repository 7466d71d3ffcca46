package store

import (
	"errors"
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics"
)

func TestWriterWritesItsOwnSeriesOnly(t *testing.T) {
	sample := func(of metrics.Type, pool string) metrics.Sample {
		return metrics.Sample{Type: of, Name: "cpus_allocated", Dimensions: metrics.Dimensions{"cluster": "c", "pool": pool}}
	}
	app := metrics.Sample{Type: metrics.App, Name: metrics.AppName("shop", "requests")}
	for _, tt := range []struct {
		who    Writer
		sample metrics.Sample
		ok     bool
	}{
		{PoolWriter("web"), sample(metrics.System, "web"), true},
		{PoolWriter("web"), sample(metrics.Metadata, "web"), true},
		{PoolWriter("web"), sample(metrics.System, "batch"), false},
		{PoolWriter("web"), metrics.Sample{Type: metrics.System, Name: "cpus_allocated"}, false},
		{PoolWriter("web"), sample(metrics.InstanceCounts, "web"), false},
		{PoolWriter("web"), app, false},
		{PlacerWriter("web"), sample(metrics.System, "web"), true},
		{PlacerWriter("web"), sample(metrics.System, "batch"), false},
		{PlacerWriter("web"), sample(metrics.Metadata, "web"), false},
		{HarmonizerWriter, sample(metrics.InstanceCounts, "web"), true},
		{HarmonizerWriter, sample(metrics.System, "web"), false},
		{OperatorWriter, app, true},
		{OperatorWriter, sample(metrics.System, "web"), true},
		{PoolWriter(""), sample(metrics.System, ""), false},
		{"", sample(metrics.System, ""), false},
		{"web", sample(metrics.System, "web"), false},
	} {
		if err := tt.who.Check([]metrics.Sample{tt.sample}); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("%q writes %v: %v, want accepted: %v", tt.who, tt.sample, err, tt.ok)
		}
	}
}
