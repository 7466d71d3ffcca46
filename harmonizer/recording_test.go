package harmonizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/replay"
)

// memoryRecord is a Record in memory.
type memoryRecord struct {
	mu    sync.Mutex
	lines []string
}

func (r *memoryRecord) write(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *memoryRecord) Message(subject, _ string, data []byte) { r.write("%s %s", subject, data) }
func (r *memoryRecord) BulkDown(down bool)                     { r.write("bulk_down %v", down) }
func (r *memoryRecord) BusDown(down bool)                      { r.write("bus_down %v", down) }
func (r *memoryRecord) Bulk(rows []api.App) {
	var line strings.Builder
	line.WriteString("bulk")
	for _, a := range rows {
		line.WriteString(fmt.Sprintf(" %s=%d", a.Name, a.Instances))
	}
	r.write("%s", line.String())
}

func app(name string, n int) api.App {
	a := web(n)
	a.Name = name
	return a
}

func TestRecordingWritesWholeExpectedState(t *testing.T) {
	begin := apps.ExpectedBegin{}
	row := func(name string, n int) apps.ExpectedRows {
		return apps.ExpectedRows{Rows: []api.App{app(name, n)}}
	}
	for _, tt := range []struct {
		name   string
		events []apps.Event
		want   []string
	}{
		{"a watch", []apps.Event{row("b", 1), row("a", 2), apps.ExpectedComplete{}, row("b", 3), apps.ExpectedGone{Name: "a"}, apps.Tick{}},
			[]string{"bulk a=2 b=1", "bulk b=3"}},
		{"passes", []apps.Event{begin, row("a", 1), row("b", 1), apps.ExpectedComplete{}, begin, row("a", 1), apps.ExpectedComplete{}},
			[]string{"bulk a=1 b=1", "bulk a=1"}},
		{"a pass that failed", []apps.Event{begin, row("a", 1), apps.ExpectedComplete{}, begin, row("b", 1), apps.ExpectedFailed{}, begin, row("a", 1), apps.ExpectedComplete{}},
			[]string{"bulk a=1", "bulk_down true", "bulk_down false", "bulk a=1"}},
		{"a watch that was lost", []apps.Event{row("a", 1), apps.ExpectedComplete{}, apps.ExpectedLost{}, row("b", 1), apps.ExpectedComplete{}},
			[]string{"bulk a=1", "bulk_down true", "bulk_down false", "bulk b=1"}},
		{"an unreadable row stands", []apps.Event{begin, row("a", 1), apps.ExpectedComplete{}, begin, apps.ExpectedUnreadable{Name: "a"}, apps.ExpectedComplete{}},
			[]string{"bulk a=1", "bulk a=1"}},
		{"messages before the first pass", []apps.Event{apps.BusUp{}, begin, apps.Heartbeat{Data: []byte(`{"dea":"n1"}`)}, row("a", 1), apps.BusDown{}, apps.ExpectedComplete{}},
			[]string{"bulk a=1", "bus_down false", `dea.heartbeat {"dea":"n1"}`, "bus_down true"}},
		{"messages of agents", []apps.Event{apps.BusUp{}, apps.Heartbeat{Node: message.Node{Pool: "p", Name: "n1"}, Data: []byte(`{"dea":"n1"}`)},
			apps.Exit{Node: message.Node{Pool: "p", Name: "n1"}, Exited: api.Exited{App: "a", Instance: "i", Reason: api.ExitCrashed}}},
			[]string{"bus_down false", `weir.c.heartbeat.p.n1 {"dea":"n1"}`, `weir.c.exited.p.n1 {"cc_partition":"","droplet":"a","version":"","instance":"i","index":0,"reason":"CRASHED","exit_status":null,"exit_description":""}`}},
		{"reports of waiting starts", []apps.Event{apps.BusUp{}, apps.Confirmed{Pool: "p", Nudges: []string{"n1"}},
			apps.Confirmed{Pool: "p", Nudges: []string{"n2"}, Waiting: []api.WaitingStart{{App: "a", Version: "v1", Indices: []int{3}}}}},
			[]string{"bus_down false", `weir.c.placer.p.confirmed {"pool":"p","nudges":[],"waiting":[{"app":"a","version":"v1","indices":[3]}]}`}},
		{"messages before a pass that fails", []apps.Event{apps.BusUp{}, begin, apps.Updated{App: "a"}, apps.ExpectedFailed{}, apps.BusDown{}},
			[]string{"bus_down false", `droplet.updated {"cc_partition":"east","droplet":"a"}`, "bulk_down true", "bus_down true"}},
		{"messages, and no pass", []apps.Event{apps.BusUp{}, apps.Heartbeat{Data: []byte(`{"dea":"n1" }`)}, apps.Updated{App: "a"}, apps.BusDown{}},
			[]string{"bus_down false", `dea.heartbeat {"dea":"n1" }`, `droplet.updated {"cc_partition":"east","droplet":"a"}`, "bus_down true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &memoryRecord{}
			recording := newRecording(r, "c", "east")
			for _, ev := range tt.events {
				recording.receive(ev)
			}
			recording.record.flush()
			if diff := cmp.Diff(tt.want, r.lines); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStartBufferIsBounded: the buffer before the first expected state is bounded.
func TestStartBufferIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		size  int // of each message
		limit int
	}{{"many", 1, startBufferLines}, {"large", 1 << 20, startBufferBytes >> 20}} {
		t.Run(tt.name, func(t *testing.T) {
			r := &memoryRecord{}
			p := &startBuffer{Record: r}
			for i := range tt.limit + 1 {
				if len(r.lines) > 0 {
					t.Fatalf("written after %d messages, want %d to be kept back", i, tt.limit)
				}
				p.Message("s", "", make([]byte, tt.size))
			}
			if len(r.lines) != tt.limit+1 {
				t.Errorf("%d lines, want all %d", len(r.lines), tt.limit+1)
			}
		})
	}
}

// TestRecordRoundTrip: a replay of a record requests the same starts in the same order.
func TestRecordRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var file bytes.Buffer
		countWriter := replay.NewRecorder(&file, time.Now)
		r := w.join("a").start(t, settings(), false, func(p *Ports) { p.Record = countWriter })
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 20*time.Second)
		w.crash()
		pass(t, 20*time.Second)
		r.events <- rows(3)
		pass(t, 5*time.Second)
		r.stop(t)
		countWriter.Close()
		if countWriter.Err() != nil {
			t.Fatal(countWriter.Err())
		}
		var want []string
		for _, s := range w.starts {
			want = append(want, fmt.Sprintf("%s/%d", s.app, s.index))
		}
		var out bytes.Buffer
		if err := replay.Run(t.Context(), bytes.NewReader(file.Bytes()), &out, replay.Config{Apps: settings().Apps}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, replayed(t, &out)); diff != "" || len(want) != 5 {
			t.Errorf("starts of the replay:\n%s\nrecorded:\n%s", diff, file.String())
		}
	})
}

// replayed returns the indices that a replay requested to start.
func replayed(t *testing.T, out io.Reader) []string {
	t.Helper()
	var all []string
	for lines := json.NewDecoder(out); ; {
		var line struct {
			Subject string    `json:"subj"`
			Message api.Start `json:"msg"`
		}
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if line.Subject == message.SubjectStart {
			for _, i := range line.Message.Indices {
				all = append(all, fmt.Sprintf("%s/%d", line.Message.App, i))
			}
		}
	}
}
