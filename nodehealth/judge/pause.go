package judge

import (
	"maps"
	"slices"
	"time"
)

// pause keeps repairs off a node or the pool.
type pause struct {
	until time.Time
	why   string
}

// maxPause bounds a pause, so that one that its owner forgot ends.
const maxPause = longest

func (j *Judge) pauseTaken(now time.Time, p Pause) {
	if p.Owner == "" {
		j.ignore(p.Node, "a pause without an owner")
		return
	}
	ttl := p.TTL
	if ttl <= 0 {
		ttl = DefaultPause
	}
	owners, ok := j.pauses[p.Node]
	if !ok {
		owners = map[string]pause{}
		j.pauses[p.Node] = owners
	}
	_, renewed := owners[p.Owner]
	owners[p.Owner] = pause{now.Add(min(ttl, maxPause)), cutReason(p.Why)}
	if !renewed {
		j.find(Finding{Event: PauseTaken, Node: p.Node, Until: owners[p.Owner].until, Why: sentence(p.Owner, p.Why)})
	}
	j.recount(now, p.Node)
}

func (j *Judge) pauseEnded(now time.Time, r Resume) {
	p, ok := j.pauses[r.Node][r.Owner]
	if !ok {
		j.ignore(r.Node, "no pause of "+r.Owner)
		return
	}
	j.unpause(now, r.Node, r.Owner)
	j.find(Finding{Event: PauseEnded, Node: r.Node, Why: sentence(r.Owner, p.why)})
}

func (j *Judge) unpause(now time.Time, id, owner string) {
	delete(j.pauses[id], owner)
	if len(j.pauses[id]) == 0 {
		delete(j.pauses, id)
	}
	j.recount(now, id)
}

func (j *Judge) recount(now time.Time, id string) {
	if n, ok := j.nodes[id]; ok {
		j.census.count(j.zones, n, j.tally(now, n))
	}
}

func (j *Judge) expirePauses(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(j.pauses)) {
		for _, owner := range slices.Sorted(maps.Keys(j.pauses[id])) {
			if p := j.pauses[id][owner]; !now.Before(p.until) {
				j.unpause(now, id, owner)
				j.find(Finding{Event: PauseExpired, Node: id, Why: sentence(owner, p.why)})
			}
		}
	}
}

// paused returns the pause of a node, or of the pool, that lasts longest.
func (j *Judge) paused(id string) (until time.Time, owner string, is bool) {
	for _, of := range [...]string{"", id} {
		for _, name := range slices.Sorted(maps.Keys(j.pauses[of])) {
			if p := j.pauses[of][name]; p.until.After(until) {
				until, owner, is = p.until, name, true
			}
		}
	}
	return until, owner, is
}

func sentence(owner, why string) string {
	if why == "" {
		return owner
	}
	return owner + ": " + cutReason(why)
}
