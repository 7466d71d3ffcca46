package nodehealth

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// outboxRoom is how many findings may wait for the bus; the oldest are lost first.
const outboxRoom = 4096

// outbox holds what is to be published.
type outbox struct {
	wake chan struct{} // holds one token if there is something

	mu      sync.Mutex
	waiting []Notification
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put returns how many of the oldest it dropped to make room.
func (o *outbox) put(n Notification) (lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= outboxRoom {
		lost = len(o.waiting) - outboxRoom + 1
		o.waiting = o.waiting[lost:]
	}
	o.waiting = append(o.waiting, n)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return lost
}

func (o *outbox) take() []Notification {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch := slices.Clone(o.waiting[:min(len(o.waiting), MaxNotifications)])
	o.waiting = o.waiting[len(batch):]
	if len(o.waiting) == 0 {
		o.waiting = nil
	}
	return batch
}

// publisher sends findings and alarms to the bus, in order.
type publisher struct {
	*outbox
	bus  Bus // nil: nothing is sent
	lost *losses
	log  *slog.Logger
}

// add takes a finding or alarm. It does not wait.
func (p *publisher) add(n Notification) {
	if p.bus == nil {
		return
	}
	if lost := p.put(n); lost > 0 {
		p.lost.add("findings", lost)
	}
}

// run sends until ctx ends; then it tries once to send what waits.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			for batch := p.take(); len(batch) > 0 && p.bus.Publish(batch) == nil; {
				batch = p.take()
			}
			return
		}
		for batch := p.take(); len(batch) > 0; batch = p.take() {
			if !p.send(ctx, batch) {
				break
			}
		}
	}
}

// send tries until the bus takes the batch; false if ctx ends before.
func (p *publisher) send(ctx context.Context, batch []Notification) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		err := p.bus.Publish(batch)
		if err == nil {
			return true
		}
		p.log.Warn("findings are not published", "err", err)
		if !wait(ctx, pause) {
			p.lost.add("findings", len(batch))
			return false
		}
	}
}
