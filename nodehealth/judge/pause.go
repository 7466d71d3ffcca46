package judge

import (
	"maps"
	"slices"
	"time"
)

// pauses keep repairs off nodes, and off the pool: by node, where "" is the pool, and
// by owner.
type pauses map[string]map[string]pause

type pause struct {
	until time.Time
	why   string
}

// maxPause bounds a pause, so that one that its owner forgot ends.
const maxPause = longest

// take begins or renews a pause.
func (ps pauses) take(now time.Time, p Pause) []Finding {
	if p.Owner == "" {
		return []Finding{ignored(p.Node, "a pause without an owner")}
	}
	ttl := p.TTL
	if ttl <= 0 {
		ttl = DefaultPause
	}
	_, renewed := ps[p.Node][p.Owner]
	until := now.Add(min(ttl, maxPause))
	ps.put(p.Node, p.Owner, pause{until, cutReason(p.Why)})
	if renewed {
		return nil
	}
	return []Finding{{Event: PauseTaken, Node: p.Node, Until: until, Why: sentence(p.Owner, p.Why)}}
}

func (ps pauses) put(node, owner string, p pause) {
	if ps[node] == nil {
		ps[node] = map[string]pause{}
	}
	ps[node][owner] = p
}

// end ends the pause of one owner.
func (ps pauses) end(r Resume) []Finding {
	p, ok := ps[r.Node][r.Owner]
	if !ok {
		return []Finding{ignored(r.Node, "no pause of "+r.Owner)}
	}
	ps.remove(r.Node, r.Owner)
	return []Finding{{Event: PauseEnded, Node: r.Node, Why: sentence(r.Owner, p.why)}}
}

func (ps pauses) remove(node, owner string) {
	delete(ps[node], owner)
	if len(ps[node]) == 0 {
		delete(ps, node)
	}
}

// expire ends the pauses whose time is over.
func (ps pauses) expire(now time.Time) []Finding {
	var found []Finding
	for p := range ps.all {
		if !now.Before(p.Until) {
			ps.remove(p.Node, p.Owner)
			found = append(found, Finding{Event: PauseExpired, Node: p.Node, Why: sentence(p.Owner, p.Why)})
		}
	}
	return found
}

// all yields each pause, in the order of nodes and owners.
func (ps pauses) all(yield func(PauseRecord) bool) {
	for _, node := range slices.Sorted(maps.Keys(ps)) {
		for _, owner := range slices.Sorted(maps.Keys(ps[node])) {
			if p := ps[node][owner]; !yield(PauseRecord{node, owner, p.until, p.why}) {
				return
			}
		}
	}
}

// longest returns the pause of a node, or of the pool, that lasts longest; without an
// owner there is no pause.
func (ps pauses) longest(node string) (until time.Time, owner string) {
	for _, of := range [...]string{"", node} {
		from := until
		for name, p := range ps[of] {
			if p.until.After(until) || p.until.Equal(until) && until.After(from) && name < owner {
				until, owner = p.until, name
			}
		}
	}
	return until, owner
}

// records returns the pauses for the State.
func (ps pauses) records() []PauseRecord { return slices.Collect(ps.all) }

// restore takes the pauses of a State. None is longer than a new one may be.
func (ps pauses) restore(now time.Time, records []PauseRecord) {
	for _, r := range records {
		ps.put(r.Node, r.Owner, pause{earlier(r.Until, now.Add(maxPause)), r.Why})
	}
}

func sentence(owner, why string) string {
	if why == "" {
		return owner
	}
	return owner + ": " + cutReason(why)
}
