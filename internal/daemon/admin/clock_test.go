package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A difference of the clocks is degraded and logged once. It is compared once a minute, and after an error at once.
func TestClockIsComparedOnceAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var ahead time.Duration
	var fail error
	reads := 0
	c := &clock{log: slog.New(slog.NewTextHandler(&out, nil)), read: func(context.Context) (time.Duration, error) { reads++; return ahead, fail }}
	at := time.Now()
	for i, step := range []struct {
		after time.Duration
		ahead time.Duration
		fail  error
		want  State
		text  string
		reads int
	}{
		{0, 0, errors.New("timeout"), Degraded, "not compared: timeout", 1},
		{5 * time.Second, -5 * time.Minute, nil, Degraded, "5m0s behind that of this host", 2},
		{10 * time.Second, 0, nil, Degraded, "5m0s behind", 2},
		{65 * time.Second, 5 * time.Minute, nil, Degraded, "5m0s ahead of that of this host", 3},
		{125 * time.Second, 900 * time.Millisecond, nil, OK, "that of the NATS server", 4},
		{185 * time.Second, 0, fmt.Errorf("x: %w", nats.ErrPermissionViolation), OK, "do not permit", 5},
		{190 * time.Second, 0, nil, OK, "do not permit", 5},
	} {
		ahead, fail = step.ahead, step.fail
		r := c.check(t.Context(), at.Add(step.after))
		if r.State != step.want || !strings.Contains(r.Detail, step.text) || reads != step.reads || (r.Remedy == "") != (r.State == OK) {
			t.Errorf("step %d: %+v after %d readings, want %v with %q after %d", i, r, reads, step.want, step.text, step.reads)
		}
	}
	if n := strings.Count(out.String(), "clock differs"); n != 1 {
		t.Errorf("%d lines, want one for one difference:\n%s", n, out.String())
	}
}

// A real server tells its time.
func TestClockOfServer(t *testing.T) {
	t.Parallel()
	nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
	if r := Clock(nc, slog.New(slog.DiscardHandler)).Read(t.Context()); r.State != OK || !strings.Contains(r.Detail, "that of the NATS server") {
		t.Errorf("the clock of a server on this host is %+v", r)
	}
}
