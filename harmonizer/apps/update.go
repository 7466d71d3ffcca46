package apps

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// updateState is the state of the update of an app to the version of its row.
//
//	complete ──► moving ──► complete
//	                └─────► halted ──► moving
//
// The rules of each index do the rest: a copy of an earlier version stops once a ready one of the live version is on its index
// (extra_version, last_copy). So an update takes no index out of service. It is halted if a copy of the new version crashes, or is not
// ready in time. Then the last complete version is the live one again, until the row changes.
type updateState struct {
	complete string            // the last version with a ready copy on each index; empty: unknown
	ready    map[int]bool      // indices that had a ready copy of the live version, while it is not complete
	moving   map[int]bool      // indices where the live version may start beside an earlier one
	crashes  int               // of the live version, while it is not complete
	halted   *api.HaltedUpdate // nil: the live version is that of the row
}

// updating reports whether earlier versions are being replaced by the live one. It is false for rows of a controller: their
// updates are its own. Work that ends is not updated: a new version begins at once.
func updating(a *app) bool {
	return a.row == rowPresent && !a.want.OneShot && a.want.Command != "" && a.update.complete != "" && a.update.complete != a.want.Version
}

// updateStart holds the start of the live version on an index that an earlier one serves, while enough other indices change.
func (l *evaluation) updateStart() (hold, bool) {
	a := l.app
	if !updating(a) || l.copyCounts.earlierReady == 0 || a.update.moving[l.index] {
		return hold{}, false
	}
	if a.update.halted != nil {
		return hold{api.AppRuleUpdate, api.WhyHalted, 0}, true
	}
	return hold{api.AppRuleUpdate, api.WhyInTurn, 0}, len(a.update.moving) >= a.want.Update.Surge(a.expected())
}

// effective returns the row that the rules use: that of a halted update has the last complete version.
func effective(a *app, row api.App) api.App {
	h := a.update.halted
	if h == nil || row.Version != h.Version || row.Version == h.Serves {
		return row
	}
	if v, known := row.Find(h.Serves); known {
		return row.WithVersion(v)
	}
	return row
}

// begin prepares for another live version.
func (u *updateState) begin() {
	u.ready, u.moving, u.crashes = nil, nil, 0
}

// updates moves the updates of apps forward.
type updates struct {
	clock   *clock
	known   *known.Store
	apps    *inventory
	rows    *rows
	memory  *memory
	journal *journal
}

// judged follows the evaluation of an index, and reports whether the update was halted: then the evaluation is obsolete.
func (u *updates) judged(l *evaluation) (halted bool) {
	a, n := l.app, l.copyCounts
	if !updating(a) {
		return false
	}
	desired := a.desires(l.index)
	if a.update.moving[l.index] && (!desired || n.ready > 0 || n.earlierReady == 0) {
		delete(a.update.moving, l.index)
		u.next(a)
	}
	return desired && a.update.halted == nil && n.serving > 0 && n.ready == 0 && u.late(l)
}

// allow lets the live version start on an index.
func (u *updates) allow(l *evaluation) {
	a := l.app
	if !updating(a) || l.copyCounts.earlierReady == 0 || a.update.moving[l.index] {
		return
	}
	if a.update.moving == nil {
		a.update.moving = map[int]bool{}
	}
	a.update.moving[l.index] = true
}

// next evaluates the lowest indices that wait for their turn.
func (u *updates) next(a *app) {
	free := a.want.Update.Surge(a.expected()) - len(a.update.moving)
	for ; free > 0; free-- {
		var lowest *slot
		for s := a.slots; s != nil; s = s.next {
			if s.hold == api.AppRuleUpdate && (lowest == nil || s.index < lowest.index) {
				lowest = s
			}
		}
		if lowest == nil {
			return
		}
		lowest.hold = ""
		u.apps.backlog.mark(lowest.indexKey())
	}
}

// late halts the update if a copy of the live version is not ready in time.
func (u *updates) late(l *evaluation) bool {
	within := time.Duration(l.app.want.Ready.WithDefaults().Within)
	for _, c := range l.copies {
		if !c.OfVersion(l.app.want.Version) || c.State() == api.CopyEvacuating {
			continue
		}
		age := u.clock.wall.Sub(c.FirstSeen())
		if age >= within {
			u.halt(l.app, fmt.Sprintf("instance %d was not ready within %v", l.index, within))
			return true
		}
		l.evaluateWithin(within - age)
	}
	return false
}

// crashed counts the crash of a copy of the live version.
func (u *updates) crashed(a *app, id string) {
	if !updating(a) || a.update.halted != nil {
		return
	}
	a.update.crashes++
	u.memory.markChanged(a)
	if most := a.want.Update.Crashes(); a.update.crashes >= most {
		how := cmp.Or(a.crashes.description(id), "for an unknown reason")
		u.halt(a, fmt.Sprintf("%d of its instances crashed, the last one %s", a.update.crashes, how))
	}
}

// halt ends the update of an app: the last complete version is the live one again.
func (u *updates) halt(a *app, why string) {
	u.apps.setHalted(a, &api.HaltedUpdate{Version: a.want.Version, Serves: a.update.complete, Why: why, At: u.clock.wall.Round(0).UTC()})
	u.memory.markChanged(a)
	u.journal.addFinding(api.AppFinding{Kind: api.AppFindingHalted, Rule: api.AppRuleUpdate, Why: api.WhyHalted, App: a.name(), Version: a.want.Version,
		Detail: a.update.halted.String(a.name())})
	u.rows.change(a, a.given)
}

// becameReady records that an index has a ready copy of the live version. After the last index, that version is complete.
func (u *updates) becameReady(a *app, c known.Copy) {
	if h := a.want.History; a.update.complete == "" && len(h) > 0 && c.Ready() && c.OfVersion(h[0].Version) {
		a.update.complete = h[0].Version // the update began before this machine did
	}
	if a.row != rowPresent || a.want.OneShot || a.want.Command == "" || a.update.complete == a.want.Version || !c.Ready() || !c.OfVersion(a.want.Version) || !a.desires(c.Index()) {
		return
	}
	if a.update.ready == nil {
		a.update.ready = map[int]bool{}
	}
	a.update.ready[c.Index()] = true
	u.finish(a)
}

// finish completes the update if each index has a ready copy of the live version.
func (u *updates) finish(a *app) {
	if len(a.update.ready) < a.expected() || a.expected() == 0 || a.update.complete == a.want.Version {
		return
	}
	now := map[int]bool{}
	for index := range a.expected() {
		for c := range u.known.Copies(a.id, index) {
			if c.Ready() && c.OfVersion(a.want.Version) {
				now[index] = true
			}
		}
	}
	if a.update.ready = now; len(now) < a.expected() {
		return
	}
	if a.update.complete != "" {
		u.journal.addFinding(api.AppFinding{Kind: api.AppFindingUpdated, Rule: api.AppRuleUpdate, App: a.name(), Version: a.want.Version})
	}
	a.update.begin()
	a.update.complete = a.want.Version
	u.memory.markChanged(a)
}
