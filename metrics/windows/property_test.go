package windows_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
)

// given is an answer, with a copy from the time of the answer.
type given struct{ series, copied metrics.Series }

// TestAnswersEqualTheStores: writes are late, but at most the overlap behind the last point of their series. After an
// outage the newest point is written first. An answer always equals the store's answer, its points never change, and
// its lineages are true. So it is with slots of a resolution, longer and shorter than the overlap.
func TestAnswersEqualTheStores(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := &watched{resolution: time.Duration(rapid.SampledFrom([]int{0, 10, 60}).Draw(rt, "resolution")) * time.Second}
		w := &writing{t: t, store: store, c: cache(t, store, windows.Config{Overlap: overlap * time.Second, Full: full * time.Second})}
		w.ask(rt, 0)
		rt.Repeat(map[string]func(*rapid.T){
			"write":  w.write,
			"outage": w.outage,
			"wait":   func(rt *rapid.T) { w.now += rapid.Int64Range(1, 90).Draw(rt, "seconds") },
			"ask": func(rt *rapid.T) {
				w.ask(rt, w.now-rapid.SampledFrom([]int64{0, 0, 0, 1, 200}).Draw(rt, "back"))
			},
		})
	})
}

// Seconds.
const (
	overlap = 30
	full    = 200
)

// writing is a store with writers and queries.
type writing struct {
	t          *testing.T
	store      *watched
	c          *windows.Cache
	now, asked int64            // asked: the end of the latest query
	ends       map[string]int64 // of the series of the last answer, by zone
	answers    []given
}

func (w *writing) ask(rt *rapid.T, second int64) {
	var got []metrics.Series
	got, w.answers = compare(w.t, rt, w.c, w.store, second, w.answers)
	w.asked = max(w.asked, second)
	w.ends = map[string]int64{}
	for _, s := range got {
		w.ends[s.Dimensions["zone"]] = s.Times[len(s.Times)-1] - base
	}
}

func zone(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "b,c", "d"}).Draw(rt, "zone")
}

// write writes a point at most the overlap behind the last point of its series, or behind the last query without one.
func (w *writing) write(rt *rapid.T) {
	to := zone(rt)
	end, known := w.ends[to]
	if !known {
		end = w.asked
	}
	earliest := float64(end - overlap)
	second := rapid.Float64Range(earliest, max(float64(w.now+20), earliest)).Draw(rt, "second")
	if rapid.Bool().Draw(rt, "whole") {
		second = max(float64(int64(second)), earliest)
	}
	put(w.t, w.store, to, [2]float64{second, float64(rapid.IntRange(0, 3).Draw(rt, "value"))})
}

// outage simulates a writer's outage: afterwards it writes the newest point before the missed ones.
func (w *writing) outage(rt *rapid.T) {
	to := zone(rt)
	w.ask(rt, w.now)
	w.now += rapid.Int64Range(1, 2*overlap+600).Draw(rt, "away")
	left, known := w.ends[to]
	if !known {
		left = w.now - 600
	}
	put(w.t, w.store, to, [2]float64{float64(w.now), 1})
	back := w.now
	w.now += int64(w.store.resolution.Seconds()) // then the slot of that point has ended
	for range rapid.IntRange(1, 2).Draw(rt, "parts") {
		w.ask(rt, w.now)
		w.now += rapid.Int64Range(0, full/3).Draw(rt, "later")
		second := rapid.Int64Range(min(left+1, back), back).Draw(rt, "missed")
		put(w.t, w.store, to, [2]float64{float64(second), 2})
	}
	w.ask(rt, w.now)
}

// compare queries cache and store, and checks the answer against its promises and earlier ones.
func compare(t *testing.T, rt *rapid.T, c *windows.Cache, store *watched, second int64, answers []given) (got []metrics.Series, all []given) {
	want, got := askBy(t, store, second, store.resolution), askBy(t, c, second, store.resolution)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metrics.Series{}, "Lineage"), cmpopts.EquateEmpty()); diff != "" {
		rt.Fatalf("window at %d (-store +cache):\n%s", second, diff)
	}
	for _, a := range answers {
		if diff := cmp.Diff(a.copied, a.series); diff != "" {
			rt.Fatalf("an answer changed (-given +now):\n%s", diff)
		}
		for _, s := range got {
			if s.Lineage == 0 || s.Lineage == a.copied.Lineage && !follows(a.copied, s) {
				rt.Fatalf("%+v does not follow from %+v", s, a.copied)
			}
		}
	}
	for _, s := range got {
		copied := s
		copied.Times, copied.Values, copied.Counts = slices.Clone(s.Times), slices.Clone(s.Values), slices.Clone(s.Counts)
		answers = append(answers, given{s, copied})
	}
	return got, answers[max(0, len(answers)-15):]
}

// follows reports whether b is a with some first points removed and some last points added.
func follows(a, b metrics.Series) bool {
	if a.Name != b.Name || metrics.Identify(a.Name, a.Dimensions).Compare(metrics.Identify(b.Name, b.Dimensions)) != 0 {
		return false
	}
	for gone := range len(a.Times) + 1 {
		kept := len(a.Times) - gone
		if kept <= len(b.Times) && slices.Equal(a.Times[gone:], b.Times[:kept]) && slices.Equal(a.Values[gone:], b.Values[:kept]) &&
			(a.Counts == nil || slices.Equal(a.Counts[gone:], b.Counts[:kept])) {
			return true
		}
	}
	return false
}
