package state_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// openers returns all functions that open a bucket.
func openers(t *testing.T, js jetstream.JetStream) map[string]func() error {
	return map[string]func() error{
		"orders": func() error { _, err := state.OpenOrders(t.Context(), js, "here", "web", 1); return err },
		"trials": func() error { _, err := state.OpenTrials(t.Context(), js, "here", "web", 1); return err },
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
			if _, err := bucketOf(t, js, "order.").PutString(t.Context(), "schema", test.value); err != nil {
				t.Fatal(err)
			}
			putRaw(t, js, "drain.web.i-1", "of another version")
			before := contents(t, js)
			for what, open := range openers(t, js) {
				if err := open(); !errors.Is(err, state.ErrSchema) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "_here") {
					t.Errorf("%s: %v, want %v that has %q", what, err, state.ErrSchema, test.want)
				}
			}
			if diff := cmp.Diff(before, contents(t, js)); diff != "" {
				t.Errorf("the bucket has changed:\n%s", diff)
			}
		})
	}
}

func TestSchemaIsCreated(t *testing.T) {
	js := js(t)
	for range 2 {
		if _, err := state.OpenOrders(t.Context(), js, "here", "web", 1); err != nil {
			t.Fatal(err)
		}
	}
	all := contents(t, js)
	if got := string(all["schema of orders"].Data); got != `{"version":1}` || len(all) != 1 || all["schema of orders"].Sequence != 1 {
		t.Errorf("schema %q, %d keys, want version 1 and nothing else", got, len(all))
	}
}

// Several processes of one installation start at the same time.
func TestOpenedAtTheSameTime(t *testing.T) {
	js := js(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := state.CreateLedger(t.Context(), js, state.LedgerConfig{Cluster: "here", Pool: "web"}); err != nil {
				t.Error(err)
			}
			if _, err := state.OpenOrders(t.Context(), js, "here", "web", 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestBadNames(t *testing.T) {
	js := js(t)
	for _, n := range [][2]string{{"", "web"}, {"here", ""}, {"here", "a.b"}, {"here", "*"}, {"a.b", "web"}, {"here", ">"}, {"a b", "web"}} {
		for what, open := range map[string]func() error{
			"CreateLedger": func() error {
				_, err := state.CreateLedger(t.Context(), js, state.LedgerConfig{Cluster: n[0], Pool: n[1]})
				return err
			},
			"OpenLedger": func() error { _, err := state.OpenLedger(t.Context(), js, n[0], n[1]); return err },
			"OpenOrders": func() error { _, err := state.OpenOrders(t.Context(), js, n[0], n[1], 1); return err },
			"OpenTrials": func() error { _, err := state.OpenTrials(t.Context(), js, n[0], n[1], 1); return err },
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

func TestOperatorSettingsAreKept(t *testing.T) {
	js := js(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: webLedger, Subjects: []string{"weir.here.decision.web", partSubject}, MaxAge: 3600e9, MaxBytes: 1 << 30,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: stateBucket, History: 5}); err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, js, "web")
	appendRecords(t, l, incompressible(2<<20))
	put(t, hold(t, js, "a"), recordOf("i-1"))
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxAge != 3600e9 || c.MaxBytes != 1<<30 {
		t.Errorf("stream %+v, want its settings as they were", c)
	}
	if age, bytes, err := l.Kept(t.Context()); age != time.Hour || bytes != 1<<30 || err != nil {
		t.Errorf("Kept = %v, %d, %v, want the operator's bounds", age, bytes, err)
	}
	if status, err := bucketOf(t, js, "pool.web").Status(t.Context()); err != nil || status.History() != 5 {
		t.Errorf("history of the bucket = %v, %v, want 5", status, err)
	}
}
