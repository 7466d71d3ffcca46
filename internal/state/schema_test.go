package state_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// openers returns all functions that open a bucket.
func openers(t *testing.T, js jetstream.JetStream) map[string]func() error {
	return map[string]func() error{
		"orders": func() error { _, err := state.OpenOrders(t.Context(), js, "here", "web"); return err },
		"trials": func() error { _, err := state.OpenTrials(t.Context(), js, "here", "web"); return err },
		"holder": func() error {
			_, err := state.OpenHolder(t.Context(), js, newLease(t, js, "a", long), nil, "here", "web")
			return err
		},
		"memory of apps": func() error {
			_, err := state.OpenAppMemory(t.Context(), js, newLease(t, js, "a", long), "here")
			return err
		},
		"lease": func() error { return result(t, "Acquire returns", acquire(t, newLease(t, js, "a", long))) },
	}
}

func TestSchemaOfAnotherVersion(t *testing.T) {
	for name, test := range map[string]struct{ value, want string }{
		"newer":   {`{"version": 2, "keys": "others"}`, "version 2, this weir supports 1; install the version of weir that wrote it, or restore a backup"},
		"older":   {`{"version": 0}`, "version 0, this weir supports 1"},
		"garbage": {`}`, "install the version of weir that wrote it, or restore a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			js := js(t)
			putRaw(t, js, "schema", test.value)
			putRawOf(t, js, harmonizerBucket, "schema", test.value)
			putRaw(t, js, "drain.i-1", "of another version")
			before := contents(t, js)
			for what, open := range openers(t, js) {
				if err := open(); !errors.Is(err, state.ErrSchema) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ":here") {
					t.Errorf("%s: %v, want %v that has %q", what, err, state.ErrSchema, test.want)
				}
			}
			if diff := cmp.Diff(before, contents(t, js)); diff != "" {
				t.Errorf("the bucket has changed:\n%s", diff)
			}
		})
	}
}

func TestBadNames(t *testing.T) {
	js := js(t)
	for _, n := range [][2]string{{"", "web"}, {"here", ""}, {"here", "a.b"}, {"here", "*"}, {"a.b", "web"}, {"here", ">"}, {"a b", "web"}} {
		for what, open := range map[string]func() error{
			"OpenLedger": func() error { _, err := state.OpenLedger(t.Context(), js, n[0], n[1]); return err },
			"OpenOrders": func() error { _, err := state.OpenOrders(t.Context(), js, n[0], n[1]); return err },
			"OpenTrials": func() error { _, err := state.OpenTrials(t.Context(), js, n[0], n[1]); return err },
			"OpenHolder": func() error {
				_, err := state.OpenHolder(t.Context(), js, newLease(t, js, "a", long), nil, n[0], n[1])
				return err
			},
		} {
			if err := open(); err == nil {
				t.Errorf("%s(%q, %q) = nil, want an error", what, n[0], n[1])
			}
		}
	}
}

// Kept returns the bounds that an operator has set.
func TestOperatorSettingsAreKept(t *testing.T) {
	js := js(t)
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.MaxAge, c.MaxBytes = time.Hour, 1<<30
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, js, "web")
	appendRecords(t, l, incompressible(2<<20))
	if age, bytes, err := l.Kept(t.Context()); age != time.Hour || bytes != 1<<30 || err != nil {
		t.Errorf("Kept = %v, %d, %v, want the operator's bounds", age, bytes, err)
	}
}
