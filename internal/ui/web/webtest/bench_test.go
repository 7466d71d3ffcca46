package webtest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// The time from the start of a navigation to the first content in Chromium, for 100 pools with 2064 nodes, 200 apps and 24 h
// of ticks of 10 s, and for a pool with 2000 nodes and 200 apps. The goal is 1 s.
func BenchmarkFirstPaint(b *testing.B) {
	url := serve(b, &webtest.World{Size: 100, Every: 10 * time.Second, Trouble: true})
	large := serve(b, &webtest.World{Size: 1, Every: 10 * time.Second, Large: true, Live: time.Hour})
	for name, address := range map[string]string{
		"fleet": url + "/pools", "pool": url + "/pools/prod/checkout-eu1?range=24h", "decision": url + "/pools/prod/checkout-eu1/ticks/2026-11-22T14:55:00Z",
		"large pool": large + "/pools/prod/checkout-eu1?range=24h",
	} {
		b.Run(name, func(b *testing.B) {
			page := webtest.Browse(b, 1440, 1000, false)
			sum, worst := 0.0, 0.0
			for b.Loop() {
				page.Run(chromedp.Navigate(address))
				var ms float64
				page.Run(chromedp.Poll(`performance.getEntriesByName("first-contentful-paint")[0]?.startTime`, &ms))
				sum, worst = sum+ms, max(worst, ms)
			}
			b.ReportMetric(sum/float64(b.N), "ms-to-first-paint")
			b.ReportMetric(worst, "worst-ms")
		})
	}
}

// The memory of an open page, after garbage collection, with each event that it receives. A page receives one event in a
// second, so an hour has 3600. It must not grow.
func BenchmarkOpenPage(b *testing.B) {
	w := &webtest.World{Size: 100, Every: time.Minute, Trouble: true}
	url := serve(b, w)
	var last api.Summary
	if err := w.Since(b.Context(), webtest.Hero, webtest.Now().Add(-time.Hour), func(s api.Summary) error { last = s; return nil }); err != nil {
		b.Fatal(err)
	}
	last.At = webtest.Now().Add(-time.Second)
	for name, path := range map[string]string{"fleet": "/pools", "pool": "/pools/prod/checkout-eu1?range=6h"} {
		b.Run(name, func(b *testing.B) {
			page := webtest.Browse(b, 1440, 1000, false)
			page.Run(chromedp.Navigate(url+path), chromedp.WaitReady("body", chromedp.ByQuery), chromedp.Evaluate(`
				window.events = 0;
				const page = new EventSource(document.body.dataset.events);
				for (const name of ["tick", "pools"]) page.addEventListener(name, () => window.events++);`, nil))
			received := 0
			event := func() {
				last.At = last.At.Add(time.Millisecond)
				w.Publish(webtest.Hero, last)
				received++
				page.Await(`window.events >= ` + strconv.Itoa(received))
			}
			for range 5 { // caches fill
				event()
			}
			before := heap(b, page)
			for b.Loop() {
				event()
			}
			after := heap(b, page)
			b.ReportMetric(before/1000, "heap-kB-before")
			b.ReportMetric(after/1000, "heap-kB-after")
			b.ReportMetric((after-before)/float64(b.N), "heap-B/op")
		})
	}
}

// heap returns the used bytes of the page's heap after garbage collection.
func heap(b *testing.B, page *webtest.Tab) float64 {
	b.Helper()
	var used float64
	page.Run(heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		used, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	return used
}
