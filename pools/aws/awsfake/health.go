package awsfake

import (
	"slices"
	"time"
)

// defaultSecurityGroup is the initial security group of every network interface.
const defaultSecurityGroup = "sg-00000000000000001"

// health is the health state of an instance.
type health struct {
	machine, host  string // configured statuses of its checks; empty: ok
	event          string // code of the scheduled event; empty: none
	checked        time.Time
	unhealthy      bool // as its group marks it
	stuck          bool // it stays in the state stopping
	boots          int
	reboots        int
	volumes        int      // number of replaced root volumes
	securityGroups []string // of its network interface; replaced, never modified
}

// EC2's statuses of a check.
const (
	statusOK            = "ok"
	statusInitializing  = "initializing"
	statusNotApplicable = "not-applicable"
)

// status returns the status of a check that a test set to set.
func (i *instance) status(set string, now time.Time) string {
	switch {
	case i.state != running:
		return statusNotApplicable
	case set != "":
		return set
	case now.Before(i.checked):
		return statusInitializing
	}
	return statusOK
}

// checkAgain restarts the checks.
func (c *compute) checkAgain(i *instance) { i.checked = c.now.Add(c.config.Boot) }

// stop begins to stop a running instance. Its group detects it later.
func (c *compute) stop(i *instance) {
	i.state = stopping
	c.queue.changed(i)
	c.after(c.config.Leave, func() { c.halted(i) })
	c.after(c.config.Check, func() {
		if g := c.group(i.owner); g != nil {
			c.scaling.inspect(g, i)
		}
	})
}

func (c *compute) halted(i *instance) {
	if i.state == stopping && !i.stuck {
		i.state = stopped
		c.queue.changed(i)
	}
}

// start begins to start a stopped instance on another host.
func (c *compute) start(i *instance) {
	i.state, i.launched = pending, c.now
	i.machine, i.host = "", ""
	c.boot(i, func(*instance) {})
}

// restart has the effects of a reboot or a new root volume.
func (c *compute) restart(i *instance) {
	i.machine = ""
	c.checkAgain(i)
}

// volumeTask replaces a root volume.
//
//	pending ──► in-progress ──┬──► succeeded
//	                          └──► failing ──┬──► failed
//	                                         └──► failed-detached
type volumeTask struct {
	id, instance, image, state string
	token                      string
	discard                    bool // delete the old volume
	started, ended             time.Time
	tags                       map[string]string
}

// States of a task.
const (
	taskPending   = "pending"
	taskUnderWay  = "in-progress"
	taskFailing   = "failing"
	taskSucceeded = "succeeded"
)

// rebuild begins a task that ends in the state outcome. Empty: it succeeds.
func (c *compute) rebuild(t volumeTask, outcome string) *volumeTask {
	t.id, t.state, t.started = c.name("replacevol"), taskPending, c.now
	task := &t
	c.tasks = append(c.tasks, task)
	c.after(c.config.Boot/2, func() {
		if task.state = taskUnderWay; outcome != "" {
			c.after(c.config.Boot/2, func() { task.state = taskFailing })
		}
		c.after(c.config.Boot, func() { c.rebuilt(task, outcome) })
	})
	return task
}

func (c *compute) rebuilt(t *volumeTask, outcome string) {
	t.ended = c.now
	if t.state = outcome; outcome != "" {
		return
	}
	t.state = taskSucceeded
	if i := c.instance(t.instance); i != nil && i.state == running {
		i.volumes++
		c.restart(i)
	}
}

// busy reports whether the root volume is being replaced.
func (c *compute) busy(id string) bool {
	return slices.ContainsFunc(c.tasks, func(t *volumeTask) bool { return t.instance == id && t.ended.IsZero() })
}
