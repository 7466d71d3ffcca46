package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	checkPeriod  = 250 * time.Millisecond // between two checks of the connection
	flushTimeout = 5 * time.Second

	// Limits of the queue of a subscription. Messages beyond them are dropped and counted.
	waitingMessages = 1 << 12
	waitingBytes    = 4 << 20

	// hintsPerSecond and hintsAtOnce limit the observations that hints can cause.
	hintsPerSecond = 200
	hintsAtOnce    = 2000
)

// route is the handling of the messages of one subject.
type route struct {
	subject, name string
	workers       int
	take          func(ctx context.Context, m *nats.Msg)
}

func (b *Bus) routes(handler nodehealth.Handler) []route {
	hints := rate.NewLimiter(hintsPerSecond, hintsAtOnce)
	cluster, pool := b.cfg.Cluster, b.cfg.Pool
	return []route{
		{LifecycleSubject(cluster), "hint", 1, func(_ context.Context, m *nats.Msg) { b.takeHint(m, hints, handler) }},
		{LoopbackSubject(cluster, pool), "canary", 1, func(_ context.Context, m *nats.Msg) { b.takeProbe(m, handler) }},
		{StatusSubject(cluster, pool), "request", 4, func(ctx context.Context, m *nats.Msg) { b.answerStatus(ctx, m, handler) }},
		{OrderSubject(cluster, pool), "request", 8, func(ctx context.Context, m *nats.Msg) { b.answerOrder(ctx, m, handler) }},
	}
}

// Listen implements nodehealth.Bus. It returns nil when ctx ends, and an error when the connection
// is closed permanently.
func (b *Bus) Listen(ctx context.Context, handler nodehealth.Handler) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, r := range b.routes(handler) {
		sub, err := b.subscribe(r.subject)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		messages := make(chan *nats.Msg)
		wg.Go(func() { cancel(b.forward(ctx, sub, r.name, messages)) })
		for range r.workers {
			wg.Go(func() {
				for m := range messages {
					r.take(ctx, m)
				}
			})
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.watch(ctx, handler)
}

func (b *Bus) subscribe(subject string) (*nats.Subscription, error) {
	sub, err := b.nc.SubscribeSync(subject)
	if err == nil {
		err = sub.SetPendingLimits(waitingMessages, waitingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return sub, nil
}

// flush waits until the server has our subscriptions.
func (b *Bus) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	return nil
}

// forward forwards messages until ctx or the subscription ends.
func (b *Bus) forward(ctx context.Context, sub *nats.Subscription, name string, to chan<- *nats.Msg) error {
	defer close(to)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrSlowConsumer):
			b.warn("dropped_"+name, "messages dropped: too many at a time", err)
			continue
		case err != nil:
			return fmt.Errorf("receive from %s: %w", sub.Subject, err)
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch reports when the path is down, until ctx ends.
func (b *Bus) watch(ctx context.Context, handler nodehealth.Handler) error {
	status := b.nc.StatusChanged()
	defer b.nc.RemoveStatusListener(status)
	ticker := time.NewTicker(checkPeriod)
	defer ticker.Stop()
	up := true
	for {
		switch now := b.nc.IsConnected(); {
		case b.nc.IsClosed():
			return fmt.Errorf("watch the connection: %w", nats.ErrConnectionClosed)
		case up && !now:
			handler.Proof(judge.PathProof{Down: true, Why: "the connection to NATS is lost"})
			up = false
		case now:
			up = true
		}
		if b.probeLost(time.Now()) {
			handler.Proof(judge.PathProof{Down: true, Why: fmt.Sprintf("no loopback probe over NATS returned for %v", 2*b.cfg.Heartbeat)})
		}
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		case <-status:
		case <-ticker.C:
		}
	}
}

func (b *Bus) takeHint(m *nats.Msg, hints *rate.Limiter, handler nodehealth.Handler) {
	h, err := decodeHint(m.Data)
	switch {
	case err != nil:
		b.warn("bad_hint", "hint dropped", err)
	case !h.at.IsZero() && time.Since(h.at) > oldHint:
		b.warn("old_hint", "hint dropped", fmt.Errorf("its time is %v", h.at.UTC().Format(time.RFC3339)))
	case !hints.Allow():
		b.warn("dropped_hint", "hint dropped", fmt.Errorf("more than %d hints a second", hintsPerSecond))
	default:
		handler.Hint(h.Hint)
	}
}

func (b *Bus) takeProbe(m *nats.Msg, handler nodehealth.Handler) {
	if b.probeReturned(string(m.Data)) {
		handler.Proof(judge.PathProof{})
	}
}
