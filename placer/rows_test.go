package placer

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestRowsDecideWhatIsDesiredAndStartable(t *testing.T) {
	web := api.App{Name: "web", Pool: "p", Instances: 2, Version: "v1", Command: "run"}
	edit := func(f func(*api.App)) api.App { row := web; f(&row); return row }
	for _, tt := range []struct {
		name               string
		row                api.App
		slot               slot
		desired, startable bool
	}{
		{"desired", web, slot{"web", "v1", 1}, true, true},
		{"index beyond", web, slot{"web", "v1", 2}, false, false},
		{"another version", web, slot{"web", "v0", 0}, false, false},
		{"unknown app", web, slot{"api", "v1", 0}, false, false},
		{"row of another pool", edit(func(r *api.App) { r.Pool = "q" }), slot{"web", "v1", 0}, false, false},
		{"stopped", edit(func(r *api.App) { r.State = api.AppStopped }), slot{"web", "v1", 0}, false, false},
		{"package is not staged", edit(func(r *api.App) { r.Package = "pending" }), slot{"web", "v1", 0}, true, false},
		{"no command", edit(func(r *api.App) { r.Command = "" }), slot{"web", "v1", 0}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newCore(Config{Pool: "p"}, "").rows
			r.setRow(tt.row)
			if got := r.desired(tt.slot); got != tt.desired {
				t.Errorf("desired = %v, want %v", got, tt.desired)
			}
			if got := r.startable(tt.slot); got != tt.startable {
				t.Errorf("startable = %v, want %v", got, tt.startable)
			}
		})
	}
}

func TestRowsDropNodesOfRemovedIndices(t *testing.T) {
	r := newCore(Config{Pool: "p"}, "").rows
	row := api.App{Name: "web", Pool: "p", Instances: 2, Version: "v1"}
	r.setRow(row)
	r.remember(slot{"web", "v1", 1}, "a")
	r.remember(slot{"web", "v1", 7}, "a")
	if got := r.ran["web"]; len(got) != 1 || got[1] != "a" {
		t.Errorf("remembered %v, want only index 1", got)
	}
	row.Instances = 1
	r.setRow(row)
	if got := r.ran["web"]; len(got) != 0 {
		t.Errorf("remembered %v after the app shrank", got)
	}
}

// Beyond the bound of rows, further apps are unknown, not unwanted.
func TestRowsBeyondTheBoundAreUnknown(t *testing.T) {
	r := newRows("p")
	for i := range maxApps {
		r.apps[strconv.Itoa(i)] = api.App{}
	}
	r.setRow(api.App{Name: "web", Pool: "p", Instances: 1})
	if _, got := r.current(slot{app: "web"}); got != unknown {
		t.Errorf("a copy of a further app is %v, want unknown", got)
	}
	r.setRow(api.App{Name: "web", Pool: "q"})
	if _, got := r.current(slot{app: "web"}); got != unwanted {
		t.Errorf("a copy of an app of another pool is %v, want unwanted", got)
	}
}

func TestBookingsReserveRoom(t *testing.T) {
	c := newCore(Config{Pool: "p"}, "")
	n := newNode("n", time.Unix(1_000_000, 0))
	s := slot{"web", "v1", 0}
	a := &booking{slot: s, instance: "a", node: n, footprint: resource.Vector{0.1}}
	b := &booking{slot: s, instance: "b", node: n, footprint: resource.Vector{0.2}}
	c.bookings.add(a)
	c.bookings.add(b)
	if want := a.footprint.Add(b.footprint); n.reserved != want || len(c.bookings.bySlot[s]) != 2 {
		t.Errorf("reserved %v, want %v; bookings %v", n.reserved, want, c.bookings.bySlot)
	}
	c.bookings.remove(a)
	c.bookings.remove(b)
	if n.reserved != (resource.Vector{}) || len(c.bookings.byInstance)+len(c.bookings.bySlot)+len(n.booked) != 0 {
		t.Errorf("after remove: reserved %v, bookings %v", n.reserved, c.bookings)
	}
}
