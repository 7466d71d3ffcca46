package local

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
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
	agents  *wire.Client
	epoch   atomic.Uint64             // of the term
	number  atomic.Uint64             // of the latest request to a node
	inbox   atomic.Pointer[bus.Inbox] // of the latest Run
	log     *slog.Logger

	scheduler schedulerWatch

	dropped uint64 // unusable messages; used only by Run's goroutine
	dropLog rate.Sometimes

	mu       sync.Mutex
	received map[string]received // guarded by mu
}

type received struct {
	facts api.NodeFacts
	at    time.Time // by the local clock
	// before is the boot id before the present one; twins is when it came back. A machine never has an earlier boot id
	// again, so then two machines use one id.
	before string
	twins  time.Time // zero: never
}

// NewNodes returns the nodes of a pool. The facts of a node end when it is silent (see package
// liveness), for all parts by the same rule. Its receipt is known for at least maxAge, so that status
// and node health know since when it is silent.
func NewNodes(nc *nats.Conn, cluster, pool string, maxAge time.Duration, log *slog.Logger) *Nodes {
	return &Nodes{
		nc: nc, cluster: cluster, pool: pool, maxAge: maxAge, agents: wire.NewClient(nc, cluster, pool),
		log: log.With("pool", pool), dropLog: rate.Sometimes{Interval: time.Minute}, received: map[string]received{},
		scheduler: schedulerWatch{began: time.Now()},
	}
}

// Run receives facts until ctx ends, and returns nil then. It first requests that all nodes publish
// their facts. If the connection closes, it returns an error.
func (n *Nodes) Run(ctx context.Context) error {
	closed := n.nc.StatusChanged(nats.CLOSED)
	defer n.nc.RemoveStatusListener(closed)
	state := message.StateSubject(n.cluster, n.pool)
	in, err := bus.Receive(n.nc, bus.InboxConfig{Events: []string{message.FactsSubject(n.cluster, message.Node{Pool: n.pool, Name: "*"}), state}, Messages: factsInbox, Bytes: wire.MaxWaiting, Senders: wire.NodeSenders(), Log: n.log})
	if err != nil {
		return fmt.Errorf("receive node facts: %w", err)
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	defer in.Close()
	n.inbox.Store(in)
	reports.Go(func() { in.ReportLosses(ctx, message.LimitedSubject(n.cluster, n.pool), wire.Limited) })
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
			take := n.takeFacts
			if m.Subject == state {
				take = func(now time.Time, m *nats.Msg) error { return n.scheduler.take(now, n.pool, m) }
			}
			if err := take(time.Now(), m); err != nil {
				n.bad(m.Subject, err)
			}
		}
	}
}

// Losers returns the nodes that send more than their share, and lose messages.
func (n *Nodes) Losers() []bus.LostOfSender {
	if in := n.inbox.Load(); in != nil {
		return in.Losers()
	}
	return nil
}

// bad counts an unusable message, and logs at most one a minute.
func (n *Nodes) bad(subject string, err error) {
	n.dropped++
	n.dropLog.Do(func() { n.log.Warn("message dropped", "subject", subject, "dropped", n.dropped, "err", err) })
}

func (n *Nodes) takeFacts(now time.Time, m *nats.Msg) error {
	node, _ := message.OfNode(m.Subject)
	f, err := wire.FactsOf(node, m.Data)
	if err != nil {
		n.keepLast(now, node, err)
		return err
	}
	if ahead := f.At.Sub(now).Round(time.Second); !f.At.IsZero() && ahead.Abs() >= pools.ClockTolerance {
		f.ClockAhead = ahead
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.received[f.ID]; !ok && len(n.received) >= maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	last := n.received[f.ID]
	f.Conditions = wire.KeepConditions(f.Conditions, last.facts.Conditions)
	n.received[f.ID] = last.next(f, now)
	return nil
}

// keepLast records that a node sent facts that are not readable. It keeps the last known ones. Without earlier ones the node has
// joined, and only its name is known.
func (n *Nodes) keepLast(now time.Time, node message.Node, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, known := n.received[node.Name]
	if node.Pool != n.pool || !known && (len(n.received) >= maxNodes || node.Validate() != nil) {
		return
	}
	if !known {
		r.facts = api.NodeFacts{ID: node.Name, Pool: node.Pool}
	}
	r.facts, r.at = wire.Unreadable(r.facts, cause), now
	n.received[node.Name] = r
}

// next returns the stored data after the receipt of facts.
func (r received) next(f api.NodeFacts, now time.Time) received {
	next := received{facts: f, at: now, before: r.before, twins: r.twins}
	if r.facts.BootID != "" && f.BootID != r.facts.BootID {
		next.before = r.facts.BootID
		if f.BootID == r.before && f.BootID != "" {
			next.twins = now
		}
	}
	return next
}

// Receipts returns what the receipts of the latest facts show, in order of id.
func (n *Nodes) Receipts(now time.Time) []api.NodeReceipt {
	var out []api.NodeReceipt
	for _, r := range n.fresh(now) {
		one := api.NodeReceipt{
			Node: r.facts.ID, Age: now.Sub(r.at), Twins: r.twins,
			Silent: r.silent(now),
		}
		if !r.facts.At.IsZero() {
			one.Ahead = r.facts.At.Sub(r.at.Round(0))
		}
		out = append(out, one)
	}
	return out
}

// Facts returns the latest facts of the nodes that are not silent, in order of id.
func (n *Nodes) Facts(now time.Time) []api.NodeFacts {
	var out []api.NodeFacts
	for _, h := range n.fresh(now) {
		if !h.silent(now) {
			out = append(out, h.facts)
		}
	}
	return out
}

// silent reports whether the node is silent.
func (r received) silent(now time.Time) bool {
	return liveness.Silent(now, r.at, liveness.Period(r.facts.Heartbeat))
}

// Received returns the latest facts of the nodes with a receipt, silent or not, in order of id. At is
// the local time of receipt. Silence is measured from it.
func (n *Nodes) Received(now time.Time) []api.NodeFacts {
	var out []api.NodeFacts
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

// BeginTerm sets the epoch of the lease under which the following requests are sent. No request of
// an earlier term may be under way.
func (n *Nodes) BeginTerm(epoch uint64) { n.epoch.Store(epoch) }

// Cordon sets or removes the cordon of a node. A cordoned node accepts no new app instances, and
// the placer moves its instances away. If the node does not respond, the error is agent.ErrNoAgent.
func (n *Nodes) Cordon(ctx context.Context, node string, on bool) error {
	return n.agents.Cordon(ctx, node, on, pools.Sequence{Epoch: n.epoch.Load(), Number: n.number.Add(1)})
}

// CordonFor sets the cordon of a node, with the reason and the deadline of its drain as far as the scheduler of the pool accepts them. It
// implements drain.Informed.
func (n *Nodes) CordonFor(ctx context.Context, node string, reason api.DrainReason, deadline time.Time) error {
	r := wire.CordonRequest{On: true}
	accepts := n.Scheduler(time.Now()).Accepts
	if slices.Contains(accepts, api.AcceptsReason) {
		r.Reason = reason
	}
	if slices.Contains(accepts, api.AcceptsDeadline) {
		r.Deadline = deadline
	}
	return n.agents.CordonWith(ctx, node, r, pools.Sequence{Epoch: n.epoch.Load(), Number: n.number.Add(1)})
}

// Gone reports that the machine of a node has ended.
func (n *Nodes) Gone(node string, at time.Time) error {
	data, err := json.Marshal(api.NodeGone{Node: node, Pool: n.pool, At: at})
	if err == nil {
		err = bus.Publish(n.nc, message.GoneSubject(n.cluster, message.Node{Pool: n.pool, Name: node}), data)
	}
	if err != nil {
		return fmt.Errorf("report the end of node %s: %w", node, err)
	}
	return nil
}
