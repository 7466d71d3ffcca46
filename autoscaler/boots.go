package autoscaler

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// learnBoots updates the groups of s, which are its own, with what this reading shows about the start of machines. A group whose
// machines never join gets a backoff at the limit, and at each further failure. After a long time without a tick no join is timed.
func learnBoots(config Config, now time.Time, r apply.Reading, s *api.PoolState) {
	machines, leaving := map[string][]resolve.Boot{}, r.Records.LeavingByOrder()
	for _, n := range r.Nodes {
		i := n.Instance
		if i.State == api.InstanceTerminating || i.Launched.IsZero() {
			continue
		}
		boots := i.State == api.InstancePending || n.State == api.NodeOrphaned
		age := max(0, now.Sub(i.Launched))
		machines[i.Group] = append(machines[i.Group], resolve.Boot{
			ID: i.ID, Market: cmp.Or(strings.TrimSpace(i.Market.InstanceType+" "+i.Market.Zone), api.NoMarket), Age: age,
			Joined: n.State.Joined(), Arrived: r.Arrived[i.ID],
			Boots: boots, Leaves: leaving[i.ID], Overdue: boots && config.OrphansAfter > 0 && age > config.OrphansAfter,
		})
	}
	timed := now.Sub(s.Wall) <= max(3*config.Tick, time.Minute)
	for _, g := range r.Groups {
		of, known := s.Groups[g.ID]
		if !known || g.Unknown != nil || g.NoData {
			continue
		}
		var failed bool
		if of.Boots, failed = resolve.NextBoots(of.Boots, machines[g.ID], timed); failed && of.Boots.Stuck(config.FailedBoots) {
			s.Backoffs = plan.AddFailure(s.Backoffs, g.ID, of.Boots.FailedText(), api.BackoffLasting, decide.ClockAt(s.DecisionState, now))
		}
		s.Groups[g.ID] = of
	}
}

// leastBoots is how many machines of a group must have joined before their time counts as that of the next one.
const leastBoots = 3

// launchTime returns the time in which 95 of 100 machines join, of the slowest group, in whole minutes so that it rarely changes; 0:
// it is unknown. A signal gets it in its hello, so each change opens new connections to the advisors.
func launchTime(groups map[string]api.GroupState) (longest time.Duration) {
	for _, of := range groups {
		n := 0
		for _, times := range of.Boots.Times {
			n += len(times)
		}
		if p95, ok := of.Boots.Quantile("", 0.95); ok && n >= leastBoots {
			longest = max(longest, p95)
		}
	}
	return (longest + time.Minute - 1).Truncate(time.Minute)
}

// limitStuck bounds the groups whose machines never join. Such a group gets one machine as a trial, and the next one after the trial.
func limitStuck(config Config, c *api.Case) {
	for i := range c.Groups {
		g := &c.Groups[i]
		of := c.State.Groups[g.ID]
		if !of.Boots.Stuck(config.FailedBoots) {
			continue
		}
		trial := 1
		if of.Boots.Starting() > 0 || c.Has[g.ID]-of.Surge < g.Target {
			trial = 0
		}
		g.Max = min(g.Max, max(g.Target+trial, g.Min))
		if c.Stuck == nil {
			c.Stuck = map[string]string{}
		}
		c.Stuck[g.ID] = fmt.Sprintf("group %s does not grow, except by one machine at a time as a trial, until one joins: %s", g.ID, of.Boots.FailedText())
	}
}
