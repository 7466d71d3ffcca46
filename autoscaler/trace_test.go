package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

type stepKey struct{}

// steps records the steps of a loop: "parent > step about", with "!" if it failed.
type steps struct {
	mu    sync.Mutex
	ended []string
	open  int
}

func (s *steps) begin(ctx context.Context, step trace.Step, about string) (context.Context, func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	text := string(step)
	if parent, ok := ctx.Value(stepKey{}).(trace.Step); ok {
		text = fmt.Sprintf("%s > %s", parent, step)
	}
	if about != "" {
		text += " " + about
	}
	return context.WithValue(ctx, stepKey{}, step), func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if err != nil {
			text += " !"
		}
		s.ended = append(s.ended, text)
	}
}

// Each step of a tick is reported once, inside the step that it belongs to, with its error.
func TestTickReportsItsSteps(t *testing.T) {
	t.Parallel()
	var s steps
	w := newWorld(t, []int{2, 1}, "web", "batch")
	w.trace = s.begin
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 60)
	w.config.Apps[1].Windows = []ask.Window{{Name: "queue", Type: metrics.App, Range: time.Minute, MaxAge: time.Minute}}
	w.groups[1].Refuse(cloud.SetTarget, errors.New("throttled"))
	w.tick()
	for _, want := range []string{
		"tick", "tick > snapshot", "snapshot > provider list_groups", "snapshot > provider read_group a", "snapshot > provider read_group b",
		"tick > window batch,queue", "tick > signal web", "tick > signal __default__", "tick > decide", "tick > apply",
		"apply > provider set_target a", "apply > provider set_target b !", "tick > record",
	} {
		if !slices.Contains(s.ended, want) {
			t.Errorf("missing %q", want)
		}
	}
	if t.Failed() {
		t.Errorf("the steps are %q", s.ended)
	}
	if s.open != 0 {
		t.Errorf("%d steps did not end", s.open)
	}
}
