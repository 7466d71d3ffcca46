package awsfake

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// activitiesKept bounds the stored activities of a group.
const activitiesKept = 1000

// activity is an Auto Scaling scaling activity.
type activity struct {
	id, instance       string
	description, cause string
	status, message    string
	start, end         time.Time
	progress           int
}

// Statuses of an activity.
const (
	inProgress = "InProgress"
	successful = "Successful"
	failed     = "Failed"
	cancelled  = "Cancelled"
)

// record adds an activity. An activity that is not in progress ends at once.
func (c *scaling) record(g *group, a activity) activity {
	a.id, a.start = c.uuid(), c.now
	if a.progress = 50; a.status != inProgress {
		a.end, a.progress = c.now, 100
	}
	if len(g.activities) == activitiesKept {
		g.activities = slices.Clone(g.activities[1:])
	}
	g.activities = append(g.activities, a)
	return a
}

// conclude ends the activity in progress for the instance.
func (c *scaling) conclude(g *group, instance, status string) {
	for i := len(g.activities) - 1; i >= 0; i-- {
		if a := &g.activities[i]; a.instance == instance && a.status == inProgress {
			a.status, a.end, a.progress = status, c.now, 100
			return
		}
	}
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// because returns the text for a difference between desired and actual capacity.
func (c *scaling) because(g *group, verb, change string, from, to float64) string {
	return fmt.Sprintf("%s  At %s an instance was %s in response to a difference between desired and actual capacity, %s the capacity from %v to %v.",
		g.reason, iso(c.now), verb, change, from, to)
}

// unavailable returns the text of Auto Scaling for a failed launch.
func (c *scaling) unavailable(g *group, m Market, why shortage) string {
	const tail = " Launching EC2 instance failed."
	head, code := "", ""
	switch {
	case g.Spot:
		head = "Could not launch Spot Instances. "
	case g.mixed():
		head = "Could not launch On-Demand Instances. "
	}
	switch {
	case why == noQuota && g.Spot:
		return head + "MaxSpotInstanceCountExceeded - Max spot instance count exceeded." + tail
	case why == noQuota:
		if head != "" {
			code = "VcpuLimitExceeded - "
		}
		return fmt.Sprintf("%s%sYou have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to. "+
			"Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.%s", head, code, c.compute.quota[OnDemandVCPU], tail)
	case g.Spot:
		return head + "InsufficientInstanceCapacity - There is no Spot capacity available that matches your request." + tail
	}
	if head != "" {
		code = "InsufficientInstanceCapacity - "
	}
	others := slices.DeleteFunc(slices.Clone(g.Zones), func(z string) bool { return z == m.Zone })
	return fmt.Sprintf("%s%sWe currently do not have sufficient %s capacity in the Availability Zone you requested (%s). "+
		"Our system will be working on provisioning additional capacity. "+
		"You can currently get %s capacity by not specifying an Availability Zone in your request or choosing %s.%s",
		head, code, m.Type, m.Zone, m.Type, strings.Join(others, ", "), tail)
}

// refresh is an instance refresh of a group.
//
//	Pending ──► InProgress ──► Successful
type refresh struct {
	id, status string
	start, end time.Time
	all, left  int // instances
}

func (c *scaling) startRefresh(g *group) {
	g.version++
	all := len(c.members(g.Name, (*instance).counts))
	g.refreshes = append(g.refreshes, refresh{id: c.uuid(), status: "Pending", start: c.now, all: all, left: all})
	c.after(settleAfter, func() { c.stepRefresh(g, len(g.refreshes)-1) })
}

// stepRefresh replaces one instance, and schedules itself for the time when the replacement is up.
// It waits for instances that are protected from scale-in.
func (c *scaling) stepRefresh(g *group, number int) {
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
