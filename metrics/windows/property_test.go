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

// given is an answer, and a copy of what it was when it was given.
type given struct{ series, copied metrics.Series }

// TestAnswersAreTheStores: for all writes, up to the overlap late, and all
// questions, an answer is the store's own, keeps its points for ever, and its
// lineages promise nothing that is not so.
func TestAnswersAreTheStores(t *testing.T) {
	const overlap = 30 * time.Second
	rapid.Check(t, func(rt *rapid.T) {
		store := &watched{}
		c := cache(t, store, windows.Config{Overlap: overlap, Full: 200 * time.Second})
		now, asked := int64(0), int64(0)
		var answers []given
		zone := rapid.SampledFrom([]string{"", "a", "b,c", "d"})
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				second := rapid.Float64Range(float64(asked)-overlap.Seconds(), float64(now+20)).Draw(rt, "second")
				if rapid.Bool().Draw(rt, "whole") {
					second = max(float64(int64(second)), float64(asked)-overlap.Seconds())
				}
				put(t, store, zone.Draw(rt, "zone"), [2]float64{second, float64(rapid.IntRange(0, 3).Draw(rt, "value"))})
			},
			"wait": func(rt *rapid.T) { now += rapid.Int64Range(1, 90).Draw(rt, "seconds") },
			"ask": func(rt *rapid.T) {
				second := now - rapid.SampledFrom([]int64{0, 0, 0, 1, 200}).Draw(rt, "back")
				answers = compare(t, rt, c, store, second, answers)
				asked = max(asked, second)
			},
		})
	})
}

// compare asks both, and holds the answer to what it promises.
func compare(t *testing.T, rt *rapid.T, c *windows.Cache, store *watched, second int64, answers []given) []given {
	want, got := ask(t, store, second), ask(t, c, second)
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
		copied.Times, copied.Values = slices.Clone(s.Times), slices.Clone(s.Values)
		answers = append(answers, given{s, copied})
	}
	return answers[max(0, len(answers)-40):]
}

// follows reports whether b is a without some of its first points, and with some
// more behind the last one.
func follows(a, b metrics.Series) bool {
	if a.Name != b.Name || metrics.Identify(a.Name, a.Dimensions).Compare(metrics.Identify(b.Name, b.Dimensions)) != 0 {
		return false
	}
	for gone := range len(a.Times) + 1 {
		kept := len(a.Times) - gone
		if kept <= len(b.Times) && slices.Equal(a.Times[gone:], b.Times[:kept]) && slices.Equal(a.Values[gone:], b.Values[:kept]) {
			return true
		}
	}
	return false
}
