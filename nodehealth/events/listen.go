package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
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
	// hintEvery is the shortest time between two hints of one node, so that a loud node uses up its own observations only.
	hintEvery = time.Second
	// maxHinting bounds the nodes whose latest hint is known.
	maxHinting = 10_000
)

// nodeHints has the time of the latest hint of each node. One goroutine uses it.
type nodeHints map[string]time.Time

// allow reports whether the node may cause an observation now.
func (h nodeHints) allow(now time.Time, node string) bool {
	if now.Sub(h[node]) < hintEvery {
		return false
	}
	if len(h) >= maxHinting {
		clear(h)
	}
	h[node] = now
	return true
}

// hintSenders bounds the waiting hints of each node.
func hintSenders() *bus.Senders {
	return &bus.Senders{Of: message.SenderOf, Largest: maxHint, Messages: 16}
}

// route is the handling of the messages of one subject. A request without a reply subject is
// refused.
type route struct {
	subject, name string
	request       bool
	workers       int
	take          func(ctx context.Context, m *nats.Msg)
}

// inbox returns the bounds and the counters of the route's messages.
func (r route) inbox(b *Bus) bus.InboxConfig {
	c := bus.InboxConfig{Messages: waitingMessages, Bytes: waitingBytes, Senders: hintSenders(), Lost: func(_ *nats.Msg, err error) {
		if errors.Is(err, bus.ErrInboxFull) || errors.Is(err, bus.ErrTooLarge) {
			b.warn("dropped_"+r.name, "messages dropped: too many at a time", err)
		} else {
			b.warn("refused_"+r.name, "message refused", err)
		}
	}}
	if r.request {
		c.Requests = []string{r.subject}
	} else {
		c.Events = []string{r.subject}
	}
	return c
}

func (b *Bus) routes(handler nodehealth.Handler) []route {
	hints, own := rate.NewLimiter(hintsPerSecond, hintsAtOnce), nodeHints{}
	cluster, pool := b.cfg.Cluster, b.cfg.Pool
	return []route{
		{LifecycleSubject(cluster, pool), "hint", false, 1, func(_ context.Context, m *nats.Msg) { b.takeHint(m, "", nil, hints, handler) }},
		{nodeLifecycleSubject(cluster, pool, "*"), "hint", false, 1, func(_ context.Context, m *nats.Msg) {
			b.takeHint(m, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], own, hints, handler)
		}},
		{loopbackSubject(cluster, pool), "loopback", false, 1, func(_ context.Context, m *nats.Msg) { b.takeProbe(m, handler) }},
		{StatusSubject(cluster, pool), "request", true, 4, func(ctx context.Context, m *nats.Msg) { b.answerStatus(ctx, m, handler) }},
		{OrderSubject(cluster, pool), "request", true, 8, func(ctx context.Context, m *nats.Msg) { b.answerOrder(ctx, m, handler) }},
	}
}

// Listen implements nodehealth.Bus. It returns nil when ctx ends, and an error when the connection
// is closed permanently.
func (b *Bus) Listen(ctx context.Context, handler nodehealth.Handler) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, r := range b.routes(handler) {
		in, err := bus.Receive(b.nc, r.inbox(b))
		if err != nil {
			return err
		}
		defer in.Close()
		if !r.request {
			wg.Go(func() { in.ReportLosses(ctx, message.LimitedSubject(b.cfg.Cluster, b.cfg.Pool), wire.Limited) })
		}
		for range r.workers {
			wg.Go(func() {
				for m := range in.Messages() {
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

// flush waits until the server has our subscriptions.
func (b *Bus) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	return nil
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
			return nil
		case <-status:
		case <-ticker.C:
		}
	}
}

// takeHint processes a hint. On the subject of a node, the hint must be about that node.
func (b *Bus) takeHint(m *nats.Msg, from string, own nodeHints, hints *rate.Limiter, handler nodehealth.Handler) {
	h, err := decodeHint(m.Data)
	switch {
	case err != nil:
		b.warn("bad_hint", "hint dropped", err)
	case from != "" && from != h.Node:
		b.warn("refused_hint", "message refused", fmt.Errorf("a hint about another node than %.130q of its subject", from))
	case !h.at.IsZero() && time.Since(h.at) > oldHint:
		b.warn("old_hint", "hint dropped", fmt.Errorf("its time is %v", h.at.UTC().Format(time.RFC3339)))
	case from != "" && !own.allow(time.Now(), from):
		b.warn("limited_hint", "hint dropped", fmt.Errorf("node %.130q sends more than one hint in %v", from, hintEvery))
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
