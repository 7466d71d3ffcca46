package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
)

// groupModel is the state of one group, whose owner may crash after each step. A process starts when the
// state requires it, and ends with the owner.
type groupModel struct {
	m            *machines
	keepStopped  bool
	now          time.Time
	serial       int
	up           map[string]bool           // machines with a process
	boots        map[string]map[string]int // machine -> attempt -> starts by that attempt
	reportedDone map[string]bool           // attempts that were reported as done
	failed       map[string]bool           // attempts that were reported as failed
	saved        savedGroup                // the durable state
}

func newGroupModel(keepStopped bool) *groupModel {
	w := &groupModel{
		keepStopped: keepStopped, now: time.Unix(1000, 0), up: map[string]bool{}, boots: map[string]map[string]int{},
		reportedDone: map[string]bool{}, failed: map[string]bool{},
	}
	w.m = newMachines(GroupConfig{ID: "g", Max: 6, Target: 3, Weight: 1}, savedGroup{}, keepStopped)
	return w
}

func (w *groupModel) save() { w.saved = w.m.kept() }

// launch does the same as reconcile.
func (w *groupModel) launch() {
	n, _ := w.m.missing(w.now)
	for range n {
		w.serial++
		id := fmt.Sprint("i-", w.serial)
		w.m.launched(w.now, id)
		w.up[id] = true
	}
	w.save()
}

// restart does the same as that of Provider.
func (w *groupModel) restart(i *machine) {
	if i.attempt.open() {
		if w.boots[i.ID] == nil {
			w.boots[i.ID] = map[string]int{}
		}
		w.boots[i.ID][i.attempt.ID]++
	}
	w.up[i.ID] = true
	i.repairEnded(nil)
	w.save()
}

func (w *groupModel) die(id string) {
	delete(w.up, id)
	i := w.m.live[id]
	if w.m.ended(w.now, id, "killed", nil, w.keepStopped) == again {
		w.restart(i)
		return
	}
	w.save()
}

// crash ends the owner and all processes. The next owner begins with the durable state.
func (w *groupModel) crash(t *rapid.T) {
	data, err := json.Marshal(w.saved)
	if err != nil {
		t.Fatal(err)
	}
	var k savedGroup
	if err := json.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	before := w.m
	w.m, w.up = newMachines(w.m.cfg, k, w.keepStopped), map[string]bool{}
	for id, was := range before.live {
		is := w.m.live[id]
		if there := w.keepStopped && was.State != api.InstanceTerminating; (is != nil) != there {
			t.Fatalf("%s is there: %v, want %v", id, is != nil, there)
		}
		if is != nil && ((is.power == down) != (was.power == down || was.power == halting) || is.fenced != was.fenced) {
			t.Fatalf("it was %+v, and is %+v", was, is)
		}
	}
	for _, i := range w.m.sorted() {
		if i.power != down {
			w.restart(i)
		}
	}
	w.launch()
}

func (w *groupModel) repair(t *rapid.T, r repairRequest) {
	i := w.m.live[r.Instance]
	begin, done, err := w.m.repair(r)
	switch {
	case errors.Is(err, pools.ErrRepairFailed):
		if w.reportedDone[r.Attempt] && i != nil {
			t.Fatalf("%s was done, and has failed now: %v", r.Attempt, err)
		}
		w.failed[r.Attempt] = true
	case err != nil:
	case done:
		if w.failed[r.Attempt] {
			t.Fatalf("%s had failed, and is done now", r.Attempt)
		}
		w.reportedDone[r.Attempt] = true
	}
	if !begin {
		return
	}
	w.save()
	if i.power == repairing && !w.up[i.ID] {
		w.restart(i)
	}
}

// Crashes may occur between any two steps. An attempt starts a machine at most once, apart from the
// starts after a restart of the owner. The reported result of an attempt never changes. A machine
// has a process unless it is down. A machine that is down or fenced stays so. An id is never used
// for another machine.
func TestGroupModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newGroupModel(rapid.Bool().Draw(t, "stay"))
		w.launch()
		attempts := 0
		pick := func(t *rapid.T) string {
			ids := append(w.m.ids(), "i-0")
			return rapid.SampledFrom(ids).Draw(t, "id")
		}
		last := map[string]repairRequest{}
		t.Repeat(map[string]func(*rapid.T){
			"die": func(t *rapid.T) {
				if id := pick(t); w.up[id] {
					w.die(id)
				}
			},
			"launch": func(*rapid.T) { w.launch() },
			"crash":  func(t *rapid.T) { w.crash(t) },
			"later":  func(*rapid.T) { w.now = w.now.Add(time.Minute) },
			"mend": func(t *rapid.T) {
				attempts++
				kind := rapid.SampledFrom(repairKinds()).Draw(t, "kind")
				r := repairRequest{Group: "g", Instance: pick(t), Kind: kind, Attempt: fmt.Sprint("a", attempts)}
				if i := w.m.live[r.Instance]; i != nil && i.power != repairing && i.power != halting {
					last[r.Instance] = r
				}
				w.repair(t, r)
			},
			"mend again": func(t *rapid.T) {
				if r, ok := last[pick(t)]; ok {
					w.repair(t, r)
				}
			},
			"fence": func(t *rapid.T) {
				id := pick(t)
				way := rapid.SampledFrom(fences()).Draw(t, "way")
				confirmed, _, err := w.m.isolate(id, way)
				if err != nil && !errors.Is(err, pools.ErrNotOwned) {
					t.Fatal(err)
				}
				if confirmed && w.up[id] {
					t.Fatalf("%s is fenced, and runs", id)
				}
				w.save()
			},
			"terminate": func(t *rapid.T) {
				ids, target, err := w.m.victims([]string{pick(t)})
				if err != nil {
					return
				}
				w.m.target = target
				for _, id := range ids {
					w.m.live[id].State = api.InstanceTerminating
					if !w.up[id] {
						w.m.lost(w.now, w.m.live[id])
					}
				}
				w.save()
			},
			"": func(t *rapid.T) { w.check(t) },
		})
	})
}

func (w *groupModel) check(t *rapid.T) {
	for id, i := range w.m.live {
		if w.up[id] == (i.power == down) {
			t.Fatalf("%s has a process: %v; it is %+v", id, w.up[id], i)
		}
		if n := w.boots[id][i.attempt.ID]; n > 1 || n == 1 && !i.attempt.Done {
			t.Fatalf("%s was started %d times by %+v", id, n, i.attempt)
		}
	}
	for id := range w.up {
		if w.m.live[id] == nil {
			t.Fatalf("%s runs, and is not in the books", id)
		}
	}
	for n, id := range w.m.known {
		if slices.Contains(w.m.known[:n], id) {
			t.Fatalf("%s occurs twice", id)
		}
	}
	for _, n := range w.m.inspect() {
		if n.Stopped && w.up[n.ID] || n.Stopped && !w.keepStopped {
			t.Fatalf("inspection = %+v", n)
		}
	}
}

func TestInvalidRepairsRejected(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachines(GroupConfig{ID: "g", Max: 5, Target: 1, Weight: 1}, savedGroup{}, true)
	m.launched(now, "a")
	repair := func(kind api.RepairKind, attempt string) error {
		_, _, err := m.repair(repairRequest{Group: "g", Instance: "a", Kind: kind, Attempt: attempt})
		return err
	}
	if err := repair(api.RepairReboot, "1"); err != nil {
		t.Fatal(err)
	}
	if err := repair(api.RepairReset, "2"); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("while another attempt is under way: %v", err)
	}
	if refusal, ok := errors.AsType[*call.Error](repair(api.RepairReset, "1")); !ok || refusal.Code != call.CodeInvalid {
		t.Errorf("another repair under the same attempt: %v", refusal)
	}
	if _, kill, err := m.isolate("a", pools.FenceCompute); err != nil || !kill {
		t.Errorf("isolate = kill %v, %v", kill, err)
	}
	if err := repair(api.RepairReboot, "1"); !errors.Is(err, pools.ErrRepairFailed) {
		t.Errorf("the fence ends the repair: %v", err)
	}
	if err := repair(api.RepairStart, "3"); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("while it is being stopped: %v", err)
	}
	if f := m.ended(now, "a", "killed", errors.New("process 7 is left"), true); f != stays {
		t.Errorf("fate %d", f)
	}
	if confirmed, _, err := m.isolate("a", pools.FenceCompute); confirmed || err == nil {
		t.Errorf("something is left of it: confirmed %v, %v", confirmed, err)
	}
	m.live["a"].State = api.InstanceTerminating
	if err := repair(api.RepairStart, "4"); !errors.Is(err, pools.ErrRepairFailed) {
		t.Errorf("while it is being terminated: %v", err)
	}
}

func FuzzRepairRequest(f *testing.F) {
	f.Add([]byte(`{"group":"g","instance":"a","kind":"reboot","attempt":"1"}`))
	f.Add([]byte(`{"group":"g","instance":"b","kind":"start","attempt":""}`))
	f.Add([]byte(`{"group":"g","instance":"a","kind":"rebuild","attempt":"1","image":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r repairRequest
		if call.Decode(data, maxRequest, &r) != nil {
			return
		}
		m := newMachines(GroupConfig{ID: "g", Max: 5, Target: 1, Weight: 1}, savedGroup{}, true)
		m.launched(time.Unix(1, 0), "a")
		begin, _, err := m.repair(r)
		if begin != (err == nil) || begin && (len(r.Attempt) == 0 || len(r.Attempt) > maxAttempt || r.Instance != "a") {
			t.Errorf("repair(%+v) = %v, %v", r, begin, err)
		}
	})
}
