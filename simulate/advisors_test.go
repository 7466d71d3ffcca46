package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// A calendar raises the request of its app in its periods only, and each record says so.
func TestCalendarRaisesUnderVirtualTime(t *testing.T) {
	t.Parallel()
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
