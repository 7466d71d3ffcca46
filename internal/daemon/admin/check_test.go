package admin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A loop that has responded fails at once when it hangs. Health ends later, so a busy machine restarts nothing.
func TestLoopThatHangsEndsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs error
		check := Loop(func(context.Context) error { return hangs })
		read := func(after time.Duration, err error, state State, dead bool) {
			t.Helper()
			<-time.After(after) // virtual time
			hangs = err
			if r := check.Read(t.Context()); r.State != state || r.Dead != dead {
				t.Errorf("check = %+v, want %v, dead %v", r, state, dead)
			}
		}
		stuck := errors.New("the loop does not respond")
		read(0, stuck, Unknown, false)
		read(checkStuck, stuck, Unknown, false)
		read(time.Second, stuck, Failed, true)
		read(0, nil, OK, false)
		read(time.Second, stuck, Failed, false)
		read(checkStuck, stuck, Failed, true)
		read(0, nil, OK, false)
	})
}
