package apps

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// TestLastCopy checks in each phase whether copy "c" of an app of two instances of v1 may be
// stopped. Its node is n1; that of the others is n2.
func TestLastCopy(t *testing.T) {
	const forever = 400 * time.Second
	on := func(index int, id, version string, state api.CopyState) api.Beat {
		return api.Beat{App: "web", Index: index, Instance: id, Version: version, State: state}
	}
	var (
		first  = on(0, "first", "v1", api.CopyRunning)
		second = on(1, "second", "v1", api.CopyRunning)
		crash  = on(1, "second", "v1", api.CopyCrashed)
		leaves = on(1, "second", "v1", api.CopyEvacuating)
		old    = on(1, "second", "v0", api.CopyRunning)
		beyond = on(7, "c", "v1", api.CopyRunning)
		twin   = on(0, "c", "v1", api.CopyRunning)
		other  = on(8, "other", "v1", api.CopyRunning)
		starts = on(8, "other", "v1", api.CopyStarting)
	)
	for _, tt := range []struct {
		name   string
		c      api.Beat
		others []api.Beat
		set    func(*evaluation, *extra)
		want   api.AppReason
	}{
		{"beyond, all desired indices run", beyond, []api.Beat{first, second}, nil, ""},
		{"beyond, only other versions run", beyond, []api.Beat{on(0, "first", "v0", api.CopyRunning), old}, nil, ""},
		{"beyond, nothing else runs", beyond, nil, nil, api.WhyUnconfirmed},
		{"beyond, another beyond runs", beyond, []api.Beat{other}, nil, api.WhyUnconfirmed},
		{"beyond, an index crashed", beyond, []api.Beat{first, crash}, nil, api.WhyOtherMissing},
		{"beyond, an index is empty", beyond, []api.Beat{first}, nil, api.WhyOtherMissing},
		{"beyond, an index evacuates", beyond, []api.Beat{first, leaves}, nil, ""},
		{"beyond, after its patience, alone", beyond, []api.Beat{first}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, api.WhyReplacesMissing},
		{"beyond, after its patience, with another", beyond, []api.Beat{first, other}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, ""},
		{"beyond, after its patience, the other starts", beyond, []api.Beat{first, starts}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, api.WhyReplacesMissing},
		{"evacuating, nothing else", on(0, "c", "v1", api.CopyEvacuating), []api.Beat{second}, nil, api.WhyUnconfirmed},
		{"starting", on(0, "c", "v1", api.CopyStarting), nil, nil, ""},
		{"an unknown state", on(0, "c", "v1", "ODD"), nil, nil, ""},
		{"duplicate, the other one runs", twin, []api.Beat{first, second}, nil, ""},
		{"duplicate, the other one starts", twin, []api.Beat{on(0, "first", "v1", api.CopyStarting), second}, nil, api.WhyUnconfirmed},
		{"duplicate, an index is empty", twin, []api.Beat{first}, nil, api.WhyOtherMissing},
		{"duplicate, after its patience", twin, []api.Beat{first}, func(l *evaluation, x *extra) { x.alone = l.clock.in(-forever) }, ""},
		{"old version, the live one runs", on(0, "c", "v0", api.CopyRunning), []api.Beat{first, second}, nil, ""},
		{"old version, only old ones run", on(0, "c", "v0", api.CopyRunning), []api.Beat{on(0, "first", "v0", api.CopyRunning), second}, nil, api.WhyUnconfirmed},
		{"old version, the live one is on another index", on(0, "c", "v0", api.CopyRunning), []api.Beat{second}, nil, api.WhyUnconfirmed},
		{"duplicate, the stop of the other one is under way", twin, []api.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.apps.slots[at(l.app.id, 0)] = &slot{app: l.app, extras: []extra{{id: "first", until: l.clock.in(time.Second)}}}
		}, api.WhyUnconfirmed},
		{"duplicate, the node of the other one is late", twin, []api.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.clock.set(l.clock.wall.Add(5*time.Second + 1))
		}, api.WhyUnconfirmed},
		{"duplicate, the node of the other one is about to be", twin, []api.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.clock.set(l.clock.wall.Add(5 * time.Second))
		}, ""},
		{"duplicate, the bus came back since", twin, []api.Beat{first, second}, func(l *evaluation, _ *extra) {
			l.known.Connected(l.clock.wall)
		}, api.WhyUnconfirmed},
		{"the app is stopped", beyond, nil, func(l *evaluation, _ *extra) { l.app.want.State = api.AppStopped }, ""},
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
				beats []api.Beat
			}{{"n2", tt.others}, {"n1", []api.Beat{tt.c}}} {
				if err := l.known.Heartbeat(l.clock.wall, message.Node{}, beat(hb.node, hb.beats...).Data); err != nil {
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
