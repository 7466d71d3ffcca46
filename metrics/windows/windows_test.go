package windows_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

func TestCacheConforms(t *testing.T) {
	c := windows.Config{Overlap: 2 * time.Hour} // the suite writes late points
	metricstest.Run(t, func(t *testing.T) metrics.Store { return cache(t, &memory.Store{}, c) })
}

func cache(t testing.TB, store metrics.Store, c windows.Config) *windows.Cache {
	t.Helper()
	w, err := windows.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// watched is a store that counts reads, can fail, and can hide a series.
type watched struct {
	memory.Store
	asked  []time.Duration // lengths of the reads, in order
	fail   error
	hidden string // key of the hidden series

	resolution time.Duration // of the queries of a property
}

func (w *watched) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	w.asked = append(w.asked, q.To.Sub(q.From))
	if w.fail != nil {
		return nil, w.fail
	}
	series, err := w.Store.Window(ctx, q)
	return slices.DeleteFunc(series, func(s metrics.Series) bool { return metrics.Key(s.Name, s.Dimensions) == w.hidden }), err
}

// base is the second that the tests count from.
const base = 1_700_000_000

func at(second int64) time.Time { return time.Unix(base+second, 0) }

// put writes points of the series "m", or of the zone's, as pairs of second and value.
func put(t testing.TB, store metrics.Store, zone string, points ...[2]float64) {
	t.Helper()
	var samples []metrics.Sample
	for _, p := range points {
		s := metrics.Sample{Type: metrics.System, Name: "m", Time: at(0).Add(time.Duration(p[0] * float64(time.Second))), Value: p[1]}
		if zone != "" {
			s.Dimensions = metrics.Dimensions{"zone": zone}
		}
		samples = append(samples, s)
	}
	if err := store.Write(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
}

// ask returns the window of ten minutes that ends at a second.
func ask(t testing.TB, store metrics.Store, second int64) []metrics.Series {
	t.Helper()
	return askBy(t, store, second, 0)
}

func askBy(t testing.TB, store metrics.Store, second int64, resolution time.Duration) []metrics.Series {
	t.Helper()
	q := window(second)
	q.Resolution = resolution
	series, err := store.Window(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return series
}

func window(second int64) metrics.Query {
	return metrics.Query{Type: metrics.System, Name: "m", From: at(second - 600), To: at(second)}
}

// one returns the only series, which must have these values.
func one(t *testing.T, series []metrics.Series, values ...float64) metrics.Series {
	t.Helper()
	if len(series) != 1 || !slices.Equal(series[0].Values, values) || len(series[0].Times) != len(values) || series[0].Lineage == 0 {
		t.Fatalf("window = %+v, want one series of %v, with a lineage", series, values)
	}
	return series[0]
}

func TestLineage(t *testing.T) {
	three := [][2]float64{{0, 1}, {60, 2}, {120, 3}}
	tests := map[string]struct {
		change func(*testing.T, *watched)
		second int64 // end of the second query; the first ends at 130
		want   []float64
		same   bool
	}{
		"nothing new":                  {func(*testing.T, *watched) {}, 190, []float64{1, 2, 3}, true},
		"asked again at once":          {func(*testing.T, *watched) {}, 130, []float64{1, 2, 3}, true},
		"a point behind the last":      {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{180, 4}) }, 190, []float64{1, 2, 3, 4}, true},
		"and one left behind":          {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{180, 4}) }, 601, []float64{2, 3, 4}, true},
		"all but the last left behind": {func(*testing.T, *watched) {}, 720, []float64{3}, true},
		"a late point between":         {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{90, 9}) }, 190, []float64{1, 2, 9, 3}, false},
		"a late point in front":        {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{-60, 9}) }, 190, []float64{9, 1, 2, 3}, false},
		"a late point of one second":   {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{120.5, 2}) }, 190, []float64{1, 2, 2, 3}, false},
		"behind the last, same second": {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{120.5, 3.5}) }, 190, []float64{1, 2, 3, 3.5}, true},
		"a changed value":              {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{60, 7}) }, 190, []float64{1, 7, 3}, false},
		"later than the overlap":       {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{-181, 9}) }, 190, []float64{1, 2, 3}, true},
		"and found by a full read":     {func(t *testing.T, w *watched) { put(t, w, "", [2]float64{-181, 9}) }, 370, []float64{9, 1, 2, 3}, false},
		"the question goes back":       {func(*testing.T, *watched) {}, 70, []float64{1, 2}, false},
		"another series":               {func(t *testing.T, w *watched) { put(t, w, "a", [2]float64{-1000, 1}, [2]float64{-900, 1}) }, 190, []float64{1, 2, 3}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := &watched{}
			c := cache(t, store, windows.Config{Full: 4 * time.Minute})
			put(t, store, "", three...)
			first := one(t, ask(t, c, 130), 1, 2, 3)
			tt.change(t, store)
			second := one(t, ask(t, c, tt.second), tt.want...)
			if (first.Lineage == second.Lineage) != tt.same {
				t.Errorf("lineages %d and %d, want the same: %v", first.Lineage, second.Lineage, tt.same)
			}
			one(t, []metrics.Series{first}, 1, 2, 3)
		})
	}
}

func TestSeriesDisappearsAndReturns(t *testing.T) {
	store := &watched{}
	c := cache(t, store, windows.Config{Full: time.Hour})
	put(t, store, "", [2]float64{0, 1}, [2]float64{590, 2})
	put(t, store, "a", [2]float64{0, 1})
	first := ask(t, c, 600)
	store.hidden = "m"
	second := ask(t, c, 600)
	store.hidden = ""
	third := ask(t, c, 600)
	if len(first) != 2 || len(second) != 1 || len(third) != 2 || metrics.Key("m", second[0].Dimensions) != "m|zone=a" {
		t.Fatalf("windows of %d, %d and %d series: %v", len(first), len(second), len(third), second)
	}
	if diff := cmp.Diff(first, third, cmpopts.IgnoreFields(metrics.Series{}, "Lineage")); diff != "" {
		t.Errorf("after the series is back (-first +third):\n%s", diff)
	}
	if first[0].Lineage == third[0].Lineage || first[1].Lineage != third[1].Lineage {
		t.Errorf("lineages %d, %d and then %d, %d: want a new one for the first only",
			first[0].Lineage, first[1].Lineage, third[0].Lineage, third[1].Lineage)
	}
}

// A writer that is always later than the overlap hides no points.
func TestLateWriter(t *testing.T) {
	const delay = 480 // seconds; the overlap is 300
	store := &watched{}
	c := cache(t, store, windows.Config{})
	for second := int64(-1200); second < 2700; second += 60 {
		put(t, store, "", [2]float64{float64(second - delay), 1})
		if second%600 == 0 { // a writer that is on time does not hide them either
			put(t, store, "a", [2]float64{float64(second), 2})
		}
		if second >= 0 {
			wantStores(t, c, store, second)
		}
	}
}

// wantStores compares the cache's window with the store's own.
func wantStores(t *testing.T, c *windows.Cache, store *watched, second int64) {
	t.Helper()
	got := ask(t, c, second)
	want, err := store.Store.Window(t.Context(), window(second))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metrics.Series{}, "Lineage"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("window at %d (-store +cache):\n%s", second, diff)
	}
}

// After an outage a writer first writes the newest points, and the missed ones minutes later.
func TestBacklog(t *testing.T) {
	tests := map[string]int64{"within the window": 480, "longer than the window": 1200}
	for name, outage := range tests {
		t.Run(name, func(t *testing.T) {
			store := &watched{}
			c := cache(t, store, windows.Config{})
			tick := func(second int64, writes bool) {
				put(t, store, "a", [2]float64{float64(second), 2})
				if writes {
					put(t, store, "", [2]float64{float64(second), 1})
				}
				wantStores(t, c, store, second)
			}
			for second := int64(0); second <= 600; second += 60 {
				tick(second, true)
			}
			back := 600 + outage
			for second := int64(660); second < back; second += 60 {
				tick(second, false)
			}
			for second := back; second < back+120; second += 60 {
				tick(second, true)
			}
			for second := int64(660); second < back; second += 60 {
				put(t, store, "", [2]float64{float64(second), 3})
			}
			for second := back + 120; second < back+1800; second += 60 {
				tick(second, true)
			}
		})
	}
}

func TestReadsNewPointsOnly(t *testing.T) {
	store := &watched{}
	c := cache(t, store, windows.Config{Overlap: time.Minute, Full: 5 * time.Minute})
	for second := -600.0; second <= 2000; second += 10 {
		put(t, store, "", [2]float64{second, 1})
	}
	for _, second := range []int64{0, 60, 60, 120, 90, 300, 391, 2000} {
		ask(t, c, second)
	}
	want := []time.Duration{10 * time.Minute, 2 * time.Minute, time.Minute, 2 * time.Minute, 10 * time.Minute, 270 * time.Second, 10 * time.Minute, 10 * time.Minute}
	if diff := cmp.Diff(want, store.asked); diff != "" {
		t.Errorf("lengths of what was read (-want +got):\n%s", diff)
	}
}

func TestWindowsAreDistinct(t *testing.T) {
	store := &watched{}
	c := cache(t, store, windows.Config{})
	var samples []metrics.Sample
	for _, kind := range metrics.Types() {
		for _, name := range []string{"m", "n", "web,m"} {
			for _, d := range []metrics.Dimensions{nil, {"a": "1", "b": "2"}, {"a": `1","b":"2`}} {
				samples = append(samples, metrics.Sample{Type: kind, Name: name, Dimensions: d, Time: at(600)})
			}
		}
	}
	if err := store.Write(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
	good := metrics.Query{Type: metrics.App, Name: "m", Dimensions: metrics.Dimensions{"a": "1"}, From: at(0), To: at(600)}
	change := map[string]func(*metrics.Query){
		"itself":     func(*metrics.Query) {},
		"type":       func(q *metrics.Query) { q.Type = metrics.System },
		"name":       func(q *metrics.Query) { q.Name = "n" },
		"dimensions": func(q *metrics.Query) { q.Dimensions = metrics.Dimensions{"a": `1","b":"2`} },
		"more":       func(q *metrics.Query) { q.Dimensions = metrics.Dimensions{"a": "1", "b": "2"} },
		"none":       func(q *metrics.Query) { q.Dimensions = nil },
		"length":     func(q *metrics.Query) { q.From = at(1) },
		"regex":      func(q *metrics.Query) { q.Regex = true },
		"prefix":     func(q *metrics.Query) { q.Regex, q.Prefix = true, "web," },
	}
	for range 2 {
		for _, name := range slices.Sorted(maps.Keys(change)) {
			q := good
			change[name](&q)
			if _, err := c.Window(t.Context(), q); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	whole := func(d time.Duration) bool { return d >= 599*time.Second }
	if n := len(change); len(store.asked) != 2*n || !whole(slices.Min(store.asked[:n])) || whole(slices.Max(store.asked[n:])) {
		t.Errorf("read %v, want %d whole windows, and then what is new", store.asked, n)
	}
}

func TestStoreErrorsAreWindowErrors(t *testing.T) {
	store := &watched{}
	c := cache(t, store, windows.Config{})
	put(t, store, "", [2]float64{0, 1})
	before := one(t, ask(t, c, 10), 1)
	store.fail = errors.New("away")
	for range 2 {
		if got, err := c.Window(t.Context(), window(70)); !errors.Is(err, store.fail) {
			t.Errorf("Window = %v, %v, want the store's error", got, err)
		}
	}
	put(t, store, "", [2]float64{60, 2}, [2]float64{120, 3})
	store.fail = nil
	if after := one(t, ask(t, c, 130), 1, 2, 3); after.Lineage != before.Lineage {
		t.Error("a new lineage, want the old one: points were only added")
	}
}

// TestErrorAfterALoss: a changed window is read whole, even if that takes a second query.
func TestErrorAfterALoss(t *testing.T) {
	store := &watched{}
	c := cache(t, &failsOnce{watched: store}, windows.Config{})
	put(t, store, "", [2]float64{0, 1}, [2]float64{590, 2})
	one(t, ask(t, c, 600), 1, 2)
	store.hidden = "m"
	if got, err := c.Window(t.Context(), window(600)); err == nil {
		t.Fatalf("Window = %v, want the error of the second read", got)
	}
	if got := ask(t, c, 600); len(got) != 0 {
		t.Errorf("Window = %v, want none", got)
	}
}

// failsOnce fails the third read.
type failsOnce struct {
	*watched
	reads int
}

func (f *failsOnce) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if f.reads++; f.reads == 3 {
		return nil, errors.New("away")
	}
	return f.watched.Window(ctx, q)
}

func TestIdleWindowsAreDropped(t *testing.T) {
	store := &watched{}
	c := cache(t, store, windows.Config{Idle: 20 * time.Minute, Full: 24 * time.Hour})
	put(t, store, "", [2]float64{2401, 1})
	other := func(second int64) metrics.Query {
		q := window(second)
		q.Name = "other"
		return q
	}
	for _, q := range []metrics.Query{window(0), other(1200), window(1200), other(2401), window(2401), window(2402)} {
		if _, err := c.Window(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	whole, none := 10*time.Minute, 5*time.Minute+time.Second
	// At 1200 the first window is just young enough; at 2401 both windows are too old.
	if want := []time.Duration{whole, whole, whole, whole, whole, none}; !slices.Equal(want, store.asked) {
		t.Errorf("read %v, want %v", store.asked, want)
	}
}

func TestConfig(t *testing.T) {
	_, err := windows.New(&watched{}, windows.Config{Overlap: -1, Full: -1, Idle: -1})
	for _, word := range []string{"overlap", "full", "idle"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("New = %v, want an error that names %s", err, word)
		}
	}
}

// slow is a store that answers on command.
type slow struct {
	memory.Store
	reading, most atomic.Int32
	release       chan struct{}
}

func (s *slow) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	n := s.reading.Add(1)
	defer s.reading.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	select {
	case <-s.release:
		return s.Store.Window(ctx, q)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestOneReadOfAWindowAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{release: make(chan struct{})}
		c := cache(t, store, windows.Config{})
		var wg sync.WaitGroup
		wg.Go(func() { ask(t, c, 0) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if got, err := c.Window(ctx, window(0)); !errors.Is(err, context.Canceled) {
				t.Errorf("Window = %v, %v, want context.Canceled", got, err)
			}
		})
		wg.Go(func() { ask(t, c, 0) })
		synctest.Wait()
		cancel() // a waiting caller ends with its context
		synctest.Wait()
		if n := store.reading.Load(); n != 1 {
			t.Errorf("%d reads at a time, want 1", n)
		}
		wg.Go(func() { // another window does not wait
			if _, err := c.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "n", To: at(0)}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if n := store.reading.Load(); n != 2 {
			t.Errorf("%d reads at a time, want 2", n)
		}
		close(store.release)
		wg.Wait()
	})
}

// TestConcurrentUse is for the race detector: goroutines read answers while the cache makes others from the same
// memory.
func TestConcurrentUse(t *testing.T) {
	store := &memory.Store{}
	c := cache(t, store, windows.Config{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for second := range int64(200) {
				put(t, c, "", [2]float64{float64(second), float64(second)})
				for _, s := range ask(t, c, second) {
					if !slices.IsSorted(s.Times) || !slices.IsSorted(s.Values) {
						t.Errorf("series is %v", s)
					}
				}
			}
		})
	}
	wg.Wait()
}
