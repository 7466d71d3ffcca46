package simulate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// BenchmarkWhatIf previews a pool of 2000 nodes with 20 000 copies of 200 apps as if one of its two zones were away, with the loop, the
// decision, the placer and the form of the answer of production. The limit is 1 s.
func BenchmarkWhatIf(b *testing.B) {
	const limit = time.Second
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	counts := NewSeries()
	var apps []App
	for i := range 200 {
		app := App{Name: fmt.Sprint("app", i), Copy: resource.Vector{0.2 + float64(i%20)/100, 1000}}
		if err := counts.AddInstances(app.Name, start, 100); err != nil {
			b.Fatal(err)
		}
		apps = append(apps, app)
	}
	work, err := NewApps("default", counts, apps...)
	if err != nil {
		b.Fatal(err)
	}
	s := Scenario{
		Start: start, Ticks: 3, Work: work, Pool: Policy{
			Cluster: "here", Pool: "default", Tick: time.Minute, Drain: drain.Config{Threshold: time.Hour}, Prune: api.PruneLimits{MaxWeight: 1, MaxTasks: api.Unbounded},
			Policy: api.DecisionPolicy{
				Setpoint: 0.8, Combine: api.CombineSum, Period: time.Minute, Limits: api.TargetLimits{Min: 2000, Max: 10_000, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
			},
			Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
		},
	}
	for _, id := range []string{"a", "b"} {
		s.Groups = append(s.Groups, Group{ID: id, Target: 1000, Weight: 1, Machine: resource.Vector{4, 64_000}, Market: price.Market{Type: "m5", Zone: "z" + id}})
	}
	w := newWorld(&s)
	defer w.loop.Close()
	if err := w.run(b.Context()); err != nil {
		b.Fatal(err)
	}
	var r api.TickRecord
	var answer bytes.Buffer
	for b.Loop() {
		if r, err = w.loop.Preview(b.Context(), api.WhatIf{Without: []string{"zone/za"}}); err != nil {
			b.Fatal(err)
		}
		answer.Reset()
		packed := gzip.NewWriter(&answer) // as on the bus
		if err := errors.Join(json.NewEncoder(packed).Encode(r), packed.Close()); err != nil {
			b.Fatal(err)
		}
	}
	if r.Case.Places == nil || r.Case.Places.MovesCount < 5000 || r.Result.Groups["b"] < 2000 {
		b.Fatalf("%d copies move, targets %v", r.Case.Places.MovesCount, r.Result.Groups)
	}
	took := b.Elapsed() / time.Duration(b.N)
	b.ReportMetric(float64(r.Case.Places.MovesCount), "moves")
	b.ReportMetric(float64(answer.Len()), "answer_bytes")
	b.ReportMetric(float64(took)/float64(limit), "x_limit")
}
