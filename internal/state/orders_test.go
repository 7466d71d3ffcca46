package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func note(until time.Time) api.Note {
	return api.Note{By: "ann@desk", Why: "the sale", At: noon, Until: until}
}

func openOrders(t *testing.T, js jetstream.JetStream, pool string) *state.Orders {
	t.Helper()
	o, err := state.OpenOrders(t.Context(), js, "here", pool)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// give sets one order of each kind.
func give(t *testing.T, o *state.Orders, n api.Note) api.Orders {
	t.Helper()
	all := api.Orders{
		Pause:    &n,
		Offset:   &api.Offset{Note: n, Weight: -2.5},
		Pin:      &api.Pin{Note: n, Bound: "max"},
		Removals: []api.Removal{{Note: n, Node: "i-1"}, {Note: n, Node: "ip-10-0-0-1.ec2.internal"}},
		Stale:    []api.StaleMark{{Note: n, Where: "age>20d,zone=a"}, {Note: n, Group: "=odd"}, {Note: n, Group: "blue"}, {Note: n, Group: "größe 1/*.>"}},
	}
	ctx := t.Context()
	err := errors.Join(
		o.Pause(ctx, n), o.SetOffset(ctx, *all.Offset), o.SetPin(ctx, *all.Pin),
		o.Remove(ctx, all.Removals[1]), o.Remove(ctx, all.Removals[0]),
		o.MarkStale(ctx, all.Stale[3]), o.MarkStale(ctx, all.Stale[2]), o.MarkStale(ctx, all.Stale[1]), o.Rotate(ctx, all.Stale[0]),
	)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantOrders(t *testing.T, o *state.Orders, now time.Time, want api.Orders) {
	t.Helper()
	got, err := o.Read(t.Context(), now)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

func TestOrders(t *testing.T) {
	js := js(t, "web-2")
	o, other := openOrders(t, js, "web"), openOrders(t, js, "web-2")
	wantOrders(t, o, noon, api.Orders{})
	all := give(t, o, note(time.Time{}))
	wantOrders(t, o, noon, all)
	wantOrders(t, o, noon.AddDate(100, 0, 0), all) // orders without an end do not expire
	wantOrders(t, other, noon, api.Orders{})

	anew := api.Offset{Note: note(noon.Add(time.Hour)), Weight: 7}
	if err := o.SetOffset(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	all.Offset = &anew
	wantOrders(t, o, noon, all)

	for range 2 { // the second time it is missing
		ctx := t.Context()
		if err := errors.Join(
			o.Resume(ctx), o.ClearOffset(ctx), o.ClearPin(ctx), o.Removed(ctx, "i-1"), o.Rolled(ctx, "größe 1/*.>"), o.Rolled(ctx, ""),
		); err != nil {
			t.Fatal(err)
		}
		wantOrders(t, o, noon, api.Orders{Removals: all.Removals[1:], Stale: all.Stale[1:3]})
	}
	if n := len(contents(t, js)); n != 1+3+6 {
		t.Errorf("%d keys, want the schema, three orders, and the delete markers of the others", n)
	}
}

func TestAcceptanceEndsWithTheHold(t *testing.T) {
	o := openOrders(t, js(t), "web")
	end := noon.Add(5 * time.Minute)
	if err := o.Accept(t.Context(), api.Acceptance{Note: note(time.Time{}), Through: noon}); err == nil {
		t.Error("an acceptance without an end is stored")
	}
	if err := o.Accept(t.Context(), api.Acceptance{Note: note(end)}); err == nil {
		t.Error("an acceptance of no change is stored")
	}
	a := api.Acceptance{Note: note(end), Through: noon}
	if err := o.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	wantOrders(t, o, noon, api.Orders{Accepted: &a})
	wantOrders(t, o, end, api.Orders{})
	wantOrders(t, o, noon, api.Orders{}) // the clock stepped back
}

func TestExpiredOrdersDoNotComeBack(t *testing.T) {
	js := js(t)
	o := openOrders(t, js, "web")
	end := noon.Add(time.Hour)
	all := give(t, o, note(end))
	wantOrders(t, o, end.Add(-time.Nanosecond), all)
	if listed, err := o.List(t.Context()); err != nil || !cmp.Equal(all, listed) {
		t.Errorf("List = %v, %v, want all", listed, err)
	}
	wantOrders(t, o, end, api.Orders{})
	wantOrders(t, o, noon, api.Orders{}) // the clock stepped back
	if listed, err := openOrders(t, js, "web").List(t.Context()); err != nil || !cmp.Equal(api.Orders{}, listed) {
		t.Errorf("List = %v, %v, want none", listed, err)
	}
}

func TestListChangesNothing(t *testing.T) {
	js := js(t)
	o := openOrders(t, js, "web")
	all := give(t, o, note(noon)) // expired
	before := contents(t, js)
	if listed, err := o.List(t.Context()); err != nil || !cmp.Equal(all, listed) {
		t.Errorf("List = %v, %v, want all", listed, err)
	}
	if diff := cmp.Diff(before, contents(t, js)); diff != "" {
		t.Errorf("the bucket has changed:\n%s", diff)
	}
}

func TestInvalidOrders(t *testing.T) {
	js := js(t)
	o := openOrders(t, js, "web")
	ctx, n := t.Context(), note(time.Time{})
	wordy, nobody, never := n, n, n
	wordy.Why, nobody.By, never.At = strings.Repeat("x", 10_000), "", time.Time{}
	for name, err := range map[string]error{
		"a long reason":        o.Pause(ctx, wordy),
		"by nobody":            o.Pause(ctx, nobody),
		"given never":          o.Pause(ctx, never),
		"an endless offset":    o.SetOffset(ctx, api.Offset{Note: n, Weight: math.Inf(1)}),
		"an offset of nothing": o.SetOffset(ctx, api.Offset{Note: n, Weight: math.NaN()}),
		"a negative pin":       o.SetPin(ctx, api.Pin{Note: n, Target: -1}),
		"another bound":        o.SetPin(ctx, api.Pin{Note: n, Bound: "most"}),
		"all nodes":            o.Remove(ctx, api.Removal{Note: n, Node: ">"}),
		"no node":              o.Remove(ctx, api.Removal{Note: n}),
		"no group":             o.MarkStale(ctx, api.StaleMark{Note: n}),
		"a long group":         o.MarkStale(ctx, api.StaleMark{Note: n, Group: strings.Repeat("ä", 200)}),
		"a strange node":       o.Removed(ctx, "*"),
		"a strange group":      o.Rolled(ctx, strings.Repeat("ä", 200)),
		"no condition":         o.Rotate(ctx, api.StaleMark{Note: n}),
		"a wrong condition":    o.Rotate(ctx, api.StaleMark{Note: n, Where: "size=3"}),
		"a rotated group":      o.Rotate(ctx, api.StaleMark{Note: n, Where: "age>1d", Group: "blue"}),
		"a roll by condition":  o.MarkStale(ctx, api.StaleMark{Note: n, Where: "age>1d", Group: "blue"}),
		"an endless resume":    o.ResumeRotation(ctx, n),
	} {
		if err == nil {
			t.Errorf("%s: nil, want an error", name)
		}
	}
	wantOrders(t, o, noon, api.Orders{})
}

// A loop that cannot read an order does not act as if the order were missing.
func TestUnreadableOrders(t *testing.T) {
	good := `"by":"ann","at":"2026-03-01T12:00:00Z"`
	tests := []struct{ name, key, value, want string }{
		{"no JSON", "pause", "yes", "order.pause: invalid character"},
		{"two values", "pause", "{" + good + "}{}", "order.pause: want one JSON value, something follows"},
		{"a key more", "pause", `{` + good + `,"until_load":0.5}`, "order.pause: json: unknown field"},
		{"too long", "pause", strings.Repeat(" ", 9000), "order.pause: longer"},
		{"not a number", "offset", `{` + good + `,"weight":1e999}`, "order.offset: weight: want a number, not 1e999"},
		{"another node", "remove.i-1", `{` + good + `,"node":"i-2"}`, `order.remove.i-1: it belongs to node "i-2"`},
		{"another group", "stale.blue", `{` + good + `,"group":"green"}`, `order.stale.blue: it belongs to group "green"`},
		{"another kind", "freeze", `{` + good + `}`, "order.freeze: unknown order"},
		{"a kind without a node", "remove", `{` + good + `}`, "order.remove: node"},
	}
	js := js(t)
	o := openOrders(t, js, "web")
	all := give(t, o, note(noon.Add(time.Hour)))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			previous, found := raw(t, js, "order."+test.key)
			putRaw(t, js, "order."+test.key, test.value)
			before := contents(t, js)
			got, err := o.Read(t.Context(), noon.Add(2*time.Hour))
			if err == nil || !strings.Contains(err.Error(), test.want) || !cmp.Equal(got, api.Orders{}) {
				t.Errorf("Read = %v, %v, want an error that has %q", got, err, test.want)
			}
			if diff := cmp.Diff(before, contents(t, js)); diff != "" {
				t.Errorf("the bucket has changed:\n%s", diff)
			}
			if found {
				putRaw(t, js, "order."+test.key, previous)
			} else {
				b := kvbucket.New(js, poolBucket)
				e, _ := b.Get(t.Context(), "order."+test.key)
				if _, err := b.Delete(t.Context(), "order."+test.key, e.Revision); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	wantOrders(t, o, noon, all)

	putRaw(t, js, "order.pause", "}")
	if err := o.Resume(t.Context()); err != nil { // clears the unreadable value
		t.Error(err)
	}
	all.Pause = nil
	wantOrders(t, o, noon, all)
}

func TestTooManyOrders(t *testing.T) {
	js := js(t)
	o := openOrders(t, js, "web")
	n := note(time.Time{})
	for i := range 200 {
		m := api.StaleMark{Note: n, Group: fmt.Sprint("g", i)}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		putRaw(t, js, "order.stale."+m.Group, string(data))
	}
	if err := o.MarkStale(t.Context(), api.StaleMark{Note: n, Group: "one-more"}); !errors.Is(err, state.ErrTooMany) {
		t.Errorf("MarkStale = %v, want %v", err, state.ErrTooMany)
	}
	if err := o.MarkStale(t.Context(), api.StaleMark{Note: n, Group: "g7"}); err != nil {
		t.Errorf("MarkStale of one of them again = %v", err)
	}
	if got, err := o.Read(t.Context(), noon); err != nil || len(got.Stale) != 200 {
		t.Errorf("Read = %d marks, %v", len(got.Stale), err)
	}
}

func TestOrdersWithoutNATS(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	o := openOrders(t, through, "web")
	all := give(t, o, note(time.Time{}))
	refused := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got, err := o.Read(ctx, noon); err == nil || !cmp.Equal(got, api.Orders{}) {
			t.Errorf("%s: Read = %v, %v, want an error", what, got, err)
		}
	}
	p.setCut(true)
	refused("cut")
	p.setCut(false)
	server.Close()
	p.drop()
	refused("away")
	open(t, data)
	await.True(t, "NATS is back", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := o.List(ctx)
		return err == nil
	})
	wantOrders(t, o, noon, all)
}
