package agent

import (
	"context"
	"errors"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// recorder keeps the records of the node and of its copies while they change. If the copies do not outlive the agent, it
// keeps none.
type recorder struct {
	records
	on bool // the copies outlive the agent
}

// keep stores the record of a copy, if the copy outlives this agent.
func (r recorder) keep(c *copyOf, ended *time.Time) error {
	if c.tag == "" {
		return nil
	}
	return r.write(record{
		Start: c.StartRequest, Since: c.since, Asked: c.asked, Evacuated: c.evacuated, Tag: c.tag, Process: c.process, Ended: ended,
		Fetching: c.fetching, Ports: c.ports,
	})
}

// update is keep for a change that has effect anyway.
func (r recorder) update(c *copyOf, ended *time.Time) {
	if err := r.keep(c, ended); err != nil {
		r.log.Error("record of app instance not updated", "instance", c.Instance, "err", err)
	}
}

// updateNode stores the record of the node, if copies outlive this agent.
func (r recorder) updateNode(m *machine) {
	if !r.on {
		return
	}
	if err := r.writeNode(nodeRecord{Cordoned: m.cordoned, Fenced: m.fenced}); err != nil {
		r.log.Error("record of the node not updated: after a restart of the agent, the node is as before", "err", err)
	}
}

// detach prepares the start of a copy that outlives this agent. Its record exists before its process, so a kill of the
// agent leaves no process without a record.
func (r recorder) detach(c *copyOf, spec *supervise.Spec) error {
	if !r.on {
		return nil
	}
	if err := r.retag(c); err != nil {
		return err
	}
	spec.Detached = c.tag
	return nil
}

// retag stores the record of a copy with a new tag for its process.
func (r recorder) retag(c *copyOf) error {
	c.tag = supervise.NewTag()
	return r.keep(c, nil)
}

// identify completes the record of a started copy.
func (r recorder) identify(c *copyOf, child *supervise.Child) error {
	if c.tag == "" {
		c.fetching = false
		return nil
	}
	id, err := child.Identity()
	fetching := c.fetching
	if err == nil {
		c.process, c.fetching = &id, false
		err = r.keep(c, nil)
	}
	if err == nil {
		return nil
	}
	c.process, c.fetching = nil, fetching
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Join(err, child.Stop(now))
}
