package placerbus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/internal/platform/changes"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/placer"
)

const inbox = 65_536 // waiting messages

// codeNotReady: the placer has begun, and cannot answer yet.
const codeNotReady = "not_ready"

// maxPlacedQuery bounds a request for the placed copies, in bytes.
const maxPlacedQuery = 1 << 20

var errUnknownSubject = errors.New("the subject is not one of the placer's")

// Config selects the pool.
type Config struct {
	Cluster string
	Pool    string
	// Partition is the partition of the classic health manager's requests. Default message.Partition.
	Partition string
}

// Bus is a placer.Bus over NATS.
type Bus struct {
	cfg    Config
	nc     *nats.Conn
	agents *wire.Client
	inbox  atomic.Pointer[bus.Inbox] // of the latest Listen
	log    *slog.Logger
}

var (
	_ placer.Bus      = (*Bus)(nil)
	_ placer.Reporter = (*Bus)(nil)
)

// New returns the bus of a pool's placer.
func New(cfg Config, nc *nats.Conn, log *slog.Logger) *Bus {
	cfg.Partition = cmp.Or(cfg.Partition, message.Partition)
	return &Bus{cfg: cfg, nc: nc, agents: wire.NewClient(nc, cfg.Cluster, cfg.Pool), log: log.With("pool", cfg.Pool)}
}

// Listen implements placer.Bus. It waits until the bucket of apps exists.
func (b *Bus) Listen(ctx context.Context, epoch uint64, enqueue func(context.Context, placer.Event) error) error {
	all, rows, err := b.openRows(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	// One inbox for all subjects preserves their order: an exit is processed before the nudge
	// that follows it.
	cluster, nodes := b.cfg.Cluster, message.Node{Pool: b.cfg.Pool, Name: "*"}
	in, err := bus.Receive(b.nc, bus.InboxConfig{
		Events: []string{
			message.FactsSubject(cluster, nodes), message.HeartbeatSubject(cluster, nodes), message.ExitedSubject(cluster, nodes),
			message.SubjectStart, message.SubjectStop, cloudfoundry.RequestsSubject(b.cfg.Partition),
		},
		Requests: []string{pendingSubject(cluster, b.cfg.Pool), message.PlacedSubject(cluster, b.cfg.Pool), message.PlacesSubject(cluster, b.cfg.Pool)}, Messages: inbox, Bytes: wire.MaxWaiting, Senders: wire.NodeSenders(), Log: b.log,
	})
	if err != nil {
		return err
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	defer in.Close()
	b.inbox.Store(in)
	reports.Go(func() { in.ReportLosses(ctx, message.LimitedSubject(cluster, b.cfg.Pool), wire.Limited) })
	if err := b.announce(epoch); err != nil {
		return err
	}
	for _, k := range all {
		if enqueue(ctx, row(k)) != nil {
			return nil
		}
	}
	if enqueue(ctx, placer.RowsLoaded{}) != nil {
		return nil
	}
	return b.listen(ctx, in, rows, enqueue)
}

// listen passes messages and changes of rows on until ctx ends, or until all rows must be read again.
func (b *Bus) listen(ctx context.Context, in *bus.Inbox, rows *changes.Reader, enqueue func(context.Context, placer.Event) error) error {
	unread := rate.Sometimes{First: 1, Interval: time.Minute}
	for {
		var e placer.Event
		select {
		case <-ctx.Done():
			return nil
		case m := <-in.Messages():
			e = b.event(m)
		case u, ok := <-rows.Updates():
			switch {
			case !ok:
				return nil // ctx has ended
			case errors.Is(u.Err, changes.ErrReread), u.Err != nil && b.nc.IsClosed():
				return u.Err
			case u.Err != nil:
				unread.Do(func() { b.log.Warn("changes of applications not read, trying again", "err", u.Err) })
			}
			for _, k := range u.Keys {
				if enqueue(ctx, row(k)) != nil {
					return nil
				}
			}
		}
		if e != nil && enqueue(ctx, e) != nil {
			return nil
		}
	}
}

// Losers returns the nodes that send more than their share, and lose messages.
func (b *Bus) Losers() []bus.LostOfSender {
	if in := b.inbox.Load(); in != nil {
		return in.Losers()
	}
	return nil
}

// event returns the event of a message.
func (b *Bus) event(m *nats.Msg) placer.Event {
	e, err := b.decode(m)
	if err != nil {
		return placer.Unusable{Subject: m.Subject, Err: err}
	}
	return e
}

func (b *Bus) decode(m *nats.Msg) (placer.Event, error) {
	node, subject := message.OfNode(m.Subject)
	switch subject {
	case message.SubjectHeartbeat:
		return heartbeat(node.Name, m.Data)
	case message.SubjectFacts:
		return facts(node, m.Data)
	case message.SubjectExited:
		e, err := message.DecodeExited(node, m.Data)
		return placer.Exit{Node: node.Name, Exited: e}, err
	case message.SubjectStart, message.SubjectStop, cloudfoundry.RequestsSubject(b.cfg.Partition):
		start, stop, err := cloudfoundry.DecodeNudge(m.Subject, m.Data)
		return placer.Nudge{ID: nudgeID(m), Start: start, Stop: stop}, err
	case pendingSubject(b.cfg.Cluster, b.cfg.Pool):
		return placer.Query{Answer: func(p api.Pending) { b.answer(m, p, nil) }}, nil
	}
	switch m.Subject {
	case message.PlacedSubject(b.cfg.Cluster, b.cfg.Pool):
		return b.placedQuery(m)
	case message.PlacesSubject(b.cfg.Cluster, b.cfg.Pool):
		return b.placesQuery(m)
	}
	return nil, errUnknownSubject
}

func (b *Bus) placedQuery(m *nats.Msg) (placer.Event, error) {
	var q api.PlacedQuery
	if len(m.Data) > maxPlacedQuery {
		return nil, fmt.Errorf("decode request: %d bytes, at most %d are allowed", len(m.Data), maxPlacedQuery)
	}
	if err := json.Unmarshal(m.Data, &q); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	return placer.PlacedQuery{Copies: q.Copies, Answer: func(a api.PlacedAnswer) { b.answer(m, a, nil) }}, nil
}

// placesQuery returns a question where copies fit. An invalid one is answered with its error.
func (b *Bus) placesQuery(m *nats.Msg) (placer.Event, error) {
	var q api.PlacesQuestion
	err := json.Unmarshal(m.Data, &q)
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		b.answer(m, nil, call.Invalid("question: %v", err))
		return nil, fmt.Errorf("decode question: %w", err)
	}
	return placer.PlacesQuery{Question: q, Text: string(m.Data), Answer: func(p api.Places, err error) {
		if errors.Is(err, placer.ErrNotReady) {
			err = &call.Error{Code: codeNotReady, Message: err.Error()}
		}
		b.answer(m, p, err)
	}}, nil
}

// answer responds to a request, with err if it is not nil.
func (b *Bus) answer(m *nats.Msg, body any, err error) {
	if err := call.Respond(m, b.nc.MaxPayload(), body, err); err != nil {
		b.log.Warn("response not sent", "err", err)
	}
}

// heartbeat returns a heartbeat from the subject of a node. One that is not readable proves that its node runs.
func heartbeat(node string, data []byte) (placer.Event, error) {
	h, err := message.DecodeHeartbeat(data)
	if _, part := errors.AsType[*message.UnreadError](err); err != nil && !part {
		h = api.Heartbeat{Node: node}
	}
	if h.Node != node {
		return nil, fmt.Errorf("subject of node %.130q: the heartbeat is of node %.130q", node, h.Node)
	}
	return placer.Heartbeat{Heartbeat: h, Unread: err}, nil
}

// facts returns the facts from the subject of a node.
func facts(node message.Node, data []byte) (placer.Event, error) {
	f, err := wire.FactsOf(node, data)
	if err != nil {
		return nil, err
	}
	return placer.Facts{NodeFacts: f}, nil
}

// Start implements placer.Bus.
func (b *Bus) Start(ctx context.Context, node string, s placer.Start) (placer.Result, error) {
	r := wire.StartRequest{
		App: s.App, Version: s.Version, Index: s.Index, Instance: s.Instance, Command: s.Command, Release: s.Release, Footprint: s.Footprint, Ready: s.Ready, Env: s.Env, Ports: s.Ports, OneShot: s.OneShot,
	}
	err := b.agents.As(s.Epoch).Start(ctx, node, r)
	if errors.Is(err, wire.ErrInvalid) && r.OneShot { // an agent of an earlier version refuses this key
		r.OneShot = false
		err = b.agents.As(s.Epoch).Start(ctx, node, r)
	}
	return resultOf(err), err
}

func resultOf(err error) placer.Result {
	switch {
	case err == nil:
		return placer.Accepted
	case errors.Is(err, wire.ErrNoRoom), errors.Is(err, wire.ErrCordoned), errors.Is(err, wire.ErrFenced),
		errors.Is(err, wire.ErrNoAgent), errors.Is(err, wire.ErrStale):
		return placer.Full
	case errors.Is(err, wire.ErrPort):
		return placer.PortInUse
	case errors.Is(err, wire.ErrInvalid), errors.Is(err, wire.ErrLaunch):
		return placer.Rejected
	}
	return placer.Unknown
}

// Stop implements placer.Bus.
func (b *Bus) Stop(ctx context.Context, node, instance string, epoch uint64) (ended bool, err error) {
	err = b.agents.As(epoch).Stop(ctx, node, instance)
	return errors.Is(err, wire.ErrUnknownInstance), err
}

// nudgeID returns the id of a nudge; empty if it has no id or an invalid one.
func nudgeID(m *nats.Msg) string {
	if id := m.Header.Get(message.HeaderNudge); names.ValidToken(id) {
		return id
	}
	return ""
}

// Confirm implements placer.Bus.
func (b *Bus) Confirm(epoch uint64, nudges []string) error {
	for part := range slices.Chunk(nudges, message.MaxConfirmed) {
		data, err := json.Marshal(api.Confirmation{Pool: b.cfg.Pool, Epoch: epoch, Nudges: part})
		if err == nil {
			err = bus.Publish(b.nc, message.ConfirmedSubject(b.cfg.Cluster, b.cfg.Pool), data)
		}
		if err != nil {
			return fmt.Errorf("confirm nudges: %w", err)
		}
	}
	return nil
}

// Waiting implements placer.Reporter.
func (b *Bus) Waiting(epoch uint64, starts []api.WaitingStart) error {
	for _, part := range message.ChunkWaiting(starts) {
		data, err := json.Marshal(api.Confirmation{Pool: b.cfg.Pool, Epoch: epoch, Nudges: []string{}, Waiting: part})
		if err == nil {
			err = bus.Publish(b.nc, message.ConfirmedSubject(b.cfg.Cluster, b.cfg.Pool), data)
		}
		if err != nil {
			return fmt.Errorf("report waiting starts: %w", err)
		}
	}
	return nil
}

// Running implements placer.Reporter.
func (b *Bus) Running(period time.Duration, nodes int) error {
	data, err := json.Marshal(api.SchedulerState{Pool: b.cfg.Pool, Kind: "weir", Rows: true, Fresh: true, Period: period, Nodes: nodes})
	if err == nil {
		err = bus.Publish(b.nc, message.StateSubject(b.cfg.Cluster, b.cfg.Pool), data)
	}
	if err != nil {
		return fmt.Errorf("report the state of the placer: %w", err)
	}
	return nil
}

// Never implements placer.Reporter.
func (b *Bus) Never(apps []api.PlacesApp) error {
	data, err := json.Marshal(api.NeverPlaced{Pool: b.cfg.Pool, Apps: apps})
	if err == nil {
		err = bus.Publish(b.nc, message.NeverSubject(b.cfg.Cluster, b.cfg.Pool), data)
	}
	if err != nil {
		return fmt.Errorf("report copies that no machine can hold: %w", err)
	}
	return nil
}

// announce requests facts from the nodes. The nodes refuse requests of earlier epochs from then on.
func (b *Bus) announce(epoch uint64) error {
	m := &nats.Msg{Subject: message.AnnounceSubject(b.cfg.Cluster)}
	if epoch > 0 && b.nc.HeadersSupported() {
		m.Header = nats.Header{wire.HeaderEpoch: {strconv.FormatUint(epoch, 10)}, wire.HeaderPool: {b.cfg.Pool}}
	}
	if err := b.nc.PublishMsg(m); err != nil {
		return fmt.Errorf("request facts from the nodes: %w", err)
	}
	return nil
}

// GetPending requests the pending copies from the placer of the pool.
func GetPending(ctx context.Context, nc *nats.Conn, cluster, pool string) (api.Pending, error) {
	var p api.Pending
	if err := call.Request(ctx, nc, pendingSubject(cluster, pool), struct{}{}, &p); err != nil {
		return api.Pending{}, fmt.Errorf("get the pending app instances of pool %s: %w", pool, err)
	}
	return p, nil
}

func pendingSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "pending")
}
