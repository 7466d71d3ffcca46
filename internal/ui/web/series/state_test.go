package series_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
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
	held, free := condition.Lease{Known: true, Holder: "b-2"}, condition.Lease{Known: true}
	atMax := hold(api.DirectionUp, api.HoldLimit, "max_capacity", "60.8 needed, max_capacity allows 10")
	failed := all(hold(api.DirectionUp, api.HoldIgnorance, "cart", "the need of cart is unknown: its signal failed: no answer within 1s"),
		func(s *api.Summary) { s.Apps[0].Verdict, s.Apps[0].Source = api.VerdictFailed, api.FromDefault })
	missing := condition.Facts{Lease: held, Apps: []condition.Instances{{App: "cart", Expected: 113, Running: 108, Missing: 5}}}
	tests := []struct {
		name   string
		change func(*api.Summary)
		facts  condition.Facts
		later  time.Duration
		want   string // one line for each state
	}{
		{"steady", func(*api.Summary) {}, condition.Facts{}, 0, "Steady: "},
		{"no tick", func(*api.Summary) {}, condition.Facts{Lease: held}, 21 * time.Minute, "No tick: last tick 21 min ago; lease held by b-2"},
		{"no tick, lease unknown", func(*api.Summary) {}, condition.Facts{}, 3 * time.Hour, "No tick: last tick 3 h ago"},
		{"no lease", func(*api.Summary) {}, condition.Facts{Lease: free}, 3 * time.Hour, "No tick: last tick 3 h ago; no process holds the lease"},
		{"instances missing", func(*api.Summary) {}, missing, 0, "Instances missing: app cart: 5 of 113 instances missing for 33 min"},
		{"at maximum", atMax, condition.Facts{}, 0, "At maximum: 60.8 needed, max_capacity allows 10 for 33 min"},
		{"two states", atMax, missing, 0,
			"Instances missing: app cart: 5 of 113 instances missing for 33 min\nAt maximum: 60.8 needed, max_capacity allows 10 for 33 min"},
		{"signal failed", failed, condition.Facts{}, 0,
			"Signal failed: the need of cart is unknown: its signal failed: no answer within 1s for 33 min"},
		{"signal stale", func(s *api.Summary) { s.Apps[0].Verdict = api.VerdictStale }, condition.Facts{}, 0,
			"Signal stale: signal of app cart is stale for 33 min"},
		{"group backoff", func(s *api.Summary) { s.Groups[0].Backoff = true }, condition.Facts{}, 0,
			"Group backoff: group spot-a is in backoff for 33 min"},
		{"machines never join", all(func(s *api.Summary) { s.Groups[0].Backoff = true }, hold(api.DirectionUp, api.HoldBoot, "spot-a", "group spot-a does not grow")), condition.Facts{}, 0,
			"Machines never join: group spot-a does not grow for 33 min"},
		{"headroom short", hold(api.DirectionUp, api.HoldHeadroom, "spare", "headroom spare: 0 of 2 places free"), condition.Facts{}, 0,
			"Headroom short: headroom spare: 0 of 2 places free for 33 min"},
		{"a rotation", func(s *api.Summary) {
			s.Rotation = &api.RotationSummary{Left: 4, Text: "rotation of age>30d: 4 of 10 machines are left"}
		}, condition.Facts{}, 0, "Rotating: rotation of age>30d: 4 of 10 machines are left"},
		{"a rotation halted", func(s *api.Summary) {
			s.Rotation = &api.RotationSummary{Left: 4, Alarms: []string{"rotation halted: the new machine i-1 failed"}}
		}, condition.Facts{}, 0, "Rotation halted: the new machine i-1 failed for 33 min"},
		{"a rotation refused", func(s *api.Summary) {
			s.Rotation = &api.RotationSummary{Alarms: []string{"rotation of image!=ami-2 is refused: i-1 matches too"}}
		}, condition.Facts{}, 0, "Rotation refused: rotation of image!=ami-2: i-1 matches too for 33 min"},
		{"a roll waits", hold(api.DirectionUp, api.HoldWindow, "roll", "roll waits for window nights"), condition.Facts{}, 0,
			"Waits for a window: roll waits for window nights"},
		{"scale-in blocked", hold(api.DirectionDown, api.HoldBreaker, "node health", "3 nodes are unhealthy"), condition.Facts{}, 0,
			"Scale-in blocked: 3 nodes are unhealthy for 33 min"},
		{"paused", func(s *api.Summary) { s.Paused = &api.Note{By: "kim@ops", Why: "network work", At: start} }, condition.Facts{}, 0,
			"Paused: by kim@ops: network work; until it is resumed"},
		{"paused with an end, and instances missing", func(s *api.Summary) {
			s.Paused = &api.Note{By: "kim@ops", Why: "network work", At: start, Until: start.Add(33*time.Minute + time.Hour)}
		}, missing, 0, "Instances missing: app cart: 5 of 113 instances missing for 33 min\nPaused: by kim@ops: network work; ends in 60 min"},
		{"crash loop", func(*api.Summary) {}, condition.Facts{Apps: []condition.Instances{{App: "crash", Expected: 3, Flapping: 3, Crash: &condition.CrashLoop{
			Index: 2, Count: 3, First: start.Add(27 * time.Minute), Last: start.Add(27*time.Minute + 40*time.Second), Cause: "exit 1", Next: start.Add(33*time.Minute + 20*time.Second),
		}}}}, 0, "Crash-looping: app crash: copy 2 crashed 3 times in 40 s (exit 1); next start in 20 s for 6 min"},
		{"given up", func(*api.Summary) {}, condition.Facts{Apps: []condition.Instances{{App: "crash", Expected: 3, Flapping: 3, Crash: &condition.CrashLoop{
			Index: 0, Count: 9, First: start.Add(27 * time.Minute), Last: start.Add(28 * time.Minute), GivenUp: 3,
		}}}}, 0, "Given up: app crash: copy 0 crashed 9 times in 60 s; 3 instances are given up and not started again for 6 min"},
		{"node unhealthy in mode observe", func(*api.Summary) {}, condition.Facts{Nodes: condition.UnfitNodes(start, api.HealthStatus{Mode: api.ModeObserve, Nodes: []api.NodeHealth{
			{NodeExplanation: api.NodeExplanation{NodeHealthState: api.NodeHealthState{Node: "i-1", State: api.StateUnhealthy, Why: "disk read-only", Since: start.Add(30 * time.Minute)}}},
		}})}, 0, "Node unhealthy: node i-1: disk read-only; mode is observe: nothing is repaired for 3 min"},
		{"problem of the tick", func(s *api.Summary) { s.Problems = []string{"the metrics store does not answer"} }, condition.Facts{}, 0,
			"Problem: the metrics store does not answer for 33 min"},
		{"tick failed", func(s *api.Summary) { s.Failed = "the provider does not answer" }, condition.Facts{}, 0,
			"Tick failed: the provider does not answer for 33 min"},
		{"scaling out", func(s *api.Summary) { s.Joined = 4 }, condition.Facts{}, 0, "Scaling out: capacity of 2 is starting"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, tick := series.NewRing(100), api.Summary{}
			for i := range 34 {
				s := steady(start.Add(time.Duration(i) * time.Minute))
				test.change(&s)
				r.Add(series.Reduce(s, test.facts))
				tick = s
			}
			var got []string
			last := condition.NoTick
			for _, s := range series.States(r.Last().Add(test.later), r, &tick, test.facts) {
				if s.Rank < last {
					t.Errorf("%s is after a state of a better rank", s.Word)
				}
				last = s.Rank
				got = append(got, strings.TrimSuffix(s.Word+": "+s.Why+" "+s.Lasts, " "))
			}
			if all := strings.Join(got, "\n"); !strings.HasPrefix(all, test.want) || strings.Count(all, "\n") != strings.Count(test.want, "\n") {
				t.Errorf("States = %s\nwant %s", all, test.want)
			}
		})
	}
}

func TestStatesWithoutTick(t *testing.T) {
	got := series.States(start, series.NewRing(1), nil, condition.Facts{})
	if len(got) != 1 || got[0].Rank != condition.NoTick || !got[0].Rank.NeedsAttention() {
		t.Errorf("States = %+v", got)
	}
}

// A paused or failed record has a snapshot of zeros. Its columns are missing.
func TestPausedTickHasNoValues(t *testing.T) {
	s := api.Summary{At: start, Every: time.Minute, Paused: &api.Note{By: "kim"}}
	if tick := series.Reduce(s, condition.Facts{}); !tick.Gap || len(tick.Values) != 1 || tick.Values[0].Quantity != series.Trouble {
		t.Errorf("Reduce = %+v", tick)
	}
}

// The past has the states of its tick, and nothing of a later one.
func TestStatesAtATimeOfThePast(t *testing.T) {
	r := series.NewRing(100)
	for i := range 10 {
		s := steady(start.Add(time.Duration(i) * time.Minute))
		f := condition.Facts{}
		if i >= 5 {
			f.Apps = []condition.Instances{{App: "cart", Expected: 3, Missing: 1}}
		}
		r.Add(series.Reduce(s, f))
	}
	if got := series.StatesAt(r, start.Add(3*time.Minute)); len(got) != 1 || got[0].Word != "Steady" {
		t.Errorf("before the trouble: %+v, want Steady", got)
	}
	if got := series.StatesAt(r, start.Add(7*time.Minute)); len(got) != 1 || got[0].Word != "Instances missing" || got[0].Lasts != "for 2 min" {
		t.Errorf("in the trouble: %+v, want Instances missing for 2 min", got)
	}
	if got := series.StatesAt(r, start.Add(-time.Minute)); got != nil {
		t.Errorf("before the first tick: %+v, want none", got)
	}
}

func TestCut(t *testing.T) {
	if got := series.Cut(strings.Repeat("é", 100), 64); len([]rune(got)) != 64 || !strings.HasSuffix(got, "…") {
		t.Errorf("Cut = %s", got)
	}
}
