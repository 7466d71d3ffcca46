package series_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// steady returns the summary of a tick without an event.
func steady(at time.Time) api.Summary {
	return api.Summary{
		Schema: history.SummarySchema, Pool: "web", At: at, Every: time.Minute, Before: new(6.0), Target: new(6.0), Wanted: new(6.0), Joined: 6, Exists: 6,
		Limits: &api.LimitsSummary{Min: 1, Max: new(10.0)}, Rule: api.RuleTarget, Why: "used 80 %",
		Apps:   []api.AppSummaryTick{{Name: "cart", Request: api.RequestSummary{new(4.0)}}},
		Groups: []api.GroupSummary{{ID: "spot-a", Target: 6, Exists: 6}},
	}
}

func TestStates(t *testing.T) {
	hold := func(d api.Direction, kind api.HoldKind, name, why string) func(*api.Summary) {
		return func(s *api.Summary) {
			s.Holds = append(s.Holds, api.Hold{Direction: d, Kind: kind, Name: name, Why: why})
		}
	}
	all := func(changes ...func(*api.Summary)) func(*api.Summary) {
		return func(s *api.Summary) {
			for _, f := range changes {
				f(s)
			}
		}
	}
	atMax := hold(api.DirectionUp, api.HoldLimit, "max_capacity", "60.8 is over max_capacity 10")
	failed := all(hold(api.DirectionUp, api.HoldIgnorance, "cart", "the need of cart is unknown: its signal failed: no answer within 1s"),
		func(s *api.Summary) { s.Apps[0].Verdict, s.Apps[0].Source = api.VerdictFailed, api.FromDefault })
	missing := series.Facts{Holder: "b-2", Apps: []series.Instances{{App: "cart", Expected: 113, Running: 108, Missing: 5}}}
	tests := []struct {
		name   string
		change func(*api.Summary)
		facts  series.Facts
		later  time.Duration
		want   string // one line for each state
	}{
		{"steady", func(*api.Summary) {}, series.Facts{}, 0, "Steady: "},
		{"no tick", func(*api.Summary) {}, series.Facts{Holder: "b-2"}, 21 * time.Minute, "No tick: last tick 21 min ago; lease held by b-2"},
		{"no lease", func(*api.Summary) {}, series.Facts{}, 3 * time.Hour, "No tick: last tick 3 h ago; no process holds the lease"},
		{"instances missing", func(*api.Summary) {}, missing, 0, "Instances missing: app cart: 5 of 113 instances missing for 33 min"},
		{"at maximum", atMax, series.Facts{}, 0, "At maximum: 60.8 is over max_capacity 10 for 33 min"},
		{"two states", atMax, missing, 0,
			"Instances missing: app cart: 5 of 113 instances missing for 33 min\nAt maximum: 60.8 is over max_capacity 10 for 33 min"},
		{"signal failed", failed, series.Facts{}, 0,
			"Signal failed: the need of cart is unknown: its signal failed: no answer within 1s for 33 min"},
		{"signal stale", func(s *api.Summary) { s.Apps[0].Verdict = api.VerdictStale }, series.Facts{}, 0,
			"Signal stale: signal of app cart is stale for 33 min"},
		{"group backoff", func(s *api.Summary) { s.Groups[0].Backoff = true }, series.Facts{}, 0,
			"Group backoff: group spot-a is in backoff for 33 min"},
		{"scale-in blocked", hold(api.DirectionDown, api.HoldBreaker, "node health", "3 nodes are unhealthy"), series.Facts{}, 0,
			"Scale-in blocked: 3 nodes are unhealthy for 33 min"},
		{"paused", func(s *api.Summary) { s.Paused = &api.Note{By: "kim@ops", Why: "network work", At: start} }, series.Facts{}, 0,
			"Paused: by kim@ops"},
		{"tick failed", func(s *api.Summary) { s.Failed = "the provider does not answer" }, series.Facts{}, 0,
			"Tick failed: the provider does not answer for 33 min"},
		{"scaling out", func(s *api.Summary) { s.Joined = 4 }, series.Facts{}, 0, "Scaling out: capacity of 2 is starting"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := series.NewRing(100)
			for i := range 34 {
				s := steady(start.Add(time.Duration(i) * time.Minute))
				test.change(&s)
				r.Add(series.Reduce(s, test.facts))
			}
			var got []string
			last := series.NoTick
			for _, s := range series.States(r, test.facts, r.Last().Add(test.later)) {
				if s.Rank < last {
					t.Errorf("%s is after a state of a better rank", s.Word)
				}
				last = s.Rank
				got = append(got, s.Word+": "+s.Why)
			}
			if all := strings.Join(got, "\n"); !strings.HasPrefix(all, test.want) || strings.Count(all, "\n") != strings.Count(test.want, "\n") {
				t.Errorf("States = %s\nwant %s", all, test.want)
			}
		})
	}
}

func TestStatesWithoutTick(t *testing.T) {
	got := series.States(series.NewRing(1), series.Facts{}, start)
	if len(got) != 1 || got[0].Rank != series.NoTick || !got[0].Rank.NeedsAttention() {
		t.Errorf("States = %+v", got)
	}
}

// A paused or failed record has a snapshot of zeros. Its columns are missing.
func TestPausedTickHasNoValues(t *testing.T) {
	s := api.Summary{At: start, Every: time.Minute, Paused: &api.Note{By: "kim"}}
	if tick := series.Reduce(s, series.Facts{}); !tick.Gap || len(tick.Values) != 0 {
		t.Errorf("Reduce = %+v", tick)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		39 * time.Second: "39 s", 21 * time.Minute: "21 min", 90 * time.Minute: "90 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 d", -time.Second: "0 s",
	} {
		if got := series.Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	if got := series.Cut(strings.Repeat("é", 100), 64); len([]rune(got)) != 64 || !strings.HasSuffix(got, "…") {
		t.Errorf("Cut = %s", got)
	}
}
