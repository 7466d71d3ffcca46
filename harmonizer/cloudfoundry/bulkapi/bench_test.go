package bulkapi

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// BenchmarkPass reads 100 000 apps over a socket, in pages of 500. Allocations include those
// of the server.
func BenchmarkPass(b *testing.B) {
	const n = 100_000
	w := overHTTP(b, Config{}, n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		rows := 0
		err := w.source.pass(b.Context(), time.Now(), func(_ context.Context, ev apps.Event) error {
			if ev, ok := ev.(apps.ExpectedRows); ok {
				rows += len(ev.Rows)
			}
			return nil
		})
		if err != nil || rows != n {
			b.Fatalf("reported %d rows, %v", rows, err)
		}
	}
	runtime.ReadMemStats(&after)
	all := n * float64(b.N)
	b.ReportMetric(all/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/row")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/row")
}
