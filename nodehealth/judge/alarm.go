package judge

import (
	"cmp"
	"slices"
	"time"
)

// alarms report to people what lasts for longer than a moment, each cause once.
type alarms struct {
	after time.Duration // so long a cause must last
	all   []AlarmRecord // in order of key
}

// cause is something to alarm people about, by a stable key.
type cause struct{ key, why string }

// step returns an alarm for each cause that has lasted long enough, and forgets the
// alarms whose cause is over.
func (as *alarms) step(now time.Time, causes []cause) []Order {
	as.all = slices.DeleteFunc(as.all, func(r AlarmRecord) bool {
		return !slices.ContainsFunc(causes, func(c cause) bool { return c.key == r.Key })
	})
	var orders []Order
	for _, c := range causes {
		i, known := slices.BinarySearchFunc(as.all, c.key, func(r AlarmRecord, key string) int { return cmp.Compare(r.Key, key) })
		if !known {
			as.all = slices.Insert(as.all, i, AlarmRecord{Key: c.key, Since: now})
		}
		if a := &as.all[i]; !a.Told && now.Sub(a.Since) >= as.after {
			a.Told = true
			orders = append(orders, Order{Kind: OrderAlarm, Alarm: c.key, Why: c.why})
		}
	}
	return orders
}

func (as *alarms) restore(now time.Time, records []AlarmRecord) {
	for _, r := range records {
		r.Since = earlier(r.Since, now)
		as.all = append(as.all, r)
	}
	slices.SortFunc(as.all, func(a, b AlarmRecord) int { return cmp.Compare(a.Key, b.Key) })
}
