package web_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/webtest"
)

// filled returns pages with the data of a world.
func filled(b *testing.B, w *webtest.World) *web.Server {
	b.Helper()
	s := web.New(web.Config{Source: w, Details: w, Cluster: "prod", Now: webtest.Now})
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

// cpu reports the processor time of each run, and with the number of runs in a second the part of a core. The time that
// the benchmark prints includes waiting for a processor.
func cpu(b *testing.B) func(rate ...float64) {
	used := func() (d time.Duration) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func(rate ...float64) {
		ms := float64((used() - before).Microseconds()) / 1000 / float64(b.N)
		b.ReportMetric(ms, "cpu-ms/op")
		for _, r := range rate {
			b.ReportMetric(ms*r/10, "%-of-a-core")
		}
	}
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

// The page of a pool with 2000 nodes and 200 apps, and its plots after each tick. The goals are 1 s and 20 ms.
func BenchmarkLargePool(b *testing.B) {
	w := &webtest.World{Size: 1, Every: 10 * time.Second, Large: true, Live: time.Hour}
	s := filled(b, w)
	for name, path := range map[string]string{"page": "/pools/prod/checkout-eu1?range=24h", "plots": "/pools/prod/checkout-eu1?range=24h&part=plots&at=2026-11-22T15:00:00Z"} {
		b.Run(name, func(b *testing.B) {
			report := cpu(b)
			for b.Loop() {
				request(s, path, "")
			}
			report()
			measure(b, s, path)
		})
	}
}

// The page of the events of a pool with 500 events a second. The reference is that of a quarter of an hour, 450,000 events.
func BenchmarkEventPage(b *testing.B) {
	w := &webtest.World{Size: 1, Every: time.Minute, Burst: 500}
	s := filled(b, w)
	report := cpu(b)
	for b.Loop() {
		request(s, "/pools/prod/checkout-eu1/events?range=15m", "")
	}
	report()
	measure(b, s, "/pools/prod/checkout-eu1/events?range=15m")
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

// An event with 100 open tabs, over HTTP: of 100 pools with ticks of 10 s. Tabs of the fleet receive the changed pools each
// second. A tab of a pool draws its plots again after each tick. The goal is less than 10 % of a core. The clients are in the
// same process, so their work counts too.
func BenchmarkHundredTabs(b *testing.B) {
	const tabs, pools = 100, 100
	for name, c := range map[string]struct {
		query, event, plots string
		changed             int     // pools in one event
		rate                float64 // events in a second
	}{
		"fleet": {"", "event: pools", "", pools / 10, 1},
		"pool":  {"?pool=prod/checkout-eu1", "event: tick", "/pools/prod/checkout-eu1?range=6h&part=plots", 1, 0.1},
	} {
		b.Run(name, func(b *testing.B) {
			w := &webtest.World{Size: pools, Every: time.Minute, Trouble: true}
			server := httptest.NewServer(filled(b, w))
			b.Cleanup(server.Close)
			var last api.Summary
			if err := w.Since(b.Context(), webtest.Hero, webtest.Now().Add(-time.Hour), func(s api.Summary) error { last = s; return nil }); err != nil {
				b.Fatal(err)
			}
			names := slices.DeleteFunc(w.Names(), func(name web.Name) bool { return name == webtest.Hero })
			names = append([]web.Name{webtest.Hero}, names[:c.changed-1]...)
			done := make(chan error, tabs)
			for range tabs {
				response, err := http.Get(server.URL + "/events" + c.query)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { response.Body.Close() })
				go func() {
					for lines := bufio.NewScanner(response.Body); lines.Scan(); {
						if lines.Text() != c.event {
							continue
						}
						err := error(nil)
						if c.plots != "" {
							err = draw(server.URL + c.plots)
						}
						done <- err
					}
				}()
			}
			last.At = webtest.Now().Add(-time.Second)
			report := cpu(b)
			for b.Loop() {
				last.At = last.At.Add(time.Millisecond)
				for _, name := range names {
					w.Publish(name, last)
				}
				for range tabs {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
			report(c.rate)
		})
	}
}

// draw requests the plots as a browser does.
func draw(url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
