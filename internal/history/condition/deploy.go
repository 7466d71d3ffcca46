package condition

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Deploy reports whether a roll-out may begin now, with what allows it or what forbids it.
func Deploy(now time.Time, s *api.Summary, f Facts) (safe bool, why string) {
	var against []string
	for _, c := range Of(now, s, f) {
		if c.Rank.NeedsAttention() || c.Rank == Paused {
			against = append(against, strings.ToLower(c.Word[:1])+c.Word[1:])
		}
	}
	if s != nil && s.Disruption != nil && *s.Disruption <= 0 {
		against = append(against, "the disruption budget is used up")
	}
	if len(against) > 0 {
		const shown = 3
		if more := len(against) - shown; more > 0 {
			against = append(against[:shown], fmt.Sprintf("%d more", more))
		}
		return false, "Not safe to deploy: " + strings.Join(against, ", ") + "."
	}
	budget := "no disruption budget is set"
	if s.Disruption != nil {
		budget = fmt.Sprintf("%s may be out of service", Count(*s.Disruption, "more node"))
	}
	return true, "Safe to deploy: " + budget + ", no repair is under way, all signals answer."
}
