package harmonizer

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// slowMemory is a Memory whose Save takes a while, as on a slow disk.
type slowMemory struct{ takes time.Duration }

func (slowMemory) Load(context.Context) (SavedState, error) { return SavedState{}, nil }

func (m slowMemory) Save(ctx context.Context, _ []apps.Memory, _ map[message.Node]int) error {
	retry.Pause(ctx, m.takes)
	return ctx.Err()
}

// slowly runs one harmonizer whose saves take 4 s, beside a node that ignores nudges.
func slowly(t *testing.T, body func(t *testing.T, w *world, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.ignoresNudges = true
		r := w.join("a").start(t, settings(), false, func(p *Ports) { p.Memory = slowMemory{4 * time.Second} })
		body(t, w, r)
		r.stop(t)
	})
}

// TestAStaleNudgeIsNotSent: a nudge waits until its memory is saved. If its reason is gone by
// then, it is not sent.
func TestAStaleNudgeIsNotSent(t *testing.T) {
	t.Run("the app was deleted", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *world, r *running) {
			r.events <- rows(1)
			r.events <- apps.ExpectedComplete{}
			pass(t, 12*time.Second)
			if decided := r.status(t).Counters["found_start"]; w.started() != 0 || decided != 1 {
				t.Fatalf("%d starts sent, %d decided, want one that waits for its memory", w.started(), decided)
			}
			r.events <- apps.ExpectedGone{Name: "web"}
			pass(t, 20*time.Second)
			if n := w.started(); n != 0 {
				t.Errorf("%d starts of a deleted app", n)
			}
		})
	})
	t.Run("the survivor of two ended", func(t *testing.T) {
		slowly(t, func(t *testing.T, w *world, r *running) {
			r.events <- rows(1)
			r.events <- apps.ExpectedComplete{}
			receive := func(node string) {
				data, err := json.Marshal(api.Heartbeat{Node: node, Beats: []api.Beat{
					{App: "web", Version: "v1", Instance: "on-" + node, State: api.CopyRunning, Since: 1}}})
				if err != nil || r.Enqueue(t.Context(), apps.Heartbeat{Data: data}) != nil {
					t.Fatal(err)
				}
			}
			victim := ""
			for victim == "" {
				receive("x")
				receive("y")
				pass(t, time.Second)
				victim = r.stoppedOf(t)
			}
			survivor := map[string]string{"on-x": "on-y", "on-y": "on-x"}[victim]
			if err := r.Enqueue(t.Context(), apps.Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: survivor,
				Reason: api.ExitCrashed}}); err != nil {
				t.Fatal(err)
			}
			pass(t, 10*time.Second)
			if n := w.stopped(); n != 0 {
				t.Errorf("%d stops of the only copy that is left", n)
			}
		})
	})
}

func (r *running) status(t *testing.T) api.HarmonizerStatus {
	t.Helper()
	s, err := r.Status(t.Context(), api.HarmonizerQuery{App: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stoppedOf returns the copy of web that is to be stopped, if any.
func (r *running) stoppedOf(t *testing.T) string {
	t.Helper()
	for _, i := range r.status(t).App.Indices {
		for _, in := range i.Instances {
			if in.Stopped {
				return in.ID
			}
		}
	}
	return ""
}
