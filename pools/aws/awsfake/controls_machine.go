package awsfake

import (
	"maps"
	"slices"
)

// machineControls change instances, and the capacity of the region.
type machineControls struct{ *locked }

// SetStock sets the maximum number of instances of a market. Negative: unlimited. Existing
// instances beyond it stay.
func (s *machineControls) SetStock(m Market, n int) {
	s.do(func(c *cloud) { limit(c.compute.stock, m, n) })
}

// SetQuota sets the maximum number of running vCPUs. Negative: unlimited.
func (s *machineControls) SetQuota(q Quota, vcpus int) {
	s.do(func(c *cloud) { limit(c.compute.quota, q, vcpus) })
}

// Protect sets or removes the protection of an instance from scale-in. Without it, its group may scale in.
func (s *machineControls) Protect(id string, on bool) {
	s.with(id, func(c *cloud, i *instance) {
		i.protected = on
		if g := c.group(i.owner); g != nil {
			c.after(settleAfter, func() { c.scaling.settleGroup(g) })
		}
	})
}

// Tag sets a tag of an instance, as an operator does.
func (s *machineControls) Tag(id, key, value string) {
	s.with(id, func(_ *cloud, i *instance) { i.tag(key, value) })
}

// Interrupt sends an interruption warning about a spot instance, and terminates it after two
// minutes.
func (s *machineControls) Interrupt(id string) {
	s.with(id, func(c *cloud, i *instance) { c.compute.interrupt(i) })
}

// Rebalance sends a rebalance recommendation about a spot instance.
func (s *machineControls) Rebalance(id string) {
	s.with(id, func(c *cloud, i *instance) { c.queue.warn(i, "EC2 Instance Rebalance Recommendation", "") })
}

// Lose terminates an instance at once, without a request. Its group or fleet detects it later.
func (s *machineControls) Lose(id string) {
	s.with(id, func(c *cloud, i *instance) { c.compute.endAlone(i, ByLoss) })
}

// Print sets the console output of an instance. xen means that the instance is not on the Nitro
// system, so its latest output is not available.
func (s *machineControls) Print(id, text string, xen bool) {
	s.with(id, func(_ *cloud, i *instance) { i.console, i.xen = text, xen })
}

// Impair sets the status of an instance's own check and of its host's check, in EC2's words
// (impaired, insufficient-data, and so on). Empty: ok, some time after the start. A reboot repairs
// the instance, and another host repairs both.
func (s *machineControls) Impair(id, machine, host string) {
	s.with(id, func(_ *cloud, i *instance) { i.machine, i.host = machine, host })
}

// Plan sets a scheduled event of an instance. Empty: none.
func (s *machineControls) Plan(id, code string) {
	s.with(id, func(_ *cloud, i *instance) { i.event = code })
}

// Stop stops an instance without its owner, as its operating system does.
func (s *machineControls) Stop(id string) {
	s.with(id, func(c *cloud, i *instance) {
		if i.state == running {
			c.compute.stop(i)
		}
	})
}

// HoldStopping keeps a stopping instance in the state stopping while on.
func (s *machineControls) HoldStopping(id string, on bool) {
	s.with(id, func(c *cloud, i *instance) {
		if i.stuck = on; !on {
			c.compute.halted(i)
		}
	})
}

// FailVolume lets the next replacement of a root volume end in that state: failed or
// failed-detached.
func (s *machineControls) FailVolume(state string) {
	s.do(func(c *cloud) { c.compute.outcome = state })
}

// Endings returns the ends of all instances so far, in order.
func (s *machineControls) Endings() (endings []Ending) {
	s.do(func(c *cloud) { endings = slices.Clone(c.compute.endings) })
	return endings
}

// Instances returns the instances of a group or fleet ("" is all) that are not terminated, in order
// of launch.
func (s *machineControls) Instances(owner string) (out []Instance) {
	s.do(func(c *cloud) {
		for _, i := range c.instances {
			if (owner == "" || i.owner == owner) && i.state != terminated {
				out = append(out, Instance{
					ID: i.id, Owner: i.owner, Market: i.market, Weight: i.weight, State: i.state, Lifecycle: i.lifecycle,
					Protected: i.protected, Spot: i.spot, Launched: i.launched, Unhealthy: i.unhealthy,
					Boots: i.boots + i.reboots + i.volumes, Reboots: i.reboots, SecurityGroups: slices.Clone(i.securityGroups), Tags: maps.Clone(i.tags),
				})
			}
		}
	})
	return out
}

func limit[K comparable](of map[K]int, key K, n int) {
	if of[key] = n; n < 0 {
		delete(of, key)
	}
}
