package placerbus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/placer"
)

func TestResultOf(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want placer.Result
	}{
		{"taken", nil, placer.Accepted},
		{"no room", wire.ErrNoRoom, placer.Full},
		{"cordoned", wire.ErrCordoned, placer.Full},
		{"fenced", fmt.Errorf("start on node n: %w", wire.ErrFenced), placer.Full},
		{"a port of another process", fmt.Errorf("start on node n: %w", wire.ErrPort), placer.PortInUse},
		{"no agent", wire.ErrNoAgent, placer.Full},
		{"nonsense", wire.ErrInvalid, placer.Rejected},
		{"does not start", wire.ErrLaunch, placer.Rejected},
		{"no answer", context.DeadlineExceeded, placer.Unknown},
		{"something else", errors.New("x"), placer.Unknown},
	} {
		if got := resultOf(test.err); got != test.want {
			t.Errorf("%s: resultOf(%v) = %d, want %d", test.name, test.err, got, test.want)
		}
	}
}
