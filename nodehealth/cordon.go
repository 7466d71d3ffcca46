package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// cordonAgain is the time until a cordon that came to nothing is tried again.
const cordonAgain = 15 * time.Second

// cordon is that of a node in quarantine. It is kept durably before the scheduler is
// told, so that whoever takes over lifts it.
type cordon struct {
	gen   uint64    // of the state that knows of it; 0: none yet
	may   bool      // the scheduler may have been told
	set   bool      // it was
	busy  bool      // it is being told
	after time.Time // it is not told again before
}

// syncCordons has those cordoned that are quarantined, and no others.
func (l *Loop) syncCordons(ctx context.Context, now time.Time) {
	for node, c := range l.cordons {
		known, there := l.judge.Explain(now, node)
		wanted := known.State == judge.Quarantined && l.policy.Mode == judge.Act && l.world.Cordon != nil
		switch {
		case c.busy || now.Before(c.after):
		case !there && l.inventory.listed, !wanted && !c.may:
			delete(l.cordons, node)
		case wanted && c.set, !there:
		case wanted && !l.keeper.is(c.gen):
		default:
			l.cordonNow(ctx, node, c, wanted)
		}
	}
}

func (l *Loop) cordonNow(ctx context.Context, node string, c *cordon, on bool) {
	c.busy, c.may, c.set = true, true, false
	l.mail.Go(func() {
		try, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		err := l.world.Writer.Write(try, func(ctx context.Context) error { return l.world.Cordon.Cordon(ctx, node, on) })
		_ = l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event {
			c.busy, c.set = false, err == nil && on
			switch {
			case err != nil:
				c.after = now.Add(cordonAgain)
				l.log.Warn("a quarantined node could not be cordoned or uncordoned", "node", node, "on", on, "err", err)
			case !on && l.cordons[node] == c:
				delete(l.cordons, node)
			}
			return nil
		})
	})
}
