package placerbus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/placer"
)

func TestResultOf(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want placer.Result
	}{
		{"taken", nil, placer.Accepted},
		{"no room", agent.ErrNoRoom, placer.Full},
		{"cordoned", agent.ErrCordoned, placer.Full},
		{"fenced", fmt.Errorf("start on node n: %w", agent.ErrFenced), placer.Full},
		{"no agent", agent.ErrNoAgent, placer.Full},
		{"nonsense", agent.ErrInvalid, placer.Rejected},
		{"does not start", agent.ErrLaunch, placer.Rejected},
		{"no answer", context.DeadlineExceeded, placer.Unknown},
		{"something else", errors.New("x"), placer.Unknown},
	} {
		if got := resultOf(test.err); got != test.want {
			t.Errorf("%s: resultOf(%v) = %d, want %d", test.name, test.err, got, test.want)
		}
	}
}
