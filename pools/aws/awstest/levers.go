package awstest

import (
	"fmt"
	"slices"
	"time"
)

// AddGroup makes a group; unless Cold its instances are in service.
func (s *Server) AddGroup(a ASG) { s.do(func(c *cloud) { c.scaling.addGroup(a) }) }

// AddFleet makes a fleet and returns its id; unless Cold it is active and has its instances.
func (s *Server) AddFleet(f SpotFleet) (id string) {
	s.do(func(c *cloud) { id = c.spot.addFleet(f).ID })
	return id
}

// CancelFleet cancels a fleet, with or without its instances.
func (s *Server) CancelFleet(id string, terminate bool) {
	s.t.Helper()
	s.about(id, func(c *cloud, _ *group, f *fleet) { c.spot.cancel(f, terminate) })
}

// SetBounds changes MinSize and MaxSize of a group, as another user would; its
// desired capacity follows if it must.
func (s *Server) SetBounds(name string, minSize, maxSize int) {
	s.t.Helper()
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		g.Min, g.Max = minSize, maxSize
		c.scaling.desire(g, min(max(g.Desired, minSize), maxSize), fmt.Sprintf("update of AutoScalingGroup constraints to min: %d, max: %d", minSize, maxSize))
	})
}

// SetTarget changes the desired capacity of a group or the target capacity of a
// fleet, as another user would.
func (s *Server) SetTarget(owner string, target int) {
	s.t.Helper()
	s.about(owner, func(c *cloud, g *group, f *fleet) {
		if f != nil {
			c.spot.modify(f, target, f.keep)
		} else {
			c.scaling.desire(g, target, "explicitly set group desired capacity")
		}
	})
}

// SetStock says how many instances of a market can exist at most; negative: any
// number. Those beyond it stay.
func (s *Server) SetStock(m Market, n int) { s.do(func(c *cloud) { limit(c.compute.stock, m, n) }) }

// SetQuota says how many vCPUs can run at most; negative: any number.
func (s *Server) SetQuota(q Quota, vcpus int) {
	s.do(func(c *cloud) { limit(c.compute.quota, q, vcpus) })
}

func limit[K comparable](of map[K]int, key K, n int) {
	if of[key] = n; n < 0 {
		delete(of, key)
	}
}

// Throttle refuses the next n requests of an action; "" is any action.
func (s *Server) Throttle(action string, n int) {
	s.do(func(*cloud) { s.guard.throttle[action] = n })
}

// Limit gives an action, or with "" all of them together, a full token bucket.
// It is refilled by the server's clock.
func (s *Server) Limit(action string, b Bucket) {
	s.do(func(c *cloud) { s.guard.buckets[action] = &bucket{Bucket: b, tokens: b.Size, at: c.now} })
}

// Deny refuses an action ("" any) on a resource (the name of a group, a fleet,
// an instance or the queue; "" any) until Allow. Describing has no resource.
func (s *Server) Deny(action, resource string) {
	s.do(func(*cloud) { s.guard.denied = append(s.guard.denied, denial{action, resource}) })
}

// Allow takes back all that was denied.
func (s *Server) Allow() { s.do(func(*cloud) { s.guard.denied = nil }) }

// Drop has the next n requests of an action ("" any) done, but cuts the
// connection in place of an answer.
func (s *Server) Drop(action string, n int) { s.do(func(*cloud) { s.guard.drop[action] = n }) }

// Lag has each action, after every write, answer its next reads as things were
// before the write.
func (s *Server) Lag(reads int) { s.do(func(*cloud) { s.lag.reads = reads }) }

// LagFor has reads be told how things were before the last write, until that
// much of the server's time has passed since.
func (s *Server) LagFor(d time.Duration) { s.do(func(*cloud) { s.lag.time = d }) }

// Suspend suspends processes of a group (Launch, Terminate, or any other, which
// is only told of), or resumes all if there are none.
func (s *Server) Suspend(name string, processes ...string) {
	s.t.Helper()
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		c.scaling.suspend(g, slices.Clone(processes))
	})
}

// StartRefresh begins an instance refresh of a group; it replaces all
// instances, one after the other.
func (s *Server) StartRefresh(name string) {
	s.t.Helper()
	s.about(name, func(c *cloud, g *group, _ *fleet) { c.scaling.startRefresh(g) })
}

// Protect sets or lifts the protection of an instance from scale-in.
func (s *Server) Protect(id string, on bool) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.protected = on })
}

// Tag gives an instance a tag, as an operator would.
func (s *Server) Tag(id, key, value string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.tag(key, value) })
}

// Interrupt warns in the queue that a spot instance is taken, and takes it
// after two minutes.
func (s *Server) Interrupt(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.compute.interrupt(i) })
}

// Rebalance tells in the queue that a spot instance is at risk.
func (s *Server) Rebalance(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.queue.warn(i, "EC2 Instance Rebalance Recommendation", "") })
}

// Lose ends an instance at once, without anybody's call. Its group or fleet
// notices some time later.
func (s *Server) Lose(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) { c.compute.endAlone(i, ByLoss) })
}

// Send puts a message of any content into the queue.
func (s *Server) Send(body string) {
	s.do(func(c *cloud) {
		c.queue.send(body)
		s.wakeLocked()
	})
}

// with does something with an instance; one that is not there is a mistake in the test.
func (s *Server) with(id string, what func(*cloud, *instance)) {
	s.t.Helper()
	found := false
	s.do(func(c *cloud) {
		if i := c.instance(id); i != nil {
			what(c, i)
			s.wakeLocked()
			found = true
		}
	})
	if !found {
		s.t.Errorf("awstest: no instance %s", id)
	}
}
