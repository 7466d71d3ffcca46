package drain_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestClockSetBack checks the wait for a node that does not get empty. The wait ends once, after
// the threshold of half an hour, for any change of the clock. The minute of the change does not
// count. If the machine was not running then, neither does the wait since the last write of a
// record.
func TestClockSetBack(t *testing.T) {
	for _, test := range []struct {
		name    string
		back    map[int]time.Duration // by minute
		restart map[int]bool
		want    int // minutes until the wait ends
	}{
		{"never", nil, nil, 30},
		{"an hour", map[int]time.Duration{10: time.Hour}, nil, 31},
		{"an hour, and a start afterwards", map[int]time.Duration{10: time.Hour}, map[int]bool{20: true}, 31},
		{"an hour, while no machine runs", map[int]time.Duration{10: time.Hour}, map[int]bool{10: true}, 38},
		{"time and again", map[int]time.Duration{5: time.Hour, 10: 3 * time.Minute, 20: 24 * time.Hour}, nil, 33},
		{"at the deadline", map[int]time.Duration{30: 10 * time.Minute}, nil, 31},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.tasks["a-1"] = endless
			m := w.open(config)
			w.pass()
			add(t, w, m, choice("a-1"))
			given := 0
			for minute := 1; minute <= 90; minute++ {
				w.wrong -= test.back[minute]
				if test.restart[minute] {
					m = w.open(config)
				}
				for _, e := range ticks(t, w, m, 1) {
					if e.To == api.DrainReturning {
						given++
						if minute != test.want {
							t.Errorf("given up after %d minutes, want %d", minute, test.want)
						}
					}
				}
			}
			if given != 1 || w.cordoned["a-1"] || len(w.stored) != 0 {
				t.Errorf("given up %d times, cordoned %t, records %s", given, w.cordoned["a-1"], w.stored)
			}
		})
	}
}

// TestClockSetBackIsStored checks that stored records move back with the clock too.
func TestClockSetBackIsStored(t *testing.T) {
	w := newWorld(t, 2)
	w.tasks["a-1"] = endless
	m := w.open(config)
	add(t, w, m, choice("a-1"))
	ticks(t, w, m, 3)
	before := theRecord(t, m)
	w.wrong = -time.Hour
	ticks(t, w, m, 1)
	got := theRecord(t, w.open(config))
	if back := before.Deadline.Sub(got.Deadline); back < 59*time.Minute || back > time.Hour {
		t.Errorf("the deadline that was kept went back by %v, want about an hour", back)
	}
	if !got.CordonSent.Before(w.clock()) || got.Deadline.Sub(got.CordonSent) != before.Deadline.Sub(before.CordonSent) {
		t.Errorf("the record is %+v, want all of its times moved", got)
	}
}

// TestRecordFromFuture checks a record from a process with a wrong clock. It is moved to now, and
// the other records are unchanged.
func TestRecordFromFuture(t *testing.T) {
	w := newWorld(t, 3)
	w.tasks["a-1"], w.tasks["a-2"] = endless, endless
	w.cordoned["a-1"], w.cordoned["a-2"] = true, true
	years := 50 * 365 * 24 * time.Hour
	for node, ahead := range map[string]time.Duration{"a-1": years, "a-2": 0} {
		r := record(api.DrainDraining, func(r *api.Drain) {
			r.Node, r.Weight = node, 1
			r.Since, r.Deadline, r.CordonSent = start.Add(ahead), deadline.Add(ahead), start.Add(ahead)
		})
		if err := w.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	m := w.open(config)
	ticks(t, w, m, 29)
	if len(m.Records()) != 2 {
		t.Errorf("before the deadline: %+v", m.Records())
	}
	ticks(t, w, m, 4)
	if len(m.Records()) != 0 || w.cordoned["a-1"] || w.cordoned["a-2"] {
		t.Errorf("after the deadline: %+v", m.Records())
	}
}
