// Package await waits in tests for what has to come. A wait lasts as long as something advances, so it does not depend
// on the speed of the machine: the deadline is renewed whenever the reported state changes.
//
//	await.Nil(t, "three running instances", func() error { ... }) // the error text is the state
//	await.True(t, "a free lock", func() bool { ... })
//	answer := await.Value(t, "the answer", answers)
//
// A wait that ends in vain fails the test with what it waited for, since when nothing moved, and the load of the
// machine. Calls that need a deadline of their own use [Patience]. Everything is safe for concurrent use.
package await

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Patience is how long a wait lasts without progress. It suits a machine that is 50 times slower than a developer's: only
// a test that fails waits as long.
const Patience = 3 * time.Minute

// rounds bounds a wait whose state changes without end, as a multiple of Patience.
const rounds = 5

// Bounds of the pause between two checks. In a long wait it becomes longer: checks of an installation run programs.
const (
	minPause = 5 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// maxShare bounds the pause after a long check, which may have waited for an answer that was lost.
const maxShare = 10 * time.Second

// pauseAfter returns the pause after a check that took so long, in a wait that has lasted so long. A long check has a
// long pause, because the test shares the processors with what it waits for.
func pauseAfter(took, lasted time.Duration) time.Duration {
	return max(min(3*took, maxShare), min(max(lasted/20, minPause), maxPause))
}

// Nil calls check until it returns nil. The text of the error is the state: a change of it renews the deadline, unless only
// times and durations differ. The pause between two checks grows with the time that a check takes, and to 0.5 s with the
// length of the wait.
func Nil(tb testing.TB, what string, check func() error) {
	tb.Helper()
	w := start(Patience)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		began := time.Now()
		err := check()
		if err == nil {
			return
		}
		if w.over(time.Now(), err.Error()) {
			tb.Fatal(w.failure(what, err))
		}
		now := time.Now()
		pause.Reset(pauseAfter(now.Sub(began), now.Sub(w.began)))
		<-pause.C
	}
}

// True calls ok until it returns true. Without a state, the deadline is not renewed.
func True(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Nil(tb, what, func() error {
		if ok() {
			return nil
		}
		return errNot
	})
}

var errNot = errors.New("it is not so")

// Value returns the next value of a channel, or the zero value if it is closed.
func Value[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	w := start(Patience)
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		tb.Fatal(w.failure(what, errNot))
		panic("unreachable")
	}
}

// wait is a wait with its last state.
type wait struct {
	patience     time.Duration
	began, moved time.Time // moved: the last change of the state
	looked       time.Time // at the state
	state        string
}

func start(patience time.Duration) *wait {
	now := time.Now()
	return &wait{patience: patience, began: now, moved: now}
}

// over notes the state, and reports whether the wait ends in vain. It compares the state every second: finding the times in a long
// text takes longer than many a check.
func (w *wait) over(now time.Time, state string) bool {
	if now.Sub(w.looked) >= time.Second {
		w.looked = now
		if state = still(state); state != w.state {
			w.state, w.moved = state, now
		}
	}
	return now.Sub(w.moved) >= w.patience || now.Sub(w.began) >= rounds*w.patience
}

func (w *wait) failure(what string, last error) string {
	now := time.Now()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte(err.Error())
	}
	return fmt.Sprintf("%s did not come within %v; nothing moved since %s, for %v; load %s; last state: %v", what, now.Sub(w.began).Round(time.Second),
		w.moved.Format(time.TimeOnly), now.Sub(w.moved).Round(time.Second), strings.TrimSpace(string(load)), last)
}

// still returns the text without times and durations, which change while nothing else does.
func still(text string) string { return moving.ReplaceAllString(text, "") }

var moving = regexp.MustCompile(`\d+(:\d\d)+(\.\d+)?|\b(\d+(\.\d+)? ?(ns|µs|ms|s|min|m|h)\b)|\b(\d+(\.\d+)?(ns|µs|ms|s|m|h))+\b`)
