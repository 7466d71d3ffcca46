package plan

import (
	"math"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// allowance is the part of the limits of a period that is left.
type allowance struct {
	limits api.PruneLimits
	weight float64 // used
	tasks  int     // left
	nodes  int     // left
}

// allowance returns the part of the limits that earlier prunes of the period left.
func (in PruneInput) allowance() allowance {
	return allowance{
		limits: in.Limits,
		weight: max(0, in.Spent.Weight),
		tasks:  max(0, in.Limits.MaxTasks) - max(0, in.Spent.Tasks),
		nodes:  in.disruption(),
	}
}

// disruption returns how many more nodes may be taken out of service.
func (in PruneInput) disruption() int {
	if in.Disruption == nil {
		return math.MaxInt
	}
	return *in.Disruption - max(0, in.Spent.Nodes)
}

// fits reports whether that much more weight may be removed. NaN does not fit.
func (a *allowance) fits(weight float64) bool {
	return a.weight+weight <= a.limits.MaxWeight+resource.Slack
}

// obstacle returns the limit that forbids to remove c, or "".
func (a *allowance) obstacle(c *api.Candidate) api.KeptCause {
	switch {
	case !a.fits(c.Weight):
		return api.KeptOverWeight
	case c.Tasks > 0 && c.Tasks > a.tasks:
		return api.KeptOverTasks
	case a.nodes < 1:
		return api.KeptOverBudget
	}
	return ""
}

func (a *allowance) subtract(c *api.Candidate) {
	a.weight += c.Weight
	a.tasks -= max(c.Tasks, 0)
	a.nodes--
}
