package judge

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// lineages count the repairs of each node together with those of its replacements.
type lineages struct {
	rules *rules
	all   map[string]*Lineage
	born  map[string]string // replacement -> lineage
}

func newLineages(r *rules) lineages {
	return lineages{rules: r, all: map[string]*Lineage{}, born: map[string]string{}}
}

// nameOf returns the name of a node's lineage.
func (ls *lineages) nameOf(n Node) string {
	if name, ok := ls.born[n.ID]; ok {
		return name
	}
	return n.ID
}

// adopt adds a replacement to the lineage of the node that it replaces.
func (ls *lineages) adopt(replacement string, n Node) { ls.born[replacement] = ls.nameOf(n) }

func (ls *lineages) lineageOf(n Node) *Lineage {
	name := ls.nameOf(n)
	if ls.all[name] == nil {
		ls.all[name] = &Lineage{Name: name}
	}
	return ls.all[name]
}

func (ls *lineages) begin(now time.Time, n Node) {
	l := ls.lineageOf(n)
	l.Begun = append(l.within(now, ls.rules.window), now)
}

// end starts the backoff before the next repair, if a repair began.
func (ls *lineages) end(now time.Time, n Node, begun bool) {
	if l := ls.lineageOf(n); begun || len(l.Begun) > 0 {
		l.Ended = now
	}
}

// succeeded records that the repair made its own machine healthy.
func (ls *lineages) succeeded(n Node, r *Repair) {
	h := &Helped{Node: n.ID, Action: r.Action, Index: r.Index, Times: 1}
	l := ls.lineageOf(n)
	if was := l.Helped; was != nil && was.Node == h.Node && was.Action.same(h.Action) {
		h.Times += was.Times
	}
	l.Helped = h
}

// relapseIndex returns the index of the first action that a repair of the machine may begin with. If an action helped
// max_attempts times within the window, and the machine failed again each time, its repair begins with the next one.
func (ls *lineages) relapseIndex(now time.Time, n Node) int {
	l := ls.all[ls.nameOf(n)]
	if l == nil || l.Helped == nil || l.Helped.Node != n.ID || len(l.within(now, ls.rules.window)) == 0 || l.Helped.Times < *l.Helped.Action.MaxAttempts {
		return 0
	}
	return ls.rules.indexOf(l.Helped.Action, l.Helped.Index) + 1
}

// undo removes the repair that began last.
func (ls *lineages) undo(n Node) {
	if l := ls.lineageOf(n); len(l.Begun) > 0 {
		l.Begun = l.Begun[:len(l.Begun)-1]
	}
}

// forgive removes all repairs of the node's lineage.
func (ls *lineages) forgive(n Node) { delete(ls.all, ls.nameOf(n)) }

// recent returns the start times of the lineage's repairs within the window.
func (ls *lineages) recent(now time.Time, n Node) []time.Time {
	if l := ls.all[ls.nameOf(n)]; l != nil {
		return l.within(now, ls.rules.window)
	}
	return nil
}

func (l *Lineage) within(now time.Time, window time.Duration) []time.Time {
	recent := l.Begun
	for len(recent) > 0 && now.Sub(recent[0]) >= window {
		recent = recent[1:]
	}
	return recent
}

// backoff returns when the backoff of the node's lineage ends, and its number of repairs.
func (ls *lineages) backoff(n Node) (until time.Time, repairs int) {
	name := ls.nameOf(n)
	l := ls.all[name]
	if l == nil || l.Ended.IsZero() || len(l.Begun) == 0 {
		return time.Time{}, 0
	}
	wait := float64(ls.rules.backoff) * math.Pow(ls.rules.factor, float64(len(l.Begun)-1))
	wait = min(wait, float64(ls.rules.backoffMax))
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", name, len(l.Begun))
	return l.Ended.Add(time.Duration(wait * (1 + 0.1*float64(h.Sum32())/math.MaxUint32))), len(l.Begun)
}

// forget drops lineages whose repairs are older than the window, and replacements that are gone.
func (ls *lineages) forget(now time.Time, exists func(id string) bool) {
	for name, l := range ls.all {
		l.Begun = l.within(now, ls.rules.window)
		if len(l.Begun) == 0 && now.Sub(l.Ended) >= ls.rules.window {
			delete(ls.all, name)
		}
	}
	maps.DeleteFunc(ls.born, func(id, _ string) bool { return !exists(id) })
}

func (ls *lineages) records() []Lineage {
	var out []Lineage
	for _, name := range slices.Sorted(maps.Keys(ls.all)) {
		out = append(out, Lineage{name, slices.Clone(ls.all[name].Begun), ls.all[name].Ended, ls.all[name].Helped})
	}
	return out
}

func (ls *lineages) restore(now time.Time, records []Lineage) {
	for _, r := range records {
		if r.Helped != nil && r.Helped.Action.MaxAttempts == nil { // written by another program
			r.Helped = nil
		}
		ls.all[r.Name] = &Lineage{r.Name, allEarlier(r.Begun, now), earlier(r.Ended, now), r.Helped}
	}
}

// rate limits how often repairs begin. It is a token bucket of size burst that fills with perHour.
type rate struct {
	perHour, burst float64
	spent          float64   // of the burst, at least 0
	at             time.Time // then
}

func (r *rate) spentBy(now time.Time) float64 {
	return max(0, r.spent-max(0, now.Sub(r.at)).Hours()*r.perHour)
}

// wait returns how long until one more repair may begin.
func (r *rate) wait(now time.Time) time.Duration {
	over := r.spentBy(now) + 1 - r.burst
	if over <= resource.Slack {
		return 0
	}
	return time.Duration(over / r.perHour * float64(time.Hour))
}

func (r *rate) spend(now time.Time) { r.spent, r.at = r.spentBy(now)+1, now }
