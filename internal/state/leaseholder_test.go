package state_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// A page reports the holder of a lease from the lease alone: a lease that was released, or is not renewed, has no holder.
func TestReadHolder(t *testing.T) {
	js := js(t)
	read := func(when string, at time.Time, want string) {
		t.Helper()
		if got, err := state.ReadHolder(t.Context(), js, at, "here", "web"); got != want || err != nil {
			t.Errorf("%s: ReadHolder = %q, %v, want %q", when, got, err, want)
		}
	}
	read("before a holder", time.Now(), "")
	l := newLease(t, js, "bootstrap-2", long)
	acquired(t, l)
	read("held", time.Now(), "bootstrap-2")
	read("not renewed for long", time.Now().Add(long+2*time.Minute), "")
	stop, _ := run(t, l)
	stop()
	read("released", time.Now(), "")
	if got, err := state.ReadHolder(t.Context(), js, time.Now(), "here", "nothing"); err == nil {
		t.Errorf("ReadHolder of a pool without a bucket = %q, want an error: it is unknown", got)
	}
}
