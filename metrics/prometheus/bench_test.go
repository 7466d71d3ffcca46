package prometheus_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

// A tick reads 20 queries, each with 100 series of 240 points.
const (
	benchQueries = 20
	benchSeries  = 100
	benchPoints  = 240
)

// BenchmarkTick reads the windows of a tick from a real Prometheus, all at the same time: as a bare fetch of the same answers, as
// whole windows, and with the cache, which reads the new points only.
func BenchmarkTick(b *testing.B) {
	server := promtest.Storage(b)
	end := time.Now().Truncate(step)
	var all []promtest.Series
	for i := range benchSeries {
		s := promtest.Series{Labels: map[string]string{"__name__": "load", "i": fmt.Sprint(i)}}
		for n := range benchPoints {
			s.Times, s.Values = append(s.Times, end.Add(time.Duration(n-benchPoints)*step)), append(s.Values, float64(i)+float64(n)/7)
		}
		all = append(all, s)
	}
	server.Write(all...)
	queries := make([]metrics.Query, benchQueries)
	for i := range queries {
		queries[i] = query(b, fmt.Sprintf("load * %d", i+1), end, benchPoints*step)
	}
	tick := func(b *testing.B, read func(metrics.Query) error) {
		b.ReportAllocs()
		for b.Loop() {
			var wg sync.WaitGroup
			for _, q := range queries {
				wg.Go(func() {
					if err := read(q); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
		}
	}
	b.Run("fetch", func(b *testing.B) { tick(b, func(q metrics.Query) error { return fetch(server.URL, q) }) })
	s := open(b, "url: "+server.URL)
	b.Run("whole", func(b *testing.B) {
		tick(b, func(q metrics.Query) error {
			found, err := s.Window(b.Context(), q)
			if err == nil && len(found) != benchSeries {
				err = fmt.Errorf("%d series", len(found))
			}
			return err
		})
	})
	cache, err := windows.New(source.Router{Sources: map[string]source.Source{"prom": s}}, windows.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("cached", func(b *testing.B) {
		tick(b, func(q metrics.Query) error { _, err := cache.Window(b.Context(), q); return err })
	})
}

// fetch requests the answer to a query, and discards it.
func fetch(server string, q metrics.Query) error {
	from, to := source.Grid(q)
	form := url.Values{"query": {q.Text}, "start": {fmt.Sprint(from)}, "end": {fmt.Sprint(to)}, "step": {fmt.Sprint(q.Step.Seconds())}}
	answer, err := http.Post(server+"/api/v1/query_range", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
