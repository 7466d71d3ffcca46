package autoscaler

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// The weight by which a short group was lowered stays wanted when the need becomes unknown. It is
// ordered when there is capacity again.
func TestShortageThenNoMetrics(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	web.set(cpus(10*cpusPerNode), nil)
	w.groups[0].Quota(6)
	w.tick()
	w.now = w.now.Add(time.Second)
	w.groups[0].Advance(w.now)
	silence(w, def, web) // before the tick that finds the group short
	for i := range 12 {
		if i == 3 {
			w.groups[0].Quota(100)
		}
		if r := w.tick(); r.Result.Target != 10 {
			t.Errorf("tick %d: target %v, want the 10 of when the need was known", i, r.Result.Target)
		}
	}
	w.wantTarget(10)
}

// An offset that a shortage reduced takes away no more than was granted of it.
func TestShortageUnderAnOffset(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	w.book.change(func(o *api.Orders) { o.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: 4} })
	w.groups[0].Quota(5)
	w.tick()
	w.now = w.now.Add(time.Second)
	w.groups[0].Advance(w.now)
	w.tick() // it is found short, and is in backoff
	silence(w, def, web)
	for i := range 10 {
		if i == 2 {
			w.book.change(func(o *api.Orders) { o.Offset = nil })
		}
		if r := w.tick(); r.Result.Target < 4 {
			t.Errorf("tick %d: target %v, want at least 4: nobody knows the need", i, r.Result.Target)
		}
	}
	if n := len(w.instances()); n < 4 {
		t.Errorf("%d instances, want at least 4", n)
	}
}

// A group whose raise was throttled or refused keeps its target: it is not short. After a throttled raise it is tried again soon.
func TestRefusalKeepsTheTarget(t *testing.T) {
	t.Parallel()
	for why, again := range map[error][]string{pools.ErrThrottled: {"set target a: 12"}, pools.ErrRefused: nil} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			w, _, web := steady(t, 4)
			w.groups[0].Quota(7) // it launches slowly
			w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Short = "" }
			web.set(cpus(10*cpusPerNode), nil)
			wantOps(t, w.tick(), "set target a: 10")
			web.set(cpus(12*cpusPerNode), nil)
			w.groups[0].Refuse(cloud.SetTarget, fmt.Errorf("no: %w", why))
			wantOps(t, w.tick(), "set target a: 12 FAILED")
			w.wantTarget(10)
			w.groups[0].Refuse(cloud.SetTarget, nil)
			wantOps(t, w.tick(), again...)
			for range 2 {
				wantOps(t, w.tick())
			}
		})
	}
}

// A tick without a distribution preserves the owed weight and the offset.
func TestTickWithoutADistribution(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 4)
	w.book.change(func(o *api.Orders) { o.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: 3} })
	w.tick()
	w.wantTarget(7)
	silence(w, def, web)
	*w.loop.state().Wanted += 1 // owed
	w.book.change(func(o *api.Orders) { o.Offset = nil })
	w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Stale = true }
	if r := w.tick(); r.Detail.Refused == "" || *r.State.Wanted != 5 || r.State.Offset != 3 {
		t.Errorf("refused %q, wanted %v, offset %v: want a reason, 5, 3", r.Detail.Refused, *r.State.Wanted, r.State.Offset)
	}
	w.groups[0].tamper = nil
	for range 8 {
		w.tick()
	}
	w.wantTarget(5)
}
