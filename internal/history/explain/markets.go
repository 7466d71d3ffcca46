package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// byCost reports whether what the groups cost distributed the target of the tick.
func byCost(r api.TickRecord) bool {
	return r.Case != nil && r.Case.Input.Policy.Distribution == api.DistributeCheapest
}

// Markets returns one line for each group of a pool that distributes by cost: "group a: spot m5.large in eu-1a, 0.031 an hour for a
// weight of 1".
func Markets(r api.TickRecord) (lines []string) {
	if byCost(r) {
		for _, m := range r.Case.Markets {
			lines = append(lines, fmt.Sprintf("group %s: %s", m.Group, m.Text()))
		}
	}
	return lines
}

// Market returns what a group of such a pool costs.
func Market(r api.TickRecord, group string) (m api.GroupMarket, ok bool) {
	if !byCost(r) {
		return m, false
	}
	for _, m = range r.Case.Markets {
		if m.Group == group {
			return m, true
		}
	}
	return m, false
}

// oldMarkets returns one line for each group of such a pool whose price is unknown, or is not in the prices any more.
func oldMarkets(r api.TickRecord) (lines []string) {
	if !byCost(r) {
		return nil
	}
	for _, m := range r.Case.Markets {
		switch {
		case m.Why == "":
		case m.PerHour == nil:
			lines = append(lines, fmt.Sprintf("the price of group %s is unknown, so it is the last to grow: %s", m.Group, m.Why))
		default:
			lines = append(lines, fmt.Sprintf("the prices have no price of group %s since %s, so the last known one counts: %s",
				m.Group, m.Gone.UTC().Format(time.RFC3339), m.Why))
		}
	}
	return lines
}
