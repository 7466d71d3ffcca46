package awstest

import (
	"fmt"
	"time"
)

// refresh is an instance refresh of a group.
//
//	Pending ──► InProgress ──► Successful
type refresh struct {
	id, status string
	start, end time.Time
	all, left  int // instances
}

func (c *cloud) startRefresh(g *group) {
	g.version++
	all := len(c.members(g.Name, (*instance).counts))
	g.refreshes = append(g.refreshes, refresh{id: c.uuid(), status: "Pending", start: c.now, all: all, left: all})
	c.after(settleAfter, func() { c.stepRefresh(g, len(g.refreshes)-1) })
}

// stepRefresh replaces one instance, and comes again when its successor is up.
// Those that are protected from scale-in are waited for.
func (c *cloud) stepRefresh(g *group, number int) {
	r := &g.refreshes[number]
	old := c.members(g.Name, func(i *instance) bool { return i.counts() && i.version < g.version })
	r.status, r.left = inProgress, len(old)
	if len(old) == 0 {
		r.status, r.end = successful, c.now
		return
	}
	if i := first(old, func(i *instance) bool { return !i.protected }); i != nil {
		c.takeOut(g, i, ByRefresh, fmt.Sprintf("At %s an instance was taken out of service in response to an instance refresh.", iso(c.now)))
		c.settleGroup(g)
	}
	c.after(c.config.Boot+c.config.Leave, func() { c.stepRefresh(g, number) })
}

func (r refresh) percentage() int {
	if r.all == 0 {
		return 100
	}
	return 100 * (r.all - min(r.left, r.all)) / r.all
}
