package apps

import "github.com/weirkeeper/weirkeeper/api"

// maxUnrepeated is how many keep-alives a start is at most not repeated while its scheduler reports it as waiting.
const maxUnrepeated = 10

// waiting processes the starts that the scheduler of a pool has now and tries again by itself: no node has room, or a node
// rejected them. A start that was sent and has no answer is not repeated within a keep-alive of such a report. So a scheduler that
// drops or loses a start, and no longer reports it, receives it again. The saved memory does not have the report: after a
// takeover a start may be repeated once.
func (d *dispatch) waiting(pool string, starts []api.WaitingStart) {
	for _, w := range starts {
		a := d.apps.lookup(w.App)
		if a == nil || a.want.Pool != pool || a.want.Version != w.Version {
			continue
		}
		for _, index := range w.Indices {
			if s := d.apps.slots[at(a.id, index)]; s != nil && s.missing != 0 && s.pending != 0 {
				d.waitsForRoom(s)
			}
		}
	}
}

// waitsForRoom extends the keep-alive of a start that waits at its scheduler.
func (d *dispatch) waitsForRoom(s *slot) {
	keep := d.cfg.startKeepAlive()
	until := min(d.clock.in(keep), s.nudged.add(maxUnrepeated*keep))
	if until <= s.pending {
		return
	}
	s.pending, s.noRoom = until, until
	s.sent = max(s.sent, until)
	if d.starts.Has(s.indexKey()) { // it leaves the queue
		d.apps.backlog.mark(s.indexKey())
	}
}
