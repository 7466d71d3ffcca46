package awstest

import (
	"slices"
	"strconv"
	"strings"
)

// shortage is why an instance cannot be launched; none: it can.
type shortage int

const (
	enough shortage = iota
	noStock
	noQuota
)

// available says whether an instance of the market can be launched.
func (c *cloud) available(m Market, spot bool) shortage {
	quota := OnDemandVCPU
	if spot {
		quota = SpotVCPU
	}
	inMarket, used := 0, 0
	for _, i := range c.instances {
		if !i.alive() {
			continue
		}
		if i.market == m {
			inMarket++
		}
		if i.spot == spot {
			used += vcpus(i.market.Type)
		}
	}
	if limit, limited := c.quota[quota]; limited && used+vcpus(m.Type) > limit {
		return noQuota
	}
	if limit, limited := c.stock[m]; limited && inMarket >= limit {
		return noStock
	}
	return enough
}

// vcpus is what an instance of the type counts against a quota: by its size, as
// most families have them.
func vcpus(instanceType string) int {
	_, size, _ := strings.Cut(instanceType, ".")
	switch size {
	case "medium":
		return 1
	case "xlarge":
		return 4
	case "metal":
		return 96
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(size, "xlarge")); err == nil {
		return 4 * n
	}
	return 2
}

// launch begins an instance's life; what it is of, and what of, is filled in.
func (c *cloud) launch(i instance, up func(*instance)) *instance {
	i.id, i.state, i.launched = c.name("i"), pending, c.now
	i.securityGroups = []string{defaultSecurityGroup}
	added := &i
	c.instances = append(c.instances, added)
	c.boot(added, up)
	return added
}

// boot has an instance that is pending run.
func (c *cloud) boot(i *instance, up func(*instance)) {
	i.boots++
	boot := i.boots
	c.changed(i)
	c.after(c.config.Boot, func() {
		if i.state == pending && i.boots == boot {
			i.state = running
			c.changed(i)
			c.checkAgain(i)
			up(i)
		}
	})
}

// end begins an instance's end. Its group learns of it by itself, or was the one who did it.
func (c *cloud) end(i *instance, by Cause) {
	if !i.exists() {
		return
	}
	i.by = by
	c.endings = append(c.endings, Ending{At: c.now, Instance: i.id, Owner: i.owner, By: by})
	if by == ByLoss {
		c.ended(i)
		return
	}
	i.state = shuttingDown
	c.changed(i)
	c.after(c.config.Leave, func() { c.ended(i) })
}

func (c *cloud) ended(i *instance) {
	i.state = terminated
	c.changed(i)
	c.deregisterAll(i.id)
	if i.lifecycle == lifeTerminating {
		i.lifecycle = ""
	}
	if f := c.fleet(i.owner); f != nil && f.state != fleetActive {
		c.settleFleet(f)
	}
	c.after(fade, func() {
		c.instances = slices.DeleteFunc(c.instances, func(other *instance) bool { return other.is(i.id) })
	})
}

// endAlone ends an instance behind its owner's back, who notices some time later.
func (c *cloud) endAlone(i *instance, by Cause) {
	if !i.exists() {
		return
	}
	c.end(i, by)
	c.after(c.config.Check, func() {
		if g := c.group(i.owner); g != nil {
			c.inspect(g, i)
		}
		if f := c.fleet(i.owner); f != nil {
			c.settleFleet(f)
		}
	})
}

// interrupt announces that a spot instance is taken, and takes it.
func (c *cloud) interrupt(i *instance) {
	if i.taken || !i.exists() {
		return
	}
	i.taken = true
	c.warn(i, "EC2 Spot Instance Interruption Warning", "terminate")
	c.after(notice, func() { c.endAlone(i, ByInterruption) })
}
