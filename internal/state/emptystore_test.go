package state_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// TestHarmonizerAfterAnEmptyStore replaces the store by an empty one while a harmonizer leads, and an admin creates the bucket
// again. The term ends, and the next terms save and load their memory.
func TestHarmonizerAfterAnEmptyStore(t *testing.T) {
	js := js(t)
	first := harmonizerLease(t, js, "first", 10*time.Second, testLog(t))
	stop, ended := run(t, first)
	m := openMemory(t, js, first)
	if _, err := m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	saveApps(t, m, nil, crashed("web", 1))
	lose(t, js, harmonizerBucket)
	bustest.Streams(t, js, "here", 1, "web")
	wantNotHolder(t, "the term ends", result(t, "the term ends", ended))
	stop()
	second := harmonizerLease(t, js, "second", 10*time.Second, testLog(t))
	stop, _ = run(t, second)
	next := openMemory(t, js, second)
	got, err := next.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRemembered(t, got, map[message.Node]int{})
	saveApps(t, next, nil, crashed("web", 2))
	stop()
	acquired(t, first)
	run(t, first)
	if got, err = m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRemembered(t, got, map[message.Node]int{}, crashed("web", 2))
}
