package autoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// A group that refuses is in backoff, and its share goes to the others in the same tick.
func TestShareOfAGroupThatRefuses(t *testing.T) {
	t.Parallel()
	for _, why := range []error{pools.ErrShort, pools.ErrRefused, pools.ErrThrottled} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{1, 1, 1}, "web")
			w.asks(sigproto.DefaultApp, 1)
			w.asks("web", 9*cpusPerNode)
			w.groups[0].Refuse(cloud.SetTarget, fmt.Errorf("no: %w", why))
			w.groups[1].Stock(3)
			r := w.tick()
			got := ops(r)
			slices.Sort(got[:3])
			slices.Sort(got[3:5])
			want := []string{
				"set target a: 3 FAILED", "set target b: 3", "set target c: 3",
				"set target b: 4 FAILED", "set target c: 4", "set target c: 5",
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("done:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			w.wantTarget(9)
			var aside []string
			for _, q := range r.State.Backoffs {
				aside = append(aside, q.Group)
			}
			if !slices.Equal(aside, []string{"a", "b"}) {
				t.Errorf("set aside: %q, want a and b", aside)
			}
			w.calls()
			w.tick()
			w.wantCalls() // a group in backoff gets no call, and the others have enough
		})
	}
}

// The backoff ends by the rules' monotonic clock, and is longer each time.
func TestQuarantineEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 2*cpusPerNode)
	w.groups[0].Stock(1)
	var at []int
	for i := range 17 {
		if r := w.tick(); len(r.Actions) > 0 {
			at = append(at, i)
		}
	}
	if !slices.Equal(at, []int{0, 5, 15}) {
		t.Errorf("asked at the ticks %v, want 0, 5 and 15", at)
	}
	w.groups[0].Stock(9)
	for range 20 {
		w.tick()
	}
	if q := w.loop.state().Backoffs; len(q) > 0 {
		t.Errorf("set aside: %+v, want none after it gave", q)
	}
	w.wantTarget(2)
}

// A group that accepts its target, and then reports that it has no capacity.
func TestGroupThatIsFoundShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1, 1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 6*cpusPerNode)
	w.groups[0].Quota(2)
	wantOps(t, w.tick(), "set target a: 3", "set target b: 3")
	w.now = w.now.Add(time.Second)
	w.groups[0].Advance(w.now) // it tries, and reports the shortage
	r := w.tick()
	wantOps(t, r, "set target b: 4", "set target a: 2")
	if a := r.Actions[1]; !strings.HasPrefix(a.What, "set aside: ") {
		t.Errorf("action %+v, want it to say why", a)
	}
	w.wantTarget(6)
	if q := r.State.Backoffs; len(q) != 1 || q[0].Group != "a" || q[0].Failures != 1 {
		t.Errorf("set aside: %+v, want a, once", q)
	}
	for range 3 {
		wantOps(t, w.tick())
	}
}

// A group that is found short again and again is in backoff for longer each time, although it accepts each target.
func TestBackoffOfAGroupThatIsFoundShortIsLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 6*cpusPerNode)
	w.groups[0].Quota(2)
	var at []int
	for i := range 20 {
		if r := w.tick(); slices.Contains(ops(r), "set target a: 6") {
			at = append(at, i)
		}
	}
	if !slices.Equal(at, []int{0, 6, 17}) {
		t.Errorf("raised at the ticks %v, want 0, 6 and 17: a tick later it is found short", at)
	}
	w.groups[0].Quota(9)
	for range 30 {
		w.tick()
	}
	w.wantTarget(6)
	if q := w.loop.state().Backoffs; len(q) > 0 {
		t.Errorf("set aside: %+v, want none after it gave", q)
	}
}

// Weight under an offset that was not granted is not taken away later.
func TestOffsetThatIsNotGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	def := w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 4*cpusPerNode)
	w.config.Apps[0].HoldFor = 0
	w.book.orders.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: 3}
	w.groups[0].Stock(4)
	if r := w.tick(); r.Result.Target != 7 || r.State.Offset != 0 {
		t.Errorf("target %v, offset held %v: want 7, 0", r.Result.Target, r.State.Offset)
	}
	w.book.change(func(o *api.Orders) { o.Offset = nil })
	def.set(cpus(0), errors.New("broken"))
	web.set(cpus(0), errors.New("broken"))
	for range 3 {
		if r := w.tick(); r.Result.Target != 4 {
			t.Errorf("target %v, want 4: nobody knows the need", r.Result.Target)
		}
	}
	w.wantTarget(4)
}

func TestOffsetLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, weight := range []float64{2, -2} {
		t.Run(fmt.Sprint(weight), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{4}, "web")
			w.asks(sigproto.DefaultApp, 1)
			w.asks("web", 4*cpusPerNode)
			w.book.orders.Offset = &api.Offset{Note: api.Note{By: "me"}, Weight: weight}
			for range 4 {
				w.tick()
			}
			w.wantTarget(4 + int(weight))
			w.book.change(func(o *api.Orders) { o.Offset = nil })
			for range 4 {
				w.tick()
			}
			w.wantTarget(4)
			if s := w.loop.state(); s.Offset != 0 {
				t.Errorf("offset %v, want none", s.Offset)
			}
		})
	}
}

func TestPin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pin  api.Pin
		want int
	}{{api.Pin{Target: 6}, 6}, {api.Pin{Bound: "max"}, 9}, {api.Pin{Bound: "min"}, 2}}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.want), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{4}, "web")
			w.config.Policy.Limits.Min, w.config.Policy.Limits.Max = 2, 9
			w.asks(sigproto.DefaultApp, 1)
			w.asks("web", 4*cpusPerNode)
			w.book.orders.Pin = &test.pin
			for range 4 {
				w.tick()
			}
			w.wantTarget(test.want)
		})
	}
}
