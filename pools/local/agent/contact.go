package agent

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Bounds of the time between two questions to the bus, a quarter of SelfFenceAfter
// else.
const (
	minFeel = 20 * time.Millisecond
	maxFeel = 5 * time.Second
)

// contact is what an agent that fences itself knows of the bus. It belongs to the
// agent's loop.
type contact struct {
	answers chan time.Time   // of questions: when each that was answered had been asked
	lost    *time.Timer      // fires when the last answer is too old
	last    time.Time        // when the last question that was answered had been asked
	untold  []message.Exited // what ended while nobody could hear it
}

func newContact(now time.Time, limit time.Duration) *contact {
	return &contact{answers: make(chan time.Time), lost: time.NewTimer(limit), last: now}
}

// feel asks the bus for a sign of life, until ctx ends. That a connection is up says
// nothing: only the answer of the server does.
func (a *Agent) feel(ctx context.Context) {
	period := min(max(a.cfg.SelfFenceAfter/4, minFeel), maxFeel)
	again := time.NewTicker(period)
	defer again.Stop()
	for {
		asked := time.Now()
		asking, cancel := context.WithTimeout(ctx, period)
		err := a.nc.FlushWithContext(asking)
		cancel()
		if err == nil {
			select {
			case a.contact.answers <- asked:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// answered takes a sign of life. If the last one is too old, nobody was there to see
// that: the process was frozen.
func (a *Agent) answered(now, asked time.Time) {
	c := a.contact
	if asked.Sub(c.last) >= a.cfg.SelfFenceAfter {
		a.standAlone()
	}
	c.last = asked
	c.lost.Reset(a.cfg.SelfFenceAfter - now.Sub(asked))
	if !a.books.alone {
		return
	}
	a.books.alone = false
	a.log.Info("bus answers again: the node takes app instances")
	for _, e := range c.untold {
		a.send(message.SubjectExited, e)
	}
	c.untold = nil
	a.publish(now)
}

// standAlone fences the node, as others may believe that it is gone.
func (a *Agent) standAlone() {
	if a.books.alone {
		return
	}
	a.books.alone = true
	a.log.Warn("no contact with the bus: all app instances are stopped", "after", a.cfg.SelfFenceAfter, "running", len(a.procs))
	a.oust()
}
