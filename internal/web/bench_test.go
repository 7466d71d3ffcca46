package web_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/web"
	"github.com/weirkeeper/weirkeeper/internal/web/webtest"
)

// filled returns pages with the data of a world.
func filled(b *testing.B, w *webtest.World) *web.Server {
	b.Helper()
	s := web.New(web.Config{Source: w, Cluster: "prod", Now: webtest.Now})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // ends with the benchmark
	b.Cleanup(func() { cancel(); wg.Wait() })
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for range again.C {
		if response := request(s, "/pools/prod/none", ""); !strings.Contains(response.Body.String(), "out of date") {
			return s
		}
	}
	return s
}

func request(s http.Handler, path, encoding string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// cpu reports the processor time of each run. The time that the benchmark prints includes waiting for a processor.
func cpu(b *testing.B) func() {
	used := func() (d time.Duration) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op") }
}

// measure reports the size of a page, and of it compressed.
func measure(b *testing.B, s http.Handler, path string) {
	b.Helper()
	plain := request(s, path, "")
	if plain.Code != http.StatusOK {
		b.Fatalf("%s: status %d: %.300s", path, plain.Code, plain.Body)
	}
	packed := request(s, path, "gzip")
	b.ReportMetric(float64(plain.Body.Len())/1000, "kB")
	b.ReportMetric(float64(packed.Body.Len())/1000, "kB-gzip")
	if z, err := gzip.NewReader(packed.Body); err != nil {
		b.Fatal(err)
	} else if n, err := io.Copy(io.Discard, z); err != nil || n == 0 {
		b.Fatalf("%d bytes, %v", n, err)
	}
}

// The page of 100 pools with 240 columns each. The reference of the prototype is 112 kB, 16.8 kB packed, and 3.4 ms.
func BenchmarkFleetPage(b *testing.B) {
	s := filled(b, &webtest.World{Size: 100, Every: time.Minute, Trouble: true})
	report := cpu(b)
	for b.Loop() {
		request(s, "/pools", "")
	}
	report()
	measure(b, s, "/pools")
}

// The page of a pool with a day of 10 s ticks. The reference of the prototype is 139 kB, 32.8 kB packed, and 3.3 ms.
func BenchmarkPoolPage(b *testing.B) {
	s := filled(b, &webtest.World{Size: 1, Every: 10 * time.Second, Trouble: true})
	for _, span := range []string{"24h", "6h", "1h"} {
		b.Run(span, func(b *testing.B) {
			path := "/pools/prod/checkout-eu1?range=" + span
			report := cpu(b)
			for b.Loop() {
				request(s, path, "")
			}
			report()
			measure(b, s, path)
		})
	}
	b.Run("plots for one more viewer", func(b *testing.B) {
		path := "/pools/prod/checkout-eu1?range=24h&part=plots"
		report := cpu(b)
		for b.Loop() {
			request(s, path, "gzip")
		}
		report()
		measure(b, s, path)
	})
	b.Run("series", func(b *testing.B) {
		path := "/pools/prod/checkout-eu1?range=24h&part=series"
		report := cpu(b)
		for b.Loop() {
			request(s, path, "")
		}
		report()
		measure(b, s, path)
	})
}

// The page of a decision.
func BenchmarkDecisionPage(b *testing.B) {
	s := filled(b, &webtest.World{Size: 1, Every: time.Minute, Trouble: true})
	const path = "/pools/prod/checkout-eu1/ticks/2026-11-22T14:55:00Z?max_capacity=60"
	report := cpu(b)
	for b.Loop() {
		request(s, path, "")
	}
	report()
	measure(b, s, path)
}
