package apiserver

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

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
	unreadable, err := c.pool.Past.Summaries(c.request.Context(), from, to, func(s api.Summary) error {
		if !s.DryRun {
			t.addSummary(s)
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
	first             []api.Summary // at most points
	kept              []api.Summary // of the ended intervals
	current           int           // the interval of the three below
	least, most, last *api.Summary
}

func (t *thinner) addSummary(s api.Summary) {
	t.all++
	if t.all <= t.points {
		t.first = append(t.first, s)
	} else {
		t.first = nil
	}
	i := int(s.At.Sub(t.from) / t.width)
	if i != t.current {
		t.endInterval()
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

// endInterval appends the summaries of the interval, in the order of their times, each once.
func (t *thinner) endInterval() {
	two := []*api.Summary{t.least, t.most}
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

func (t *thinner) list() []api.Summary {
	if t.all <= t.points {
		return t.first
	}
	t.endInterval()
	return t.kept
}

// columns turns summaries into columns.
func columns(list []api.Summary) api.Series {
	n := len(list)
	s := api.Series{
		At: make([]time.Time, n), State: make([]string, n), Target: make([]*float64, n), Wanted: make([]*float64, n), Joined: make([]*float64, n),
		Fulfilled: make([]*float64, n), Min: make([]*float64, n), Max: make([]*float64, n), Setpoint: make([]*float64, n),
		Offered: map[string]api.Column{}, Apps: map[string]api.AppColumn{}, Groups: map[string]api.Column{},
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
			addApp(&s, a, i, n)
			for _, advisor := range a.Raise {
				addApp(&s, advisor, i, n)
			}
		}
		for _, g := range one.Groups {
			columnOf(s.Groups, g.ID, n)[i] = &g.Exists
		}
	}
	return s
}

// addApp sets the values of an app or an advisor at one tick of n.
func addApp(s *api.Series, a api.AppSummaryTick, i, n int) {
	c, ok := s.Apps[a.Name]
	if !ok {
		c = api.AppColumn{Requests: map[string]api.Column{}, Verdict: make([]string, n), Latency: make([]*float64, n)}
		s.Apps[a.Name] = c
	}
	fill(c.Requests, a.Request, i, n)
	if c.Verdict[i] = string(a.Verdict); a.Verdict == "" {
		c.Verdict[i] = string(api.VerdictValue)
	}
	if a.Latency > 0 {
		c.Latency[i] = new(a.Latency.Seconds())
	}
}

// fill sets the values of a request at one tick of n. A kind that no tick has gets no column.
func fill(columns map[string]api.Column, r api.RequestSummary, i, n int) {
	for _, k := range resource.Kinds() {
		if r[k] != nil {
			columnOf(columns, k.String(), n)[i] = r[k]
		}
	}
}

func columnOf(columns map[string]api.Column, name string, n int) api.Column {
	if columns[name] == nil {
		columns[name] = make(api.Column, n)
	}
	return columns[name]
}
