package nodehealth

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// tickEvery is the period of the ticks.
	tickEvery = time.Second
	// slip is how far the clock may go back. Meanwhile now does not change.
	slip = time.Minute
)

// Loop checks and repairs the machines of one pool. Its parts observe, act, pause, save and
// publish. They return events, and only the Loop steps the judge. Create it with New.
type Loop struct {
	*shared
	*exchange
	checking chan struct{} // limits the concurrent checks

	// The goroutine of Run owns the fields below.
	judge     *judge.Judge
	last      time.Time // the latest now
	changed   bool      // findings or orders exist since the last publishCondition
	inventory *inventory
	actor     *actor
	pauses    *pauses
	cordons   *cordons
	lifts     *lifts
	rounds    *rounds
	watcher   *watcher
	ownership *ownership
	memory    *memory
	announcer *announcer
}

// shared is shared by the parts of a Loop.
type shared struct {
	config Config
	policy judge.Policy // with its defaults
	world  *World
	mail   *mailbox
	log    *slog.Logger
}

// acts reports whether the policy carries out orders.
func (k *shared) acts() bool { return k.policy.Mode == api.ModeAct }

// call makes a provider call in a separate goroutine. The Loop's goroutine runs ended.
func (k *shared) call(ctx context.Context, timeout time.Duration, f func(context.Context) error, ended func(now time.Time, err error)) {
	k.mail.Go(func() {
		try, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := k.world.Writer.Write(try, f)
		_ = k.mail.notify(ctx, func(now time.Time) { ended(now, err) })
	})
}

// New returns a Loop that is not running. Run checks the configuration.
func New(c Config, w World, log *slog.Logger) *Loop {
	if w.Now == nil {
		w.Now = time.Now
	}
	k := &shared{config: c, policy: c.Policy.WithDefaults(), world: &w, mail: newMailbox(), log: log.With("pool", c.Pool)}
	l := &Loop{
		shared: k, exchange: &exchange{shared: k, runs: map[string]workflowRun{}}, checking: make(chan struct{}, 2),
		announcer: newAnnouncer(k), inventory: newInventory(k.mail), pauses: &pauses{shared: k, until: map[string]time.Time{}},
		lifts: &lifts{shared: k, nodes: map[string]*lift{}},
	}
	keeper, executions := newKeeper(), executions{}
	l.cordons = &cordons{shared: k, keeper: keeper, nodes: map[string]*cordon{}}
	l.memory = &memory{shared: k, keeper: keeper, cordons: l.cordons, executions: executions, announcer: l.announcer, history: &history{}}
	l.actor = &actor{
		shared: k, inventory: l.inventory, memory: l.memory, exchange: l.exchange, evidenceCollector: &evidenceCollector{k, l.inventory},
		executions: executions, begun: map[string]time.Time{}, calls: make(chan struct{}, 32), workflows: make(chan struct{}, 16),
	}
	l.ownership = &ownership{shared: k, announcer: l.announcer}
	l.rounds = &rounds{shared: k, announcer: l.announcer, table: map[string]*roundCount{}}
	l.watcher = &watcher{
		shared: k, ownership: l.ownership, inventory: l.inventory, executions: executions,
		wake: make(chan struct{}, 1), rechecks: map[string]bool{},
	}
	return l
}

// Run checks and repairs until ctx ends. It returns an error if the configuration is not valid,
// or ErrClock. The holder of the pool's lease calls it once.
func (l *Loop) Run(ctx context.Context) error {
	defer l.mail.Wait()
	defer close(l.mail.ended)
	if err := l.config.Validate(); err != nil {
		return fmt.Errorf("node health of pool %s: %w", l.config.Pool, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := l.recall(ctx); err != nil {
		return nil // ctx has ended
	}
	l.start(ctx)
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	l.changed = true
	l.tick(ctx, l.now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case do := <-l.mail.work:
			now := l.now()
			l.stepBatch(now, do(now, l.judge))
			l.settle(ctx)
		case <-ticker.C:
			if back := l.last.Sub(l.world.Now()); back > slip {
				return fmt.Errorf("node health of pool %s: %w by %v", l.config.Pool, ErrClock, back.Round(time.Second))
			}
			l.tick(ctx, l.now())
		}
	}
}

// recall restores the saved state. If the data is unreadable, it begins without a history and
// raises an alarm. The drain records still prevent that a repair begins twice.
func (l *Loop) recall(ctx context.Context) error {
	data, ok, err := l.memory.load(ctx)
	if err != nil {
		return err
	}
	if ok {
		if err = l.restore(data); err == nil {
			l.memory.keeper.durable(l.memory.keeper.setState(data))
			<-l.memory.keeper.wake // it is durable already
			return nil
		}
	}
	l.judge = withoutHistory(l.now(), l.policy)
	if err != nil {
		l.announcer.alarm(l.now(), api.HealthAlarm{Key: "forgotten", Why: "the saved state cannot be read and is dropped: " + err.Error()})
	}
	return nil
}

// restore passes each part its saved state.
func (l *Loop) restore(data []byte) error {
	var k savedState
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	j, err := judge.Restore(l.now(), l.policy, k.Judge)
	if err != nil {
		return err
	}
	l.judge = j
	l.memory.history.restore(l.now(), k.History)
	for _, n := range k.Judge.Nodes {
		if n.Born != "" {
			l.inventory.named[n.Node.ID] = true
		}
		if n.State == api.StateQuarantined {
			l.cordons.addNode(n.Node.ID, false)
		}
		l.announcer.restore(n)
		if n.Repair != nil {
			l.actor.begun[n.Repair.Attempt] = n.Repair.Since
		}
	}
	for _, id := range k.Cordoned {
		l.cordons.addNode(id, true)
	}
	for _, p := range k.Judge.Pauses {
		if p.Owner == drainOwner {
			l.pauses.until[p.Node] = p.Until
		}
	}
	return nil
}

// start begins the goroutines that may block.
func (l *Loop) start(ctx context.Context) {
	l.mail.Go(func() { l.memory.run(ctx) })
	if l.world.Bus != nil {
		l.mail.Go(func() { l.listen(ctx) })
		l.mail.Go(func() { l.announcer.run(ctx) })
	}
	if !*l.policy.Enabled {
		return
	}
	for _, r := range l.watcher.plan() {
		l.rounds.start(ctx, r)
	}
	l.mail.Go(func() { l.watcher.recheck(ctx) })
	if l.world.Hints != nil {
		l.mail.Go(func() { l.takeHints(ctx) })
	}
}

// now returns the time. It never goes back.
func (l *Loop) now() time.Time {
	if now := l.world.Now().Round(0); now.After(l.last) {
		l.last = now
	}
	return l.last
}

// stepBatch steps the judge with a batch.
func (l *Loop) stepBatch(now time.Time, b batch) {
	l.step(now, b.events...)
	for _, o := range b.observed {
		l.step(now, o)
	}
}

// step passes events to the judge, and its findings and orders to the parts.
func (l *Loop) step(now time.Time, events ...judge.Event) {
	for _, ev := range events {
		orders, found := l.judge.Step(now, ev)
		for _, f := range found {
			l.announcer.announceFinding(now, f)
			l.memory.history.addFinding(now, f)
			if f.Event == api.HealthNodeReleased && !f.Observe {
				l.lifts.nodes[f.Node] = &lift{}
			}
		}
		for _, o := range orders {
			l.startOrder(now, o)
		}
		_, drains := ev.(judge.Drains)
		l.changed = l.changed || drains || len(found)+len(orders) > 0
	}
}

// startOrder passes an order of the judge to the part that carries it out. In mode observe it drops the
// order. Observing differs in nothing else.
func (l *Loop) startOrder(now time.Time, o judge.Order) {
	switch {
	case o.Kind == judge.OrderRecheck:
		l.watcher.addRecheck(o.Node)
	case o.Kind == judge.OrderAlarm:
		l.announcer.alarm(now, api.HealthAlarm{Key: o.Alarm, Node: o.Node, Why: o.Why})
	case o.Observe:
	case o.Kind == judge.OrderQuarantine:
		l.cordons.addNode(o.Node, false)
	default:
		l.actor.addOrder(now, o)
	}
}

// tick passes the time to the judge and runs each part.
func (l *Loop) tick(ctx context.Context, now time.Time) {
	if !*l.policy.Enabled {
		return
	}
	drained := l.exchange.takeDrainEvents()
	l.step(now, l.actor.drained(now, drained)...)
	l.step(now, l.inventory.leftNodes(drained)...)
	l.step(now, l.pauses.sync(now, l.judge)...)
	l.step(now, l.pauses.drains()...)
	l.step(now, judge.Tick{})
	l.step(now, l.actor.reconcile(now, l.judge)...)
	l.actor.runWorkflows(ctx, now, l.judge)
	l.cordons.sync(ctx, now, l.judge, l.inventory.listed)
	l.lifts.run(ctx, now, l.inventory)
	l.announcer.forget(now, l.judge)
	l.memory.queueSave(now, l.judge)
	l.settle(ctx)
	l.publishCondition()
}

// settle begins the durable orders and saves the others.
func (l *Loop) settle(ctx context.Context) {
	if l.actor.executions.unsaved() {
		l.memory.queueSave(l.last, l.judge)
	}
	l.actor.release(ctx, l.last, l.judge)
}

var _ Handler = (*Loop)(nil)
