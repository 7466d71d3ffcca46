package apps

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Bounds of one nudge, so that it fits in a bus message of 1 MB, however long the instance ids
// are.
const (
	perNudge   = 1000 // indices
	perStop    = 250  // instances
	perRunning = 100  // versions in Running
)

// Nudge requests a start or a stop. Exactly one of the two is set. The sender gives it an id, by which a scheduler
// confirms it; a nudge without an id needs no confirmation.
type Nudge struct {
	ID    string     `json:"-"`
	Start *api.Start `json:"start,omitempty"`
	Stop  *api.Stop  `json:"stop,omitempty"`
}

// appNudges collects the contents of one app's nudges.
type appNudges struct {
	app      *app
	starts   []*slot
	restarts []*slot // of flapping indices
	stops    []stopped
}

// stopped is a copy whose stop is sent.
type stopped struct {
	slot *slot
	extra
	version string
	node    message.Node
}

func (d *dispatch) appNudges(a *app) *appNudges {
	p := d.out[a]
	if p == nil {
		p = &appNudges{app: a}
		d.out[a] = p
	}
	return p
}

// flush returns the collected nudges, in order of app and index, starts before stops.
func (d *dispatch) flush() (nudges []Nudge) {
	all := make([]*appNudges, 0, len(d.out)) // slices.SortedFunc would allocate more
	for _, p := range d.out {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *appNudges) int { return cmp.Compare(a.app.name(), b.app.name()) })
	for _, p := range all {
		running := d.running(p.app)
		nudges = d.flushStarts(nudges, p.app, p.starts, running)
		nudges = d.flushStarts(nudges, p.app, p.restarts, running)
		nudges = d.flushStops(nudges, p.app, p.stops, running)
	}
	clear(d.out)
	return nudges
}

// running returns how many copies of each version are RUNNING, 0 for a live version without a
// copy. At most about perRunning versions are listed, always with the live one; controllers
// need no other.
func (d *dispatch) running(a *app) map[string]int {
	running, live := d.known.Running(a.id), a.want.Version
	if len(running) > perRunning {
		for _, version := range slices.Sorted(maps.Keys(running))[perRunning:] {
			if version != live {
				delete(running, version)
			}
		}
	}
	if live != "" {
		running[live] += 0
	}
	return running
}

func (d *dispatch) flushStarts(nudges []Nudge, a *app, slots []*slot, running map[string]int) []Nudge {
	slices.SortFunc(slots, func(a, b *slot) int { return cmp.Compare(a.index, b.index) })
	for part := range slices.Chunk(slots, perNudge) {
		indices := make([]int, len(part))
		for i, s := range part {
			indices[i] = s.index
			d.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingStart, Why: s.why, Version: a.want.Version, Rule: s.start, Until: d.clock.time(s.pending)})
		}
		nudges = append(nudges, Nudge{Start: &api.Start{
			App:         a.name(),
			LastUpdated: a.updated(),
			Version:     a.want.Version,
			Indices:     indices,
			Running:     running,
			Flapping:    part[0].start == api.AppRuleFlapping,
		}})
	}
	return nudges
}

func (d *dispatch) flushStops(nudges []Nudge, a *app, stops []stopped, running map[string]int) []Nudge {
	slices.SortFunc(stops, func(a, b stopped) int {
		return cmp.Or(cmp.Compare(a.slot.index, b.slot.index), cmp.Compare(a.id, b.id))
	})
	for part := range slices.Chunk(stops, max(1, d.cfg.stopsAtOnce(a))) {
		instances := make(map[string]string, len(part))
		for _, c := range part {
			instances[c.id] = c.version
			d.journal.addIndexFinding(c.slot, onNode(api.AppFinding{Kind: api.AppFindingStop, Why: c.why, Version: c.version, Instance: c.id,
				Rule: c.rule, Until: d.clock.time(c.until)}, c.node))
		}
		nudges = append(nudges, Nudge{Stop: &api.Stop{
			App:         a.name(),
			LastUpdated: a.updated(),
			Instances:   instances,
			Running:     running,
			Version:     a.want.Version,
		}})
	}
	return nudges
}

// updated returns the row's time in unix seconds, 0 if unknown.
func (a *app) updated() int64 {
	if a.want.Updated.IsZero() {
		return 0
	}
	return a.want.Updated.Unix()
}
