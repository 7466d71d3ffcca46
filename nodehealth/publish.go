package nodehealth

import (
	"context"
	"slices"
	"sync"
)

// outboxRoom is how many findings may wait for the bus; the oldest are lost first.
const outboxRoom = 4096

// publisher sends findings and alarms to the bus, in order.
type publisher struct {
	*kit
	wake chan struct{} // holds one token if there is something

	mu      sync.Mutex
	waiting []Notification
}

// add takes a finding or alarm. It does not wait.
func (p *publisher) add(n Notification) {
	if p.world.Bus == nil {
		return
	}
	n.Pool = p.config.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost := len(p.waiting) - outboxRoom + 1; lost > 0 {
		p.waiting = p.waiting[lost:]
		p.mail.lose("findings", lost)
	}
	p.waiting = append(p.waiting, n)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *publisher) take() []Notification {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := slices.Clone(p.waiting[:min(len(p.waiting), MaxNotifications)])
	p.waiting = p.waiting[len(batch):]
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	return batch
}

// run sends until ctx ends; then it tries once to send what waits.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			for batch := p.take(); len(batch) > 0 && p.world.Bus.Publish(batch) == nil; {
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
		err := p.world.Bus.Publish(batch)
		if err == nil {
			return true
		}
		p.log.Warn("findings are not published", "err", err)
		if !wait(ctx, pause) {
			p.mail.lose("findings", len(batch))
			return false
		}
	}
}
