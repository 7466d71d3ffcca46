package placer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// list sends a heartbeat of a node as it is, without any placement before.
func (w *world) list(node string, beats ...api.Beat) {
	w.c.heartbeat(w.now, Heartbeat{Heartbeat: api.Heartbeat{Node: node, Beats: beats}})
}

func beatOf(instance string, index int) api.Beat {
	return api.Beat{App: "web", Version: "v1", Instance: instance, Index: index, State: api.CopyRunning}
}

func (w *world) ask(node, instance string, index int) string {
	a := w.c.places.answer([]api.PlacedCopy{{Instance: instance, Node: node, App: "web", Version: "v1", Index: index}})
	return fmt.Sprint(len(a.Placed), len(a.NotPlaced))
}

const (
	yes       = "1 0"
	no        = "0 1"
	undecided = "0 0"
)

// A node that lists a copy which was not placed there keeps no index from its start, and is no substitute for a stop.
func TestForgedCopyCountsNowhere(t *testing.T) {
	w := newWorld(t)
	w.c.places.adopting = false
	w.app(1, "v1")
	w.node("a", false)
	w.node("evil", true)
	w.list("evil", beatOf("forged", 0))
	if all := w.c.foreign; len(all) != 1 || all[0] != (foreignCopy{"evil", "web", "forged"}) {
		t.Errorf("foreign copies %v, want the forged one", all)
	}
	w.start("v1", 0)
	w.expect("placed in spite of the forged copy", "start web/0 on a")
	real := w.did[0].instance
	w.list("a", beatOf(real, 0))
	w.list("evil", beatOf("forged", 0), beatOf(real, 0))
	w.stop("no substitute", []string{real}, real+": "+whyLast)
	for _, tt := range []struct {
		node, instance string
		index          int
		want           string
	}{{"a", real, 0, yes}, {"evil", real, 0, no}, {"a", real, 1, no}, {"evil", "forged", 0, no}, {"a", "other", 0, no}} {
		if got := w.ask(tt.node, tt.instance, tt.index); got != tt.want {
			t.Errorf("%s on %s, index %d: %s, want %s", tt.instance, tt.node, tt.index, got, tt.want)
		}
	}
}

// A copy stays placed over its exit, for a harmonizer that verifies the exit, and over a takeover of the pool.
func TestPlacedCopiesAreRemembered(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", false)
	w.start("v1", 0, 1)
	w.expect("placed", "start web/0 on a", "start web/1 on a")
	first, second := w.did[0].instance, w.did[1].instance
	w.list("a", beatOf(first, 0))
	w.c.exited(w.now, api.Exited{Instance: first})
	saved := (durable{w.c}).takeChanged()
	w.takeOver(saved...)
	if w.c.places.adopting {
		t.Error("a placer with a memory adopts what nodes list")
	}
	if got := w.ask("a", first, 0) + w.ask("a", second, 1); got != yes+yes {
		t.Errorf("after the takeover %s, want both placed", got)
	}
	w.now = w.now.Add(keepEnded + time.Minute)
	(durable{w.c}).expirePlaces(w.now)
	if got := w.ask("a", first, 0) + w.ask("a", second, 1); got != no+yes {
		t.Errorf("after %v %s, want the second one placed", keepEnded, got)
	}
}

// Without a memory the placer adopts what the nodes list. An index that two nodes list is undecided, not forged.
func TestPlacerWithoutMemoryAdopts(t *testing.T) {
	w := newWorld(t)
	w.app(2, "v1")
	w.node("a", false)
	w.node("b", false)
	if got := w.ask("a", "x", 0); got != undecided {
		t.Errorf("before a heartbeat: %s, want undecided", got)
	}
	w.list("a", beatOf("x", 0))
	w.list("b", beatOf("y", 0), beatOf("z", 1))
	if got := w.ask("a", "x", 0) + w.ask("b", "y", 0) + w.ask("b", "z", 1); got != yes+undecided+yes {
		t.Errorf("adopted: %s, want x and z, and y undecided", got)
	}
	w.c.places.adopting = false
	w.list("b", beatOf("late", 1))
	if got := w.ask("b", "y", 0) + w.ask("b", "late", 1); got != undecided+no {
		t.Errorf("afterwards: %s, want y undecided, and late not placed", got)
	}
}

// A node that refuses a start has no copy.
func TestRefusedStartIsNotPlaced(t *testing.T) {
	w := newWorld(t)
	w.app(1, "v1")
	w.node("a", false)
	w.c.places.adopting = false
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	instance := w.did[0].instance
	w.c.started(w.now, instance, Full, "no room")
	if got := w.ask("a", instance, 0); got != no {
		t.Errorf("%s, want not placed", got)
	}
}

// A copy that the readable part of a heartbeat omits stays on its node, and keeps its room.
func TestPartialHeartbeatDropsNothing(t *testing.T) {
	w := newWorld(t)
	w.c.places.adopting = false
	w.app(1, "v1")
	w.node("a", false)
	w.start("v1", 0)
	w.expect("placed", "start web/0 on a")
	real := w.did[0].instance
	w.list("a", beatOf(real, 0))
	for began := w.now; w.now.Sub(began) < keepSilent+time.Hour; w.now = w.now.Add(w.c.cfg.Heartbeat) {
		w.c.heartbeat(w.now, Heartbeat{Heartbeat: api.Heartbeat{Node: "a"}, Unread: errors.New("odd")})
		w.expect("nothing is started or stopped")
	}
	if cp := w.c.copies[real]; cp == nil || cp.node.facts.ID != "a" || w.c.places.byInstance[real] == nil {
		t.Error("the copy is dropped")
	}
	w.list("a")
	if w.c.copies[real] != nil {
		t.Error("the copy stays although a whole heartbeat omits it")
	}
}
