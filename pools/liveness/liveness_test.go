package liveness

import (
	"testing"
	"time"
)

func TestSilentAfterTwoMissingHeartbeats(t *testing.T) {
	latest := time.Unix(1000, 0)
	for _, c := range []struct {
		age, period time.Duration
		want        bool
	}{
		{2 * time.Second, time.Second, false}, // the second one may be in transit
		{2500 * time.Millisecond, time.Second, false},
		{2501 * time.Millisecond, time.Second, true},
		{20 * time.Second, 10 * time.Second, false},
		{26 * time.Second, 10 * time.Second, true},
		{-time.Hour, time.Second, false}, // a clock that was set back
	} {
		if got := Silent(latest.Add(c.age), latest, c.period); got != c.want {
			t.Errorf("Silent after %v with a period of %v = %t, want %t", c.age, c.period, got, c.want)
		}
	}
}

func TestThresholdsFollowTheTick(t *testing.T) {
	for _, c := range []struct{ tick, overdue, hung time.Duration }{
		{time.Second, 5 * time.Second, 30 * time.Second},
		{2 * time.Second, 5 * time.Second, 30 * time.Second},
		{10 * time.Second, 20 * time.Second, 100 * time.Second},
		{time.Minute, 2 * time.Minute, 10 * time.Minute},
	} {
		if overdue, hung := OverdueAfter(c.tick), HungAfter(c.tick); overdue != c.overdue || hung != c.hung {
			t.Errorf("with a tick of %v overdue after %v, hung after %v: want %v, %v", c.tick, overdue, hung, c.overdue, c.hung)
		}
	}
}

func TestPeriodIsBounded(t *testing.T) {
	for published, want := range map[time.Duration]time.Duration{
		0: DefaultPeriod, -time.Second: DefaultPeriod, time.Second: time.Second, time.Hour: MaxPeriod,
	} {
		if got := Period(published); got != want {
			t.Errorf("Period(%v) = %v, want %v", published, got, want)
		}
	}
}

func TestThresholdsAreInOrder(t *testing.T) {
	for _, p := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, MaxPeriod} {
		if !(p < ConfirmedFor(p) && ConfirmedFor(p) < SilentAfter(p) && SilentAfter(p) < LostAfter(p)) {
			t.Errorf("of a period of %v: confirmed for %v, silent after %v, lost after %v: want them in this order",
				p, ConfirmedFor(p), SilentAfter(p), LostAfter(p))
		}
	}
}
