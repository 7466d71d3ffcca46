package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestBreakers(t *testing.T) {
	unhealthy := Limit{20, true}
	bs := newBreakers(&rules{unhealthy: unhealthy, zone: Limit{50, true}, recovered: Limit{10, true}, recoveredFor: 5 * time.Minute, window: time.Hour, trips: 2})
	counted := make([]tally, 20) // as many nodes in each of two zones
	now := start()
	for _, s := range []struct {
		name  string
		after time.Duration
		a, b  int // unhealthy nodes of each zone
		do    func()
		found []api.HealthEvent
	}{
		{"as many as may be", 0, 2, 2, nil, nil},
		{"one more", 0, 2, 3, nil, []api.HealthEvent{api.HealthBreakerOpened}},
		{"fewer, but more than healed", time.Hour, 2, 1, nil, nil},
		{"few enough", 0, 1, 1, nil, nil},
		{"and for long enough", 5 * time.Minute, 1, 1, nil, []api.HealthEvent{api.HealthBreakerClosed}},
		{"a zone fails alone", 0, 8, 1, nil, []api.HealthEvent{api.HealthZoneFrozen}},
		{"both zones fail", 0, 8, 8, nil, []api.HealthEvent{api.HealthZoneFrozen, api.HealthBreakerOpened}},
		{"released: so many may be sick", 0, 8, 5, bs.release, []api.HealthEvent{api.HealthZoneThawed, api.HealthZoneThawed, api.HealthBreakerClosed}},
		{"but no more", 0, 9, 5, nil, []api.HealthEvent{api.HealthZoneFrozen}},
		{"within the window once too often", 0, 9, 9, nil, []api.HealthEvent{api.HealthZoneFrozen, api.HealthBreakerOpened}},
		{"it waits for an operator", 24 * time.Hour, 0, 0, nil, nil},
		{"for good", 24 * time.Hour, 0, 0, nil, nil},
		{"an operator releases it", 0, 0, 0, bs.release, []api.HealthEvent{api.HealthZoneThawed, api.HealthZoneThawed, api.HealthBreakerClosed}},
	} {
		now = now.Add(s.after)
		for i := range counted {
			z, n := "a", s.a
			if i >= 10 {
				z, n = "b", s.b
			}
			bs.count(&counted[i], tally{zone: z, listed: true, eligible: true, unhealthy: i%10 < n})
		}
		if want := (census{listed: 20, eligible: 20, unhealthy: s.a + s.b}); bs.census != want {
			t.Fatalf("%s: counted %+v, want %+v", s.name, bs.census, want)
		}
		if s.do != nil {
			s.do()
		}
		var events []api.HealthEvent
		for _, f := range bs.step(now) {
			events = append(events, f.Event)
		}
		if !slices.Equal(events, s.found) {
			t.Errorf("%s: found %q, want %q; %s", s.name, events, s.found, fmt.Sprint(bs.records()))
		}
		again := newBreakers(bs.rules)
		again.restore(now, bs.records())
		if got, want := fmt.Sprint(again.records()), fmt.Sprint(bs.records()); got != want {
			t.Errorf("%s: restored %s, want %s", s.name, got, want)
		}
	}
}
