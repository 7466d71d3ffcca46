package doctor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// clocks compares the clock of each server with that of this host.
func (x *busExam) clocks(ctx context.Context) {
	x.progress("clock")
	findings := make([]Finding, len(x.visits))
	var wg sync.WaitGroup
	for i, v := range x.visits {
		if v.usable() {
			wg.Go(func() { findings[i] = x.clock(ctx, v) })
		}
	}
	wg.Wait()
	for _, f := range findings {
		if f.Result != "" {
			f.Check = "clock"
			x.report(f)
		}
	}
}

func (x *busExam) clock(ctx context.Context, v visit) Finding {
	ctx, cancel := x.bounded(ctx)
	defer cancel()
	c := v.at(x.Config)
	c.InboxPrefix = x.role.inbox()
	b, err := bus.Find(ctx, c)
	if err != nil {
		return Finding{Result: Failed, Detail: v.shown + ": " + causeOf(err), Fix: remedyOf(err)}
	}
	defer b.Close()
	ahead, within, err := bus.Clock(ctx, b.Conn())
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return Finding{Result: Unknown, Detail: v.shown + ": the servers do not permit this user to read their clock", Fix: permissionFix}
	case err != nil:
		return Finding{Result: Unknown, Detail: fmt.Sprintf("%s: %v", v.shown, err), Fix: "check that the servers have a system account (system_account)"}
	}
	return ofClock(v.shown, ahead, within)
}

const clockFix = bus.SkewRemedy

func ofClock(server string, ahead, within time.Duration) Finding {
	side := "ahead of"
	if ahead < 0 {
		side, ahead = "behind", -ahead
	}
	f := Finding{Result: OK, Detail: fmt.Sprintf("%s: its clock is that of this host (compared within %v)", server, within.Round(time.Millisecond))}
	if ahead > 0 {
		f.Detail = fmt.Sprintf("%s: its clock is %v %s that of this host", server, ahead.Round(time.Millisecond), side)
	}
	switch {
	case ahead >= bus.SkewFailed:
		f.Result, f.Fix = Failed, clockFix
	case ahead >= bus.SkewWarned:
		f.Result, f.Fix = Warned, clockFix
	}
	return f
}
