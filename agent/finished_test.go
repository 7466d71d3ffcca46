package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
)

// Only the ends of work with exit code 0 are repeated, each for some time, and at most a number of them.
func TestEndsOfWorkAreRepeated(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var f finished
	add := func(oneShot bool, reason api.ExitReason, status *int) {
		f.add(now, &copyOf{StartRequest: wire.StartRequest{OneShot: oneShot}}, api.Exited{Instance: fmt.Sprint("i", len(f)), Reason: reason, Status: status})
	}
	add(false, api.ExitCrashed, new(0))
	add(true, api.ExitCrashed, new(1))
	add(true, api.ExitCrashed, nil)
	add(true, api.ExitStopped, new(0))
	add(true, api.ExitCrashed, new(0))
	if len(f.due(now)) != 1 || !f[0].Repeated {
		t.Fatalf("repeated: %+v, want one", f)
	}
	now = now.Add(repeatFor)
	for range maxFinished + 5 {
		add(true, api.ExitCrashed, new(0))
	}
	if got := len(f.due(now)); got != maxFinished {
		t.Errorf("%d are repeated, want %d", got, maxFinished)
	}
	if got := len(f.due(now.Add(repeatFor))); got != 0 {
		t.Errorf("%d are repeated after %v", got, repeatFor)
	}
}
