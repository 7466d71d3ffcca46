package fit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// BenchmarkSolve answers for a pool of 2000 nodes and 20 000 copies of 1000 apps. The limit is 30 ms.
func BenchmarkSolve(b *testing.B) {
	const limit = 30 * time.Millisecond
	for _, bench := range []struct {
		name          string
		fill          float64 // part of the nodes that copies use, on average
		waiting, most int
		places        int // that stay free
	}{
		{"5 leave", 0.5, 0, 5, 0},
		{"200 leave", 0.5, 0, 200, 0},
		{"200 leave, 1000 wait", 0.5, 1000, 200, 0},
		{"200 leave, 100 free places", 0.5, 0, 200, 100},
		{"none can leave", 0.97, 0, 200, 0},
		{"none can leave, 1000 wait", 0.97, 1000, 200, 0},
		{"none can leave, 100 free places", 0.97, 0, 200, 100},
		{"all wait", 0, 20_000, 200, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			w := largePool(bench.fill, bench.waiting, bench.most)
			if bench.places > 0 {
				w.Headroom = []fit.Headroom{{Place: fit.Copy{App: "spare", Footprint: resource.Vector{0.4, 2000}}, Wanted: bench.places}}
				w.Question.Headroom = []api.Headroom{{Name: "spare"}}
			}
			b.ReportAllocs()
			for b.Loop() {
				if a := fit.Solve(w); a.Validate(w.Question) != nil {
					b.Fatal(a.Validate(w.Question))
				}
			}
			took := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(took.Seconds()*1e3, "ms")
			b.ReportMetric(float64(took)/float64(limit), "x_limit")
		})
	}
}

func largePool(fill float64, waiting, most int) fit.World {
	const nodes, copies, apps = 2000, 20_000, 1000
	w := fit.World{Question: api.PlacesQuestion{Most: most}}
	size := resource.Vector{16, 65536, 100_000}
	app := func(i int) fit.Copy {
		of := i * 7919 % apps
		weight := 0.5 + float64(of%97)/97
		return fit.Copy{App: fmt.Sprint("app", of), Index: i, Footprint: resource.Vector{weight * 1.6, weight * 6500, 100}}
	}
	for i := range nodes {
		n := &fit.Node{ID: fmt.Sprintf("i-%017x", i*7919), Size: size, Room: size.Scale((1 - fill) * float64(i%21) / 10)}
		for j := range copies / nodes {
			if fill > 0 {
				n.Copies = append(n.Copies, app(i*copies/nodes+j))
			}
		}
		w.Nodes = append(w.Nodes, n)
		w.Question.Leave = append(w.Question.Leave, n.ID)
	}
	if fill == 0 {
		w.Nodes, w.Question.Leave = nil, nil
	}
	for i := range waiting {
		w.Waiting = append(w.Waiting, app(i))
	}
	for g := range 3 {
		w.Question.Kinds = append(w.Question.Kinds, api.PlacesKind{Group: fmt.Sprint("g", g), Resources: size.Scale(float64(int(1) << g)), Weight: float64(int(1) << g), Room: 5000})
	}
	return w
}
