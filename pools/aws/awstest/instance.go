package awstest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EC2's states of an instance.
//
//	   ┌───────── stopped ◄── stopping
//	   ▼             │           ▲ │
//	pending ──► running ─────────┘ │
//	   └─────────┬───┴─────────────┘
//	             └──► shutting-down ──► terminated ──► (told of for an hour)
const (
	pending      = "pending"
	running      = "running"
	stopping     = "stopping"
	stopped      = "stopped"
	shuttingDown = "shutting-down"
	terminated   = "terminated"
)

// Auto Scaling's states of an instance; none: it is of a fleet, or the group has done with it.
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
	taken     bool      // a spot instance whose end is announced
	version   int       // of the group's launch template
	launched  time.Time // the last time
	by        Cause     // why it ended
	tags      map[string]string
	console   string // its last output
	xen       bool   // it is not of the Nitro system
	health
}

// alive: it runs or is about to, as far as EC2 is concerned.
func (i *instance) alive() bool { return i.state == pending || i.state == running }

// exists: it was not ended.
func (i *instance) exists() bool { return i.state != shuttingDown && i.state != terminated }

// counts: it is part of its group's capacity, as far as the group knows.
func (i *instance) counts() bool { return i.lifecycle == lifePending || i.lifecycle == lifeInService }

// listed: its group tells of it.
func (i *instance) listed() bool { return i.lifecycle != "" }

func (i *instance) is(id string) bool { return i.id == id }

// shortage is why an instance cannot be launched; none: it can.
type shortage int

const (
	enough shortage = iota
	noStock
	noQuota
)

// compute is EC2 without its fleets: what runs, and what could.
type compute struct {
	*cloud
	stock   map[Market]int
	quota   map[Quota]int
	endings []Ending
	outcome string // of the next root volume that is replaced; empty: success
}

// available says whether an instance of the market can be launched.
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
func (c *compute) launch(i instance, up func(*instance)) *instance {
	i.id, i.state, i.launched = c.name("i"), pending, c.now
	i.securityGroups = []string{defaultSecurityGroup}
	added := &i
	c.instances = append(c.instances, added)
	c.boot(added, up)
	return added
}

// boot has an instance that is pending run.
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

// end begins an instance's end. Its group learns of it by itself, or was the one who did it.
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

// endAlone ends an instance behind its owner's back, who notices some time later.
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

// interrupt announces that a spot instance is taken, and takes it.
func (c *compute) interrupt(i *instance) {
	if i.taken || !i.exists() {
		return
	}
	i.taken = true
	c.queue.warn(i, "EC2 Spot Instance Interruption Warning", "terminate")
	c.after(notice, func() { c.endAlone(i, ByInterruption) })
}

// tag gives the instance a tag.
func (i *instance) tag(key, value string) {
	i.tags = maps.Clone(i.tags) // those of a launch are shared
	if i.tags == nil {
		i.tags = map[string]string{}
	}
	i.tags[key] = value
}

func (i *instance) arn() string {
	return fmt.Sprintf("arn:aws:ec2:%s:instance/%s", i.market.Zone, i.id)
}
