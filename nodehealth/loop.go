package nodehealth

import (
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Loop checks and repairs the machines of one pool. Its parts observe, act, pause, save and
// publish. They return events, and only the Loop steps the judge. Create it with New.
type Loop struct {
	*shared
	*exchange
	checking chan struct{} // limits the concurrent checks

	// The goroutine of Run owns the fields below.
	judge     *judge.Judge
	last      time.Time    // the latest now
	window    judge.Window // as the judge has it
	changed   bool         // findings or orders exist since the last publishCondition
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
	l.cordons = &cordons{shared: k, isDurable: keeper.isDurable, nodes: map[string]*cordon{}}
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
