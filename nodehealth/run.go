package nodehealth

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// slip is how far the clock may go back. Meanwhile now does not change.
const slip = time.Minute

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
	l.stepWindow(l.now())
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
	l.stepWindow(now)
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

// stepWindow passes to the judge whether repairs may begin, if that changed.
func (l *Loop) stepWindow(now time.Time) {
	closed, opens := l.config.Windows.Closed(string(api.WorkRepair), now)
	if w := (judge.Window{Closed: closed, Opens: opens}); w != l.window {
		l.window = w
		l.step(now, w)
	}
}

// settle begins the durable orders and saves the others.
func (l *Loop) settle(ctx context.Context) {
	if l.actor.executions.unsaved() {
		l.memory.queueSave(l.last, l.judge)
	}
	l.actor.release(ctx, l.last, l.judge)
}

// Collector returns the metrics of the loop, with the prefix weir_health. It may be collected at
// any time. While Run does not run, it is empty.
func (l *Loop) Collector() prometheus.Collector {
	return &collector{l, metric.NewSet(metric.HealthPrefix, metric.Health())}
}
