package condition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Deploy reports whether a roll-out may begin now, with what allows it or what forbids it.
func Deploy(now time.Time, s *api.Summary, f Facts) (safe bool, why string) {
	var against []string
	for _, c := range Of(now, s, f) {
		word := strings.ToLower(c.Word[:1]) + c.Word[1:]
		if (c.Rank.NeedsAttention() || c.Rank == Paused) && !slices.Contains(against, word) {
			against = append(against, word)
		}
	}
	budget, free := budgetText(s)
	if !free {
		against = append(against, budget)
	}
	if len(against) > 0 {
		const shown = 3
		if more := len(against) - shown; more > 0 {
			against = append(against[:shown], fmt.Sprintf("%d more", more))
		}
		return false, "Not safe to deploy: " + strings.Join(against, ", ") + "."
	}
	return true, "Safe to deploy: " + budget + ", no repair is under way, all signals answer."
}

// budgetText describes the disruption budget, and reports whether one more node may be out of service. A tick of an older version
// has no limit.
func budgetText(s *api.Summary) (text string, free bool) {
	switch {
	case s == nil || s.Disruption == nil:
		return "no disruption budget is set", true
	case s.DisruptionLimit == 0:
		return fmt.Sprintf("budget %d free", *s.Disruption), *s.Disruption > 0
	}
	return fmt.Sprintf("budget %d of %d free", *s.Disruption, s.DisruptionLimit), *s.Disruption > 0
}
