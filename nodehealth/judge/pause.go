package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// pauses block repairs of nodes, and of the pool, which has the empty node. They are sorted by node
// and owner.
type pauses []api.RepairPause

// maxPause is the maximum length of a pause, so that every pause ends.
const maxPause = longest

func (ps *pauses) addPause(now time.Time, p Pause) []api.HealthFinding {
	if p.Owner == "" {
		return []api.HealthFinding{ignored(p.Node, "a pause without an owner")}
	}
	ttl := p.TTL
	if ttl <= 0 {
		ttl = DefaultPause
	}
	until := now.Add(min(ttl, maxPause))
	if renewed := ps.putPause(api.RepairPause{Node: p.Node, Owner: p.Owner, Until: until, Why: prose.Clip(p.Why, maxReason)}); renewed {
		return nil
	}
	return []api.HealthFinding{{Event: api.HealthPauseTaken, Node: p.Node, Until: until, Why: sentence(p.Owner, p.Why)}}
}

func (ps *pauses) putPause(p api.RepairPause) (renewed bool) {
	i, renewed := ps.find(p.Node, p.Owner)
	if !renewed {
		*ps = slices.Insert(*ps, i, p)
	}
	(*ps)[i] = p
	return renewed
}

func (ps pauses) find(node, owner string) (i int, found bool) {
	return slices.BinarySearchFunc(ps, api.RepairPause{Node: node, Owner: owner}, func(a, b api.RepairPause) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Owner, b.Owner))
	})
}

func (ps pauses) ofNode(node string) pauses {
	from, _ := ps.find(node, "")
	to := from
	for to < len(ps) && ps[to].Node == node {
		to++
	}
	return ps[from:to]
}

func (ps *pauses) end(r Resume) []api.HealthFinding {
	i, ok := ps.find(r.Node, r.Owner)
	if !ok {
		return []api.HealthFinding{ignored(r.Node, "no pause of "+r.Owner)}
	}
	why := sentence(r.Owner, (*ps)[i].Why)
	*ps = slices.Delete(*ps, i, i+1)
	return []api.HealthFinding{{Event: api.HealthPauseEnded, Node: r.Node, Why: why}}
}

func (ps *pauses) expire(now time.Time) (found []api.HealthFinding) {
	*ps = slices.DeleteFunc(*ps, func(p api.RepairPause) bool {
		over := !now.Before(p.Until)
		if over {
			found = append(found, api.HealthFinding{Event: api.HealthPauseExpired, Node: p.Node, Why: sentence(p.Owner, p.Why)})
		}
		return over
	})
	return found
}

// longest returns the pause of a node, or of the pool, that lasts longest. An empty owner means
// that no pause exists.
func (ps pauses) longest(node string) (until time.Time, owner string) {
	for _, of := range [...]string{"", node} {
		for _, p := range ps.ofNode(of) {
			if p.Until.After(until) {
				until, owner = p.Until, p.Owner
			}
		}
	}
	return until, owner
}

func sentence(owner, why string) string {
	if why == "" {
		return owner
	}
	return owner + ": " + prose.Clip(why, maxReason)
}
