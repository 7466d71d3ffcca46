package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

const (
	inbox = 1024 // requests that may wait
	// leaveTime is what an agent needs beside the grace of its app instances.
	leaveTime = 3 * time.Second
)

// Provider owns the machines of some groups.
type Provider struct {
	cfg      Config
	nc       *nats.Conn
	launcher *supervise.Launcher
	log      *slog.Logger

	groups   map[string]*machines
	children map[string]*supervise.Child // by machine
	gone     chan end
	wg       sync.WaitGroup
}

// end tells the loop that a machine has ended.
type end struct{ group, id string }

// NewProvider returns the owner of cfg's groups, with the targets that an
// earlier owner left. The launcher must run for as long as Run does.
func NewProvider(cfg Config, nc *nats.Conn, launcher *supervise.Launcher, log *slog.Logger) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("local provider: %w", err)
	}
	k, err := load(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		cfg: cfg, nc: nc, launcher: launcher, log: log.With("pool", cfg.Pool),
		groups: map[string]*machines{}, children: map[string]*supervise.Child{}, gone: make(chan end),
	}
	for _, g := range cfg.Groups {
		p.groups[g.ID] = newMachines(g.withDefaults(), k.Groups[g.ID])
	}
	return p, nil
}

// Run keeps the machines until ctx ends; then it stops them all and returns
// nil. The targets stay. It returns an error if the state cannot be kept or the
// connection closes, and leaves no machine then either.
func (p *Provider) Run(ctx context.Context) error {
	defer p.leave()
	// Whatever is in there belonged to machines of an earlier owner.
	if err := os.RemoveAll(p.folder("")); err != nil {
		return fmt.Errorf("clear the machines' folders: %w", err)
	}
	if err := os.MkdirAll(p.folder(""), 0o700); err != nil {
		return fmt.Errorf("make the machines' folders: %w", err)
	}
	if err := p.save(); err != nil {
		return err
	}
	closed := p.nc.StatusChanged(nats.CLOSED)
	defer p.nc.RemoveStatusListener(closed)
	msgs := make(chan *nats.Msg, inbox)
	sub, err := p.nc.ChanSubscribe(subject(p.cfg.Cluster, p.cfg.Pool, "*"), msgs)
	if err != nil {
		return fmt.Errorf("listen to requests: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a connection that is gone
	for {
		again := p.reconcile(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("local provider of pool %s: %w", p.cfg.Pool, nats.ErrConnectionClosed)
		case m := <-msgs:
			p.handle(m)
		case e := <-p.gone:
			p.ended(time.Now(), e)
		case <-again:
		}
	}
}

// reconcile launches what is missing. The channel, nil if nothing is, says when
// to come back.
func (p *Provider) reconcile(ctx context.Context, now time.Time) <-chan time.Time {
	var again time.Duration
	for _, g := range p.cfg.Groups {
		m := p.groups[g.ID]
		n, wait := m.missing(now)
		if n > 0 {
			p.launch(ctx, now, m, n)
			_, wait = m.missing(now)
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	if again == 0 {
		return nil
	}
	return time.After(again)
}

// launch starts n machines. Their ids are kept before anything runs under
// them.
func (p *Provider) launch(ctx context.Context, now time.Time, m *machines, n int) {
	var ids []string
	for range n {
		id := newID()
		ids = append(ids, id)
		m.launched(now, id)
	}
	err := p.save()
	for _, id := range ids {
		if err == nil {
			err = p.start(ctx, m, id)
		}
		if err != nil {
			p.log.Error("machine not started", "group", m.cfg.ID, "node", id, "err", err)
			m.ended(now, id)
		}
	}
}

func (p *Provider) start(ctx context.Context, m *machines, id string) error {
	cfg := agent.Config{
		Cluster: p.cfg.Cluster, Pool: p.cfg.Pool, Group: m.cfg.ID, ID: id, Resources: m.cfg.Resources,
		Heartbeat: p.cfg.Heartbeat, StopGrace: p.cfg.StopGrace, DataDir: p.folder(id),
	}.WithDefaults()
	child, err := p.launcher.Start(ctx, supervise.Spec{
		Name: "agent " + id, Argv: slices.Concat(p.cfg.Argv, cfg.Args()), Env: p.cfg.Env,
		StopGrace: cfg.StopGrace + leaveTime,
		Lines:     supervise.LogLines(p.log.With("node", id)),
	})
	if err != nil {
		return err
	}
	p.children[id] = child
	p.log.Info("machine started", "group", m.cfg.ID, "node", id, "pid", child.PID())
	p.wg.Go(func() {
		<-child.Done()
		if err := os.RemoveAll(cfg.DataDir); err != nil {
			p.log.Warn("folder of machine not removed", "node", id, "err", err)
		}
		p.gone <- end{m.cfg.ID, id}
	})
	return nil
}

func (p *Provider) ended(now time.Time, e end) {
	m, child := p.groups[e.group], p.children[e.id]
	exit, _ := child.Exit()
	delete(p.children, e.id)
	asked := m.live[e.id] == nil || m.live[e.id].State == pools.InstanceTerminating
	m.ended(now, e.id)
	p.log.Info("machine ended", "group", e.group, "node", e.id, "asked", asked, "exit", exit.String())
}

// handle answers one request.
func (p *Provider) handle(msg *nats.Msg) {
	body, err := p.answer(msg)
	if err != nil {
		p.log.Warn("request refused", "subject", msg.Subject, "err", err)
		err = refusalOf(err)
	}
	if err := call.Answer(msg, p.nc.MaxPayload(), body, err); err != nil {
		p.log.Warn("answer not sent", "err", err)
	}
}

func (p *Provider) answer(msg *nats.Msg) (any, error) {
	switch op := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]; op {
	case opSnapshot:
		var r groupRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return m.snapshot(), nil
	case opSetTarget:
		var r targetRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return nil, p.setTarget(m, r.Target)
	case opTerminate:
		var r terminateRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return nil, p.terminate(m, r.IDs)
	default:
		return nil, call.Invalid("a local provider does not know %q", op)
	}
}

// request decodes a request, and returns the group that it names.
func (p *Provider) request(msg *nats.Msg, into any, group *string) (*machines, error) {
	if err := call.Decode(msg.Data, maxRequest, into); err != nil {
		return nil, err
	}
	if m := p.groups[*group]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownGroup, *group)
}

func (p *Provider) setTarget(m *machines, target int) error {
	if err := m.checkTarget(target); err != nil {
		return err
	}
	before := m.target
	m.target = target
	if err := p.save(); err != nil {
		m.target = before
		return err
	}
	p.log.Info("target set", "group", m.cfg.ID, "before", before, "after", target)
	return nil
}

func (p *Provider) terminate(m *machines, ids []string) error {
	victims, target, err := m.victims(ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := p.setTarget(m, target); err != nil {
		return err
	}
	for _, id := range victims {
		m.live[id].State = pools.InstanceTerminating
		p.stop(id)
	}
	return nil
}

// stop ends a machine; gone tells when it is.
func (p *Provider) stop(id string) {
	child := p.children[id]
	p.wg.Go(func() {
		if err := child.Stop(context.Background()); err != nil {
			p.log.Error("machine not stopped", "node", id, "err", err)
		}
	})
}

// leave stops all machines at the same time, and returns when they are gone.
func (p *Provider) leave() {
	for _, m := range p.groups {
		for _, id := range m.ids() {
			m.live[id].State = pools.InstanceTerminating
			p.stop(id)
		}
	}
	for len(p.children) > 0 {
		p.ended(time.Now(), <-p.gone)
	}
	p.wg.Wait()
}

func (p *Provider) save() error {
	k := kept{Groups: map[string]keptGroup{}}
	for id, m := range p.groups {
		k.Groups[id] = keptGroup{Target: new(m.target), Known: m.known}
	}
	return save(p.cfg.DataDir, k)
}

// folder is where a machine keeps its things; without an id, that of all.
func (p *Provider) folder(id string) string { return filepath.Join(p.cfg.DataDir, "machines", id) }

// newID returns a machine's id: 48 bits of chance.
func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return "i-" + hex.EncodeToString(b[:])
}
