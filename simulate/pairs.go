package simulate

import (
	"cmp"
	"slices"
	"time"
)

// pairs are the recorded durations of one kind in a group. Each is used once at its time.
type pairs struct {
	all  []pair
	used int              // of those that are too early, or used
	ids  map[*life]string // the machines of the world that took a recorded one
}

// pair is a recorded launch or drain.
type pair struct {
	of       *life
	from, to time.Time // zero to: it did not end
	used     bool
}

// How late a provider may launch: what a target wants, as a Spot Fleet does seconds later, and another machine for one that ended by itself.
const (
	providerLag = 10 * time.Second
	replacedLag = 3 * time.Minute
)

// take returns the recorded launch or drain that begins now, and uses it; nil: none does. every is the time between two ticks. twin
// returns the machine of the world for a recorded one; empty: none. Of several at the same time a machine takes its own, or one without
// a machine. id is that of the machine; empty: it takes the recorded one.
func (p *pairs) take(id string, now time.Time, every time.Duration, twin func(*life) string) *pair {
	if p == nil {
		return nil
	}
	every = max(every, providerLag)
	best, nearest, owned := -1, time.Duration(0), false
	for i := p.used; i < len(p.all); i++ {
		one := &p.all[i]
		if away := one.from.Sub(now); away > every {
			break
		} else if away < -every {
			if i == p.used {
				p.used++
			}
			continue
		}
		if one.used {
			continue
		}
		of := twin(one.of)
		if of == id {
			best = i
			break
		}
		away := one.from.Sub(now).Abs()
		if best < 0 || away < nearest || away == nearest && of == "" && owned {
			best, nearest, owned = i, away, of != ""
		}
	}
	if best < 0 {
		return nil
	}
	return p.use(best, id)
}

// next returns the first recorded launch that begins from now on until then, and uses it; nil: none does.
func (p *pairs) next(now, until time.Time) *pair {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.all, func(one pair) bool { return !one.used && !one.from.Before(now) })
	if i < 0 || p.all[i].from.After(until) {
		return nil
	}
	return p.use(i, "")
}

func (p *pairs) use(i int, id string) *pair {
	one := &p.all[i]
	one.used, p.ids[one.of] = true, cmp.Or(id, one.of.id)
	return one
}

// end returns when a launch or drain ends that begins now and took one.
func (one *pair) end(now time.Time) time.Time {
	if one.to.IsZero() {
		return now.Add(never)
	}
	return maxTime(now, one.to)
}

// drawn returns when a launch or drain ends that begins now and took none: it takes as long as one of the recording.
func (p *pairs) drawn(now time.Time, luck float64) time.Time {
	if p == nil {
		return now
	}
	ended := slices.DeleteFunc(slices.Clone(p.all), func(one pair) bool { return one.to.IsZero() })
	if len(ended) == 0 {
		return now
	}
	one := ended[int(luck*float64(len(ended)))]
	return now.Add(max(0, one.to.Sub(one.from)))
}

// add adds a launch or a drain of a group.
func add(to map[string]*pairs, group string, one pair) {
	if to[group] == nil {
		to[group] = &pairs{ids: map[*life]string{}}
	}
	to[group].all = append(to[group].all, one)
}
