package decide

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Decision is the target of a tick, with its reasons.
type Decision struct {
	Target  float64               `json:"target_capacity"` // not rounded; the distribution rounds up
	Request resource.Request      `json:"request"`
	Apps    []api.ResolvedRequest `json:"apps"`  // sorted by name
	Steps   []api.Step            `json:"steps"` // in the order of the rules
	// Scarce is the kind of resource for which alone the requests raise the target, if some groups have little of it; nil: none.
	Scarce *resource.Kind `json:"scarce,omitempty"`
	// NoScaleIn, if not empty, is why the pool must not shrink at this tick. Nodes beyond the
	// target stay too.
	NoScaleIn string `json:"no_scale_in,omitempty"`
	// State is the State of the next tick's Input, without the changes of this decision, which
	// State.Changed adds.
	State api.DecisionState `json:"state,omitzero"`
}
