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
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

const (
	maxNodes   = 10_000
	factsInbox = 16_384 // waiting messages
)

// Nodes has the facts that the nodes of one pool publish. It is the scheduler of an autoscaler. It
// may be used concurrently.
type Nodes struct {
	nc      *nats.Conn
	cluster string
	pool    string
	maxAge  time.Duration
	agents  *agent.Client
	log     *slog.Logger

	dropped uint64 // unusable messages; used only by Run's goroutine
	dropLog rate.Sometimes

	mu       sync.Mutex
	received map[string]received // guarded by mu
}

type received struct {
	facts pools.NodeFacts
	at    time.Time // by the local clock
}

// NewNodes returns the nodes of a pool. A node disappears when it is silent (see package liveness)
// and was silent for longer than maxAge. Until then the autoscaler uses its last facts, so it may
// drain or repair a node that has just become silent.
func NewNodes(nc *nats.Conn, cluster, pool string, maxAge time.Duration, log *slog.Logger) *Nodes {
	return &Nodes{
		nc: nc, cluster: cluster, pool: pool, maxAge: maxAge, agents: agent.NewClient(nc, cluster, pool),
		log: log.With("pool", pool), dropLog: rate.Sometimes{Interval: time.Minute}, received: map[string]received{},
	}
}

// Run receives facts until ctx ends, and returns nil then. It first requests that all nodes publish
// their facts. If the connection closes, it returns an error.
func (n *Nodes) Run(ctx context.Context) error {
	closed := n.nc.StatusChanged(nats.CLOSED)
	defer n.nc.RemoveStatusListener(closed)
	in, err := bus.Receive(n.nc, bus.InboxConfig{Events: []string{message.NodeSubject(n.cluster, "*")}, Messages: factsInbox, Log: n.log})
	if err != nil {
		return fmt.Errorf("receive node facts: %w", err)
	}
	defer in.Close()
	if err := n.nc.Publish(message.AnnounceSubject(n.cluster), nil); err != nil {
		return fmt.Errorf("request facts from the nodes: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("receive node facts: %w", nats.ErrConnectionClosed)
		case m := <-in.Messages():
			if err := n.take(time.Now(), m); err != nil {
				n.bad(m.Subject, err)
			}
		}
	}
}

// bad counts an unusable message, and logs at most one a minute.
func (n *Nodes) bad(subject string, err error) {
	n.dropped++
	n.dropLog.Do(func() { n.log.Warn("message dropped", "subject", subject, "dropped", n.dropped, "err", err) })
}

func (n *Nodes) take(now time.Time, m *nats.Msg) error {
	f, err := agent.DecodeFacts(m.Data)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(m.Subject, "."+f.ID) {
		return fmt.Errorf("subject is not that of node %s", f.ID)
	}
	if f.Pool != n.pool {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.received[f.ID]; !ok && len(n.received) >= maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	n.received[f.ID] = received{f, now}
	return nil
}

// Facts returns the latest facts of the nodes, in order of id. It omits nodes that are silent for
// too long.
func (n *Nodes) Facts(now time.Time) []pools.NodeFacts {
	var out []pools.NodeFacts
	for _, h := range n.fresh(now) {
		out = append(out, h.facts)
	}
	return out
}

// Heard returns the same as Facts, but At is the local time of receipt. Silence is measured from
// it.
func (n *Nodes) Heard(now time.Time) []pools.NodeFacts {
	var out []pools.NodeFacts
	for _, h := range n.fresh(now) {
		h.facts.At = h.at
		out = append(out, h.facts)
	}
	return out
}

// fresh returns the received facts, in order of id, and deletes those that are too old.
func (n *Nodes) fresh(now time.Time) []received {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.received, func(_ string, h received) bool {
		return now.Sub(h.at) > max(n.maxAge, liveness.SilentAfter(liveness.Period(h.facts.Heartbeat)))
	})
	return slices.SortedFunc(maps.Values(n.received), func(a, b received) int { return strings.Compare(a.facts.ID, b.facts.ID) })
}

// Cordon sets or removes the cordon of a node. A cordoned node accepts no new app instances, and
// the placer moves its instances away. If the node does not respond, the error is agent.ErrNoAgent.
func (n *Nodes) Cordon(ctx context.Context, node string, on bool) error {
	return n.agents.Cordon(ctx, node, on)
}
