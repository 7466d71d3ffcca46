package report

import (
	"encoding/json"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	nudgeLimit  = 1 << 20 // of one bus message
	answerLimit = 64 << 20
	stepBase    = 8 << 20 // allocated by any Step
	stepByte    = 250     // and for each byte of a message
)

// hostile passes valid but excessive input to a machine.
type hostile struct {
	m   *apps.Machine
	now time.Time
}

// step passes an event of that many wire bytes to the machine, and checks the result.
func (h *hostile) step(t *rapid.T, ev apps.Event, size int) {
	for first := true; first || h.m.Busy(); first = false {
		before := allocated()
		nudges, _ := h.m.Step(h.now, ev)
		if got := allocated() - before; got > uint64(stepBase+stepByte*size) {
			t.Fatalf("%T of %d bytes: a Step allocated %d", ev, size, got)
		}
		for _, n := range nudges {
			if data, err := json.Marshal(n); err != nil || len(data) > nudgeLimit {
				t.Fatalf("a nudge of %d bytes, %v", len(data), err)
			}
		}
		ev, size = apps.Tick{}, 0
	}
}

// allocated returns the bytes allocated so far, approximately.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// name returns one of a few names: short, of the largest length, or longer in JSON.
func name(t *rapid.T, kind string, n int) string {
	s := fmt.Sprintf("%s%d", kind, rapid.IntRange(0, n).Draw(t, kind))
	if rapid.Bool().Draw(t, "long") {
		return s + strings.Repeat("<", message.MaxID-len(s))
	}
	return s
}

func (h *hostile) heartbeat(t *rapid.T) {
	copies := rapid.SampledFrom([]int{0, 1, 50, 500, 2000}).Draw(t, "copies")
	spread := rapid.SampledFrom([]int{1, 7, message.MaxInstances}).Draw(t, "indices")
	versions := rapid.SampledFrom([]int{1, 300}).Draw(t, "versions")
	app, node, id := name(t, "app", 3), name(t, "node", 2), name(t, "copy", 2)
	state := rapid.SampledFrom([]api.CopyState{api.CopyRunning, api.CopyStarting, api.CopyCrashed, api.CopyEvacuating, "ODD"}).Draw(t, "state")
	var b strings.Builder
	fmt.Fprintf(&b, `{"dea":%q,"droplets":[`, node)
	for i := range copies {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"droplet":%q,"version":"v%d","instance":"%d%s","index":%d,"state":%q,"state_timestamp":1e300}`,
			app, i%versions, i, id[:min(len(id), 200)], i%spread, state)
	}
	b.WriteString("]}")
	h.step(t, apps.Heartbeat{Data: []byte(b.String())}, b.Len())
}

// request requests as much as fits in a request.
func (h *hostile) request(t *rapid.T) {
	var list []string
	for i := range rapid.SampledFrom([]int{1, 100, 2000}).Draw(t, "asked") {
		list = append(list, fmt.Sprintf(`{"droplet":"app%d","version":"v%d"}`, i%5, i))
	}
	app := name(t, "app", 3)
	for subject, q := range map[string]string{
		SubjectHealth:  `{"droplets":[` + strings.Join(list, ",") + `]}`,
		SubjectDroplet: `{"droplets":[` + strings.Join(list, ",") + `]}`,
		SubjectStatus:  fmt.Sprintf(`{"droplet":%q,"version":"v0","state":"FLAPPING"}`, app),
	} {
		answers, err := Answer(h.m.View(), h.now, subject, []byte(q))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(answers); err != nil || len(data) > answerLimit {
			t.Fatalf("%s: %d bytes are answered to %d, %v", subject, len(data), len(q), err)
		}
	}
}

func (h *hostile) row(t *rapid.T) {
	row := api.App{Name: name(t, "app", 3), Pool: "p", Version: "v0",
		Instances: rapid.SampledFrom([]int{0, 1, 5, 2000, 10_000}).Draw(t, "instances")}
	h.step(t, apps.ExpectedRows{Rows: []api.App{row}}, 200*row.Instances) // a missing desired index costs as much as a line of a message
}

func (h *hostile) exit(t *rapid.T) {
	h.step(t, apps.Exit{Exited: api.Exited{App: name(t, "app", 3), Version: "v0", Instance: name(t, "copy", 20),
		Index:  rapid.SampledFrom([]int{0, 1, message.MaxInstances - 1}).Draw(t, "index"),
		Reason: api.ExitCrashed, Description: strings.Repeat("x", 1000)}}, 1200)
}

// nudged sends a nudge that seems to be of another harmonizer.
func (h *hostile) nudged(t *rapid.T) {
	start := api.Start{App: name(t, "app", 3), Version: "v0"}
	for i := range 1000 {
		start.Indices = append(start.Indices, i)
	}
	stop := api.Stop{App: start.App, Instances: map[string]string{}}
	for i := range 1000 {
		stop.Instances[fmt.Sprintf("%dcopy0", i)] = ""
	}
	h.step(t, apps.Nudged{Nudge: apps.Nudge{Start: &start}}, 7000)
	h.step(t, apps.Nudged{Nudge: apps.Nudge{Stop: &stop}}, 16_000)
}

// For any valid input, the allocation of a Step is proportional to the message, a nudge fits
// in a bus message, and an answer is bounded.
func TestHostileMessagesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hostile{now: second(1000), m: apps.NewMachine(apps.Config{DisruptionLimit: 1, QueueBatchSize: 5000}.WithDefaults())}
		h.step(t, apps.BusUp{}, 0)
		h.step(t, apps.Lead{}, 0)
		h.step(t, apps.ExpectedComplete{}, 0)
		h.now = h.now.Add(12 * time.Second)
		acts := []func(*rapid.T){h.heartbeat, h.heartbeat, h.row, h.exit, h.nudged, h.request}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			rapid.SampledFrom(acts).Draw(t, "act")(t)
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, 40 * time.Second}).Draw(t, "pass"))
			h.step(t, apps.Tick{}, 0)
		}
		if memories := h.m.Memories(); len(memories) > 100 {
			t.Fatalf("%d memories of 8 apps", len(memories))
		}
	})
}
