package authd

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

func TestStuckResponderHasNoSignOfLife(t *testing.T) {
	s := authcallout.Status{Refused: map[identity.Reason]uint64{}}
	check := advancing(func() authcallout.Status { return s })
	for i, step := range []struct {
		change  func()
		healthy bool
	}{
		{func() {}, false},                                 // receives no requests yet
		{func() { s.Ready = true }, true},                  // idle
		{func() { s.Waiting = 3 }, true},                   // they came since the last check
		{func() { s.Refused[identity.WrongName]++ }, true}, // one was answered
		{func() {}, false},                                 // none was answered
		{func() { s.Accepted++ }, true},
		{func() { s.Waiting = 0 }, true},
		{func() {}, true},
	} {
		step.change()
		if err := check(t.Context()); (err == nil) != step.healthy {
			t.Errorf("step %d: %v, want a sign of life: %v", i, err, step.healthy)
		}
	}
}
