package harmonizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// tap writes what is heard to a Record: messages as they come, and the expected
// state whole, first of all, and each time that a pass ended or single rows changed.
type tap struct {
	record    *prelude
	partition string
	world     map[string]message.App
	pass      map[string]message.App // rows since the pass began; nil: none is under way
	changed   bool                   // the world, by single rows
	down      bool                   // the source
}

func newTap(r Record, partition string) *tap {
	return &tap{record: &prelude{Record: r}, partition: partition, world: map[string]message.App{}, pass: map[string]message.App{}}
}

func (t *tap) hear(ev apps.Event) {
	switch ev.(type) {
	case apps.ExpectedRows, apps.ExpectedGone:
	default:
		t.flush() // what was heard later stays later
	}
	switch ev := ev.(type) {
	case apps.Heartbeat:
		t.record.Message(message.SubjectHeartbeat, "", ev.Data)
	case apps.Exit:
		t.message(message.SubjectExited, ev.Exited)
	case apps.Updated:
		t.message(message.SubjectUpdated, message.Updated{Partition: t.partition, App: ev.App})
	case apps.Nudged:
		if ev.Start != nil {
			t.message(message.SubjectStart, ev.Start)
		} else if ev.Stop != nil {
			t.message(message.SubjectStop, ev.Stop)
		}
	case apps.BusUp:
		t.record.BusDown(false)
	case apps.BusDown:
		t.record.BusDown(true)
	default:
		t.source(ev)
	}
}

func (t *tap) message(subject string, v any) {
	if data, err := json.Marshal(v); err == nil { // of our own types, which can be encoded
		t.record.Message(subject, "", data)
	}
}

// asked writes a question to the reporter. Who asked is not known here, so that a
// replay answers nobody.
func (t *tap) asked(subject string, data []byte) {
	t.flush()
	t.record.Message(subject, "", data)
}

func (t *tap) source(ev apps.Event) {
	switch ev := ev.(type) {
	case apps.ExpectedBegin:
		t.pass = map[string]message.App{}
	case apps.ExpectedRows:
		for _, row := range ev.Rows {
			t.row(row)
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
		t.bulk()
	case apps.ExpectedFailed:
		t.pass = nil
		t.sourceDown(true)
	case apps.ExpectedLost:
		t.pass = map[string]message.App{}
		t.sourceDown(true)
	}
}

func (t *tap) row(row message.App) {
	if t.pass != nil {
		t.pass[row.Name] = row
		return
	}
	t.world[row.Name], t.changed = row, true
}

func (t *tap) sourceDown(down bool) {
	if t.down != down {
		t.down = down
		t.record.BulkDown(down)
	}
}

func (t *tap) bulk() {
	t.changed = false
	t.record.Bulk(slices.SortedFunc(maps.Values(t.world), func(a, b message.App) int { return strings.Compare(a.Name, b.Name) }))
}

func (t *tap) flush() {
	if t.changed {
		t.bulk()
	}
}
