package placer

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func work(row *api.App) { row.OneShot = true }

func done(instance string) api.Exited {
	return api.Exited{App: "web", Version: "v1", Instance: instance, Reason: api.ExitCrashed, Status: new(0)}
}

// When the work of a copy on a draining node is done, its substitute is not started, or stopped.
func TestSubstituteOfDoneWork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(w *world)
		want   []string
	}{
		{"waits", func(w *world) { w.expect("no room") }, nil},
		{"was placed", func(w *world) {
			w.node("b", false)
			w.expect("placed", "start web/0 on b")
			w.node("b", false, "0/y=STARTING")
		}, []string{"stop y on b"}},
	} {
		w := newWorld(t)
		w.row(work)
		w.node("a", true, "0/x=RUNNING")
		tt.before(w)
		w.c.exited(w.now, done("x"))
		w.node("a", false)
		w.expect(tt.name, tt.want...)
	}
}

// A copy of an earlier version of work is stopped without a substitute.
func TestStopOfEarlierWork(t *testing.T) {
	w := newWorld(t)
	w.node("a", false, "0/x=RUNNING")
	w.row(func(row *api.App) { work(row); row.Version = "v2" })
	if refused := w.c.stop(w.now, api.Stop{App: "web", Instances: map[string]string{"x": "v1"}}); len(refused) > 0 {
		t.Errorf("refused %+v", refused)
	}
	w.expect("stopped", "stop x on a")
}

// Work that is done needs no machine.
func TestDoneWorkIsNotHeld(t *testing.T) {
	w := newWorld(t)
	w.row(func(row *api.App) { work(row); row.Instances = 4 })
	w.node("a", false, "0/x=RUNNING")
	w.start("v1", 1)
	w.c.act(w.now)
	if got := (packer{w.c}).heldSum(); got != (resource.Vector{2}) {
		t.Errorf("held %v, want that of one copy that runs and one that starts", got)
	}
}

// A repeated end changes nothing if it was received.
func TestRepeatedEndOfWork(t *testing.T) {
	w := newWorld(t)
	w.row(work)
	w.node("a", false, "0/x=RUNNING")
	p := &Placer{core: w.c, cfg: w.c.cfg}
	again := Exit{Node: "a", Exited: done("x")}
	again.Repeated = true
	if !again.apply(p, w.now) || len(w.c.copies) > 0 {
		t.Errorf("copies %v after a repeated end, want none", w.c.copies)
	}
	ended := w.c.places.byInstance["x"].ended
	if again.apply(p, w.now.Add(time.Minute)) || w.c.places.byInstance["x"].ended != ended {
		t.Error("the second one has an effect")
	}
}
