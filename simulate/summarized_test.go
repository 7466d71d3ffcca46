package simulate_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// The summaries of a pool have the same demand as its records. With both, the summaries end where the records begin. Without a record
// the groups are known by their names, prices, sizes and launch times.
func TestSummariesOfAPool(t *testing.T) {
	t.Parallel()
	s := eventful(t, 30)
	s.Prices = &price.Prices{}
	for _, g := range s.Groups {
		if err := s.Prices.Set(g.Market, noon, 0.25); err != nil {
			t.Fatal(err)
		}
	}
	var records []api.TickRecord
	all := recorded(t, s, func(r *api.TickRecord) { records = append(records, *r) })
	short, both := &simulate.Recording{}, &simulate.Recording{}
	for i, r := range records {
		if err := short.AddSummary("", history.SummaryOf(r)); err != nil {
			t.Fatal(err)
		}
		add := func() error { return both.AddSummary("", history.SummaryOf(r)) }
		if i >= len(records)/2 {
			add = func() error { return both.Add("", r) }
		}
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	want := points(t, all)
	if diff := cmp.Diff(want, points(t, both)); diff != "" {
		t.Errorf("the needs of summaries and records differ from those of the records:\n%s", diff)
	}
	if diff := cmp.Diff(want, points(t, short)); diff != "" {
		t.Errorf("the needs of summaries differ from those of the records:\n%s", diff)
	}
	from, to := both.Span()
	if first, last := all.Span(); !from.Equal(first) || !to.Equal(last) || short.Check() == nil || short.CheckSeries() != nil {
		t.Errorf("the ticks are from %s to %s, want %s to %s; the summaries: %v, %v", from, to, first, last, short.Check(), short.CheckSeries())
	}
	exact, known := all.Groups(), short.Groups()
	for i, g := range known {
		w := exact[i]
		if g.ID != w.ID || g.Market != w.Market || !cmp.Equal(g.Prices, w.Prices) || g.Target != w.Target || g.Machine.IsZero() || g.Launch.P50 < w.Launch.P50-time.Minute || g.Launch.P50 > w.Launch.P50+time.Minute {
			t.Errorf("the group is %+v, want about %+v", g, w)
		}
		if next := both.Groups()[i]; next.Machine != w.Machine || next.Target != w.Target {
			t.Errorf("the group of summaries and records is %+v, want about %+v", next, w)
		}
	}
	if err := short.AddSummary("night.jsonl:7", api.Summary{Pool: "other", At: to.Add(time.Hour)}); err == nil || !strings.Contains(err.Error(), "(night.jsonl:7) is of pool other") {
		t.Errorf("the summary of another pool: %v", err)
	}
}

// points returns the series of a recording as CSV.
func points(t *testing.T, r *simulate.Recording) string {
	t.Helper()
	series, err := r.Series()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := series.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
