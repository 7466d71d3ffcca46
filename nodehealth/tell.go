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

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// outboxRoom is how many findings may wait for the bus; the oldest are lost first.
const outboxRoom = 4096

// outbox holds what is to be published.
type outbox struct {
	wake chan struct{} // holds one token if there is something

	mu   sync.Mutex
	told []Told
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// put returns how many of the oldest had to make room.
func (o *outbox) put(t Told) (lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.told) >= outboxRoom {
		lost = len(o.told) - outboxRoom + 1
		o.told = o.told[lost:]
	}
	o.told = append(o.told, t)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return lost
}

func (o *outbox) take() []Told {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch := slices.Clone(o.told[:min(len(o.told), MaxTold)])
	o.told = o.told[len(batch):]
	if len(o.told) == 0 {
		o.told = nil
	}
	return batch
}

// publish sends what was found until ctx ends; what was found before that is sent
// still, once.
func (l *Loop) publish(ctx context.Context) {
	for {
		select {
		case <-l.outbox.wake:
		case <-ctx.Done():
			for batch := l.outbox.take(); len(batch) > 0 && l.world.Bus.Publish(batch) == nil; {
				batch = l.outbox.take()
			}
			return
		}
		for batch := l.outbox.take(); len(batch) > 0; batch = l.outbox.take() {
			if !l.publishBatch(ctx, batch) {
				break
			}
		}
	}
}

// publishBatch tries until the batch is sent; false if ctx ends before.
func (l *Loop) publishBatch(ctx context.Context, batch []Told) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		err := l.world.Bus.Publish(batch)
		if err == nil {
			return true
		}
		l.log.Warn("findings are not published", "err", err)
		if !wait(ctx, pause) {
			l.mail.lost.add("findings", len(batch))
			return false
		}
	}
}

// found tells what the judge found, and counts it.
func (l *Loop) found(now time.Time, f judge.Finding) {
	l.counts.found(f)
	level := slog.LevelInfo
	switch f.Event {
	case judge.NodeUnhealthy, judge.NodeQuarantined, judge.RepairFailed, judge.FenceUnconfirmed, judge.BreakerOpened, judge.ZoneFrozen, judge.PathLost, judge.CheckUnknown:
		level = slog.LevelWarn
	case judge.Ignored:
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, "node health", "event", f.Event, "node", f.Node, "zone", f.Zone, "action", f.Action,
		"gate", f.Gate, "attempt", f.Attempt, "observe", f.Observe, "why", f.Why)
	f.Why = cut(f.Why)
	l.publishLater(Told{Pool: l.config.Pool, At: now, Finding: f})
}

func (l *Loop) publishLater(t Told) {
	if l.world.Bus == nil {
		return
	}
	if lost := l.outbox.put(t); lost > 0 {
		l.mail.lost.add("findings", lost)
	}
}

// alarm tells people, once for each key until it is calm again.
func (l *Loop) alarm(now time.Time, a Alarm) {
	old, stands := l.alarms[a.Key]
	a.Since, a.Why = now, cut(a.Why)
	if stands {
		a.Since = old.Since
	}
	l.alarms[a.Key] = a
	if stands {
		return
	}
	l.counts.alarms[kindOf(a.Key)]++
	l.log.Error("node health needs somebody", "alarm", a.Key, "node", a.Node, "why", a.Why)
	l.publishLater(Told{Pool: l.config.Pool, At: now, Finding: judge.Finding{Event: EventAlarm, Node: a.Node, Why: a.Why}, Alarm: a.Key})
}

// calm ends an alarm.
func (l *Loop) calm(key string) { delete(l.alarms, key) }

// forget ends the alarms of the judge that do not stand any more.
func (l *Loop) forget(now time.Time) {
	if len(l.alarms) == 0 {
		return
	}
	stands := map[string]bool{}
	for _, a := range l.judge.State().Alarms {
		stands[a.Key] = true
	}
	for key, a := range l.alarms {
		switch kindOf(key) {
		case "breaker", "path", "unknown", "zone":
			if !stands[key] {
				l.calm(key)
			}
		case "fence", "quarantine":
			e, known := l.judge.Explain(now, a.Node)
			if !known || e.State != judge.FenceFailed && e.State != judge.Quarantined {
				l.calm(key)
			}
		}
	}
}

// kindOf is an alarm's key without the node or zone.
func kindOf(key string) string {
	kind, _, _ := strings.Cut(key, ":")
	return kind
}

// standing returns the alarms in order of key, so many at most.
func (l *Loop) standing() []Alarm {
	all := slices.SortedFunc(maps.Values(l.alarms), func(a, b Alarm) int { return cmp.Compare(a.Key, b.Key) })
	return all[:min(len(all), MaxRows)]
}

// cut bounds a text that is told.
func cut(s string) string {
	if len(s) > MaxWhy {
		s = s[:MaxWhy]
	}
	return strings.ToValidUTF8(s, "?")
}
