package placer

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	// maxUnconfirmed bounds the nudges that wait for the row of their app.
	maxUnconfirmed = 65_536
	// maxWaiting bounds the copies in one report of waiting starts.
	maxWaiting = 100_000
)

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

// waitingStarts returns the starts that the placer tries again until they have a node, in order of app. The harmonizer repeats
// all others, as the placer drops what its row does not want. Each app has one version: that of its row.
func waitingStarts(c *core) (starts []api.WaitingStart) {
	left := maxWaiting
	for _, app := range slices.Sorted(maps.Keys(c.wantsOf)) {
		one := api.WaitingStart{App: app, Version: c.rows.apps[app].Version}
		for s, w := range c.wantsOf[app] {
			if (w.noRoom || w.rejected != "") && c.rows.startable(s) {
				one.Indices = append(one.Indices, s.index)
			}
		}
		if len(one.Indices) == 0 {
			continue
		}
		slices.Sort(one.Indices)
		one.Indices = one.Indices[:min(len(one.Indices), left)]
		starts = append(starts, one)
		if left -= len(one.Indices); left == 0 {
			break
		}
	}
	return starts
}
