package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
	"github.com/weirkeeper/weirkeeper/resource"
)

// What an agent does on request; the last token of the subject.
const (
	opStart  = "start"
	opStop   = "stop"
	opCordon = "cordon"
	opFence  = "fence"
	opLogs   = "logs"
)

// Refusals of an agent. Callers of [Client] find them with errors.Is.
var (
	// ErrNoRoom: the copy's footprint exceeds what is left.
	ErrNoRoom = errors.New("no room on the node")
	// ErrCordoned: the node takes nothing new.
	ErrCordoned = errors.New("node is cordoned")
	// ErrFenced: the node takes nothing, by order of its owner or as it had lost the bus.
	ErrFenced = errors.New("node is fenced")
	// ErrUnknownInstance: no such copy runs here.
	ErrUnknownInstance = errors.New("no such app instance on the node")
	// ErrLaunch: the process could not be started.
	ErrLaunch = errors.New("process did not start")
	// ErrInvalid: the request cannot be read, or asks for nonsense.
	ErrInvalid = errors.New("invalid request")
	// ErrNoAgent: nobody answers for that node.
	ErrNoAgent = errors.New("no agent answers for the node")
)

// Codes of the refusals on the wire. Frozen.
const (
	codeNoRoom   = "no_room"
	codeCordoned = "cordoned"
	codeFenced   = "fenced"
	codeUnknown  = "unknown_instance"
	codeLaunch   = "launch"
)

// Bounds of what comes over the bus.
const (
	maxRequest  = 256 << 10 // bytes of a request
	maxFacts    = 64 << 10  // bytes of a node's facts
	maxIndex    = 1 << 20
	maxAppName  = 256
	maxLogLines = 10_000
)

// StartRequest asks for one copy of an app.
type StartRequest struct {
	App       string          `json:"app"`
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Instance  string          `json:"instance"` // unique; a second request with it changes nothing
	Command   string          `json:"command"`  // for /bin/sh -c
	Footprint resource.Vector `json:"footprint"`
}

// Validate returns an error that names the first field that is not sound.
func (r StartRequest) Validate() error {
	switch {
	case r.App == "" || len(r.App) > maxAppName:
		return fmt.Errorf("app: want 1 to %d bytes", maxAppName)
	case r.Index < 0 || r.Index > maxIndex:
		return fmt.Errorf("index %d: want 0 to %d", r.Index, maxIndex)
	case r.Command == "":
		return errors.New("command is empty")
	}
	if err := names.CheckToken("instance", r.Instance); err != nil {
		return err
	}
	if err := r.Footprint.Validate(); err != nil {
		return fmt.Errorf("footprint: %w", err)
	}
	return nil
}

// StopRequest asks for the end of one copy.
type StopRequest struct {
	Instance string `json:"instance"`
}

// CordonRequest bars the node for new copies, or opens it again.
type CordonRequest struct {
	On bool `json:"on"`
}

// FenceRequest has the node stop all copies and take none, or lifts that.
type FenceRequest struct {
	On bool `json:"on"`
}

// FenceReply is how many copies are not gone yet.
type FenceReply struct {
	Left int `json:"left"`
}

// LogsRequest asks for the last output of an app's copies.
type LogsRequest struct {
	App   string `json:"app"`
	Index *int   `json:"index,omitempty"` // nil: of every index
	Lines int    `json:"lines"`           // of each copy at most; 0: all that is kept
}

// LogsReply is what a node has kept of an app's output: copies that run, and
// those that ended last; the newest copy comes last.
type LogsReply struct {
	Copies []CopyLog `json:"copies"`
}

// CopyLog is the last output of one copy.
type CopyLog struct {
	Instance string   `json:"instance"`
	Version  string   `json:"version"`
	Index    int      `json:"index"`
	Ended    bool     `json:"ended"`
	Lines    []string `json:"lines"` // standard output and standard error as they came; of an ended copy, last how it ended
}

// Client asks agents. It may be used concurrently.
type Client struct {
	nc      *nats.Conn
	cluster string
}

// NewClient returns a client for the agents of the cluster.
func NewClient(nc *nats.Conn, cluster string) *Client { return &Client{nc, cluster} }

// Start asks the node to run a copy. Done twice with one instance id, it
// changes nothing the second time. A refusal is ErrNoRoom, ErrCordoned,
// ErrFenced, ErrLaunch or ErrInvalid; nobody there is ErrNoAgent; after any other
// error the copy may run.
func (c *Client) Start(ctx context.Context, node string, r StartRequest) error {
	return c.ask(ctx, node, opStart, r, nil)
}

// Stop asks the node to end a copy; it does not wait for the end.
// ErrUnknownInstance if it does not run there.
func (c *Client) Stop(ctx context.Context, node, instance string) error {
	return c.ask(ctx, node, opStop, StopRequest{instance}, nil)
}

// Cordon bars the node for new copies (on), or opens it again.
func (c *Client) Cordon(ctx context.Context, node string, on bool) error {
	return c.ask(ctx, node, opCordon, CordonRequest{on}, nil)
}

// Fence has the node stop all copies as in an evacuation, and take none (on), or
// lifts that. It does not wait: left is how many copies are not gone yet. A restarted
// agent knows of it by Config.Fenced alone.
func (c *Client) Fence(ctx context.Context, node string, on bool) (left int, err error) {
	var reply FenceReply
	err = c.ask(ctx, node, opFence, FenceRequest{on}, &reply)
	return reply.Left, err
}

// Logs returns the last output of an app's copies on the node.
func (c *Client) Logs(ctx context.Context, node string, r LogsRequest) (LogsReply, error) {
	var reply LogsReply
	err := c.ask(ctx, node, opLogs, r, &reply)
	return reply, err
}

func (c *Client) ask(ctx context.Context, node, op string, request, reply any) error {
	if err := names.CheckToken("node", node); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	err := call.Ask(ctx, c.nc, subject(c.cluster, node, op), request, reply)
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

func sentinel(code string) error {
	switch code {
	case codeNoRoom:
		return ErrNoRoom
	case codeCordoned:
		return ErrCordoned
	case codeFenced:
		return ErrFenced
	case codeUnknown:
		return ErrUnknownInstance
	case codeLaunch:
		return ErrLaunch
	case call.CodeInvalid:
		return ErrInvalid
	}
	return nil
}

func subject(cluster, node, op string) string {
	return names.Subject(cluster, "agent", node, op)
}

// DecodeFacts reads the facts that a node published, and refuses those that
// are too large, nameless, whose quantities are not finite and at least 0, or whose
// conditions exceed their bounds.
func DecodeFacts(data []byte) (pools.NodeFacts, error) {
	if len(data) > maxFacts {
		return pools.NodeFacts{}, fmt.Errorf("node facts have %d bytes: at most %d are taken", len(data), maxFacts)
	}
	var f pools.NodeFacts
	if err := json.Unmarshal(data, &f); err != nil {
		return pools.NodeFacts{}, fmt.Errorf("node facts: %w", err)
	}
	if err := errors.Join(names.CheckToken("node", f.ID), f.Resources.Validate(), f.Allocated.Validate()); err != nil {
		return pools.NodeFacts{}, fmt.Errorf("node facts: %w", err)
	}
	if f.Tasks < 0 || f.BatchTasks < 0 || f.Heartbeat < 0 {
		return pools.NodeFacts{}, errors.New("node facts: tasks, heartbeat: want at least 0")
	}
	if err := checkConditions(f.Conditions, pools.MaxConditions); err != nil {
		return pools.NodeFacts{}, fmt.Errorf("node facts: %w", err)
	}
	return f, nil
}
