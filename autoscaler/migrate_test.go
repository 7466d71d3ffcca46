package autoscaler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/pooltest/memory"
)

// firstVersion returns a pool that version 1 left in the middle of a rolling, with an offset of 2
// and a marked node that leaves.
func firstVersion(t *testing.T, file string) *world {
	t.Helper()
	w, def, web := steady(t, 4)
	silence(w, def, web)
	w.loop.Close()
	w.loop = nil
	w.groups[0].Group = memory.New(memory.Config{ID: "a", Max: 100, Target: 6, Join: 5 * time.Minute}, w.now.Add(-time.Hour))
	w.groups[0].Advance(w.now)
	if err := w.groups[0].Group.SetTarget(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	leaving := drain.Record{
		Node: "a-2", Group: "a", Weight: 1, State: drain.Cordoned, Reason: drain.Removal, Since: w.now, Deadline: w.now.Add(time.Hour),
	}
	if err := w.records.Put(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	marked := w.now.Add(-time.Second)
	w.book.change(func(o *pools.Orders) {
		o.Offset, o.Stale = &pools.Offset{Note: pools.Note{By: "ann"}, Weight: 2}, []pools.StaleMark{{Note: pools.Note{By: "ann", At: marked}, Group: "a"}}
	})
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	w.memory.data = data
	return w
}

// The state of version 1 is converted once, whether its last tick ended or not, and however often
// the process dies before it is saved again.
func TestStateOfVersionOneIsConverted(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"state-v1-closed.json", "state-v1-open.json"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := firstVersion(t, file)
			before := string(w.memory.data)
			for range 2 { // each dies before the state is saved again
				w.start()
				w.memory.fail = errors.New("killed")
				w.tick()
				w.memory.fail = nil
				if string(w.memory.data) != before {
					t.Fatalf("kept %s, want it untouched", w.memory.data)
				}
			}
			w.start()
			r := w.tick()
			if *r.State.Wanted != 4 || r.State.Offset != 2 || r.Result.Target != 6 || r.Drift != nil {
				t.Errorf("wanted %v, offset %v, target %v, drift %v: want 4, 2, 6, none", *r.State.Wanted, r.State.Offset, r.Result.Target, r.Drift)
			}
			if got := r.Account.Sum(resolve.EntrySurge); got != 5 || len(r.Result.Terminate) > 0 {
				t.Errorf("surge %v, let go %v: want 5 for the marked ones that stay, none", got, r.Result.Terminate)
			}
			w.wantCalls() // the surge has the replacement of the leaving one
			w.wantBalanced()
			for _, old := range []string{"owed", "spare", "replaced", "rolling", "asked_at"} {
				if strings.Contains(string(w.memory.data), `"`+old+`"`) {
					t.Errorf("kept %s: want no %s", w.memory.data, old)
				}
			}
			if !strings.Contains(string(w.memory.data), `"schema":2`) {
				t.Errorf("kept %s: want schema 2", w.memory.data)
			}
		})
	}
}

// A state of a later version is rejected and not changed.
func TestStateOfLaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 2)
	later := `{"schema":3,"weir":"v9.1.0","state":{"wanted":{"a":2}}}`
	w.memory.data = []byte(later)
	w.loop.Close()
	w.loop = w.newLoop()
	t.Cleanup(w.loop.Close)
	err := w.loop.open(t.Context())
	want := "load the state of pool default: a later version of weir wrote it: it has schema 3, this version reads schema 2 and earlier: " +
		"run weir v9.1.0 or later; nothing was changed"
	if err == nil || err.Error() != want {
		t.Errorf("open = %v, want %s", err, want)
	}
	if r := w.tick(); r.Failed != want {
		t.Errorf("the tick: %q, want %q", r.Failed, want)
	}
	w.wantCalls()
	if string(w.memory.data) != later {
		t.Errorf("kept %s, want it untouched", w.memory.data)
	}
}
