package apps

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// journal collects the findings of a Step.
type journal struct {
	clock *clock
	found []api.AppFinding
}

func (j *journal) addFinding(f api.AppFinding) { j.found = append(j.found, f) }

// addIndexFinding adds a finding of an index, and saves it as the latest of the index.
func (j *journal) addIndexFinding(s *slot, f api.AppFinding) {
	f.App, f.Index = s.app.name(), s.index
	s.note, s.noteAt = &f, j.clock.now
	j.addFinding(f)
}
