package apps

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// busLimit is the default limit of a bus message.
const busLimit = 1 << 20

// settle steps until the machine is not busy, and returns all nudges.
func settle(m *Machine, now time.Time, ev Event) (nudges []Nudge) {
	for first := true; first || m.Busy(); first = false {
		some, _ := m.Step(now, ev)
		nudges, ev = append(nudges, some...), Tick{}
	}
	return nudges
}

// processorTime returns the processor time of this process, so that other processes do not
// affect the result.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestManyCopiesOnOneIndex: a node may list very many copies on one index. Work is
// proportional to their number, not to its square.
func TestManyCopiesOnOneIndex(t *testing.T) {
	const n = 10_000
	for _, tt := range []struct {
		name    string
		desired int
		stops   int // in 40 s, with a keep-alive of 30 s
	}{
		{"duplicates", 1, 2}, // one of them at a time
		{"not desired", 0, 40 * 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, now := NewMachine(Config{DisruptionLimit: 1}.WithDefaults()), start()
			settle(m, now, BusUp{})
			settle(m, now, Lead{})
			settle(m, now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: tt.desired}}})
			settle(m, now, ExpectedComplete{})
			beats := make([]api.Beat, n)
			for i := range beats {
				beats[i] = api.Beat{App: "web", Version: "v1", Instance: fmt.Sprint("i", i), State: api.CopyRunning, Since: float64(1 + i)}
			}
			hb, stopped := beat("n1", beats...), map[string]bool{}
			began := processorTime(t)
			for range 4 {
				nudges := settle(m, now, hb)
				for range 10 {
					now = now.Add(time.Second)
					nudges = append(nudges, settle(m, now, Tick{})...)
				}
				for _, nudge := range nudges {
					for id := range nudge.Stop.Instances {
						stopped[id] = true
					}
				}
			}
			if took := processorTime(t) - began; took > 20*time.Second {
				t.Errorf("40 s took %v of a processor", took)
			}
			if stopped["i0"] && tt.desired > 0 || len(stopped) == 0 || len(stopped) > tt.stops {
				t.Errorf("%d are stopped, want 1 to %d; the survivor: %v", len(stopped), tt.stops, stopped["i0"])
			}
			e, _ := m.View().Explain(now, "web")
			if st := e.Indices[0]; len(st.Instances) != perIndex || st.Omitted != n-perIndex {
				t.Errorf("explained %d instances, and %d omitted", len(st.Instances), st.Omitted)
			}
		})
	}
}

// TestNudgesFitTheBus: a nudge fits in a bus message, however long the ids and versions of
// copies are.
func TestNudgesFitTheBus(t *testing.T) {
	const n, worst = 1200, "<" // six bytes in JSON
	name := func(kind string, i int) string {
		return strings.Repeat(worst, message.MaxID-8) + fmt.Sprintf("%s%06d", kind, i)
	}
	cfg := Config{DisruptionLimit: 1, QueueBatchSize: 10 * n}.WithDefaults()
	m, now := NewMachine(cfg), start()
	settle(m, now, BusUp{})
	settle(m, now, Lead{})
	row := api.App{Name: name("a", 0), Pool: "p", Version: name("v", 0), Instances: 2 * n}
	stopped := api.App{Name: name("b", 0), Pool: "p", Version: name("v", 0), Instances: 1, State: api.AppStopped}
	settle(m, now, ExpectedRows{[]api.App{row, stopped}})
	settle(m, now, ExpectedComplete{})
	beats := make([]api.Beat, n)
	for i := range beats { // each of another version
		beats[i] = api.Beat{App: stopped.Name, Version: name("w", i), Instance: name("i", i), Index: 2*n + i, State: api.CopyRunning}
	}
	settle(m, now, beat("n1", beats...))
	var nudges []Nudge
	for range 20 {
		now = now.Add(time.Second)
		nudges = append(nudges, settle(m, now, Tick{})...)
	}
	starts, stops := 0, 0
	for _, nudge := range nudges {
		data, err := json.Marshal(nudge)
		if err != nil || len(data) > busLimit {
			t.Fatalf("a nudge of %d bytes, %v", len(data), err)
		}
		if nudge.Start != nil {
			starts += len(nudge.Start.Indices)
			if _, ok := nudge.Start.Running[row.Version]; !ok {
				t.Error("a start without the count of the live version")
			}
		} else {
			stops += len(nudge.Stop.Instances)
		}
	}
	if starts != 2*n || stops != n {
		t.Errorf("%d starts and %d stops, want %d and %d", starts, stops, 2*n, n)
	}
}

// TestFollowerDropsMemoryOfRemovedApp: a changed memory is removed with its app, even if Memories
// is not called.
func TestFollowerDropsMemoryOfRemovedApp(t *testing.T) {
	m, now := NewMachine(steady()), start()
	settle(m, now, BusUp{})
	settle(m, now, ExpectedComplete{})
	for i := range 500 {
		name := fmt.Sprint("app", i)
		settle(m, now, ExpectedRows{[]api.App{{Name: name, Pool: "p", Version: "v1", Instances: 1}}})
		settle(m, now, Exit{Exited: api.Exited{App: name, Version: "v1", Instance: "i", Reason: api.ExitCrashed}})
		settle(m, now, ExpectedGone{name})
		now = now.Add(time.Second)
		settle(m, now, Tick{})
	}
	now = now.Add(time.Hour)
	settle(m, now, Tick{})
	if n := len(m.memory.changed) + len(m.memory.saved) + len(m.memory.rowlessMemory); n > 0 {
		t.Errorf("%d names are kept of apps that are gone", n)
	}
}

// TestNewLeaderReportsEarlierCrash: a crash that a follower received is in its memory when it
// leads.
func TestNewLeaderReportsEarlierCrash(t *testing.T) {
	m, now := NewMachine(steady()), start()
	settle(m, now, BusUp{})
	settle(m, now, ExpectedRows{[]api.App{{Name: "web", Pool: "p", Version: "v1", Instances: 1}}})
	settle(m, now, ExpectedComplete{})
	settle(m, now, Exit{Exited: api.Exited{App: "web", Version: "v1", Instance: "i", Reason: api.ExitCrashed}})
	settle(m, now, Lead{})
	if mem := m.Memories(); len(mem) != 1 || len(mem[0].Indices) != 1 || mem[0].Indices[0].Crashes != 1 {
		t.Errorf("Memories = %+v, want the crash", mem)
	}
}
