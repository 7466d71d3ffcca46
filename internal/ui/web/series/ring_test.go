package series_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

func TestRingIsBounded(t *testing.T) {
	r := series.NewRing(100)
	for i := range 1000 {
		at := start.Add(time.Duration(i) * time.Second)
		name := strconv.Itoa(i) // an app that has one tick
		r.Add(series.Tick{
			At: at, Every: time.Second,
			Values: []series.Value{{Key: target, X: float64(i)}, {Key: series.Key{Quantity: series.Verdict, Name: name}}},
			Notes:  []series.Note{{Kind: series.BadSignal, Name: name}},
		})
	}
	if n := r.Len(); n < 100 || n > 126 {
		t.Errorf("%d ticks, want 100 to 126", n)
	}
	if n := len(r.Keys(series.Verdict)); n > 126 {
		t.Errorf("%d tracks of apps", n)
	}
	if n := len(r.Spans(series.BadSignal, start, r.Last())); n > 130 {
		t.Errorf("%d spans", n)
	}
	if x, ok := r.Latest(target); !ok || x != 999 {
		t.Errorf("Latest = %v, %v", x, ok)
	}
}

func TestRingIgnoresOldTicks(t *testing.T) {
	r := series.NewRing(4)
	if !r.Add(series.Tick{At: start}) || r.Add(series.Tick{At: start}) || r.Add(series.Tick{At: start.Add(-time.Second)}) {
		t.Error("Add accepts a tick that is not newer")
	}
}

func TestSpans(t *testing.T) {
	r := series.NewRing(10)
	text := func(kind series.NoteKind, s string) series.Note { return series.Note{Kind: kind, Name: "web", Text: s} }
	for i, notes := range [][]series.Note{
		{text(series.Missing, "1 of 3"), text(series.Version, "v1")},
		{text(series.Missing, "2 of 3"), text(series.Version, "v2")},
		{text(series.Version, "v2")},
	} {
		r.Add(series.Tick{At: start.Add(time.Duration(i) * time.Second), Notes: notes})
	}
	missing := r.Spans(series.Missing, start, r.Last())
	if len(missing) != 1 || missing[0].Text != "2 of 3" || missing[0].Open || missing[0].To.Sub(missing[0].From) != time.Second {
		t.Errorf("missing: %+v", missing)
	}
	versions := r.Spans(series.Version, start, r.Last())
	if len(versions) != 2 || versions[0].Open || !versions[1].Open || versions[1].From != start.Add(time.Second) {
		t.Errorf("versions: %+v", versions)
	}
}

func TestAround(t *testing.T) {
	r := filled(3, func(int) float64 { return 1 })
	before, after := r.Around(start.Add(2 * time.Second))
	if before != start || after != start.Add(4*time.Second) {
		t.Errorf("Around = %v, %v", before, after)
	}
	if before, after = r.Around(start); !before.IsZero() || after != start.Add(2*time.Second) {
		t.Errorf("Around of the first = %v, %v", before, after)
	}
}
