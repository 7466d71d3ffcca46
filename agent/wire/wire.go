package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// StartRequest requests one copy of an app.
type StartRequest struct {
	App      string `json:"app"`
	Version  string `json:"version"`
	Index    int    `json:"index"`
	Instance string `json:"instance"` // unique; a repeated request changes nothing
	Command  string `json:"command"`  // for /bin/sh -c
	// Release is NAMESPACE/NAME@VERSION of the files that the command finds in WEIR_RELEASE_DIR; empty: none.
	Release   string            `json:"release,omitempty"`
	Footprint resource.Vector   `json:"footprint"`
	Ready     *api.Readiness    `json:"ready,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Ports     []api.Port        `json:"ports,omitempty"`
	OneShot   bool              `json:"one_shot,omitempty"` // the agent repeats the message of an end with exit code 0
}

// Validate returns an error that names the first invalid field.
func (r StartRequest) Validate() error {
	switch {
	case r.App == "" || len(r.App) > maxAppName:
		return fmt.Errorf("app: want 1 to %d bytes", maxAppName)
	case r.Index < 0 || r.Index > maxIndex:
		return fmt.Errorf("index %d: want 0 to %d", r.Index, maxIndex)
	case r.Command == "":
		return errors.New("command is empty")
	case len(r.Command) > message.MaxRow:
		return fmt.Errorf("command has %d bytes: at most %d are allowed", len(r.Command), message.MaxRow)
	}
	if err := names.CheckToken("instance", r.Instance); err != nil {
		return err
	}
	if r.Release != "" {
		if _, err := release.ParseRef(r.Release); err != nil {
			return err
		}
	}
	if err := r.Footprint.Validate(); err != nil {
		return fmt.Errorf("footprint: %w", err)
	}
	if err := message.ValidateEnv(r.Env); err != nil {
		return fmt.Errorf("env %w", err)
	}
	return cmp.Or(message.ValidatePorts(r.Ports), message.ValidateReadiness(r.Ready, r.Ports))
}

// StopRequest requests the end of one copy.
type StopRequest struct {
	Instance string `json:"instance"`
}

// CordonRequest sets or removes the cordon of the node.
type CordonRequest struct {
	On bool `json:"on"`
	// Reason is why the node drains, and Deadline is when its machine is ended at the latest. Both are optional. A sender sets only
	// the keys in api.SchedulerState.Accepts.
	Reason   api.DrainReason `json:"reason,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
}

// FenceRequest fences the node, or lifts the fence: a fenced node stops all copies and accepts
// none.
type FenceRequest struct {
	On bool `json:"on"`
}

// FenceReply is the number of copies that have not ended yet.
type FenceReply struct {
	Left int `json:"left"`
}

// LogsRequest requests the last output of an app's copies.
type LogsRequest struct {
	App   string `json:"app"`
	Index *int   `json:"index,omitempty"` // nil: of every index
	Lines int    `json:"lines"`           // at most, of each copy, without the result of an ended one; 0: all stored lines
	// After has offsets, by instance. Of these copies the reply has the lines from the offset. Of the others it has the
	// last lines.
	After map[string]int64 `json:"after,omitempty"`
	// Follow leaves out the last line of a running copy while it has no end: a later request returns it whole.
	Follow bool `json:"follow,omitempty"`
}

// LogsReply is the stored output of an app's copies on one node, running and recently ended ones.
// The newest copy is last.
type LogsReply struct {
	Copies []CopyLog `json:"copies"`
}

// CopyLog is the last output of one copy.
type CopyLog struct {
	Instance string   `json:"instance"`
	Version  string   `json:"version"`
	Index    int      `json:"index"`
	Ended    bool     `json:"ended"`
	Lines    []string `json:"lines"`          // standard output and standard error in order of arrival; the last line of an ended copy is its result
	Next     int64    `json:"next,omitempty"` // offset after the last line, for LogsRequest.After
	Lost     bool     `json:"lost,omitempty"` // lines before the first one no longer exist
}

// Client sends requests to agents. It may be used concurrently.
type Client struct {
	nc            *nats.Conn
	cluster, pool string
	header        nats.Header
}

// As returns a client whose requests have the epoch of a scheduler's lease. An agent that received a higher one refuses
// a start or a stop with ErrStale. Epoch 0 means no epoch.
func (c *Client) As(epoch uint64) *Client {
	as := *c
	if as.header = nil; epoch > 0 {
		as.header = nats.Header{HeaderEpoch: {strconv.FormatUint(epoch, 10)}}
	}
	return &as
}

// Start requests a copy on the node. A repeated request with the same instance id changes nothing.
// If the agent rejects it, the error is ErrNoRoom, ErrPort, ErrCordoned, ErrFenced, ErrLaunch or ErrInvalid.
// Without an agent it is ErrNoAgent. After any other error the copy may run.
func (c *Client) Start(ctx context.Context, node string, r StartRequest) error {
	return c.request(ctx, node, OpStart, r, nil)
}

// Stop requests the end of a copy and does not wait for it. If the copy does not run there, the
// error is ErrUnknownInstance.
func (c *Client) Stop(ctx context.Context, node, instance string) error {
	return c.request(ctx, node, OpStop, StopRequest{instance}, nil)
}

// Cordon sets or removes the cordon of the node. A cordoned node accepts no new copies. If the agent
// has accepted a later request, the error is errLate.
func (c *Client) Cordon(ctx context.Context, node string, on bool, at pools.Sequence) error {
	return c.CordonWith(ctx, node, CordonRequest{On: on}, at)
}

// CordonWith is Cordon with the optional keys of the request, which a node of an earlier version refuses with ErrInvalid.
func (c *Client) CordonWith(ctx context.Context, node string, r CordonRequest, at pools.Sequence) error {
	as := c.As(at.Epoch)
	if at.Number > 0 {
		as.header = nats.Header{HeaderEpoch: {strconv.FormatUint(at.Epoch, 10)}, HeaderNumber: {strconv.FormatUint(at.Number, 10)}}
	}
	return as.request(ctx, node, OpCordon, r, nil)
}

// Fence fences the node, or lifts the fence. A fenced node stops all copies as in an evacuation,
// and accepts none. Fence does not wait: left is how many copies have not ended yet. A restarted
// agent is fenced only by Config.Fenced.
func (c *Client) Fence(ctx context.Context, node string, on bool) (left int, err error) {
	var reply FenceReply
	err = c.request(ctx, node, OpFence, FenceRequest{on}, &reply)
	return reply.Left, err
}

// Logs returns the last output of an app's copies on the node.
func (c *Client) Logs(ctx context.Context, node string, r LogsRequest) (LogsReply, error) {
	var reply LogsReply
	err := c.request(ctx, node, OpLogs, r, &reply)
	return reply, err
}

func (c *Client) request(ctx context.Context, node, op string, request, reply any) error {
	if err := names.CheckToken("node", node); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	err := call.RequestWith(ctx, c.nc, Subject(c.cluster, c.pool, node, op), c.header, request, reply)
	if err == nil {
		return nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%s on node %s: %w", op, node, ErrNoAgent)
	}
	refusal, ok := errors.AsType[*call.Error](err)
	if !ok {
		return fmt.Errorf("%s on node %s: %w", op, node, err)
	}
	if s := sentinel(refusal.Code); s != nil {
		return fmt.Errorf("%s on node %s: %w: %s", op, node, s, refusal.Message)
	}
	return fmt.Errorf("%s on node %s: %w", op, node, refusal)
}

// NewClient returns a client for the agents of a pool.
func NewClient(nc *nats.Conn, cluster, pool string) *Client {
	return &Client{nc: nc, cluster: cluster, pool: pool}
}

func sentinel(code string) error {
	switch code {
	case CodeNoRoom:
		return ErrNoRoom
	case CodePort:
		return ErrPort
	case CodeCordoned:
		return ErrCordoned
	case CodeFenced:
		return ErrFenced
	case CodeUnknown:
		return ErrUnknownInstance
	case CodeLaunch:
		return ErrLaunch
	case CodeLate:
		return errLate
	case CodeStale:
		return ErrStale
	case CodeBusy:
		return errBusy
	case call.CodeInvalid:
		return ErrInvalid
	}
	return nil
}

func Subject(cluster, pool, node, op string) string {
	return names.Subject(cluster, "agent", pool, node, op)
}

// Operations of an agent: the last token of the subject.
const (
	OpStart  = "start"
	OpStop   = "stop"
	OpCordon = "cordon"
	OpFence  = "fence"
	OpLogs   = "logs"
	OpClaim  = "claim"
)

// Errors of an agent. Callers of [Client] check them with errors.Is.
var (
	// ErrNoRoom: the copy's footprint exceeds the free resources.
	ErrNoRoom = errors.New("no room on the node")
	// ErrPort: another process has a fixed port of the copy.
	ErrPort = errors.New("port in use on the node")
	// ErrCordoned: the node accepts no new copies.
	ErrCordoned = errors.New("node is cordoned")
	// ErrFenced: the node accepts no copies, because its owner fenced it or it had lost the bus.
	ErrFenced = errors.New("node is fenced")
	// ErrUnknownInstance: the node runs no such copy.
	ErrUnknownInstance = errors.New("no such app instance on the node")
	// ErrLaunch: the process could not be started.
	ErrLaunch = errors.New("process did not start")
	// ErrStale: another scheduler has taken over the pool since.
	ErrStale = errors.New("the scheduler has lost its lease")
	// ErrInvalid: the request is unreadable or invalid.
	ErrInvalid = errors.New("invalid request")
	// errLate: the agent has accepted a later request of that kind.
	errLate = errors.New("request is late")
	// ErrNoAgent: no agent responds for that node.
	ErrNoAgent = errors.New("no agent responds for the node")
	// errBusy: the agent answers too many requests of that kind. A later request may succeed.
	errBusy = errors.New("agent is busy")
)

// Codes of the errors on the wire. Frozen.
const (
	CodeNoRoom   = "no_room"
	CodePort     = "port_in_use"
	CodeCordoned = "cordoned"
	CodeFenced   = "fenced"
	CodeUnknown  = "unknown_instance"
	CodeLaunch   = "launch"
	CodeLate     = "late"
	CodeStale    = "stale_epoch"
	CodeBusy     = "busy"
)

// Bounds of messages on the bus.
const (
	MaxRequest  = 256 << 10 // bytes of a request
	maxIndex    = 1 << 20
	maxAppName  = 256
	MaxLogLines = 10_000
)

// Headers of requests and announcements. They are decimal numbers, and a request without them is not checked. Frozen.
const (
	// HeaderEpoch is the epoch of the sender's lease: for a cordon the pool's lease, otherwise the scheduler's.
	HeaderEpoch = "Weir-Epoch"
	// HeaderNumber is the number of a cordon in its epoch.
	HeaderNumber = "Weir-Number"
	// HeaderPool is the pool of an announcement with an epoch.
	HeaderPool = "Weir-Pool"
)

const LeastShare = 4 << 10 // of one copy in a LogsReply to a follower
