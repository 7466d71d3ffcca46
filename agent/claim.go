package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

// Two agents of one node would list different instances in turn. So an agent first publishes a claim, and ends if
// another agent holds the node. Of two agents that start at the same time, the earlier one keeps it. Later claims only
// detect another agent, for example after the network was split.

const (
	claimTimeout = 2 * time.Second
	claimEvery   = time.Minute
	rivalFor     = 10 * time.Minute // how long facts name another agent after its last claim
)

// ErrRival: another agent of this node runs.
var ErrRival = errors.New("another agent of this node runs")

// claimRequest is the claim of an agent to be a node.
type claimRequest struct {
	Agent string    `json:"agent"` // random, of this run
	Since time.Time `json:"since"` // its start, by its own clock
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	// First: the agent starts, and ends if the node is held.
	First bool `json:"first,omitempty"`
}

// before reports whether c keeps the node, of two agents that start at the same time.
func (c claimRequest) before(other claimRequest) bool {
	return cmp.Or(c.Since.Compare(other.Since), cmp.Compare(c.Agent, other.Agent)) < 0
}

// claimReply is the response of another agent of the node.
type claimReply struct {
	claimRequest
	Held bool `json:"held"` // the agent that responds keeps the node
}

// where returns host and process of an agent, for people.
func (c claimRequest) where() string {
	return wire.Clip(fmt.Sprintf("process %d on host %.100s", c.PID, c.Host))
}

// claims is the state of an agent's claim. Only the agent's loop uses it, except keep.
type claims struct {
	nc      *nats.Conn
	node    string
	subject string
	log     *slog.Logger

	own     claimRequest
	settled bool // the node is ours: no other agent may begin with it
	answers chan claimReply

	rival   string // the other agent
	rivalAt time.Time
}

func newClaims(cfg Config, token string, nc *nats.Conn, log *slog.Logger) *claims {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &claims{
		nc: nc, node: cfg.ID, subject: wire.Subject(cfg.Cluster, cfg.Pool, cfg.ID, wire.OpClaim), log: log,
		own: claimRequest{Agent: token, Host: host, PID: os.Getpid()}, answers: make(chan claimReply),
	}
}

// begin returns the first claim of an agent that starts now.
func (c *claims) begin(now time.Time) claimRequest {
	c.own.Since = now
	first := c.own
	first.First = true
	return first
}

// claim sends a claim. A reply without an agent means that none responded. The error is that the claim was not sent.
func (c *claims) claim(ctx context.Context, own claimRequest) (claimReply, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	var reply claimReply
	err := call.Request(ctx, c.nc, c.subject, own, &reply)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return claimReply{}, err
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), err != nil && ctx.Err() != nil:
		return claimReply{}, nil
	case err != nil:
		return claimReply{}, err
	case reply.Agent == own.Agent:
		return claimReply{}, nil
	}
	return reply, nil
}

func (c *claims) unsent(err error) {
	if err != nil {
		c.log.Warn("claim of the node not sent: another agent of this node would not be found", "err", err)
	}
}

// first sends the first claim. It returns an error if this agent must not begin: another agent has the node, or the
// credentials are not those of the node, so that it would publish nothing that others receive.
func (c *claims) first(ctx context.Context, now time.Time) (own claimRequest, err error) {
	own = c.begin(now)
	other, err := c.claim(ctx, own)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return own, fmt.Errorf("agent %s: claim the node: %w; these credentials are not those of an agent of node %s: give this machine the key of its node, or the id of its key with --id or agent.id", c.node, err, c.node)
	case other.Held:
		return own, c.refused(other.claimRequest)
	}
	c.unsent(err)
	return own, nil
}

// refused returns the error of an agent whose node another agent has.
func (c *claims) refused(r claimRequest) error {
	return fmt.Errorf("agent %s: %w: %s; stop that one, or give this machine an id of its own with --id or agent.id", c.node, ErrRival, r.where())
}

// repeatClaim repeats the claim until ctx ends. The first one is sent when the agent receives claims itself, so of two
// agents that start at the same time one receives the claim of the other.
func (c *claims) repeatClaim(ctx context.Context, own claimRequest) {
	again := time.NewTicker(claimEvery)
	defer again.Stop()
	for {
		reply, err := c.claim(ctx, own)
		c.unsent(err) // and no more: while permissions change, the agent and its app instances run on
		own.First = false
		select {
		case c.answers <- reply:
		case <-ctx.Done():
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// claimed processes the response to a claim of this agent. It returns an error if this agent must end: before it has
// settled, so that it has started nothing that runs on.
func (c *claims) claimed(now time.Time, r claimReply) error {
	settled := c.settled
	if r.Agent != "" {
		if r.Held && !settled {
			return c.refused(r.claimRequest)
		}
		c.recordRival(now, r.claimRequest)
	}
	c.settled = true
	return nil
}

// answer responds to a claim. Its own claim has no response. It returns an error if this agent must end, because it
// starts at the same time as an earlier one.
func (c *claims) answer(now time.Time, m *nats.Msg) error {
	var r claimRequest
	if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
		c.respond(m, nil, err)
		return nil
	}
	if r.Agent == c.own.Agent {
		return nil
	}
	yields := r.First && !c.settled && r.before(c.own)
	c.respond(m, claimReply{c.own, !yields}, nil)
	if yields {
		return c.refused(r)
	}
	c.recordRival(now, r)
	return nil
}

// recordRival records another agent of this node, for log and facts.
func (c *claims) recordRival(now time.Time, r claimRequest) {
	text := r.where()
	if text != c.rival || now.Sub(c.rivalAt) >= rivalFor {
		c.log.Error("another agent has the id of this node: stop it, or give its machine another id", "other", text)
	}
	c.rival, c.rivalAt = text, now
}

func (c *claims) respond(m *nats.Msg, body any, err error) {
	if err := call.Respond(m, c.nc.MaxPayload(), body, err); err != nil {
		c.log.Warn("response not sent", "err", err)
	}
}

// other returns the other agent for the facts; empty if none has claimed the node in the last minutes.
func (c *claims) other(now time.Time) string {
	if now.Sub(c.rivalAt) >= rivalFor {
		return ""
	}
	return c.rival
}
