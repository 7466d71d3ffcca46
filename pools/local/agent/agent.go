package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

const (
	upAfter   = 100 * time.Millisecond // how long a copy runs before it counts as running
	settle    = 10 * time.Millisecond  // changes within it are published together
	flushTime = time.Second            // for the last messages
	inbox     = 4096                   // waiting messages
)

// Agent is one machine.
type Agent struct {
	cfg      Config
	nc       *nats.Conn
	launcher *supervise.Launcher
	log      *slog.Logger

	machine  *machine
	checker  *checker
	contact  *contact            // nil: the node never fences itself
	procs    map[string]*process // by instance
	unclean  int                 // ended copies of which some processes may still run
	reported chan event
	wg       sync.WaitGroup
	dirty    bool // something changed since the last publication
}

// event is what a copy's watcher reports to the loop.
type event struct {
	instance string
	end      *outcome // nil: the copy is up
}

// New returns the machine of cfg. The launcher must run for as long as Run does.
func New(cfg Config, nc *nats.Conn, launcher *supervise.Launcher, log *slog.Logger) (*Agent, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return &Agent{
		cfg: cfg, nc: nc, launcher: launcher, log: log.With("node", cfg.ID),
		machine: newMachine(cfg, rand.Text()), checker: newChecker(cfg), procs: map[string]*process{}, reported: make(chan event),
	}, nil
}

// Run serves until ctx ends. Then it stops all copies, publishes their ends as
// message.ReasonShutdown (message.ReasonEvacuation if cordoned), and returns nil within StopGrace
// and a few seconds. If the connection closes for good, it also stops the copies, and returns an
// error.
func (a *Agent) Run(ctx context.Context) error {
	closed := a.nc.StatusChanged(nats.CLOSED)
	defer a.nc.RemoveStatusListener(closed)
	checking, end := context.WithCancel(ctx)
	var checks sync.WaitGroup // waited for last, because a disk may hang
	defer checks.Wait()
	defer end()
	in, err := bus.Receive(a.nc, bus.InboxConfig{
		Events: []string{message.AnnounceSubject(a.cfg.Cluster)}, Requests: []string{subject(a.cfg.Cluster, a.cfg.Pool, a.cfg.ID, "*")},
		Messages: inbox, Log: a.log,
	})
	if err == nil {
		checks.Go(func() { a.checker.run(checking) })
		if a.cfg.SelfFenceAfter > 0 {
			a.contact = newContact(time.Now(), a.cfg.SelfFenceAfter)
			checks.Go(func() { a.probeBus(checking) })
		}
		err = a.serve(ctx, in.Messages(), closed)
		in.Close()
	}
	return errors.Join(err, a.leave())
}

func (a *Agent) serve(ctx context.Context, msgs <-chan *nats.Msg, closed <-chan nats.Status) error {
	beat := time.NewTicker(a.cfg.Heartbeat)
	defer beat.Stop()
	a.publish(time.Now())
	var soon, lost, answers <-chan time.Time
	if a.contact != nil {
		lost, answers = a.contact.lost.C, a.contact.answers
		defer a.contact.lost.Stop()
	}
	for {
		if a.dirty && soon == nil {
			soon = time.After(settle)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("agent %s: %w", a.cfg.ID, nats.ErrConnectionClosed)
		case m := <-msgs:
			a.handle(ctx, time.Now(), m)
		case e := <-a.reported:
			a.event(time.Now(), e, false)
		case <-beat.C:
			a.publish(time.Now())
		case asked := <-answers:
			a.answered(time.Now(), asked)
		case <-lost:
			a.fenceSelf()
		case <-soon:
			soon = nil
			if a.dirty {
				a.publish(time.Now())
			}
		}
	}
}

// handle processes one message.
func (a *Agent) handle(ctx context.Context, now time.Time, m *nats.Msg) {
	if m.Subject == message.AnnounceSubject(a.cfg.Cluster) {
		if len(m.Data) == 0 { // a response of the server has content
			a.publish(now)
		}
		return
	}
	body, err := a.answer(ctx, now, m)
	if err != nil {
		a.log.Debug("request rejected", "subject", m.Subject, "err", err)
	}
	if err := call.Respond(m, a.nc.MaxPayload(), body, err); err != nil {
		a.log.Warn("response not sent", "err", err)
	}
}

func (a *Agent) answer(ctx context.Context, now time.Time, m *nats.Msg) (any, error) {
	switch op := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; op {
	case opStart:
		var r StartRequest
		if err := call.Decode(m.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return nil, a.start(ctx, now, r)
	case opStop:
		var r StopRequest
		if err := call.Decode(m.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return nil, a.stop(r.Instance)
	case opCordon:
		var r CordonRequest
		if err := call.Decode(m.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		a.dirty = a.dirty || a.machine.cordoned != r.On
		a.machine.cordoned = r.On
		return nil, nil
	case opFence:
		var r FenceRequest
		if err := call.Decode(m.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return a.fence(r.On), nil
	case opLogs:
		var r LogsRequest
		if err := call.Decode(m.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return a.machine.logs(r)
	default:
		return nil, call.Invalid("unknown operation %q of an agent", op)
	}
}

// publish publishes the facts of the node, and then its heartbeat. Without contact with the bus it
// publishes nothing.
func (a *Agent) publish(now time.Time) {
	a.dirty = false
	if a.machine.selfFenced {
		return
	}
	a.send(message.NodeSubject(a.cfg.Cluster, a.cfg.ID), a.machine.facts(now, a.checker.conditions(now)))
	a.send(message.HeartbeatSubject(a.cfg.Cluster, a.cfg.ID), a.machine.heartbeat())
}

func (a *Agent) send(subject string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = a.nc.Publish(subject, data)
	}
	if err != nil {
		a.log.Warn("message not published", "subject", subject, "err", err)
	}
}

// leave stops all copies at the same time, and publishes their ends.
func (a *Agent) leave() error {
	for _, p := range a.procs {
		a.wg.Go(p.stop)
	}
	for len(a.procs) > 0 {
		a.event(time.Now(), <-a.reported, true)
	}
	a.wg.Wait()
	if a.nc.IsClosed() {
		return nil
	}
	a.send(message.HeartbeatSubject(a.cfg.Cluster, a.cfg.ID), a.machine.heartbeat())
	if err := a.nc.FlushTimeout(flushTime); err != nil {
		return fmt.Errorf("flush the last messages of node %s: %w", a.cfg.ID, err)
	}
	return nil
}
