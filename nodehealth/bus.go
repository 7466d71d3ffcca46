package nodehealth

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// listen has the bus tell us what it hears until ctx ends.
func (l *Loop) listen(ctx context.Context) {
	for {
		err := l.world.Bus.Listen(ctx, l)
		if ctx.Err() != nil {
			return
		}
		l.log.Error("node health does not hear the bus", "err", errors.Join(err, errors.New("it is listened to anew")))
		if !wait(ctx, retryFirst) {
			return
		}
	}
}

// heed takes the provider's notices as hints until ctx ends.
func (l *Loop) heed(ctx context.Context) {
	for {
		select {
		case h, open := <-l.world.Hints:
			if !open {
				return
			}
			l.Hint(h)
		case <-ctx.Done():
			return
		}
	}
}

// Hint implements Ear. One about a machine that the pool did not have when it was read
// last is of no use: the next round finds it.
func (l *Loop) Hint(h judge.Hint) {
	if h.Node == "" || len(h.Node) > MaxNodeID {
		l.mail.lost.add("hints", 1)
		return
	}
	h.Why = cut(h.Why)
	l.mail.offer("hints", func(time.Time, *judge.Judge) batch {
		if l.inventory.has(h.Node) {
			return of(h)
		}
		return batch{}
	})
}

// Proof implements Ear.
func (l *Loop) Proof(p judge.PathProof) {
	if _, heartbeats := l.policy.Detection.Mode(judge.AgentHeartbeat); !heartbeats {
		return
	}
	p.Why = cut(p.Why)
	l.mail.offer("proofs", func(time.Time, *judge.Judge) batch { return of(p) })
}
