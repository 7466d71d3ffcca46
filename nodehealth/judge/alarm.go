package judge

import (
	"maps"
	"slices"
	"time"
)

// alarms report to people what lasts for longer than a moment, each cause once.
type alarms struct {
	after time.Duration // so long a cause must last
	all   map[string]*alarm
}

type alarm struct {
	since time.Time // of the cause
	sent  bool
}

// cause is something to alarm people about, by a stable key.
type cause struct{ key, why string }

func newAlarms(after time.Duration) alarms { return alarms{after: after, all: map[string]*alarm{}} }

// step returns an alarm for each cause that has lasted long enough, and forgets the
// alarms whose cause is over.
func (as *alarms) step(now time.Time, causes []cause) []Order {
	maps.DeleteFunc(as.all, func(key string, _ *alarm) bool {
		return !slices.ContainsFunc(causes, func(c cause) bool { return c.key == key })
	})
	var orders []Order
	for _, c := range causes {
		a, known := as.all[c.key]
		if !known {
			a = &alarm{since: now}
			as.all[c.key] = a
		}
		if !a.sent && now.Sub(a.since) >= as.after {
			a.sent = true
			orders = append(orders, Order{Kind: OrderAlarm, Alarm: c.key, Why: c.why})
		}
	}
	return orders
}

// records returns the alarms for the State.
func (as *alarms) records() []AlarmRecord {
	var out []AlarmRecord
	for _, key := range slices.Sorted(maps.Keys(as.all)) {
		out = append(out, AlarmRecord{key, as.all[key].since, as.all[key].sent})
	}
	return out
}

// restore takes the alarms of a State.
func (as *alarms) restore(now time.Time, records []AlarmRecord) {
	for _, r := range records {
		as.all[r.Key] = &alarm{since: earlier(r.Since, now), sent: r.Told}
	}
}
