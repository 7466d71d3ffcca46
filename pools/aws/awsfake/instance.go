package awsfake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// States of an instance in EC2.
//
//	   ┌───────── stopped ◄── stopping
//	   ▼             │           ▲ │
//	pending ──► running ─────────┘ │
//	   └─────────┬───┴─────────────┘
//	             └──► shutting-down ──► terminated ──► (listed for an hour)
const (
	pending      = "pending"
	running      = "running"
	stopping     = "stopping"
	stopped      = "stopped"
	shuttingDown = "shutting-down"
	terminated   = "terminated"
)

// States of an instance in Auto Scaling. Empty: it belongs to a fleet, or has left its group.
//
//	Pending ──► InService ──► Terminating ──► (none)
//	   └────────────────────────▲
const (
	lifePending     = "Pending"
	lifeInService   = "InService"
	lifeTerminating = "Terminating"
)

type instance struct {
	id, owner string
	market    Market
	weight    float64
	state     string
	lifecycle string
	protected bool
	spot      bool
	taken     bool      // a spot instance with an announced end
	version   int       // of the launch template
	launched  time.Time // the latest launch
	by        Cause     // why it ended
	tags      map[string]string
	console   string // its last output
	xen       bool   // it is not on the Nitro system
	health
}

// alive reports whether EC2 considers the instance pending or running.
func (i *instance) alive() bool { return i.state == pending || i.state == running }

// exists reports whether the instance was not terminated.
func (i *instance) exists() bool { return i.state != shuttingDown && i.state != terminated }

// counts reports whether the group counts the instance as capacity.
func (i *instance) counts() bool { return i.lifecycle == lifePending || i.lifecycle == lifeInService }

// listed reports whether the instance's group lists it.
func (i *instance) listed() bool { return i.lifecycle != "" }

func (i *instance) is(id string) bool { return i.id == id }

// shortage is why an instance cannot be launched.
type shortage int

const (
	enough shortage = iota
	noStock
	noQuota
)

// compute is the EC2 service without fleets.
type compute struct {
	*cloud
	stock   map[Market]int
	quota   map[Quota]int
	endings []Ending
	outcome string // result of the next root volume task; empty: success
}

// available returns whether an instance of the market can be launched.
func (c *compute) available(m Market, spot bool) shortage {
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

// vcpus returns the vCPUs of an instance type, from its size as in most families.
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

// launch adds a pending instance. It sets id, state and security group.
func (c *compute) launch(i instance, up func(*instance)) *instance {
	i.id, i.state, i.launched = c.name("i"), pending, c.now
	i.securityGroups = []string{defaultSecurityGroup}
	added := &i
	c.instances = append(c.instances, added)
	c.boot(added, up)
	return added
}

// boot starts a pending instance, and calls up when it runs.
func (c *compute) boot(i *instance, up func(*instance)) {
	i.boots++
	boot := i.boots
	c.queue.changed(i)
	c.after(c.config.Boot, func() {
		if i.state == pending && i.boots == boot {
			i.state = running
			c.queue.changed(i)
			c.checkAgain(i)
			up(i)
		}
	})
}

// end terminates an instance. Its group detects the end itself, unless it caused it.
func (c *compute) end(i *instance, by Cause) {
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
	c.queue.changed(i)
	c.after(c.config.Leave, func() { c.ended(i) })
}

func (c *compute) ended(i *instance) {
	i.state = terminated
	c.queue.changed(i)
	c.balancing.deregisterAll(i.id)
	if i.lifecycle == lifeTerminating {
		i.lifecycle = ""
	}
	if f := c.fleet(i.owner); f != nil && f.state != fleetActive {
		c.spot.settleFleet(f)
	}
	c.after(fade, func() {
		c.instances = slices.DeleteFunc(c.instances, func(other *instance) bool { return other.is(i.id) })
	})
}

// endAlone terminates an instance without its owner, which detects it later.
func (c *compute) endAlone(i *instance, by Cause) {
	if !i.exists() {
		return
	}
	c.end(i, by)
	c.after(c.config.Check, func() {
		if g := c.group(i.owner); g != nil {
			c.scaling.inspect(g, i)
		}
		if f := c.fleet(i.owner); f != nil {
			c.spot.settleFleet(f)
		}
	})
}

// interrupt announces the interruption of a spot instance, and later terminates it.
func (c *compute) interrupt(i *instance) {
	if i.taken || !i.exists() {
		return
	}
	i.taken = true
	c.queue.warn(i, "EC2 Spot Instance Interruption Warning", "terminate")
	c.after(notice, func() { c.endAlone(i, ByInterruption) })
}

// tag sets a tag of the instance.
func (i *instance) tag(key, value string) {
	i.tags = maps.Clone(i.tags) // instances of one launch share the map
	if i.tags == nil {
		i.tags = map[string]string{}
	}
	i.tags[key] = value
}

func (i *instance) arn() string {
	return fmt.Sprintf("arn:aws:ec2:%s:instance/%s", i.market.Zone, i.id)
}
