package apply

import (
	"github.com/weirkeeper/weirkeeper/api"
)

// Report holds the actions and the problems.
type Report struct {
	Actions  []api.Action
	Drains   []api.Drain // after the actions; nil if no drain was advanced
	Problems []string
}

func (r *Report) problem(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
}

func endedAction(a api.Action, err error) api.Action {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
