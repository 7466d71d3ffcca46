package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// rush is an hour with a calendar.
func rush(t *testing.T) simulate.Scenario {
	s := simulate.Scenario{
		Start: noon, Ticks: 60, Pool: policy(1), Groups: []simulate.Group{machine("a", 1)}, Work: demand(t, time.Hour, 4, 4), Prices: prices(t),
	}
	s.Pool.Apps = []ask.Signal{{
		App: "all", Namespace: "default", Name: "direct", Period: time.Minute, HoldFor: 3 * time.Minute,
		Raise: []ask.Signal{{
			App: "all~calendar", Namespace: "default", Name: "calendar", Period: time.Minute, HoldFor: 2 * time.Minute, MaxRequest: resource.Request{}.With(resource.CPUs, 10),
			Parameters: map[string]any{"time_zone": "UTC", "periods": []any{
				map[string]any{"name": "rush", "days": "daily", "from": "12:20", "to": "12:40", "times": 2.0},
				map[string]any{"name": "news", "days": "daily", "from": "12:30", "to": "12:40", "at_least": map[string]any{"cpus": 99.0}},
			}},
		}},
	}}
	return s
}

// A replay has the recorded answers of advisors. A changed calendar is evaluated again, and other advisors answer as recorded.
func TestReplayOfAdvisors(t *testing.T) {
	t.Parallel()
	s := rush(t)
	r := recorded(t, s, nil)
	if got, differ := replay(t, r); got.Same != got.Ticks || got.Ticks < 50 {
		t.Errorf("%d of %d ticks are the same; first difference %+v", got.Same, got.Ticks, differ[:min(1, len(differ))])
	}
	other := s.Pool
	calendar := other.Apps[0].Raise[0]
	calendar.MaxRequest = resource.Request{}
	recordedOne, unknown := calendar, calendar
	recordedOne.Version, recordedOne.Parameters, recordedOne.MaxRequest = "v1.0.0", nil, resource.Request{}.With(resource.CPUs, 5)
	unknown.App, unknown.Name = "all~mine", "mine"
	most := func(raise ask.Signal) (most float64) {
		other.Apps = []ask.Signal{other.Apps[0]}
		other.Apps[0].Raise = []ask.Signal{raise}
		_, changed, err := r.Judge(other)
		if err != nil {
			t.Fatal(err)
		}
		changed.Sink = func(r api.TickRecord) error {
			most = max(most, r.Result.Target)
			return nil
		}
		run(t, changed)
		return most
	}
	if got := [3]float64{most(calendar), most(recordedOne), most(unknown)}; got[0] < 24 || got[1] != 1.25 || got[2] != 1 {
		t.Errorf("the highest targets are %v: want 24.75 of a calendar without max_request, 1.25 of the recorded answers with a max_request of 5, 1 without an answer", got)
	}
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "the records have no answer of advisor all~mine: it raises nothing") {
		t.Errorf("notes are %s", notes)
	}
}

// A forecast reads the work since History. It raises the request before the load of each day.
func TestForecastRaisesUnderVirtualTime(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	start := noon.Truncate(24 * time.Hour)
	unmet := func(history time.Time, raise ...ask.Signal) (cpuHours float64, why string) {
		series := simulate.NewSeries()
		series.Linear = true
		for i, x := range office(16) {
			if err := series.Add("web", start.Add(time.Duration(i)*slot), resource.Vector{x / 5}); err != nil {
				t.Fatal(err)
			}
		}
		s := simulate.Scenario{
			Start: start.Add(14 * 24 * time.Hour), Ticks: 24 * 60, Pool: policy(0.9), Groups: []simulate.Group{machine("a", 10)}, Work: series, Delay: time.Minute,
			History: history, Headroom: 1.05,
		}
		s.Groups[0].Launch = simulate.Delay{P50: 15 * time.Minute, P95: 16 * time.Minute}
		s.Pool.Apps = []ask.Signal{{App: "web", Name: "direct", Period: time.Minute, HoldFor: 3 * time.Minute, Raise: raise}}
		s.Sink = func(r api.TickRecord) error {
			if raise != nil && r.At.Hour() == 8 {
				advice := r.Detail.Apps[0].Raise[0]
				why = advice.Why
				for _, o := range r.Case.Input.Apps[0].Raise {
					why += o.Opinion.Why + o.Opinion.Explanation
				}
			}
			return nil
		}
		return run(t, s).Unmet[resource.CPUs], why
	}
	forecast := ask.Signal{App: "web~forecast", Name: "forecast", Period: time.Minute, HoldFor: 2 * time.Minute, Setpoint: 0.9, Parameters: map[string]any{
		"unit": map[string]any{"cpus": 0.5}, "metric": "requests", "launch": "15m", "time_zone": "UTC",
	}}
	without, _ := unmet(start)
	with, why := unmet(start, forecast)
	if !(without > 1) || with > without/4 || !strings.Contains(why, "season of ") {
		t.Errorf("unmet cpu-hours: %v without a forecast, %v with one: want a quarter at most; %s", without, with, why)
	}
	if none, why := unmet(time.Time{}, forecast); none != without || !strings.Contains(why, "needs 3 days of back-test, has 0") {
		t.Errorf("unmet cpu-hours: %v without a history, want %v; %s", none, without, why)
	}
	forecast.Version = "v1.0.0"
	s := rush(t)
	s.Pool.Apps[0].Raise = []ask.Signal{forecast}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "advisor web~forecast is forecast: want the shipped calendar or forecast") {
		t.Errorf("Validate = %v", err)
	}
}

// A calendar raises the request of its app in its periods only, and each record says so.
func TestCalendarRaisesUnderVirtualTime(t *testing.T) {
	t.Parallel()
	s := rush(t)
	minute := 0
	s.Sink = func(r api.TickRecord) error {
		want, advice := 1.0, r.Detail.Apps[0].Raise[0]
		switch {
		case minute >= 40:
		case minute >= 30:
			want = 2.5 // max_request
		case minute >= 20:
			want = 2
		}
		if r.Result.Target != want || advice.Held || advice.Request.IsEmpty() != (want == 1) {
			t.Errorf("minute %d: target %v, advice %+v; want a target of %v", minute, r.Result.Target, advice, want)
		}
		if minute == 0 && !strings.Contains(advice.Why, "next is rush, Sun 1 Mar 12:20 (UTC)") {
			t.Errorf("advice %+v, want the next period", advice)
		}
		minute++
		return nil
	}
	run(t, s)
	if minute != 60 {
		t.Errorf("%d ticks, want 60", minute)
	}
}
