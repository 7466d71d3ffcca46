package state_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// TestUndecodableValueIsSetAside takes over a pool with an undecodable value of each kind. The error names the key, and
// after the value is set aside the takeover succeeds without it.
func TestUndecodableValueIsSetAside(t *testing.T) {
	a := state.Aside{By: "ann", Reason: "flipped bytes", At: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)}
	for key, value := range map[string]string{
		"drain.web.i-1": "{\"epoch\":1}\n{\"node\": 5",
		"pool.web":      "{\"epoch\":\x80}\n{}",
		"health.web":    "{\"bogus\":1}\n{}",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			js := js(t)
			h := hold(t, js, "a")
			save(t, h, "before")
			put(t, h, recordOf("i-2"))
			b := kvbucket.New(js, stateBucket)
			if _, err := state.SetAside(t.Context(), js, "here", key, a); !errors.Is(err, state.ErrReadable) && !errors.Is(err, state.ErrNoValue) {
				t.Errorf("SetAside before the damage = %v", err)
			}
			revision, err := b.Put(t.Context(), key, []byte(value))
			if err != nil {
				t.Fatal(err)
			}
			_, err = state.OpenHolder(t.Context(), js, leased(t, js, "a"), nil, "here", "web")
			if found := state.UnreadableKeys(err); len(found) != 1 || found[0].Key != key {
				t.Fatalf("OpenHolder = %v, want one unreadable key %s", err, key)
			}
			aside, err := state.SetAside(t.Context(), js, "here", key, a)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := b.Get(t.Context(), aside)
			head, rest, _ := bytes.Cut(kept.Value, []byte("\n"))
			if err != nil || string(rest) != value || !bytes.Contains(head, []byte(`"reason":"flipped bytes"`)) {
				t.Errorf("%s = %q, %v, want the reason and the value of revision %d", aside, kept.Value, err, revision)
			}
			next := hold(t, js, "a")
			wantRecords(t, next, recordOf("i-2"))
			if key != "pool.web" {
				wantSaved(t, next, "before")
			} else {
				wantSaved(t, next, "")
			}
		})
	}
}

// Only undecodable values of a pool can be set aside.
func TestSetAsideRefuses(t *testing.T) {
	js := js(t)
	save(t, hold(t, js, "a"), "x")
	for key, want := range map[string]error{
		"pool.web": state.ErrReadable, "pool.other": state.ErrNoValue, "drain.web.i-9": state.ErrNoValue,
		"lease.pool.web": state.ErrNotAside, "schema": state.ErrNotAside, "pool.web.x": state.ErrNotAside, "pool.": state.ErrNotAside,
		"drain.web": state.ErrNotAside, "drain.web.": state.ErrNotAside, "drain.web.*": state.ErrNotAside, "": state.ErrNotAside,
	} {
		if _, err := state.SetAside(t.Context(), js, "here", key, state.Aside{}); !errors.Is(err, want) {
			t.Errorf("SetAside(%q) = %v, want %v", key, err, want)
		}
	}
}
