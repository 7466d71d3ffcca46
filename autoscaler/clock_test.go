package autoscaler

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// A clock that was ahead and is corrected does not stop the requests to the signals.
func TestSignalsAreEvaluatedAfterClockGoesBack(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 2)
	w.now = w.now.Add(-time.Hour)
	web.set(cpus(8*cpusPerNode), nil)
	for range 2 {
		w.tick()
	}
	w.wantTarget(8)
}

// It does not hide the shortage of a group that was raised before.
func TestClockBackFindsShortage(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 1, 1)
	web.set(cpus(4*cpusPerNode), nil)
	w.groups[0].Quota(1)
	wantOps(t, w.tick(), "set target a: 2", "set target b: 2")
	w.now = w.now.Add(-30 * time.Minute)
	w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Short, s.ShortAt = "quota", w.now }
	for range 2 {
		w.tick()
	}
	if q := w.loop.state().Backoffs; len(q) != 1 || q[0].Group != "a" {
		t.Errorf("set aside: %+v, want a", q)
	}
	w.wantTarget(4)
}
