package state_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// TestUndecodableValueIsSetAside takes over a pool with an undecodable value of each kind. The error names the key, and
// after the value is set aside the takeover succeeds without it.
func TestUndecodableValueIsSetAside(t *testing.T) {
	a := state.Aside{By: "ann", Reason: "flipped bytes", At: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)}
	for key, value := range map[string]string{
		"drain.i-1": "{\"epoch\":1}\n{\"node\": 5",
		"state":     "{\"epoch\":\x80}\n{}",
		"health":    "{\"bogus\":1}\n{}",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			js := js(t)
			h := hold(t, js, "a")
			save(t, h, "before")
			put(t, h, recordOf("i-2"))
			b := kvbucket.New(js, poolBucket)
			if _, err := state.SetAside(t.Context(), js, poolBucket, key, a); !errors.Is(err, state.ErrReadable) && !errors.Is(err, state.ErrNoValue) {
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
			aside, err := state.SetAside(t.Context(), js, poolBucket, key, a)
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
			if key != "state" {
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
		"state": state.ErrReadable, "drain.i-9": state.ErrNoValue,
		"lease": state.ErrNotAside, "schema": state.ErrNotAside, "health": state.ErrReadable, "state.x": state.ErrNoValue, "trial.x": state.ErrNoValue,
		"drain.": state.ErrNotAside, "drain.*": state.ErrNotAside, "": state.ErrNotAside,
	} {
		if _, err := state.SetAside(t.Context(), js, poolBucket, key, state.Aside{}); !errors.Is(err, want) {
			t.Errorf("SetAside(%q) = %v, want %v", key, err, want)
		}
	}
}

// A value that another client made the server store can be set aside, whatever its key is.
func TestForgedValueIsSetAside(t *testing.T) {
	js := js(t)
	m := nats.NewMsg("$KV." + harmonizerBucket + ".lease")
	m.Header.Set("Nats-Sequence", "1")
	m.Data = []byte("{}")
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	aside, err := state.SetAside(t.Context(), js, harmonizerBucket, "lease", state.Aside{By: "ann", Reason: "forged"})
	if err != nil {
		t.Fatal(err)
	}
	if value, found := rawOf(t, js, harmonizerBucket, aside); !found || !strings.HasSuffix(value, "\n{}") {
		t.Errorf("%s = %q, %v, want the value", aside, value, found)
	}
	harmonizerLease(t, js, "a", long, testLog(t))
}
