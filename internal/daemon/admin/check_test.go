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

// A request gets the result of a reading that ends by its own bound, and not that of the reading before.
func TestRequestOutlastsAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		silent := false
		c := newChecks([]Check{{Name: "x", Read: func(ctx context.Context) Result {
			if !silent {
				return Result{State: OK}
			}
			<-ctx.Done()
			return Result{State: Failed}
		}}})
		ended := make(chan error)
		go func() { ended <- c.run(ctx) }()
		synctest.Wait()
		silent = true
		if got := c.now(ctx)[0].State; got != Failed {
			t.Errorf("state %v, want that of the reading without an answer", got)
		}
		cancel()
		<-ended
	})
}
