package autoscaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Between two ticks that are far apart a drain goes on to its end, without another
// reading of the provider, and the next tick tells of it.
func TestDrainsGoOnBetweenTicks(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.clock = func() time.Time { return w.now }
	w.config.Tick = 10 * time.Minute
	w.reconfigure()
	w.book.change(func(o *pools.Orders) { o.Removals = []pools.Removal{{Note: pools.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	if w.loop.tending() == nil {
		t.Fatal("a drain is under way, and nobody tends it")
	}
	w.book.change(func(o *pools.Orders) { o.Removals = nil })
	read := w.loop.last.At
	for range 4 {
		w.now = w.now.Add(tendEvery)
		if err := w.loop.tend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(w.instances(), "a-2") {
		t.Errorf("a-2 is still there: %+v", w.loop.drains.Records())
	}
	if !w.loop.last.At.Equal(read) {
		t.Error("the provider was read for it")
	}
	r := w.tick()
	if got := strings.Join(ops(r), "; "); !strings.Contains(got, "draining -> drained") || !strings.Contains(got, "drained -> terminating") {
		t.Errorf("the next tick tells of %q", got)
	}
	if len(w.loop.between) != 0 {
		t.Errorf("%d actions are left to tell", len(w.loop.between))
	}
}

// While the records of the drains are to be read anew, nobody tends them.
func TestNothingIsTendedWithoutRecords(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.config.Tick, w.config.Drain.Threshold = 10*time.Minute, time.Hour
	w.reconfigure()
	if w.loop.tending() != nil {
		t.Error("nothing is under way, and it is tended")
	}
}

// A pool that is paused between two ticks has no drain go on.
func TestPausedDrainsAreNotTended(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.config.Tick = 10 * time.Minute
	w.reconfigure()
	w.book.change(func(o *pools.Orders) { o.Removals = []pools.Removal{{Note: pools.Note{By: "me"}, Node: "a-2"}} })
	w.tick()
	before := w.loop.drains.Records()
	w.book.change(func(o *pools.Orders) { o.Pause = &pools.Note{By: "me", At: w.now} })
	if err := w.loop.tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := w.loop.drains.Records(); !slices.Equal(before, after) || w.loop.tending() != nil {
		t.Errorf("drains %+v, were %+v", after, before)
	}
}

// A node of a group that somebody else is changing is not even cordoned.
func TestViewsTellWhoIsBusy(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 1)
	v := *w.loop.last
	v.Groups = slices.Clone(v.Groups)
	v.Groups[0].Busy = "an instance refresh"
	for id, one := range w.loop.views(&v) {
		if one.Busy != "an instance refresh" || one.Node == pools.NodeUnknown {
			t.Errorf("view of %s is %+v", id, one)
		}
	}
}

// Drains do not go on by what the provider said long ago.
func TestDrainsWaitForTheProvider(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 3)
	w.clock = func() time.Time { return w.now }
	w.config.Tick = time.Minute
	w.reconfigure()
	w.remove("a-2")
	before := w.loop.drains.Records()
	w.now = w.now.Add(2*time.Minute + time.Second)
	if err := w.loop.tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := w.loop.drains.Records(); !slices.Equal(before, after) || w.loop.tending() != nil {
		t.Errorf("drains %+v, were %+v: want them to wait", after, before)
	}
}
