package awstest

import (
	"maps"
	"slices"
)

// machineLevers change instances, and the machines that the region has.
type machineLevers struct{ *locked }

// SetStock says how many instances of a market can exist at most; negative: any
// number. Those beyond it stay.
func (s *machineLevers) SetStock(m Market, n int) {
	s.do(func(c *cloud) { limit(c.compute.stock, m, n) })
}

// SetQuota says how many vCPUs can run at most; negative: any number.
func (s *machineLevers) SetQuota(q Quota, vcpus int) {
	s.do(func(c *cloud) { limit(c.compute.quota, q, vcpus) })
}

// Protect sets or lifts the protection of an instance from scale-in.
func (s *machineLevers) Protect(id string, on bool) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.protected = on })
}

// Tag gives an instance a tag, as an operator would.
func (s *machineLevers) Tag(id, key, value string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.tag(key, value) })
}

// Interrupt warns in the queue that a spot instance is taken, and takes it
// after two minutes.
func (s *machineLevers) Interrupt(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.compute.interrupt(i) })
}

// Rebalance tells in the queue that a spot instance is at risk.
func (s *machineLevers) Rebalance(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.queue.warn(i, "EC2 Instance Rebalance Recommendation", "") })
}

// Lose ends an instance at once, without anybody's call. Its group or fleet
// notices some time later.
func (s *machineLevers) Lose(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.compute.endAlone(i, ByLoss) })
}

// Print sets the console output of an instance. xen: the instance is not of the Nitro
// system, so that its latest output is not available.
func (s *machineLevers) Print(id, text string, xen bool) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.console, i.xen = text, xen })
}

// Impair sets the status of an instance's own check and of its host's, in EC2's
// words (impaired, insufficient-data, and so on); empty: ok, once it has run for
// some time. A reboot repairs the instance, and another host both.
func (s *machineLevers) Impair(id, machine, host string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.machine, i.host = machine, host })
}

// Plan gives an instance a scheduled event of that code; empty: none.
func (s *machineLevers) Plan(id, code string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.event = code })
}

// Stop stops an instance behind its owner's back, as its own operating system would.
func (s *machineLevers) Stop(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) {
		if i.state == running {
			c.compute.stop(i)
		}
	})
}

// Stick has an instance that is to be stopped stay on its way, until it is let go.
func (s *machineLevers) Stick(id string, on bool) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) {
		if i.stuck = on; !on {
			c.compute.halted(i)
		}
	})
}

// FailVolume has the next replacement of a root volume end in that state: failed or
// failed-detached.
func (s *machineLevers) FailVolume(state string) { s.do(func(c *cloud) { c.compute.outcome = state }) }

// Endings returns all ends of instances so far, in order.
func (s *machineLevers) Endings() (endings []Ending) {
	s.do(func(c *cloud) { endings = slices.Clone(c.compute.endings) })
	return endings
}

// Instances returns the instances of a group or fleet ("": of all) that are not
// terminated, in order of launch.
func (s *machineLevers) Instances(owner string) (out []Instance) {
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
