package harmonizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// recording writes events to a Record: messages as they come, and the whole expected state.
// The expected state comes first, and again after each pass and each change of single rows.
type recording struct {
	record    *startBuffer
	cluster   string
	partition string
	world     map[string]api.App
	pass      map[string]api.App // rows of the current pass; nil: no pass
	changed   bool               // single rows changed the world
	down      bool               // the source is down
}

func newRecording(r Record, cluster, partition string) *recording {
	return &recording{record: &startBuffer{Record: r}, cluster: cluster, partition: partition, world: map[string]api.App{}, pass: map[string]api.App{}}
}

func (t *recording) receive(ev apps.Event) {
	switch ev.(type) {
	case apps.ExpectedRows, apps.ExpectedGone:
	default:
		t.flush() // keeps the order of events
	}
	switch ev := ev.(type) {
	case apps.Heartbeat:
		subject := message.SubjectHeartbeat
		if ev.Node.Name != "" {
			subject = message.HeartbeatSubject(t.cluster, ev.Node)
		}
		t.record.Message(subject, "", ev.Data)
	case apps.Exit:
		subject := message.SubjectExited
		if ev.Node.Name != "" {
			subject = message.ExitedSubject(t.cluster, ev.Node)
		}
		t.writeMessage(subject, ev.Exited)
	case apps.Updated:
		t.writeMessage(message.SubjectUpdated, message.Updated{Partition: t.partition, App: ev.App})
	case apps.Nudged:
		if ev.Start != nil {
			t.writeMessage(message.SubjectStart, ev.Start)
		} else if ev.Stop != nil {
			t.writeMessage(message.SubjectStop, ev.Stop)
		}
	case apps.Confirmed:
		if len(ev.Waiting) > 0 {
			t.writeMessage(message.ConfirmedSubject(t.cluster, ev.Pool), api.Confirmation{Pool: ev.Pool, Nudges: []string{}, Waiting: ev.Waiting})
		}
	case apps.BusUp:
		t.record.BusDown(false)
	case apps.BusDown:
		t.record.BusDown(true)
	default:
		t.receiveSourceEvent(ev)
	}
}

func (t *recording) writeMessage(subject string, v any) {
	if data, err := json.Marshal(v); err == nil { // our own types always encode
		t.record.Message(subject, "", data)
	}
}

// writeRequest writes a request to the reporter. The reply subject is unknown here, so a replay
// sends no answer.
func (t *recording) writeRequest(subject string, data []byte) {
	t.flush()
	t.record.Message(subject, "", data)
}

func (t *recording) receiveSourceEvent(ev apps.Event) {
	switch ev := ev.(type) {
	case apps.ExpectedBegin:
		t.pass = map[string]api.App{}
	case apps.ExpectedRows:
		for _, row := range ev.Rows {
			t.addRow(row)
		}
	case apps.ExpectedUnreadable:
		if row, ok := t.world[ev.Name]; ok && t.pass != nil {
			t.pass[ev.Name] = row
		}
	case apps.ExpectedGone:
		delete(t.pass, ev.Name)
		t.changed = t.changed || t.pass == nil
		delete(t.world, ev.Name)
	case apps.ExpectedComplete:
		if t.pass != nil {
			t.world, t.pass = t.pass, nil
		}
		t.sourceDown(false)
		t.writeRows()
	case apps.ExpectedFailed:
		t.pass = nil
		t.sourceDown(true)
	case apps.ExpectedLost:
		t.pass = map[string]api.App{}
		t.sourceDown(true)
	}
}

func (t *recording) addRow(row api.App) {
	if t.pass != nil {
		t.pass[row.Name] = row
		return
	}
	t.world[row.Name], t.changed = row, true
}

func (t *recording) sourceDown(down bool) {
	if t.down != down {
		t.down = down
		t.record.BulkDown(down)
	}
}

func (t *recording) writeRows() {
	t.changed = false
	t.record.Bulk(slices.SortedFunc(maps.Values(t.world), func(a, b api.App) int { return strings.Compare(a.Name, b.Name) }))
}

func (t *recording) flush() {
	if t.changed {
		t.writeRows()
	}
}
