package apps

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// watchReadiness reports an index that is not ready for longer than its app allows, once, and when it is ready again.
func (m *Machine) watchReadiness(l *evaluation) {
	s := l.slot
	if !l.unready {
		if s.slow && l.category == running {
			m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingReady, Version: s.app.want.Version})
		}
		s.unready, s.slow = 0, false
		return
	}
	if s.unready == 0 {
		s.unready = m.clock.now
	}
	within := time.Duration(s.app.want.Ready.WithDefaults().Within)
	switch due := s.unready.add(within); {
	case s.slow:
	case due > m.clock.now:
		m.wakes.addIndex(s, due)
	default:
		s.slow = true
		f := api.AppFinding{Kind: api.AppFindingNotReady, Version: s.app.want.Version}
		for _, c := range l.copies {
			if c.OfVersion(f.Version) {
				f.Instance, f.Detail = c.ID(), fmt.Sprintf("%s, not ready for %v", c.State(), within)
				f = onNode(f, c.Node())
				break
			}
		}
		m.journal.addIndexFinding(s, f)
	}
}
