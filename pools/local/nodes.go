package local

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

const (
	maxNodes   = 10_000
	factsInbox = 16_384 // messages that may wait
)

// Nodes is what the nodes of one pool say of themselves: the scheduler, as an
// autoscaler sees it. It may be used concurrently.
type Nodes struct {
	nc      *nats.Conn
	cluster string
	pool    string
	maxAge  time.Duration
	agents  *agent.Client
	log     *slog.Logger

	dropped  uint64 // messages that could not be used; of Run's goroutine
	complain rate.Sometimes

	mu    sync.Mutex
	heard map[string]heard // guarded by mu
}

type heard struct {
	facts pools.NodeFacts
	at    time.Time // by our clock
}

// NewNodes returns the nodes of a pool; those that are silent, as package liveness has it,
// and for longer than maxAge, are absent. Until then the autoscaler acts by their last
// facts: it may drain or repair a node that has just fallen silent.
func NewNodes(nc *nats.Conn, cluster, pool string, maxAge time.Duration, log *slog.Logger) *Nodes {
	return &Nodes{
		nc: nc, cluster: cluster, pool: pool, maxAge: maxAge, agents: agent.NewClient(nc, cluster),
		log: log.With("pool", pool), complain: rate.Sometimes{Interval: time.Minute}, heard: map[string]heard{},
	}
}

// Run listens until ctx ends, and returns nil then. It begins by asking the
// nodes to announce themselves. The context's end is the only good one: a
// connection that closes is an error.
func (n *Nodes) Run(ctx context.Context) error {
	msgs := make(chan *nats.Msg, factsInbox)
	closed := n.nc.StatusChanged(nats.CLOSED)
	defer n.nc.RemoveStatusListener(closed)
	sub, err := n.nc.ChanSubscribe(message.NodeSubject(n.cluster, "*"), msgs)
	if err != nil {
		return fmt.Errorf("listen to nodes: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a connection that is gone
	if err := n.nc.Publish(message.SubjectAnnounce, nil); err != nil {
		return fmt.Errorf("ask the nodes to announce themselves: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("listen to nodes: %w", nats.ErrConnectionClosed)
		case m := <-msgs:
			if err := n.take(time.Now(), m); err != nil {
				n.bad(m.Subject, err)
			}
		}
	}
}

// bad counts a message that cannot be used, and says so at most once a minute.
func (n *Nodes) bad(subject string, err error) {
	n.dropped++
	n.complain.Do(func() { n.log.Warn("message dropped", "subject", subject, "dropped", n.dropped, "err", err) })
}

func (n *Nodes) take(now time.Time, m *nats.Msg) error {
	f, err := agent.DecodeFacts(m.Data)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(m.Subject, "."+f.ID) {
		return fmt.Errorf("node %s speaks for another", f.ID)
	}
	if f.Pool != n.pool {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.heard[f.ID]; !ok && len(n.heard) >= maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	n.heard[f.ID] = heard{f, now}
	return nil
}

// Facts returns what the nodes published last, in order of id; those that are silent
// for long are forgotten.
func (n *Nodes) Facts(now time.Time) []pools.NodeFacts {
	var out []pools.NodeFacts
	for _, h := range n.fresh(now) {
		out = append(out, h.facts)
	}
	return out
}

// Heard returns the same as Facts, but At is when we heard it, by our clock: what
// silence is measured from.
func (n *Nodes) Heard(now time.Time) []pools.NodeFacts {
	var out []pools.NodeFacts
	for _, h := range n.fresh(now) {
		h.facts.At = h.at
		out = append(out, h.facts)
	}
	return out
}

// fresh returns what was heard, in order of id, and forgets what is too old.
func (n *Nodes) fresh(now time.Time) []heard {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.heard, func(_ string, h heard) bool {
		return now.Sub(h.at) > max(n.maxAge, liveness.SilentAfter(liveness.Period(h.facts.Heartbeat)))
	})
	return slices.SortedFunc(maps.Values(n.heard), func(a, b heard) int { return strings.Compare(a.facts.ID, b.facts.ID) })
}

// Cordon bars a node for new app instances, which makes the placer empty it, or
// opens it again. agent.ErrNoAgent if the node does not answer.
func (n *Nodes) Cordon(ctx context.Context, node string, on bool) error {
	return n.agents.Cordon(ctx, node, on)
}
