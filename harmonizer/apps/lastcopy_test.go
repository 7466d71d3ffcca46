package apps

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// TestLastCopy checks in each phase whether copy "c" of an app of two instances of v1 may be
// stopped. Its node is n1; that of the others is n2.
func TestLastCopy(t *testing.T) {
	const forever = 400 * time.Second
	on := func(index int, id, version string, state message.State) message.Beat {
		return message.Beat{App: "web", Index: index, Instance: id, Version: version, State: state}
	}
	var (
		first  = on(0, "first", "v1", message.Running)
		second = on(1, "second", "v1", message.Running)
		crash  = on(1, "second", "v1", message.Crashed)
		leaves = on(1, "second", "v1", message.Evacuating)
		old    = on(1, "second", "v0", message.Running)
		beyond = on(7, "c", "v1", message.Running)
		twin   = on(0, "c", "v1", message.Running)
		other  = on(8, "other", "v1", message.Running)
		starts = on(8, "other", "v1", message.Starting)
	)
	for _, tt := range []struct {
		name   string
		c      message.Beat
		others []message.Beat
		set    func(*evaluation, *extra)
		want   Why
	}{
		{"beyond, all desired indices run", beyond, []message.Beat{first, second}, nil, ""},
		{"beyond, only other versions run", beyond, []message.Beat{on(0, "first", "v0", message.Running), old}, nil, ""},
		{"beyond, nothing else runs", beyond, nil, nil, WhyUnconfirmed},
		{"beyond, another beyond runs", beyond, []message.Beat{other}, nil, WhyUnconfirmed},
		{"beyond, an index crashed", beyond, []message.Beat{first, crash}, nil, WhyOtherMissing},
		{"beyond, an index is empty", beyond, []message.Beat{first}, nil, WhyOtherMissing},
		{"beyond, an index evacuates", beyond, []message.Beat{first, leaves}, nil, ""},
		{"beyond, after its patience, alone", beyond, []message.Beat{first}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, WhyReplacesMissing},
		{"beyond, after its patience, with another", beyond, []message.Beat{first, other}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, ""},
		{"beyond, after its patience, the other starts", beyond, []message.Beat{first, starts}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, WhyReplacesMissing},
		{"evacuating, nothing else", on(0, "c", "v1", message.Evacuating), []message.Beat{second}, nil, WhyUnconfirmed},
		{"starting", on(0, "c", "v1", message.Starting), nil, nil, ""},
		{"an unknown state", on(0, "c", "v1", "ODD"), nil, nil, ""},
		{"duplicate, the other one runs", twin, []message.Beat{first, second}, nil, ""},
		{"duplicate, the other one starts", twin, []message.Beat{on(0, "first", "v1", message.Starting), second}, nil, WhyUnconfirmed},
		{"duplicate, an index is empty", twin, []message.Beat{first}, nil, WhyOtherMissing},
		{"duplicate, after its patience", twin, []message.Beat{first}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, ""},
		{"old version, the live one runs", on(0, "c", "v0", message.Running), []message.Beat{first, second}, nil, ""},
		{"old version, only old ones run", on(0, "c", "v0", message.Running), []message.Beat{on(0, "first", "v0", message.Running), second}, nil, WhyUnconfirmed},
		{"old version, the live one is on another index", on(0, "c", "v0", message.Running), []message.Beat{second}, nil, WhyUnconfirmed},
		{"duplicate, the stop of the other one is under way", twin, []message.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.apps.slots[at(l.app.id, 0)] = &slot{app: l.app, extras: []extra{{id: "first", until: l.clock.in(time.Second)}}}
		}, WhyUnconfirmed},
		{"duplicate, the node of the other one is late", twin, []message.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.clock.set(l.clock.wall.Add(5*time.Second + 1))
		}, WhyUnconfirmed},
		{"duplicate, the node of the other one is about to be", twin, []message.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.clock.set(l.clock.wall.Add(5 * time.Second))
		}, ""},
		{"duplicate, the bus came back since", twin, []message.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.known.Connected(l.clock.wall)
		}, WhyUnconfirmed},
		{"the app is stopped", beyond, nil, func(l *evaluation, _ *extra) { l.app.want.State = message.AppStopped }, ""},
		{"the app wants no instance", beyond, nil, func(l *evaluation, _ *extra) { l.app.want.Instances = 0 }, ""},
		{"the app has no row", beyond, nil, func(l *evaluation, _ *extra) { l.app.row = rowDeleted }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := evaluationOf(t)
			l.app.want.Instances = 2
			l.known.Want(l.app.id, 2)
			// The heartbeat of the other copies is a period older.
			for _, hb := range []struct {
				node  string
				beats []message.Beat
			}{{"n2", tt.others}, {"n1", []message.Beat{tt.c}}} {
				if err := l.known.Heartbeat(l.clock.wall, "", beat(hb.node, hb.beats...).Data); err != nil {
					t.Fatal(err)
				}
				l.clock.set(l.clock.wall.Add(5 * time.Second))
			}
			c, _ := l.known.Find("c")
			l.index, l.copies = tt.c.Index, slices.AppendSeq(l.copies[:0], l.known.Copies(l.app.id, tt.c.Index))
			var x extra
			if tt.set != nil {
				tt.set(l, &x)
			}
			for _, p := range phases {
				l.confirmed, l.standInCount = unknown, standInCount{}
				l.stop, l.sent, l.alone = surplus{copy: c}, x, false
				if h, held := l.lastCopy(); h.why != tt.want || held != (tt.want != "") {
					t.Errorf("%s: held %v (%s), want %q", p.name, held, h.why, tt.want)
				}
			}
		})
	}
}
