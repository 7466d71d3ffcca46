package apply

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// Report is what was done, and what went wrong.
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

// Op is what is asked of a provider or a node.
type Op string

const (
	OpSetTarget Op = "set target" // of a group, absolute
	OpTakeBack  Op = "take back"  // a node that was draining
	OpLetGo     Op = "let go"     // begin the drain of a node
	OpMend      Op = "mend"       // begin the repair of a node in place
	OpDrain     Op = "drain"      // a step of a drain under way
)

// Action is one thing that was asked, and the answer.
type Action struct {
	Op      Op            `json:"op"`
	Group   string        `json:"group,omitempty"`
	Node    string        `json:"node,omitempty"`
	Target  int           `json:"target,omitempty"`
	What    string        `json:"what,omitempty"` // for people
	Latency time.Duration `json:"latency_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
}

func (a Action) ended(err error) Action {
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
