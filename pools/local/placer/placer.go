package placer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/kvbucket"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

const (
	settle    = 20 * time.Millisecond // events within it are processed together
	inbox     = 65_536                // waiting messages
	parallel  = 64                    // requests to agents at the same time
	sinkLimit = 5 * time.Second       // of one write of metrics
)

// Sink stores the metrics of pending copies, for example in a metrics.Store.
type Sink interface {
	Write(ctx context.Context, samples []metrics.Sample) error
}

// Placer places the app instances of one pool.
type Placer struct {
	cfg    Config
	nc     *nats.Conn
	sink   Sink
	agents *agent.Client
	log    *slog.Logger

	core    *core
	answers chan answer   // of agents to starts
	slots   chan struct{} // one for each request in progress
	samples chan []metrics.Sample
	wg      sync.WaitGroup

	dropped   uint64 // unusable messages
	dropLog   rate.Sometimes
	refused   uint64 // rejected stops
	rejectLog rate.Sometimes
}

type answer struct {
	instance string
	result   result
}

// New returns the placer of cfg's pool. sink may be nil: then no metrics are written.
func New(cfg Config, nc *nats.Conn, sink Sink, log *slog.Logger) (*Placer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("placer: %w", err)
	}
	return &Placer{
		cfg: cfg, nc: nc, sink: sink, agents: agent.NewClient(nc, cfg.Cluster, cfg.Pool), log: log.With("pool", cfg.Pool),
		core: newCore(cfg, rand.Text()), answers: make(chan answer), slots: make(chan struct{}, parallel),
		samples: make(chan []metrics.Sample, 1), dropLog: rate.Sometimes{Interval: time.Minute},
		rejectLog: rate.Sometimes{Interval: time.Minute},
	}, nil
}

// Run places copies until ctx ends, and then returns nil. If the connection or the watch of the
// bucket of apps ends, it returns an error. It creates the bucket if it is missing.
func (p *Placer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer p.wg.Wait()
	defer cancel()
	rows, err := p.watchApps(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Stop() }() // fails only on a closed connection
	// One inbox for all subjects preserves their order: an exit is processed before the nudge
	// that follows it.
	cluster := p.cfg.Cluster
	in, err := bus.Receive(p.nc, bus.InboxConfig{
		Events: []string{
			message.NodeSubject(cluster, "*"), message.HeartbeatSubject(cluster, "*"), message.ExitedSubject(cluster, "*"),
			message.SubjectStart, message.SubjectStop, message.RequestsSubject(p.cfg.Partition),
		},
		Requests: []string{pendingSubject(cluster, p.cfg.Pool)}, Messages: inbox, Log: p.log,
	})
	if err != nil {
		return fmt.Errorf("placer of pool %s: %w", p.cfg.Pool, err)
	}
	defer in.Close()
	if err := p.nc.Publish(message.AnnounceSubject(cluster), nil); err != nil {
		return fmt.Errorf("request facts from the nodes: %w", err)
	}
	if p.sink != nil {
		p.wg.Go(func() { p.report(ctx) })
	}
	return p.serve(ctx, in.Messages(), rows.Updates())
}

func (p *Placer) watchApps(ctx context.Context) (jetstream.KeyWatcher, error) {
	name := message.AppsBucket(p.cfg.Cluster)
	js, err := bus.JetStream(p.nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	opening, cancel := context.WithTimeout(ctx, 2*call.Timeout)
	defer cancel()
	if _, err := kvbucket.Ensure(opening, js, kvbucket.Apps(p.cfg.Cluster, 1)); err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(opening, name)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	rows, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", name, err)
	}
	return rows, nil
}

func (p *Placer) serve(ctx context.Context, msgs <-chan *nats.Msg, rows <-chan jetstream.KeyValueEntry) error {
	tick := time.NewTicker(p.cfg.Heartbeat)
	defer tick.Stop()
	var soon <-chan time.Time
	for {
		changed := true
		select {
		case <-ctx.Done():
			return nil
		case m := <-msgs:
			changed = p.handle(time.Now(), m)
		case e, ok := <-rows:
			if !ok {
				return fmt.Errorf("watch bucket %s: %w", message.AppsBucket(p.cfg.Cluster), nats.ErrConnectionClosed)
			}
			p.row(e)
		case a := <-p.answers:
			p.core.started(time.Now(), a.instance, a.result)
		case now := <-tick.C:
			p.offer(p.core.pending().samples(now, p.cfg.Cluster, p.cfg.Pool))
		case <-soon:
			soon, changed = nil, false
			p.do(ctx, p.core.act(time.Now()))
		}
		if changed && soon == nil {
			soon = time.After(settle)
		}
	}
}

// handle processes one message, and reports whether it may have changed the state.
func (p *Placer) handle(now time.Time, m *nats.Msg) bool {
	var err error
	node, subject := message.OfNode(m.Subject)
	switch subject {
	case message.SubjectHeartbeat:
		err = p.heartbeat(now, node, m.Data)
	case message.SubjectExited:
		err = p.exited(node, m.Data)
	case message.SubjectStart, message.SubjectStop, message.RequestsSubject(p.cfg.Partition):
		err = p.nudge(now, m)
	case pendingSubject(p.cfg.Cluster, p.cfg.Pool):
		if err := call.Respond(m, p.nc.MaxPayload(), p.core.pending(), nil); err != nil {
			p.log.Warn("response not sent", "err", err)
		}
		return false
	default:
		err = p.facts(now, m)
	}
	if err != nil {
		p.bad(m.Subject, err)
	}
	return err == nil
}

// heartbeat processes a heartbeat from the subject of a node.
func (p *Placer) heartbeat(now time.Time, node string, data []byte) error {
	h, err := message.DecodeHeartbeat(data)
	if err != nil {
		return err
	}
	if h.Node != node {
		return fmt.Errorf("subject of node %.130q: the heartbeat is of node %.130q", node, h.Node)
	}
	p.core.heartbeat(now, h)
	return nil
}

// exited processes an end from the subject of a node. A node reports only the ends of its own copies.
func (p *Placer) exited(node string, data []byte) error {
	e, err := message.DecodeExited(data)
	if err != nil {
		return err
	}
	if other := p.core.nodeOf(e.Instance); other != "" && other != node {
		return fmt.Errorf("subject of node %.130q: app instance %.130q runs on node %.130q", node, e.Instance, other)
	}
	p.core.exited(e)
	return nil
}

func (p *Placer) nudge(now time.Time, m *nats.Msg) error {
	start, stop, err := message.DecodeNudge(m.Subject, m.Data)
	switch {
	case err != nil:
		return err
	case start != nil:
		p.core.start(now, *start)
	case stop != nil:
		p.refuse(p.core.stop(now, *stop))
	}
	return nil
}

// refuse counts rejected stops, and logs at most one a minute.
func (p *Placer) refuse(stops []refusal) {
	p.refused += uint64(len(stops))
	for _, r := range stops {
		p.rejectLog.Do(func() {
			p.log.Warn("stop of an app instance rejected", "app", r.app, "version", r.version, "index", r.index,
				"instance", r.instance, "why", r.why, "refused", p.refused)
		})
	}
}

// bad counts an unusable message, and logs at most one a minute.
func (p *Placer) bad(subject string, err error) {
	p.dropped++
	p.dropLog.Do(func() { p.log.Warn("message dropped", "subject", subject, "dropped", p.dropped, "err", err) })
}

func (p *Placer) facts(now time.Time, m *nats.Msg) error {
	f, err := agent.DecodeFacts(m.Data)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(m.Subject, "."+f.ID) {
		return fmt.Errorf("subject is not that of node %s", f.ID)
	}
	p.core.nodeFacts(now, f)
	return nil
}

func (p *Placer) row(e jetstream.KeyValueEntry) {
	switch {
	case e == nil: // all rows that existed at the start have arrived
		p.core.loaded()
	case e.Operation() != jetstream.KeyValuePut:
		p.core.appGone(e.Key())
	default:
		a, err := decodeApp(e.Key(), e.Value())
		if err != nil { // the last valid row remains
			p.log.Warn("row dropped", "err", err)
			return
		}
		p.core.app(a)
	}
}

func (p *Placer) do(ctx context.Context, actions []action) {
	for _, a := range actions {
		p.wg.Go(func() {
			select {
			case p.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-p.slots }()
			if a.stop {
				p.stop(ctx, a)
			} else {
				p.start(ctx, a)
			}
		})
	}
}

func (p *Placer) start(ctx context.Context, a action) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
	defer cancel()
	err := p.agents.Start(limited, a.node, agent.StartRequest{
		App: a.app, Version: a.version, Index: a.index, Instance: a.instance,
		Command: a.command, Footprint: a.footprint,
	})
	log := p.log.With("app", a.app, "index", a.index, "instance", a.instance, "node", a.node)
	if err != nil {
		log.Warn("app instance not placed", "err", err)
	} else {
		log.Info("app instance placed")
	}
	select {
	case p.answers <- answer{a.instance, resultOf(err)}:
	case <-ctx.Done():
	}
}

func resultOf(err error) result {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, agent.ErrNoRoom), errors.Is(err, agent.ErrCordoned), errors.Is(err, agent.ErrFenced),
		errors.Is(err, agent.ErrNoAgent):
		return full
	case errors.Is(err, agent.ErrInvalid), errors.Is(err, agent.ErrLaunch):
		return rejected
	}
	return unknown
}

func (p *Placer) stop(ctx context.Context, a action) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
	defer cancel()
	err := p.agents.Stop(limited, a.node, a.instance)
	log := p.log.With("app", a.app, "index", a.index, "instance", a.instance, "node", a.node)
	switch {
	case errors.Is(err, agent.ErrUnknownInstance):
		log.Debug("app instance to stop has already ended")
	case err != nil: // a nudge or the drain repeats it
		log.Warn("app instance not stopped", "err", err)
	default:
		log.Info("app instance stopping")
	}
}

// offer sends samples to the reporter, and replaces samples that it has not received.
func (p *Placer) offer(samples []metrics.Sample) {
	if p.sink == nil {
		return
	}
	select {
	case <-p.samples:
	default:
	}
	p.samples <- samples
}

// report writes samples in a separate goroutine, so that a slow store does not block placing.
func (p *Placer) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case samples := <-p.samples:
			limited, cancel := context.WithTimeout(ctx, sinkLimit)
			if err := p.sink.Write(limited, samples); err != nil {
				p.log.Warn("metrics of pending app instances not written", "err", err)
			}
			cancel()
		}
	}
}
