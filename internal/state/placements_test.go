package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/placer"
	"github.com/weirkeeper/weirkeeper/resource"
)

// placements acquires the lease of the placer of pool "web", and takes over its assignments.
func placements(t *testing.T, js jetstream.JetStream) (*state.Placements, []placer.Assignments) {
	t.Helper()
	l, err := state.NewLease(js, state.LeaseConfig{Bucket: placerBucket, Holder: "a", TTL: long, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	acquired(t, l)
	m, err := state.OpenPlacements(t.Context(), js, l, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m, all
}

func TestPlacements(t *testing.T) {
	js := js(t)
	web := placer.Assignments{
		App: "web", Ran: map[int]string{0: "n1"}, Wants: []placer.Want{{Version: "v1", Index: 1, Since: crashedAt}},
		Bookings: []placer.Booking{{Version: "v1", Index: 2, Instance: "i2", Node: "n2", Footprint: resource.Vector{1, 64}}},
		Stops:    []placer.Stop{{Instance: "i0", At: crashedAt}},
	}
	db := placer.Assignments{App: "db", Ran: map[int]string{3: "n3"}}
	a, all := placements(t, js)
	if len(all) != 0 {
		t.Errorf("Load of a new bucket = %+v, want nothing", all)
	}
	if err := a.Save(t.Context(), []placer.Assignments{web, db, {App: "never-there"}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Save(t.Context(), []placer.Assignments{{App: "db"}}); err != nil {
		t.Fatal(err)
	}
	b, all := placements(t, js) // a was halted and still counts itself the holder
	if diff := cmp.Diff([]placer.Assignments{web}, all); diff != "" {
		t.Errorf("taken over, -want +got:\n%s", diff)
	}
	wantNotHolder(t, "a's Save of an app", a.Save(t.Context(), []placer.Assignments{db}))
	wantNotHolder(t, "a's Save of another app", a.Save(t.Context(), []placer.Assignments{{App: "mail", Ran: map[int]string{0: "n"}}}))
	if b.Save(t.Context(), []placer.Assignments{{App: "web", Ran: map[int]string{-1: "n"}}}) == nil {
		t.Error("invalid assignments are saved")
	}
}

// An unreadable shard is moved aside, and the other apps remain.
func TestUnreadablePlacementsAreMovedAside(t *testing.T) {
	js := js(t)
	a, _ := placements(t, js)
	if err := a.Save(t.Context(), []placer.Assignments{{App: "web", Ran: map[int]string{0: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	var key string
	for k, m := range contentsOf(t, js, placerBucket) {
		if len(m.Data) > len(`{"epoch":1}`)+10 && k != "lease" {
			key = k
		}
	}
	putRawOf(t, js, placerBucket, key, `{"epoch":1}`+"\nnot json")
	if _, all := placements(t, js); len(all) != 0 {
		t.Errorf("Load = %+v, want nothing", all)
	}
	if value, found := rawOf(t, js, placerBucket, "aside."+key[len(key)-2:]); !found || value != `{"epoch":1}`+"\nnot json" {
		t.Errorf("aside: %q, %v", value, found)
	}
}

// A restore is reported once.
func TestRestoredPlacements(t *testing.T) {
	js := js(t)
	m, _ := placements(t, js)
	putRawOf(t, js, placerBucket, "restored", "{}")
	for _, want := range []bool{true, false} {
		if got, err := m.Restored(t.Context()); got != want || err != nil {
			t.Errorf("Restored = %v, %v, want %v", got, err, want)
		}
	}
}
