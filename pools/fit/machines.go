package fit

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// fewClasses is how many classes are examined for a machine beyond maxFillSteps.
const fewClasses = 32

// machines are empty machines of several kinds, to be filled with copies.
type machines struct {
	kinds []*kind
	needs []api.PlacesNeed
	steps int
	costs bool // the cost of a kind counts
	rules Rules
	kept  []kept // by the rules
	move  func(to api.PlacesMove, copies ...*Copy)
}

// kind is a kind of machine of known size.
type kind struct {
	api.PlacesKind
	left  int // machines that are not filled yet
	late  int // of them, those after all other kinds
	order int // of its first need, 1 for the first one; 0: none
}

// machinesOf returns as many machines of each kind of known size as n returns.
func (s *solver) machinesOf(n func(api.PlacesKind) int) *machines {
	m := &machines{move: s.move, rules: s.rules.Rules}
	s.filled = append(s.filled, m)
	for _, k := range s.Question.Kinds {
		if !k.Unknown && n(k) > 0 {
			m.kinds = append(m.kinds, &kind{PlacesKind: k, left: n(k)})
		}
	}
	return m
}

// further returns the machines that the groups may get now. Their cost counts.
func (s *solver) further() *machines {
	m := s.machinesOf(func(k api.PlacesKind) int { return k.Room })
	for _, k := range m.kinds {
		m.costs, k.late = m.costs || k.Cost > 0, k.Late
	}
	return m
}

// load is what one machine holds.
type load struct {
	parts []part
	value float64 // the sum of the dominant shares, per weight
}

type part struct {
	class *class
	n     int
}

// fill puts the copies of the classes on machines, and returns the machines that hold them, in order of need. It fills one
// machine after the other, with the largest copies first. Each is of the kind that holds most per weight, or for its cost if that
// counts. Of several such kinds, it takes that of the lowest level.
func (m *machines) fill(all []*class) []api.PlacesNeed {
	rest := waitingOnly(all)
	least := leastAfter(rest)
	for first := 0; first < len(rest); {
		var best *kind
		var what load
		var alone bool
		if len(rest[first].copies) > 0 {
			best, what, alone = m.best(rest[first:], least[first:])
		}
		if best == nil {
			if first++; first > len(rest)/2 {
				rest, first = waitingOnly(rest[first:]), 0
				least = leastAfter(rest)
			}
			continue
		}
		times := 1
		if alone && m.rules == nil {
			if times = best.left; best.left > best.late {
				times -= best.late
			}
			for _, p := range what.parts {
				times = min(times, len(p.class.copies)/p.n)
			}
		}
		m.use(best, what, times)
	}
	return m.needs
}

// waitingOnly returns the classes with copies.
func waitingOnly(all []*class) []*class {
	var rest []*class
	for _, c := range all {
		if len(c.copies) > 0 {
			rest = append(rest, c)
		}
	}
	return rest
}

// leastAfter returns, for each class, the smallest value of each kind of resource of it and all later classes.
func leastAfter(all []*class) []resource.Vector {
	least := make([]resource.Vector, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		least[i] = all[i].footprint
		if i+1 < len(all) {
			for k := range least[i] {
				least[i][k] = min(least[i][k], least[i+1][k])
			}
		}
	}
	return least
}

// best returns the kind for the next machine, which holds a copy of the first class, and what the machine holds. It returns
// nil if no such machine is left. alone: no other kind is as good.
func (m *machines) best(rest []*class, least []resource.Vector) (best *kind, what load, alone bool) {
	for _, k := range m.kinds {
		if k.left == 0 || !fits(&rest[0].footprint, &k.Resources) || !rest[0].in(k.Group) {
			continue
		}
		l := m.load(k, rest, least)
		if len(l.parts) == 0 || l.parts[0].class != rest[0] {
			continue // the rules do not let the first class there
		}
		better := 1
		if best != nil {
			better = m.compare(k, l, best, what)
		}
		switch {
		case better > 0:
			best, what, alone = k, l, true
		case better == 0:
			alone = false
			if k.Level < best.Level {
				best, what = k, l
			}
		}
	}
	return best, what, alone
}

// compare returns 1 if a machine of kind k that holds l goes before one of kind best that holds what, -1 if it goes after it, and 0 if
// both are equal.
func (m *machines) compare(k *kind, l load, best *kind, what load) int {
	rank := func(k *kind) (r int) {
		if k.left <= k.late {
			r += 2
		}
		if m.costs && k.Cost == 0 {
			r++
		}
		return r
	}
	if a, b := rank(k), rank(best); a != b {
		return cmp.Compare(b, a)
	}
	mine, its := l.value, what.value
	if m.costs && k.Cost > 0 && best.Cost > 0 {
		mine, its = mine/k.Cost, its/best.Cost
	}
	switch better := mine - its; {
	case better > resource.Slack*its:
		return 1
	case better >= -resource.Slack*its:
		return 0
	}
	return -1
}

// load returns the copies for one machine of a kind. A free place has no value beside copies: headroom does not change which
// machines they get.
func (m *machines) load(k *kind, rest []*class, least []resource.Vector) (l load) {
	room, has := k.Resources, map[Held]int(nil)
	var on *Node
	if m.rules != nil {
		on = m.rules.Machine(k.Group)
		defer func() { m.dropByRules(on, l) }()
	}
	for i, c := range rest {
		if m.steps++; m.steps > maxFillSteps && i >= fewClasses || !fits(&least[i], &room) {
			break
		}
		if !c.in(k.Group) {
			continue
		}
		n := spare(c.limits, has, copiesIn(c, room))
		if on != nil {
			n = m.fillByRules(on, c, n)
		}
		if n > 0 {
			for _, l := range c.limits {
				if has == nil {
					has = map[Held]int{}
				}
				has[l.Held] += n
			}
			l.parts = append(l.parts, part{c, n})
			if c.headroom == 0 || rest[0].headroom > 0 {
				l.value += float64(n) * c.share / k.Weight
			}
			room = room.Sub(c.footprint.Scale(float64(n)))
		}
	}
	return l
}

// copiesIn returns how many copies of the class fit into the room.
func copiesIn(c *class, room resource.Vector) int {
	n := float64(len(c.copies))
	for k, x := range c.footprint {
		if x > room[k]+resource.Slack {
			return 0
		}
		if x > 0 {
			n = min(n, max(1, math.Floor((room[k]+resource.Slack)/x)))
		}
	}
	return int(n)
}

// use fills machines of a kind.
func (m *machines) use(k *kind, what load, machines int) {
	if k.order == 0 {
		first := what.parts[0].class.copies[0]
		m.needs = append(m.needs, api.PlacesNeed{Group: k.Group, First: name(first)})
		k.order = len(m.needs)
	}
	if m.rules != nil {
		m.keepByRules(k.Group, what)
	}
	need := &m.needs[k.order-1]
	need.Nodes += machines
	need.Weight = float64(need.Nodes) * k.Weight
	for _, p := range what.parts {
		m.move(api.PlacesMove{Group: k.Group}, p.class.assign(need, p.n*machines)...)
	}
	k.left -= machines
	k.Level += float64(machines) * k.Weight
}

// name returns "web/3", or "a free place of spare".
func name(c *Copy) string {
	if c.headroom > 0 {
		return clip("a free place of " + c.App)
	}
	if c.Name != "" {
		return clip(c.Name)
	}
	return clip(c.App + "/" + strconv.Itoa(c.Index))
}

// before reports whether a kind of unknown size goes before another one: the cheaper one, or that of the lower level.
func before(k, other *api.PlacesKind) bool {
	cost := func(k *api.PlacesKind) float64 {
		if k.Cost == 0 {
			return math.Inf(1)
		}
		return k.Cost
	}
	return cmp.Or(cmp.Compare(cost(k), cost(other)), cmp.Compare(k.Level, other.Level)) < 0
}

// probe requests one machine of a kind of unknown size for the copies that no other machine holds, unless such a machine is
// already ordered. All these copies count for it.
func (s *solver) probe(rest []*class) {
	rest = waitingOnly(rest)
	var best *api.PlacesKind
	for i := range s.Question.Kinds {
		k := &s.Question.Kinds[i]
		if k.Unknown && k.Coming > 0 {
			return
		}
		if k.Unknown && k.Room > 0 && (best == nil || before(k, best)) && slices.ContainsFunc(rest, func(c *class) bool { return s.probes(c, k.Group) }) {
			best = k
		}
	}
	if best == nil {
		return
	}
	rest = slices.DeleteFunc(rest, func(c *class) bool { return !s.probes(c, best.Group) })
	need := api.PlacesNeed{Group: best.Group, Nodes: 1, Weight: best.Weight, First: name(rest[0].copies[0])}
	for _, c := range rest {
		s.move(api.PlacesMove{Group: best.Group}, c.assign(&need, len(c.copies))...)
	}
	s.answer.Probe = []api.PlacesNeed{need}
}

// probes reports whether copies of a class may be on a machine of a group, if it is large enough.
func (s *solver) probes(c *class, group string) bool {
	return c.in(group) && s.rules.ordered(group, c.copies[0]) == ""
}
