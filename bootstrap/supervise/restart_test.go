package supervise

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	policy := Policy{Budget: 3, Window: time.Minute, Base: time.Second, Max: 3 * time.Second}
	now := time.Unix(1_000_000, 0)
	ago := func(seconds ...int) (history []time.Time) {
		for _, s := range seconds {
			history = append(history, now.Add(-time.Duration(s)*time.Second))
		}
		return history
	}
	tests := []struct {
		name     string
		history  []time.Time
		from, to time.Duration
		giveUp   bool
	}{
		{"never failed", nil, 0, 0, false},
		{"first failure", ago(0), 0, 0, false},
		{"second", ago(1, 0), 750 * time.Millisecond, time.Second, false},
		{"third", ago(2, 1, 0), 1500 * time.Millisecond, 2 * time.Second, false},
		{"fourth", ago(3, 2, 1, 0), 0, 0, true},
		{"old failures do not count", ago(200, 100, 60, 0), 0, 0, false},
		{"failures in the future do not count", ago(0, -5), 0, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			delay, giveUp := Next("web", test.history, now, policy)
			if giveUp != test.giveUp || delay < test.from || delay > test.to {
				t.Errorf("Next = %s, %v, want %s to %s, %v", delay, giveUp, test.from, test.to, test.giveUp)
			}
		})
	}
}

func TestNextProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(1, int64(time.Minute)).Draw(t, "base")
		policy := Policy{
			Budget: rapid.IntRange(0, 100).Draw(t, "budget"),
			Window: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "window")),
			Base:   time.Duration(base),
			Max:    time.Duration(rapid.Int64Range(base, 1<<62).Draw(t, "max")),
		}
		if err := policy.Validate(); err != nil {
			t.Fatal(err)
		}
		name := rapid.String().Draw(t, "name")
		now := time.Unix(1_000_000, 0)
		last := time.Duration(0)
		var history []time.Time
		for n := range policy.Budget + 2 {
			delay, giveUp := Next(name, history, now, policy)
			if again, _ := Next(name, history, now, policy); again != delay {
				t.Fatalf("%d failures: %s, then %s", n, delay, again)
			}
			switch {
			case giveUp != (n > policy.Budget):
				t.Fatalf("%d failures, budget %d: give up %v", n, policy.Budget, giveUp)
			case delay < 0 || delay > policy.Max:
				t.Fatalf("%d failures: %s, bound %s", n, delay, policy.Max)
			case n <= 1 && delay != 0:
				t.Fatalf("%d failures: %s, want none", n, delay)
			case !giveUp && delay < last && delay < policy.Max-policy.Max/4-1:
				t.Fatalf("%d failures: %s, after %s", n, delay, last)
			}
			last = delay
			history = append(history, now)
		}
		later := now.Add(policy.Window)
		if delay, giveUp := Next(name, history, later, policy); delay != 0 || giveUp {
			t.Fatalf("after the window: %s, %v", delay, giveUp)
		}
	})
}

func TestPolicyValidate(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	tests := []struct {
		name   string
		change func(*Policy)
	}{
		{"negative budget", func(p *Policy) { p.Budget = -1 }},
		{"no window", func(p *Policy) { p.Window = 0 }},
		{"no base", func(p *Policy) { p.Base = 0 }},
		{"base over max", func(p *Policy) { p.Max = p.Base - 1 }},
	}
	for _, test := range tests {
		policy := DefaultPolicy()
		test.change(&policy)
		if policy.Validate() == nil {
			t.Errorf("%s: valid", test.name)
		}
	}
}
