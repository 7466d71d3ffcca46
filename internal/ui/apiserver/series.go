package apiserver

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/past"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Series has the ticks of a range as columns of equal length. A missing number is unknown, or the tick has no decision.
type Series struct {
	At        []time.Time          `json:"at"`
	State     []string             `json:"state"` // decided, paused or failed
	Target    []*float64           `json:"target"`
	Wanted    []*float64           `json:"wanted"`
	Joined    []*float64           `json:"joined"`
	Fulfilled []*float64           `json:"fulfilled"`
	Min       []*float64           `json:"min"`
	Max       []*float64           `json:"max"` // missing: no upper bound, or no decision
	Setpoint  []*float64           `json:"setpoint"`
	Offered   map[string]Column    `json:"offered"` // by kind of resource
	Apps      map[string]AppColumn `json:"apps"`
	Groups    map[string]Column    `json:"groups"` // existing weight of each group
	// Thinned is set if the range has more ticks than points. Each interval then has the ticks with the least and the
	// greatest target, and the last one.
	Thinned    bool `json:"thinned"`
	Unreadable int  `json:"unreadable,omitempty"`
}

// Column is one value of each tick.
type Column []*float64

// AppColumn has the columns of one app.
type AppColumn struct {
	Requests map[string]Column `json:"requests"` // by kind of resource
	Verdict  []string          `json:"verdict"`  // of its own signal; empty: unknown
	Latency  []*float64        `json:"latency"`  // of its own signal, in seconds
}

const normalPoints, leastPoints, mostPoints = 720, 3, 3000

func (c *call) series() (any, error) {
	from, to, err := c.span()
	if err != nil {
		return nil, err
	}
	points, err := c.integer("points", normalPoints, leastPoints, mostPoints)
	if err != nil {
		return nil, err
	}
	t := thinner{from: from, points: points, width: max(to.Sub(from)/time.Duration(points/3), 1)}
	unreadable, err := c.pool.Past.Between(c.request.Context(), from, to, func(s past.Summary) error {
		if !s.DryRun {
			t.add(s)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := columns(t.list())
	s.Thinned, s.Unreadable = t.all > len(s.At), unreadable
	return s, nil
}

// thinner keeps all summaries while they are at most points, and then three of each interval of the range. A change of
// one tick stays visible.
type thinner struct {
	from   time.Time
	width  time.Duration // of an interval
	points int

	all               int
	first             []past.Summary // at most points
	kept              []past.Summary // of the ended intervals
	current           int            // the interval of the three below
	least, most, last *past.Summary
}

func (t *thinner) add(s past.Summary) {
	t.all++
	if t.all <= t.points {
		t.first = append(t.first, s)
	} else {
		t.first = nil
	}
	i := int(s.At.Sub(t.from) / t.width)
	if i != t.current {
		t.end()
		t.current = i
	}
	t.last = &s
	if s.Target == nil {
		return
	}
	if t.least == nil || *s.Target < *t.least.Target {
		t.least = &s
	}
	if t.most == nil || *s.Target > *t.most.Target {
		t.most = &s
	}
}

// end appends the summaries of the interval, in the order of their times, each once.
func (t *thinner) end() {
	two := []*past.Summary{t.least, t.most}
	if t.least != nil && t.most.At.Before(t.least.At) {
		two[0], two[1] = t.most, t.least
	}
	for _, s := range append(two, t.last) {
		if s != nil && (len(t.kept) == 0 || s.At.After(t.kept[len(t.kept)-1].At)) {
			t.kept = append(t.kept, *s)
		}
	}
	t.least, t.most, t.last = nil, nil, nil
}

func (t *thinner) list() []past.Summary {
	if t.all <= t.points {
		return t.first
	}
	t.end()
	return t.kept
}

// columns turns summaries into columns.
func columns(list []past.Summary) Series {
	n := len(list)
	s := Series{
		At: make([]time.Time, n), State: make([]string, n), Target: make([]*float64, n), Wanted: make([]*float64, n), Joined: make([]*float64, n),
		Fulfilled: make([]*float64, n), Min: make([]*float64, n), Max: make([]*float64, n), Setpoint: make([]*float64, n),
		Offered: map[string]Column{}, Apps: map[string]AppColumn{}, Groups: map[string]Column{},
	}
	for i, one := range list {
		s.At[i] = one.At
		switch {
		case one.Failed != "":
			s.State[i] = "failed"
			continue // the snapshot has no numbers
		case one.Paused != nil:
			s.State[i] = "paused"
			continue
		}
		s.State[i] = "decided"
		s.Target[i], s.Wanted[i], s.Joined[i], s.Fulfilled[i] = one.Target, one.Wanted, &list[i].Joined, &list[i].Exists
		if one.Limits != nil {
			s.Min[i], s.Max[i] = &one.Limits.Min, one.Limits.Max
		}
		if one.Setpoint > 0 {
			s.Setpoint[i] = &list[i].Setpoint
		}
		if one.Offered != nil {
			fill(s.Offered, *one.Offered, i, n)
		}
		for _, a := range one.Apps {
			s.app(a, i, n)
		}
		for _, g := range one.Groups {
			columnOf(s.Groups, g.ID, n)[i] = &g.Exists
		}
	}
	return s
}

// app sets the values of an app at one tick of n.
func (s *Series) app(a past.App, i, n int) {
	c, ok := s.Apps[a.Name]
	if !ok {
		c = AppColumn{map[string]Column{}, make([]string, n), make([]*float64, n)}
		s.Apps[a.Name] = c
	}
	fill(c.Requests, a.Request, i, n)
	if c.Verdict[i] = string(a.Verdict); a.Verdict == "" {
		c.Verdict[i] = string(decide.Value)
	}
	if a.Latency > 0 {
		c.Latency[i] = new(a.Latency.Seconds())
	}
}

// fill sets the values of a request at one tick of n. A kind that no tick has gets no column.
func fill(columns map[string]Column, r past.Request, i, n int) {
	for _, k := range resource.Kinds() {
		if r[k] != nil {
			columnOf(columns, k.String(), n)[i] = r[k]
		}
	}
}

func columnOf(columns map[string]Column, name string, n int) Column {
	if columns[name] == nil {
		columns[name] = make(Column, n)
	}
	return columns[name]
}
