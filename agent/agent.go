package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/readiness"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
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
	records  recorder
	starter  starter
	log      *slog.Logger

	machine   *machine
	epochs    epochs
	checker   *checker
	contact   *contact // nil: the node never fences itself
	claims    *claims
	artifacts *artifacts
	ready     readyChecks
	disk      *diskLimits
	procs     map[string]*process // by instance
	finished  finished
	unclean   int // ended copies with processes that may still run
	reported  chan event
	alive     chan struct{} // the loop responds to Alive
	reading   chan struct{} // one for each answer that reads output
	released  chan struct{} // closed when the copies outlive this agent
	wg        sync.WaitGroup
	dirty     bool // something changed since the last publication
}

// event is what a copy's watcher reports to the loop.
type event struct {
	instance string
	end      *outcome // the copy ended
	fetched  *fetched // its release is here, or not
	ready    *readiness.Change
	overuse  string // it has to end: how it fills the disk
	// With none of them, the copy is up.
}

// New returns the machine of cfg. The launcher must run for as long as Run does.
func New(cfg Config, nc *nats.Conn, launcher *supervise.Launcher, log *slog.Logger) (*Agent, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	boot := rand.Text() // without Keep, each agent is a new boot of its machine
	if cfg.Keep {
		var err error
		if boot, err = supervise.BootID(); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	log = log.With("node", cfg.ID)
	a := &Agent{
		cfg: cfg, nc: nc, launcher: launcher, log: log,
		records: recorder{records{filepath.Join(cfg.DataDir, stateFolder), cfg.ID, log}, cfg.Keep},
		machine: newMachine(cfg, boot), checker: newChecker(cfg), procs: map[string]*process{}, reported: make(chan event), claims: newClaims(cfg, rand.Text(), nc, log),
		artifacts: newArtifacts(cfg.Releases), disk: newDiskLimits(cfg.DataDir, log),
		alive: make(chan struct{}), reading: make(chan struct{}, parallelLogs), released: make(chan struct{}),
	}
	a.starter = starter{cfg, launcher, a.records, log}
	a.ready = readyChecks{cfg, launcher, a.released, a.report, &a.wg}
	return a, nil
}

// Run serves until ctx ends. If another agent of the node runs, it returns ErrRival and does nothing. If the
// credentials are those of another node, the error is nats.ErrPermissionViolation. At its end it stops all copies, publishes their ends as
// api.ExitShutdown (api.ExitEvacuation if cordoned), and returns nil within StopGrace
// and a few seconds. If the connection closes for good, it also stops the copies, and returns an
// error. With Config.Keep the copies run on in both cases.
func (a *Agent) Run(ctx context.Context) error {
	unlock, err := a.records.lock()
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.ID, err)
	}
	defer unlock()
	own, err := a.claims.first(ctx, time.Now())
	if err != nil {
		return err
	}
	if err := a.adopt(ctx, time.Now()); err != nil {
		return errors.Join(fmt.Errorf("agent %s: adopt app instances: %w", a.cfg.ID, err), a.leave())
	}
	closed := a.nc.StatusChanged(nats.CLOSED)
	defer a.nc.RemoveStatusListener(closed)
	connected := a.nc.StatusChanged(nats.CONNECTED)
	defer a.nc.RemoveStatusListener(connected)
	checking, end := context.WithCancel(ctx)
	var checks sync.WaitGroup // waited for last, because a disk may hang
	defer checks.Wait()
	defer end()
	var requests []string // one each: permissions name the operations
	for _, op := range []string{wire.OpStart, wire.OpStop, wire.OpCordon, wire.OpFence, wire.OpLogs, wire.OpClaim} {
		requests = append(requests, wire.Subject(a.cfg.Cluster, a.cfg.Pool, a.cfg.ID, op))
	}
	in, err := bus.Receive(a.nc, bus.InboxConfig{
		Events: []string{message.AnnounceSubject(a.cfg.Cluster)}, Requests: requests, Messages: inbox, Log: a.log,
	})
	if err == nil {
		checks.Go(func() { a.checker.run(checking) })
		checks.Go(func() { trimOutputs(checking, a.cfg.DataDir, a.log) })
		checks.Go(func() { a.disk.run(checking, a.reported) })
		checks.Go(func() { a.claims.repeatClaim(checking, own) })
		if a.cfg.SelfFenceAfter > 0 {
			a.contact = newContact(time.Now(), a.cfg.SelfFenceAfter)
			checks.Go(func() { a.probeBus(checking) })
		}
		err = a.serve(ctx, in.Messages(), connected, closed)
		in.Close()
	}
	return errors.Join(err, a.leave())
}

// Alive returns nil when the loop of Run responds. It waits at most until ctx ends.
func (a *Agent) Alive(ctx context.Context) error {
	select {
	case <-a.alive:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the loop of agent %s: %w", a.cfg.ID, ctx.Err())
	}
}

func (a *Agent) serve(ctx context.Context, msgs <-chan *nats.Msg, connected, closed <-chan nats.Status) error {
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
			if why := a.nc.LastError(); why != nil {
				return fmt.Errorf("agent %s: %w: %w", a.cfg.ID, nats.ErrConnectionClosed, why)
			}
			return fmt.Errorf("agent %s: %w", a.cfg.ID, nats.ErrConnectionClosed)
		case <-connected: // again: others have received nothing of this node since the loss of its server
			a.publish(time.Now())
		case m := <-msgs:
			if err := a.handle(ctx, time.Now(), m); err != nil {
				return err
			}
		case e := <-a.reported:
			a.event(ctx, time.Now(), e, false)
		case reply := <-a.claims.answers:
			if err := a.claims.claimed(time.Now(), reply); err != nil {
				return err
			}
		case a.alive <- struct{}{}:
		case <-beat.C:
			a.publish(time.Now())
			a.repeatEnds(time.Now())
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

// handle processes one message. After an error the agent ends.
func (a *Agent) handle(ctx context.Context, now time.Time, m *nats.Msg) error {
	if m.Subject == message.AnnounceSubject(a.cfg.Cluster) {
		if len(m.Data) == 0 { // a response of the server has content
			a.epochs.announced(now, m.Header, a.cfg.Pool)
			a.publish(now)
		}
		return nil
	}
	if strings.HasSuffix(m.Subject, "."+wire.OpClaim) {
		return a.claims.answer(now, m)
	}
	if strings.HasSuffix(m.Subject, "."+wire.OpLogs) {
		if err := a.answerLogs(m); err != nil {
			a.respond(m, nil, err)
		}
		return nil
	}
	body, err := a.answer(ctx, now, m)
	a.respond(m, body, err)
	return nil
}

func (a *Agent) respond(m *nats.Msg, body any, err error) {
	if err != nil {
		a.log.Debug("request rejected", "subject", m.Subject, "err", err)
	}
	if err := call.Respond(m, a.nc.MaxPayload(), body, err); err != nil {
		a.log.Warn("response not sent", "err", err)
	}
}

func (a *Agent) answer(ctx context.Context, now time.Time, m *nats.Msg) (any, error) {
	switch op := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; op {
	case wire.OpStart:
		var r wire.StartRequest
		if err := cmp.Or(a.epochs.check(now, m.Header), call.Decode(m.Data, wire.MaxRequest, &r)); err != nil {
			return nil, err
		}
		return nil, a.start(ctx, now, r)
	case wire.OpStop:
		var r wire.StopRequest
		if err := cmp.Or(a.epochs.check(now, m.Header), call.Decode(m.Data, wire.MaxRequest, &r)); err != nil {
			return nil, err
		}
		return nil, a.stop(r.Instance)
	case wire.OpCordon:
		var r wire.CordonRequest
		if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
			return nil, err
		}
		at, err := sequence(m.Header)
		if err != nil {
			return nil, err
		}
		changed, err := a.machine.cordon(now, r.On, at)
		if changed {
			a.dirty = true
			a.records.updateNode(a.machine)
		}
		return nil, err
	case wire.OpFence:
		var r wire.FenceRequest
		if err := call.Decode(m.Data, wire.MaxRequest, &r); err != nil {
			return nil, err
		}
		return a.fence(r.On), nil
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
	a.followLimit()
	beat, omitted := a.machine.heartbeatWithin()
	facts := a.machine.facts(now, append(a.checker.conditions(now), listedAll(omitted, a.machine.largest)...))
	facts.Rival = a.claims.other(now)
	a.send(message.FactsSubject(a.cfg.Cluster, a.cfg.node()), facts)
	a.send(message.HeartbeatSubject(a.cfg.Cluster, a.cfg.node()), json.RawMessage(beat))
}

// repeatEnds publishes the ends of work again.
func (a *Agent) repeatEnds(now time.Time) {
	if a.machine.selfFenced {
		return
	}
	for _, e := range a.finished.due(now) {
		a.send(message.ExitedSubject(a.cfg.Cluster, a.cfg.node()), e.Exited)
	}
}

// followLimit sets the size of a heartbeat to what the connected server accepts.
func (a *Agent) followLimit() {
	if most := a.nc.MaxPayload(); most > 0 {
		a.machine.largest = int(min(most, message.MaxNodeMessage))
	}
}

// listedAll returns the condition of a node whose heartbeat omits copies.
func listedAll(omitted, largest int) []api.NodeCondition {
	if omitted == 0 {
		return nil
	}
	return []api.NodeCondition{{Type: conditionListed, Unknown: true,
		Why: fmt.Sprintf("%d app instances are not listed: the heartbeat is larger than %d bytes; raise max_payload of the NATS servers, or move instances to other nodes", omitted, largest)}}
}

func (a *Agent) send(subject string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		err = bus.Publish(a.nc, subject, data)
	}
	if err != nil {
		a.log.Warn("message not published", "subject", subject, "err", err)
	}
}

// leave stops all copies at the same time, and publishes their ends. With Config.Keep it leaves them running.
func (a *Agent) leave() error {
	if a.cfg.Keep {
		close(a.released)
		for instance := range a.artifacts.pending {
			a.artifacts.cancel(instance) // the next agent fetches again
		}
		a.wg.Wait()
		a.log.Info("agent ended: app instances run on", "instances", len(a.procs))
		return nil
	}
	for _, c := range a.machine.copies {
		a.end(c)
	}
	for len(a.procs)+len(a.artifacts.pending) > 0 {
		a.event(context.Background(), time.Now(), <-a.reported, true) // ends only: nothing starts
	}
	a.wg.Wait()
	if a.nc.IsClosed() {
		return nil
	}
	a.send(message.HeartbeatSubject(a.cfg.Cluster, a.cfg.node()), a.machine.heartbeat())
	if err := a.nc.FlushTimeout(flushTime); err != nil {
		return fmt.Errorf("flush the last messages of node %s: %w", a.cfg.ID, err)
	}
	return nil
}
