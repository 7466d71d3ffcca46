package placer

import (
	"time"
)

// maxUnconfirmed bounds the nudges that wait for the row of their app.
const maxUnconfirmed = 65_536

// confirmations are the nudges to confirm. The placer confirms the nudges of its own apps: those with a row of its
// pool, and stops of copies on its nodes. The row may come after the nudge.
type confirmations struct {
	waiting []unconfirmed
}

// unconfirmed is a nudge that was received and not confirmed.
type unconfirmed struct {
	id, app string
	ours    bool      // a copy on a node of the pool is to be stopped
	until   time.Time // its row is expected before
}

func (c *confirmations) addNudge(until time.Time, n Nudge, state *core) {
	if n.ID == "" || len(c.waiting) >= maxUnconfirmed {
		return
	}
	u := unconfirmed{id: n.ID, until: until}
	switch {
	case n.Start != nil:
		u.app = n.Start.App
	case n.Stop != nil:
		u.app = n.Stop.App
		for instance := range n.Stop.Instances {
			u.ours = u.ours || state.findCopy(instance) != nil
		}
	}
	c.waiting = append(c.waiting, u)
}

// takeConfirmable returns the nudges to confirm now. It drops those whose row did not come in time: they are of another pool.
func (c *confirmations) takeConfirmable(now time.Time, state *core) (ids []string) {
	if !state.complete {
		return nil
	}
	rest := c.waiting[:0]
	for _, u := range c.waiting {
		_, known := state.rows.apps[u.app]
		switch {
		case known || u.ours:
			ids = append(ids, u.id)
		case now.Before(u.until):
			rest = append(rest, u)
		}
	}
	c.waiting = rest
	return ids
}
