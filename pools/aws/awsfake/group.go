package awsfake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// group is an Auto Scaling group.
type group struct {
	ASG
	created    time.Time
	version    int    // of the launch template
	reason     string // the sentence that explains the desired capacity
	cooldown   time.Time
	status     string            // while it is deleted
	suspended  []string          // processes; replaced, never modified
	notes      map[string]string // tags that are not propagated; replaced, never modified
	activities []activity        // oldest first
	refreshes  []refresh         // oldest first
}

func (g group) clone() group {
	g.activities, g.refreshes = slices.Clone(g.activities), slices.Clone(g.refreshes)
	return g
}

// mixed reports whether the group has a mixed instances policy.
func (g *group) mixed() bool { return len(g.Types) > 1 || g.weighted() }

func (g *group) weighted() bool { return g.Types[0].Weight > 0 }

// scaling is the Auto Scaling service.
type scaling struct{ *cloud }

func (c *scaling) addGroup(a ASG) *group {
	if len(a.Zones) == 0 {
		a.Zones = []string{c.config.Region + "a", c.config.Region + "b", c.config.Region + "c"}
	}
	if len(a.Types) == 0 {
		a.Types = []Type{{Name: "m5.large"}}
	}
	g := &group{ASG: a, created: c.now, version: 1}
	g.Zones, g.Types, g.Tags = slices.Clone(a.Zones), slices.Clone(a.Types), maps.Clone(a.Tags)
	g.reason = fmt.Sprintf("At %s a user request created an AutoScalingGroup changing the desired capacity from 0 to %d.", iso(c.now), g.Desired)
	c.groups = append(c.groups, g)
	if a.Cold {
		c.after(settleAfter, func() { c.settleGroup(g) })
		return g
	}
	c.settleGroup(g)
	for _, i := range c.members(g.Name, (*instance).counts) {
		i.state = running
		c.inService(g, i)
	}
	return g
}

// desire changes the desired capacity. by names the cause, and begins the texts of the later
// activities.
func (c *scaling) desire(g *group, desired int, by string) {
	if desired != g.Desired {
		g.reason = fmt.Sprintf("At %s a user request %s changing the desired capacity from %d to %d.", iso(c.now), by, g.Desired, desired)
		g.Desired = desired
		g.cooldown = c.now.Add(defaultCooldown)
	}
	c.after(settleAfter, func() { c.settleGroup(g) })
}

// settleGroup launches missing instances, or terminates excess ones.
func (c *scaling) settleGroup(g *group) {
	switch missing := c.weight(g.Name, (*instance).counts) < float64(g.Desired); {
	case missing && !slices.Contains(g.suspended, "Launch"):
		c.scaleOut(g)
	case !missing && !slices.Contains(g.suspended, "Terminate"):
		c.scaleIn(g)
	}
}

// scaleOut launches instances, evenly over the zones, until the desired capacity is reached or no
// market has capacity. It retries the rest later.
func (c *scaling) scaleOut(g *group) {
	out := map[Market]bool{}
	for have := c.weight(g.Name, (*instance).counts); have < float64(g.Desired); {
		m, weight, ok := c.nextMarket(g, out)
		if !ok {
			c.after(c.config.Retry, func() { c.settleGroup(g) })
			return
		}
		if why := c.compute.available(m, g.Spot); why != enough {
			out[m] = true
			c.record(g, activity{
				description: "Launching a new EC2 instance.  Status Reason: " + c.unavailable(g, m, why),
				cause:       c.because(g, "started", "increasing", have, float64(g.Desired)),
				status:      failed, message: c.unavailable(g, m, why),
			})
			continue
		}
		i := c.compute.launch(instance{
			owner: g.Name, market: m, weight: weight, lifecycle: lifePending, spot: g.Spot,
			protected: g.ProtectNew, version: g.version, tags: g.instanceTags(),
		}, func(i *instance) { c.inService(g, i) })
		c.record(g, activity{
			instance: i.id, description: "Launching a new EC2 instance: " + i.id, status: inProgress,
			cause: c.because(g, "started", "increasing", have, float64(g.Desired)),
		})
		have += weight
	}
}

// nextMarket returns a market that is not in out: the zone with the fewest instances, and its first
// type.
func (c *scaling) nextMarket(g *group, out map[Market]bool) (m Market, weight float64, ok bool) {
	in := map[string]int{}
	for _, i := range c.members(g.Name, (*instance).counts) {
		in[i.market.Zone]++
	}
	zones := slices.Clone(g.Zones)
	slices.SortStableFunc(zones, func(a, b string) int { return cmp.Compare(in[a], in[b]) })
	for _, zone := range zones {
		for _, t := range g.Types {
			if m := (Market{t.Name, zone}); !out[m] {
				return m, float64(max(t.Weight, 1)), true
			}
		}
	}
	return Market{}, 0, false
}

func (g *group) instanceTags() map[string]string {
	tags := maps.Clone(g.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags["aws:autoscaling:groupName"] = g.Name
	return tags
}

func (c *scaling) inService(g *group, i *instance) {
	if i.lifecycle != lifePending {
		return
	}
	i.lifecycle = lifeInService
	c.conclude(g, i.id, successful)
	c.queue.sendActivity(g, i, "EC2 Instance Launch Successful")
	for _, name := range g.TargetGroups {
		c.balancing.register(c.targetGroup(name), registration{id: i.id})
	}
}

// scaleIn terminates instances while the group has more than the desired capacity. An instance with
// more weight than the excess stays.
func (c *scaling) scaleIn(g *group) {
	for {
		have := c.weight(g.Name, (*instance).counts)
		excess := have - float64(g.Desired)
		if excess <= 0 {
			return
		}
		victim := c.victim(g, excess)
		if victim == nil {
			c.allProtected(g)
			return
		}
		cause := c.because(g, "taken out of service", "shrinking", have, float64(g.Desired)) +
			fmt.Sprintf("  At %s instance %s was selected for termination.", iso(c.now), victim.id)
		c.takeOut(g, victim, ByScaleIn, cause)
	}
}

// allProtected records, once for each reason, that no instance may be terminated.
func (c *scaling) allProtected(g *group) {
	const described = "Could not scale to desired capacity because all remaining instances are protected from scale-in."
	unprotected := func(i *instance) bool { return i.counts() && !i.protected }
	last := len(g.activities) - 1
	if len(c.members(g.Name, unprotected)) > 0 || last >= 0 && g.activities[last].description == described && g.activities[last].cause == g.reason {
		return
	}
	c.record(g, activity{description: described, cause: g.reason, status: cancelled})
}

// victim returns the choice of the default termination policy: from the zone with most unprotected
// instances, with the oldest launch template, closest to its next billing hour.
func (c *scaling) victim(g *group, excess float64) *instance {
	may := c.members(g.Name, func(i *instance) bool { return i.counts() && !i.protected && i.weight <= excess })
	in := map[string]int{}
	for _, i := range may {
		in[i.market.Zone]++
	}
	if len(may) == 0 {
		return nil
	}
	return slices.MinFunc(may, func(a, b *instance) int {
		return cmp.Or(
			cmp.Compare(in[b.market.Zone], in[a.market.Zone]),
			cmp.Compare(a.market.Zone, b.market.Zone),
			cmp.Compare(a.version, b.version),
			cmp.Compare(c.toBillingHour(a), c.toBillingHour(b)),
			cmp.Compare(a.id, b.id),
		)
	})
}

func (c *scaling) toBillingHour(i *instance) time.Duration {
	return time.Hour - c.now.Sub(i.launched)%time.Hour
}

// takeOut terminates an instance of the group, and returns the activity.
func (c *scaling) takeOut(g *group, i *instance, by Cause, cause string) activity {
	c.conclude(g, i.id, cancelled) // a launch in progress
	for _, name := range g.TargetGroups {
		c.balancing.deregister(c.targetGroup(name), i.id, 0)
	}
	i.lifecycle = lifeTerminating
	a := c.record(g, activity{instance: i.id, description: "Terminating EC2 instance: " + i.id, cause: cause, status: inProgress})
	if i.state == terminated {
		i.lifecycle = ""
		c.conclude(g, i.id, successful)
		return a
	}
	c.compute.end(i, by)
	c.after(c.config.Leave, func() {
		i.lifecycle = ""
		c.conclude(g, i.id, successful)
		c.queue.sendActivity(g, i, "EC2 Instance Terminate Successful")
	})
	return a
}

// inspect detects an instance that does not run.
func (c *scaling) inspect(g *group, i *instance) {
	if i.counts() && i.state != pending && i.state != running && !slices.Contains(g.suspended, "HealthCheck") {
		i.unhealthy = true
		c.replace(g, i)
	}
}

// replace terminates an instance that is marked as unhealthy. The group launches another one.
func (c *scaling) replace(g *group, i *instance) {
	if !i.unhealthy || !i.counts() || slices.Contains(g.suspended, "ReplaceUnhealthy") {
		return
	}
	by, cause := cmp.Or(i.by, ByHealth), "a user health-check."
	if !i.alive() {
		cause = "an EC2 health check indicating it has been terminated or stopped."
	}
	c.takeOut(g, i, by, fmt.Sprintf("At %s an instance was taken out of service in response to %s", iso(c.now), cause))
	c.settleGroup(g)
}

// suspend sets the suspended processes.
func (c *scaling) suspend(g *group, processes []string) {
	g.suspended = processes
	c.after(settleAfter, func() {
		for _, i := range c.members(g.Name, (*instance).counts) {
			c.replace(g, i)
		}
		c.settleGroup(g)
	})
}
