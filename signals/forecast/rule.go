package forecast

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Bounds of a rule.
const (
	MostLaunch       = time.Hour
	MostWaitingCosts = 50 // above it, rare hours decide which season wins
	// MostHeadroom is the largest headroom that the guard compares with.
	MostHeadroom = 3
)

// Rule has the parameters of the forecast.
type Rule struct {
	Launch       time.Duration  // from the request of a machine until it serves, above 0
	Zone         *time.Location // of the seasons: slots follow its clock
	WaitingCosts float64        // how many unused hours cost as much as an hour of missing capacity, at least 1
	Headroom     float64        // of the capacity without a forecast over the load: 1 / setpoint, in [1, MostHeadroom]
	LikeWeekend  []time.Time    // midnight UTC of the local dates that have the profile of a weekend, as holidays
}

// Validate returns all problems of a rule, joined.
func (r Rule) Validate() error {
	var errs []error
	if r.Launch <= 0 || r.Launch > MostLaunch {
		errs = append(errs, fmt.Errorf("launch is %v: want a duration above 0, at most %v", r.Launch, MostLaunch))
	}
	if r.Zone == nil {
		errs = append(errs, errors.New("time zone is missing: want a name such as Europe/Berlin"))
	}
	if !(r.WaitingCosts >= 1 && r.WaitingCosts <= MostWaitingCosts) {
		errs = append(errs, fmt.Errorf("waiting costs are %v: want 1 to %d", r.WaitingCosts, MostWaitingCosts))
	}
	if !(r.Headroom >= 1 && r.Headroom <= MostHeadroom) {
		errs = append(errs, fmt.Errorf("headroom is %v: want 1 to %d", r.Headroom, MostHeadroom))
	}
	return errors.Join(errs...)
}

// horizon returns n: a machine that is requested at the end of slot i serves from slot i+n+1.
func (r Rule) horizon() int { return int((r.Launch + Step - 1) / Step) }

// quantile returns the part of the residuals that the forecast covers. It is the newsvendor's: with capacity at the quantile
// c/(1+c), one more unit costs as much unused as it saves waiting.
func (r Rule) quantile() float64 { return r.WaitingCosts / (1 + r.WaitingCosts) }

// headrooms returns the constant headrooms that the guard compares with, beginning with the rule's own.
func (r Rule) headrooms() []float64 {
	all := []float64{r.Headroom}
	for _, h := range []float64{1.1, 1.15, 1.2, 1.3, 1.43, 1.6, 1.8, 2, 2.5, MostHeadroom} {
		if h > r.Headroom {
			all = append(all, h)
		}
	}
	return all
}

// judgeEvery is the time between two judgements. They are at fixed times of UTC, so that an answer does not depend on when a
// process started.
const judgeEvery = 6 * time.Hour

// Boundary returns the time of the judgement that counts at now.
func Boundary(now time.Time) time.Time { return now.Truncate(judgeEvery) }

// known reports whether a slot has a value.
func known(x float64) bool { return !math.IsNaN(x) }
