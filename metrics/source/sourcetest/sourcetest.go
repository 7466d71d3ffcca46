// Package sourcetest checks what each source of windows promises. The test of a source gives it a server that has points:
//
//	sourcetest.Run(t, sourcetest.Subject{Open: open, Gone: gone, Query: query, Step: step, End: end})
//
// Each promise is a subtest with a name that says it. What only one kind of source can do, its own test checks. The
// subtests run one after the other, and open as many sources as they need.
package sourcetest

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

// Subject is a kind of source, with a server that has points of one query at each step until End, and for an hour before.
type Subject struct {
	Open func() source.Source // opens a source of the server, of the name "it"
	Gone source.Source        // its server does not answer
	// Query returns the query with the points, or one that the server answers without a series, over a window.
	Query func(empty bool, end time.Time, window time.Duration) metrics.Query
	Step  time.Duration
	End   time.Time
}

// Run runs the checks.
func Run(t *testing.T, s Subject) {
	t.Run("points are complete, in order and at multiples of the step", s.points)
	t.Run("no series is empty and no error", s.empty)
	t.Run("equal queries at the same time have equal answers", s.concurrent)
	t.Run("a cache of new points equals whole windows", func(t *testing.T) { s.cached(t, 0) })
	t.Run("slots have the mean and the count of their points", s.slots)
	t.Run("an error names the source and the query", s.errors)
}

// window returns a window that ends at a time.
func (s Subject) window(t *testing.T, of source.Source, q metrics.Query) []metrics.Series {
	t.Helper()
	got, err := of.Window(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (s Subject) points(t *testing.T) {
	q := s.Query(false, s.End.Add(s.Step/2), 20*s.Step)
	got := s.window(t, s.Open(), q)
	if len(got) == 0 {
		t.Fatal("no series")
	}
	from, to := source.Grid(q)
	for _, one := range got {
		if one.Name != "" {
			t.Errorf("the name is %q, want none: two metrics with one query share an answer", one.Name)
		}
		for i, at := range one.Times {
			if want := from + int64(i)*int64(s.Step/time.Second); at != want {
				t.Fatalf("point %d is at %d, want %d", i, at, want)
			}
		}
		if last := one.Times[len(one.Times)-1]; last != to {
			t.Errorf("the last point is at %d, want %d", last, to)
		}
	}
}

func (s Subject) empty(t *testing.T) {
	for name, q := range map[string]metrics.Query{
		"unknown":                s.Query(true, s.End, 20*s.Step),
		"ends before its begin":  s.Query(false, s.End, -s.Step),
		"shorter than its step":  s.Query(false, s.End.Add(s.Step/2), s.Step/4),
		"before all points":      s.Query(false, s.End.Add(-100*time.Hour), 20*s.Step),
		"unknown, another range": s.Query(true, s.End, 30*s.Step),
	} {
		if got := s.window(t, s.Open(), q); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func (s Subject) concurrent(t *testing.T) {
	one, q := s.Open(), s.Query(false, s.End, 20*s.Step)
	want := s.window(t, s.Open(), q)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := one.Window(t.Context(), q); err != nil || !cmp.Equal(want, got, near()) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
		})
	}
	all.Wait()
}

// near compares values that a server calculates.
func near() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
}

// counter counts windows as long as the whole one.
type counter struct {
	source.Source
	length time.Duration
	whole  int
}

// Window implements source.Source.
func (c *counter) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if q.To.Sub(q.From) >= c.length {
		c.whole++
	}
	return c.Source.Window(ctx, q)
}

// slotSteps is the number of steps of a slot.
const slotSteps = 4

// slots compares whole slots with their points, and those of a cache with whole windows.
func (s Subject) slots(t *testing.T) {
	length := slotSteps * s.Step
	end := s.End.Add(-length).Truncate(length)
	whole := s.Query(false, end, 5*length)
	whole.From, whole.To = end.Add(-5*length), end.Add(whole.Lag-s.Step) // the points of five slots
	points := s.window(t, s.Open(), whole)
	q := whole
	q.From, q.To, q.Resolution = whole.From.Add(-s.Step/2), end.Add(whole.Lag+s.Step/2), length
	slots := s.window(t, s.Open(), q)
	if len(slots) == 0 || len(slots) != len(points) {
		t.Fatalf("%d series of slots, %d of points", len(slots), len(points))
	}
	for i, one := range points {
		want := metrics.Series{Name: one.Name, Dimensions: one.Dimensions}
		for first := 0; first < len(one.Values); first += slotSteps {
			sum := 0.0
			for _, x := range one.Values[first:min(first+slotSteps, len(one.Values))] {
				sum += x
			}
			want.Times, want.Values, want.Counts = append(want.Times, one.Times[first]), append(want.Values, sum/slotSteps), append(want.Counts, slotSteps)
		}
		if diff := cmp.Diff(want, slots[i], near()); diff != "" || len(want.Times) != 5 {
			t.Errorf("slots (-want +got):\n%s", diff)
		}
	}
	s.cached(t, length)
}

func (s Subject) cached(t *testing.T, resolution time.Duration) {
	counted := &counter{Source: s.Open(), length: 30*s.Step - resolution} // it begins with a whole slot
	cache, err := windows.New(source.Router{Sources: map[string]source.Source{"it": counted}}, windows.Config{Overlap: 4 * s.Step})
	if err != nil {
		t.Fatal(err)
	}
	for ago := 20 * s.Step; ago >= 0; ago -= s.Step * 2 / 3 {
		q := s.Query(false, s.End.Add(-ago), 30*s.Step)
		q.Resolution = resolution
		whole := s.window(t, s.Open(), q)
		cached, err := cache.Window(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cached {
			cached[i].Lineage = 0
		}
		if diff := cmp.Diff(whole, cached, near()); diff != "" {
			t.Fatalf("window %v before the end (-whole +cached):\n%s", ago, diff)
		}
	}
	if counted.whole != 1 {
		t.Errorf("%d of the windows were read whole, want the first one only", counted.whole)
	}
}

func (s Subject) errors(t *testing.T) {
	q := s.Query(false, s.End, 20*s.Step)
	_, err := s.Gone.Window(t.Context(), q)
	if err == nil || !strings.HasPrefix(err.Error(), "source it: ") || !strings.Contains(err.Error(), q.Text) && !strings.Contains(err.Error(), strconv.Quote(q.Text)) {
		t.Errorf("without a server: %v, want the source and the query", err)
	}
	if errors.Is(err, source.ErrQuery) {
		t.Errorf("without a server: %v is no mistake of the query", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := s.Open().Window(ended, q); err == nil {
		t.Errorf("after the end of the caller: %v, want an error", got)
	}
}
