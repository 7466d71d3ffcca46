package placer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

func TestResultOf(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want result
	}{
		{"taken", nil, accepted},
		{"no room", agent.ErrNoRoom, full},
		{"cordoned", agent.ErrCordoned, full},
		{"fenced", fmt.Errorf("start on node n: %w", agent.ErrFenced), full},
		{"no agent", agent.ErrNoAgent, full},
		{"nonsense", agent.ErrInvalid, rejected},
		{"does not start", agent.ErrLaunch, rejected},
		{"no answer", context.DeadlineExceeded, unknown},
		{"something else", errors.New("x"), unknown},
	} {
		if got := resultOf(test.err); got != test.want {
			t.Errorf("%s: resultOf(%v) = %d, want %d", test.name, test.err, got, test.want)
		}
	}
}
