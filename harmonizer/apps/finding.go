package apps

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// journal collects the findings of a Step.
type journal struct {
	clock *clock
	found []api.AppFinding
}

// onNode adds a node to a finding.
func onNode(f api.AppFinding, n message.Node) api.AppFinding {
	f.Pool, f.Node = n.Pool, n.Name
	return f
}

func (j *journal) addFinding(f api.AppFinding) { j.found = append(j.found, f) }

// addIndexFinding adds a finding of an index, and saves it as the latest of the index.
func (j *journal) addIndexFinding(s *slot, f api.AppFinding) {
	f.App, f.Index = s.app.name(), s.index
	s.note, s.noteAt = &f, j.clock.now
	j.addFinding(f)
}
