package apply

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Report holds the actions and the problems.
type Report struct {
	Actions  []Action
	Drains   []drain.Record // after the actions; nil if no drain was advanced
	Problems []string
}

func (r *Report) problem(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
}

// Op is the kind of an Action.
type Op string

const (
	OpSetTarget     Op = "set target"      // of a group, absolute
	OpTakeBack      Op = "take back"       // a node that was draining
	OpRemove        Op = "remove"          // begin the drain of a node
	OpRepairInPlace Op = "repair in place" // begin the in-place repair of a node
	OpDrain         Op = "drain"           // a step of a drain in progress
)

// Action is one request with its result.
type Action struct {
	Op      Op            `json:"op"`
	Group   string        `json:"group,omitempty"`
	Node    string        `json:"node,omitempty"`
	Target  int           `json:"target,omitempty"`
	What    string        `json:"what,omitempty"` // for operators
	Latency time.Duration `json:"latency_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
}

func (a Action) ended(err error) Action {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
