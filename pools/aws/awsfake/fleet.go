package awsfake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// States of a Spot Fleet request.
//
//	submitted ──► active ◄──► modifying
//	                 ├──► cancelled_running ──────┬──► cancelled
//	                 └──► cancelled_terminating ──┘
const (
	fleetSubmitted   = "submitted"
	fleetActive      = "active"
	fleetModifying   = "modifying"
	fleetRunning     = "cancelled_running"
	fleetTerminating = "cancelled_terminating"
	fleetCancelled   = "cancelled"
)

// eventsKept bounds the stored history of a fleet.
const eventsKept = 1000

// fleet is a Spot Fleet request of type maintain.
type fleet struct {
	SpotFleet
	state   string
	keep    bool // NoTermination: excess instances are not terminated
	short   bool // the latest launch failed
	created time.Time
	history []fleetEvent // oldest first
}

// fleetEvent is a history record of the kind error, fleetRequestChange, instanceChange or
// information.
type fleetEvent struct {
	at                         time.Time
	kind, sub, about, instance string
}

func (f fleet) clone() fleet {
	f.history = slices.Clone(f.history)
	return f
}

// spot is the Spot Fleet service.
type spot struct{ *cloud }

func (c *spot) addFleet(s SpotFleet) *fleet {
	s.ID = cmp.Or(s.ID, "sfr-"+c.uuid())
	s.Specs, s.Tags = slices.Clone(s.Specs), maps.Clone(s.Tags)
	f := &fleet{SpotFleet: s, state: fleetSubmitted, created: c.now}
	c.fleets = append(c.fleets, f)
	c.addHistory(f, "fleetRequestChange", fleetSubmitted, "", "")
	if s.Cold {
		c.after(validateAfter, func() { c.activate(f) })
		return f
	}
	c.activate(f)
	for _, i := range c.members(f.ID, (*instance).alive) {
		i.state = running
	}
	return f
}

func (c *spot) addHistory(f *fleet, kind, sub, about, instance string) {
	if len(f.history) == eventsKept {
		f.history = slices.Clone(f.history[1:])
	}
	f.history = append(f.history, fleetEvent{c.now, kind, sub, about, instance})
}

func (c *spot) activate(f *fleet) {
	if f.state == fleetSubmitted {
		f.state = fleetActive
		c.addHistory(f, "fleetRequestChange", fleetActive, "", "")
		c.settleFleet(f)
	}
}

// modify changes the target. keep means that excess instances are not terminated.
func (c *spot) modify(f *fleet, target int, keep bool) {
	f.Target, f.keep, f.state = target, keep, fleetModifying
	c.addHistory(f, "fleetRequestChange", "modify_in_progress", "", "")
	done := func() {
		if f.state == fleetModifying {
			f.state = fleetActive
			c.addHistory(f, "fleetRequestChange", "modify_succeeded", "", "")
			c.settleFleet(f)
		}
	}
	if c.config.Modify < 0 {
		done()
		return
	}
	c.after(c.config.Modify, done)
}

func (c *spot) cancel(f *fleet, terminate bool) {
	if f.state = fleetRunning; terminate {
		f.state = fleetTerminating
		for _, i := range c.members(f.ID, (*instance).alive) {
			c.compute.end(i, ByCancel)
		}
	}
	c.addHistory(f, "fleetRequestChange", f.state, "", "")
	c.settleFleet(f)
}

// settleFleet launches missing instances, or terminates excess ones.
func (c *spot) settleFleet(f *fleet) {
	switch f.state {
	case fleetRunning, fleetTerminating:
		if len(c.members(f.ID, func(i *instance) bool { return i.state != terminated })) == 0 {
			f.state = fleetCancelled
			c.addHistory(f, "fleetRequestChange", fleetCancelled, "", "")
		}
	case fleetActive, fleetModifying:
		c.fulfil(f)
		if !f.keep {
			c.shrink(f)
		}
	}
}

// fulfil launches instances, evenly over the launch specifications, until the target is reached.
func (c *spot) fulfil(f *fleet) {
	out := map[int]bool{}
	f.short = false
	for c.weight(f.ID, (*instance).alive) < float64(f.Target) {
		n, ok := c.nextSpec(f, out)
		if !ok {
			f.short = true
			c.after(c.config.Retry, func() { c.settleFleet(f) })
			return
		}
		spec := f.Specs[n]
		m := Market{spec.Type, spec.Zone}
		if why := c.compute.available(m, true); why != enough {
			out[n] = true
			c.recordShortage(f, m, why, len(out) == len(f.Specs))
			continue
		}
		tags := maps.Clone(spec.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		tags["aws:ec2spot:fleet-request-id"] = f.ID
		i := c.compute.launch(instance{owner: f.ID, market: m, weight: spec.weight(), spot: true, tags: tags}, func(*instance) {})
		c.addHistory(f, "instanceChange", "launched", fmt.Sprintf(`{"instanceType":%q,"availabilityZone":%q}`, m.Type, m.Zone), i.id)
	}
}

func (s LaunchSpec) weight() float64 { return cmp.Or(s.Weight, 1) }

// nextSpec returns the launch specification with the least weight in the fleet that is not in out.
func (c *spot) nextSpec(f *fleet, out map[int]bool) (best int, ok bool) {
	least := 0.0
	for n, spec := range f.Specs {
		if out[n] {
			continue
		}
		has := c.weight(f.ID, func(i *instance) bool { return i.alive() && i.market == Market{spec.Type, spec.Zone} })
		if !ok || has < least {
			best, least, ok = n, has, true
		}
	}
	return best, ok
}

// recordShortage adds the records of a failed launch to the history.
func (c *spot) recordShortage(f *fleet, m Market, why shortage, all bool) {
	if why == noQuota {
		c.addHistory(f, "error", "spotInstanceCountLimitExceeded", "Max spot instance count exceeded", "")
		return
	}
	about := fmt.Sprintf("%s, ami-0123456789abcdef0, Linux/UNIX, %s: Repeated errors have occurred processing the launch specification. It will not be retried for at least 13 minutes. "+
		"Error message: There is no Spot capacity available that matches your request. (Service: AmazonEC2; Status Code: 500; Error Code: InsufficientInstanceCapacity)", m.Type, m.Zone)
	c.addHistory(f, "information", "launchSpecTemporarilyBlacklisted", about, "")
	if all {
		c.addHistory(f, "error", "allLaunchSpecsTemporarilyBlacklisted", "Several attempts to launch instances have failed. Either the request could not be satisfied or the configuration is not valid. We will retry the request again later.", "")
	}
}

// shrink terminates the youngest instances that are in excess.
func (c *spot) shrink(f *fleet) {
	alive := c.members(f.ID, (*instance).alive)
	for _, i := range slices.Backward(alive) {
		if c.weight(f.ID, (*instance).alive)-i.weight >= float64(f.Target) {
			c.addHistory(f, "instanceChange", "termination_notified", "", i.id)
			c.compute.end(i, ByScaleIn)
		}
	}
}

// status is the fleet's activity status.
func (f *fleet) status(fulfilled float64) string {
	switch {
	case f.state == fleetTerminating:
		return "pending_termination"
	case f.short:
		return "error"
	case fulfilled < float64(f.Target):
		return "pending_fulfillment"
	}
	return "fulfilled"
}
