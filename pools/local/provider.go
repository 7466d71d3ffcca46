package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

const (
	inbox = 1024 // waiting requests
	// leaveTime is what an agent needs in addition to the grace of its app instances.
	leaveTime = 3 * time.Second
	tailLines = 500 // of an agent's log
)

// Provider owns the machines of some groups.
type Provider struct {
	cfg      Config
	nc       *nats.Conn
	launcher *supervise.Launcher
	log      *slog.Logger

	groups      map[string]*machines
	keepStopped bool                        // another party repairs: machines that die are not replaced
	children    map[string]*supervise.Child // by machine
	tails       map[string]*output.Tail     // of the agents' logs, by machine
	gone        chan end
	leaving     bool // the owner stops all machines
	wg          sync.WaitGroup
}

// end reports to the loop that a machine's process has ended. left is not nil if some of its
// processes may still run.
type end struct {
	group, id string
	left      error
}

// NewProvider returns the owner of cfg's groups, with the stored targets. The launcher must run for
// as long as Run does.
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
		groups: map[string]*machines{}, keepStopped: k.RepairReleased,
		children: map[string]*supervise.Child{}, tails: map[string]*output.Tail{}, gone: make(chan end),
	}
	for _, g := range cfg.Groups {
		p.groups[g.ID] = newMachines(g.withDefaults(), k.Groups[g.ID], p.keepStopped)
	}
	return p, nil
}

// Run runs the machines until ctx ends. Then it stops all of them and returns nil. The stored
// targets remain. It returns an error if the state cannot be saved or the connection closes. In
// each case no process is left.
func (p *Provider) Run(ctx context.Context) error {
	defer p.leave()
	if err := p.clearFolders(); err != nil {
		return err
	}
	if err := p.save(); err != nil {
		return err
	}
	p.resume(ctx, time.Now())
	closed := p.nc.StatusChanged(nats.CLOSED)
	defer p.nc.RemoveStatusListener(closed)
	in, err := bus.Receive(p.nc, bus.InboxConfig{Requests: []string{subject(p.cfg.Cluster, p.cfg.Pool, "*")}, Messages: inbox, Log: p.log})
	if err != nil {
		return fmt.Errorf("receive requests for pool %s: %w", p.cfg.Pool, err)
	}
	defer in.Close()
	for {
		again := p.reconcile(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("local provider of pool %s: %w", p.cfg.Pool, nats.ErrConnectionClosed)
		case m := <-in.Messages():
			p.handle(ctx, m)
		case e := <-p.gone:
			p.ended(ctx, time.Now(), e)
		case <-again:
		}
	}
}

// reconcile launches missing machines. The returned channel fires when the next check is due. It is
// nil if no machine is missing.
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

// launch starts n machines. It saves their ids before it starts their processes.
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
			m.lost(now, m.live[id])
		}
	}
}

func (p *Provider) start(ctx context.Context, m *machines, id string) error {
	cfg := agent.Config{
		Cluster: p.cfg.Cluster, Pool: p.cfg.Pool, Group: m.cfg.ID, ID: id, Resources: m.cfg.Resources,
		Heartbeat: p.cfg.Heartbeat, StopGrace: p.cfg.StopGrace, DataDir: p.folder(id),
		SelfFenceAfter: p.cfg.SelfFenceAfter, Fenced: m.live[id].fenced,
	}.WithDefaults()
	if p.tails[id] == nil { // a restarted machine appends to its log
		p.tails[id] = output.NewTail(tailLines, provider.MaxConsole/2)
	}
	child, err := p.launcher.Start(ctx, supervise.Spec{
		Name: "agent " + id, Title: "weir: agent " + id, Argv: slices.Concat(p.cfg.Argv, cfg.Args()), Env: p.cfg.Env,
		StopGrace: cfg.StopGrace + leaveTime,
		Lines:     output.LogLines(p.log.With("node", id)), Tail: p.tails[id],
	})
	if err != nil {
		return err
	}
	p.children[id] = child
	p.log.Info("machine started", "group", m.cfg.ID, "node", id, "pid", child.PID())
	p.wg.Go(func() {
		<-child.Done()
		if err := clearCopies(cfg.DataDir); err != nil {
			p.log.Warn("folders of app instances not removed", "node", id, "err", err)
		}
		p.gone <- end{m.cfg.ID, id, child.Stop(context.Background())} // the process has ended: Stop returns the rest of it
	})
	return nil
}

// console returns the last lines of a machine's agent log.
func (p *Provider) console(id string) ([]byte, error) {
	tail := p.tails[id]
	if tail == nil {
		return nil, fmt.Errorf("%w: no log of %q", pools.ErrNotOwned, id)
	}
	lines, _ := tail.Since(0)
	var text []byte
	for _, l := range lines {
		text = fmt.Appendf(text, "%s %s\n", l.Time.UTC().Format(time.RFC3339), l.Text)
	}
	return text[max(0, len(text)-provider.MaxConsole):], nil
}

func (p *Provider) ended(ctx context.Context, now time.Time, e end) {
	m, child := p.groups[e.group], p.children[e.id]
	exit, _ := child.Exit()
	delete(p.children, e.id)
	i := m.live[e.id]
	p.log.Info("machine ended", "group", e.group, "node", e.id, "exit", exit.String(),
		"asked", p.leaving || i == nil || i.State == api.InstanceTerminating || i.power != running)
	if p.leaving {
		return
	}
	switch m.ended(now, e.id, exit.String(), e.left, p.keepStopped) {
	case gone:
		p.discard(e.id)
	case stays:
		p.saveOrLog()
	case again:
		p.restart(ctx, now, m, i)
	}
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
	before := m.target
	mark := func(target int, state api.InstanceState) {
		m.target = target
		for _, id := range victims {
			m.live[id].State = state
		}
	}
	mark(target, api.InstanceTerminating)
	if err := p.save(); err != nil {
		mark(before, api.InstanceRunning)
		return err
	}
	p.log.Info("target set", "group", m.cfg.ID, "before", before, "after", target)
	for _, id := range victims {
		p.end(m, id)
	}
	return nil
}

// end terminates a machine that is marked as terminating.
func (p *Provider) end(m *machines, id string) {
	if p.children[id] != nil {
		p.stop(context.Background(), id)
		return
	}
	m.lost(time.Now(), m.live[id])
	p.discard(id)
}

// stop stops a machine's process, at once if ctx has ended. The channel gone receives its end.
func (p *Provider) stop(ctx context.Context, id string) {
	child := p.children[id]
	p.wg.Go(func() {
		if err := child.Stop(ctx); err != nil {
			p.log.Error("machine not stopped", "node", id, "err", err)
		}
	})
}

// leave stops all machines at the same time and waits for them. It removes the folders of machines
// that no later owner starts again.
func (p *Provider) leave() {
	p.leaving = true
	for id := range p.children {
		p.stop(context.Background(), id)
	}
	for len(p.children) > 0 {
		p.ended(context.Background(), time.Now(), <-p.gone)
	}
	p.wg.Wait()
	if p.keepStopped {
		return
	}
	if err := os.RemoveAll(p.folder("")); err != nil {
		p.log.Warn("folders of machines not removed", "err", err)
	}
}

func (p *Provider) save() error {
	k := kept{RepairReleased: p.keepStopped, Groups: map[string]savedGroup{}}
	for id, m := range p.groups {
		k.Groups[id] = m.kept()
	}
	return save(p.cfg.DataDir, k)
}

// saveOrLog saves a change that has already happened. The next save includes it too.
func (p *Provider) saveOrLog() {
	if err := p.save(); err != nil {
		p.log.Error("local machine state not saved", "err", err)
	}
}

// newID returns a machine's id with 48 random bits.
func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return "i-" + hex.EncodeToString(b[:])
}
