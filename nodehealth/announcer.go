package nodehealth

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// announcer reports findings and alarms to the log, the publisher and the metrics. The Loop's
// goroutine owns it.
type announcer struct {
	*publisher
	alarms map[string]api.HealthAlarm // the active alarms, by key

	// Since the start:
	events     map[api.HealthEvent]uint64
	repairs    map[[2]string]uint64 // action, result
	gates      map[api.Gate]uint64
	alarmKinds map[string]uint64
	refusals   map[string]string // node -> latest reason of a gate that refused its repair
	requests   map[string]string // node -> why the latest request ended without a repair
}

func newAnnouncer(k *shared) *announcer {
	return &announcer{
		publisher: &publisher{shared: k, wake: make(chan struct{}, 1)}, alarms: map[string]api.HealthAlarm{},
		events: map[api.HealthEvent]uint64{}, repairs: map[[2]string]uint64{}, gates: map[api.Gate]uint64{},
		alarmKinds: map[string]uint64{}, refusals: map[string]string{}, requests: map[string]string{},
	}
}

func (a *announcer) announceFinding(now time.Time, f api.HealthFinding) {
	a.countFinding(f)
	a.log.Log(context.Background(), slog.Level(judge.SeverityOf(f.Event).Level()), "node health", "event", f.Event, "node", f.Node, "zone", f.Zone, "action", f.Action,
		"gate", f.Gate, "attempt", f.Attempt, "observe", f.Observe, "why", f.Why)
	f.Why = prose.Clip(f.Why, api.MaxWhy)
	a.queueNotification(api.HealthNotification{At: now, HealthFinding: f})
}

// alarm reports an alarm once, until it ends.
func (a *announcer) alarm(now time.Time, one api.HealthAlarm) {
	old, active := a.alarms[one.Key]
	one.Since, one.Why = now, prose.Clip(one.Why, api.MaxWhy)
	if active {
		one.Since = old.Since
	}
	a.alarms[one.Key] = one
	if active {
		return
	}
	a.alarmKinds[kindOf(one.Key)]++
	a.log.Error("node health alarm", "alarm", one.Key, "node", one.Node, "why", one.Why)
	a.queueNotification(api.HealthNotification{At: now, HealthFinding: api.HealthFinding{Event: api.HealthAlarmEvent, Node: one.Node, Why: one.Why}, Alarm: one.Key})
}

// restore activates the alarm of the record's node again.
func (a *announcer) restore(n judge.NodeRecord) {
	for _, kind := range [...]string{"fence", "quarantine", "held"} {
		if alarmed(kind) == n.State && a.acts() {
			key := kind + ":" + n.Node.ID
			a.alarms[key] = api.HealthAlarm{Key: key, Node: n.Node.ID, Since: n.Since, Why: prose.Clip(cmp.Or(n.Spent, n.Why), api.MaxWhy)}
			a.alarmKinds[kind]++
		}
	}
}

// alarmed returns the state of a node that has an active alarm of that kind.
func alarmed(kind string) api.HealthState {
	switch kind {
	case "fence":
		return api.StateFenceFailed
	case "quarantine":
		return api.StateQuarantined
	}
	return api.StateHeld
}

// forget ends the alarms that the judge no longer has.
func (a *announcer) forget(now time.Time, j *judge.Judge) {
	if len(a.alarms) == 0 {
		return
	}
	active := map[string]bool{}
	for _, one := range j.State().Alarms {
		active[one.Key] = true
	}
	for key, one := range a.alarms {
		switch kindOf(key) {
		case "breaker", "path", "unknown", "zone":
			if !active[key] {
				delete(a.alarms, key)
			}
		case "fence", "quarantine", "held":
			if e, _ := j.Explain(now, one.Node); e.State != alarmed(kindOf(key)) {
				delete(a.alarms, key)
			}
		}
	}
}

// kindOf returns an alarm's key without the node or zone.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// activeAlarms returns the active alarms, sorted by key, at most MaxRows.
func (a *announcer) activeAlarms() []api.HealthAlarm {
	all := slices.SortedFunc(maps.Values(a.alarms), func(a, b api.HealthAlarm) int { return cmp.Compare(a.Key, b.Key) })
	return all[:min(len(all), api.MaxRows)]
}

func (a *announcer) countFinding(f api.HealthFinding) {
	a.events[f.Event]++
	result := ""
	switch f.Event {
	case api.HealthRepairBlocked:
		a.gates[f.Gate]++
		a.refusals[f.Node] = prose.Clip(f.Why, api.MaxWhy)
		return
	case api.HealthRequestEnded:
		a.requests[f.Node] = prose.Clip(f.Why, api.MaxWhy)
	case api.HealthRepairStarted, api.HealthRepairAttempt:
		result = "begun"
	case api.HealthRepairSucceeded:
		result = "succeeded"
	case api.HealthRepairFailed:
		result = "failed"
	case api.HealthRepairEnded:
		result = "ended"
	}
	if result != "" {
		a.repairs[[2]string{string(f.Action), result}]++
	}
	if f.Node != "" && f.Event != api.HealthIgnored {
		delete(a.refusals, f.Node)
	}
}

// outboxRoom is the maximum number of findings that wait for the bus. The oldest are dropped first.
const outboxRoom = 4096

// publisher sends findings and alarms to the bus, in order.
type publisher struct {
	*shared
	wake chan struct{} // holds one token if something waits

	mu      sync.Mutex
	waiting []api.HealthNotification
}

func (p *publisher) queueNotification(n api.HealthNotification) {
	if p.world.Bus == nil {
		return
	}
	n.Pool = p.config.Pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost := len(p.waiting) - outboxRoom + 1; lost > 0 {
		p.waiting = p.waiting[lost:]
		p.mail.lose("findings", lost)
	}
	p.waiting = append(p.waiting, n)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *publisher) takeNotifications() []api.HealthNotification {
	p.mu.Lock()
	defer p.mu.Unlock()
	batch := slices.Clone(p.waiting[:min(len(p.waiting), api.MaxNotifications)])
	p.waiting = p.waiting[len(batch):]
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	return batch
}

// run sends until ctx ends. Then it tries once to send what waits.
func (p *publisher) run(ctx context.Context) {
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
			for batch := p.takeNotifications(); len(batch) > 0 && p.world.Bus.Publish(batch) == nil; {
				batch = p.takeNotifications()
			}
			return
		}
		for batch := p.takeNotifications(); len(batch) > 0; batch = p.takeNotifications() {
			if !p.send(ctx, batch) {
				break
			}
		}
	}
}

// send retries until the bus accepts the batch. It returns false if ctx ends first.
func (p *publisher) send(ctx context.Context, batch []api.HealthNotification) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		err := p.world.Bus.Publish(batch)
		if err == nil {
			return true
		}
		p.log.Warn("publish findings failed", "err", err)
		if !retry.Pause(ctx, pause) {
			p.mail.lose("findings", len(batch))
			return false
		}
	}
}
