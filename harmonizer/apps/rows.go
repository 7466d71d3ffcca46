package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
)

const (
	perSweep = 10_000 // apps per Step whose row is checked
	noSweep  = -1
)

// source is whether the expected state can be trusted.
type source struct {
	isComplete bool
	since      instant // complete since then
	trusted    instant // total duration of completeness before since
	until      instant // complete until then; 0: until it is lost
	why        string  // why it is incomplete
	failed     string  // why the latest pass failed

	polled bool
	pass   uint32 // number of the current pass
	whole  uint32 // number of the last complete pass
	rows   int    // apps with a row, readable or not
	read   int    // of these, read in this pass
	before int    // rows when this pass began
}

func (s *source) next() {
	s.pass++
	s.before, s.read = s.rows, 0
}

func (s *source) distrust(at instant, why string) {
	s.trusted = s.trust(at)
	s.isComplete, s.why = false, why
}

// trust returns the total time for which the source was complete. This clock stands still
// while a missing row proves nothing.
func (s *source) trust(at instant) instant {
	if s.isComplete {
		return s.trusted + at - s.since
	}
	return s.trusted
}

func (s *source) found(a *app) {
	if a.has() && a.pass != s.pass {
		s.read++
	}
	a.pass = s.pass
}

// tally updates the row counts. It must be called before the app's row state becomes row.
func (s *source) tally(a *app, row rowState) {
	by := count(row == rowPresent || row == rowUnreadable) - count(a.has())
	s.rows += by
	if a.pass == s.pass {
		s.read += by
	}
}

func (s *source) complete(t *clock, validFor time.Duration) {
	if !s.isComplete {
		s.isComplete, s.since = true, t.now
	}
	if s.until = 0; validFor > 0 {
		s.until = t.in(validFor)
	}
	s.whole, s.failed = s.pass, ""
}

// wasComplete reports whether the source is or ever was complete.
func (s *source) wasComplete() bool { return s.since != 0 }

// expire ends the validity of the last complete pass.
func (s *source) expire(now instant) {
	if !s.isComplete || s.until == 0 || now <= s.until {
		return
	}
	why := "the last complete pass is too old"
	if s.failed != "" {
		why += ": " + s.failed
	}
	s.distrust(s.until, why)
}

// rows is the expected state. It changes the rows of apps and marks the affected indices.
type rows struct {
	source source

	cfg    *Config
	clock  *clock
	apps   *inventory
	loss   *rowLoss
	stops  *rowStops
	memory *memory
	starts *queue.Queue[indexKey]

	sweeping int // number of the app where the sweep continues, or noSweep
}

func (r *rows) processEvent(ev Event) {
	switch ev := ev.(type) {
	case ExpectedBegin:
		r.source.polled = true
		r.source.next()
	case ExpectedRows:
		for _, row := range ev.Rows {
			r.row(row)
		}
	case ExpectedUnreadable:
		r.unreadable(ev.Name)
	case ExpectedGone:
		if a := r.apps.lookup(ev.Name); a != nil {
			r.lose(a, rowDeleted)
			r.memory.forget(ev.Name)
		}
	case ExpectedComplete:
		r.loss.watchRows()
		r.stops.whole()
		r.source.complete(r.clock, ev.ValidFor)
		if r.source.rows != r.source.read {
			r.sweeping = 0 // the pass lacks rows
		}
	case ExpectedFailed:
		r.source.failed = ev.Why
	case ExpectedLost:
		r.source.distrust(r.clock.now, ev.Why)
		r.source.next()
	case Updated:
		r.updated(ev.App)
	}
}

func (r *rows) row(want api.App) {
	if want.State == "" {
		want.State = api.AppStarted
	}
	if want.Package == "" {
		want.Package = api.PackageStaged
	}
	a := r.find(want.Name)
	if a.stale && r.source.pass > a.outdated {
		a.stale = false
		r.apps.markAll(a)
	}
	if a.row == rowPresent && a.given.Equal(want) {
		return
	}
	if h := a.update.halted; h != nil && h.Version != want.Version {
		r.apps.setHalted(a, nil)
	}
	r.change(a, want)
}

// find returns the app of a row of this pass.
func (r *rows) find(name string) *app {
	a := r.apps.ensure(r.apps.known.App(name), name)
	r.refresh(a)
	r.source.found(a)
	return a
}

// change replaces the row of an app and marks each affected index.
func (r *rows) change(a *app, given api.App) {
	a.given = given
	had, old, was, want := a.row == rowPresent, a.want, a.expected(), effective(a, given)
	a.oneShot.keep(want.OneShot && old.Version == want.Version, want.Instances)
	r.set(a, rowPresent, want)
	r.apps.join(a, want.Pool)
	a.pool.revision++ // resources per instance may differ
	r.apps.recountUndesired(a)
	begins := !had || old.State != want.State && want.State == api.AppStarted
	switch {
	case begins || old.Version != want.Version:
		r.serves(a, old, had)
		a.update.begin()
		r.renew(a)
		r.memory.rowBack(a)
		r.apps.markAll(a)
		was = 0
	case old.State != want.State, old.Package != want.Package, want.Instances < old.Instances:
		r.apps.markAll(a)
	}
	for index := was; index < a.expected(); index++ {
		r.apps.backlog.mark(at(a.id, index))
	}
	if begins || old.State != want.State || old.Version != want.Version ||
		old.Package != want.Package || old.Instances != want.Instances {
		r.resetGrace(a)
	}
}

// serves makes the version before a change the complete one, if none is known and an instance of it is ready.
func (r *rows) serves(a *app, old api.App, had bool) {
	if !had || a.update.complete != "" || old.Version == a.want.Version {
		return
	}
	for index := range old.Instances {
		for c := range r.apps.known.Copies(a.id, index) {
			if c.Ready() && c.OfVersion(old.Version) {
				a.update.complete = old.Version
				return
			}
		}
	}
}

// set changes the state of an app's row, and the row itself.
func (r *rows) set(a *app, row rowState, want api.App) {
	if a.rowless() && row != rowUnknown && row != rowVanished {
		r.loss.regain(a)
	}
	r.source.tally(a, row)
	wanted := a.expected()
	r.apps.recount(a, func() {
		r.apps.setRow(a, row)
		a.want = want
	})
	r.apps.known.Want(a.id, a.expected())
	r.stops.change(a, wanted)
}

// renew resets all indices: earlier nudges and crashes belong to another version.
func (r *rows) renew(a *app) {
	a.renewed++
	for s := a.slots; s != nil; s = s.next {
		r.starts.Remove(s.indexKey())
		s.renew()
		r.memory.markChanged(a)
	}
}

func (r *rows) resetGrace(a *app) {
	if r.cfg.controlled() {
		a.grace = r.clock.in(*r.cfg.ResetGrace)
	}
}

func (r *rows) unreadable(name string) {
	switch a := r.find(name); a.row {
	case rowPresent, rowUnreadable:
	case rowVanished: // the row exists again; its last content is valid
		r.change(a, a.given)
	case rowUnknown, rowDeleted: // the content from before a deletion proves nothing
		r.set(a, rowUnreadable, a.want)
		r.apps.markAll(a)
	}
}

// refresh removes the row of an app if the last complete pass lacks it.
func (r *rows) refresh(a *app) {
	if a.pass >= r.source.whole {
		return
	}
	switch a.row {
	case rowPresent:
		r.memory.rowLost(a)
		r.lose(a, rowVanished)
	case rowUnreadable: // keep no content that a later unreadable row would make valid
		r.lose(a, rowUnknown)
	}
}

func (r *rows) lose(a *app, row rowState) {
	a.oneShot.keep(false, 0)
	r.set(a, row, a.want)
	a.seen, a.rowlessAt = r.clock.now, r.source.trust(r.clock.now)
	a.stale, a.grace = false, 0
	if a.pool != nil {
		a.pool.revision++
	}
	r.apps.recountUndesired(a)
	r.renew(a)
	r.apps.markAll(a)
}

// updated records that an app's row is stale, if the source is polled: a later pass reads a
// newer row.
func (r *rows) updated(name string) {
	a := r.apps.lookup(name)
	if a == nil || !r.cfg.controlled() {
		return
	}
	r.resetGrace(a)
	if r.source.polled {
		a.stale, a.outdated = true, r.source.pass
	}
}

// sweep removes the rows that the last complete pass lacks, of up to n apps.
func (r *rows) sweep(n int) {
	if r.sweeping == noSweep {
		return
	}
	end := min(r.sweeping+n, len(r.apps.list))
	for _, a := range r.apps.list[r.sweeping:end] {
		if a != nil {
			r.refresh(a)
		}
	}
	if r.sweeping = end; end == len(r.apps.list) {
		r.sweeping = noSweep
	}
}
