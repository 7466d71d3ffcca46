package api

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of Boots.
const (
	MaxBootTimes   = 50   // of a market; the oldest go first
	MaxBootMarkets = 20   // of a group
	MaxBooting     = 1000 // machines of a group that have not joined
)

// NoMarket is the market of machines whose type and zone the provider does not name.
const NoMarket = "-"

// Boots is what a group has shown about the start of its machines. It outlasts a restart and a takeover.
type Boots struct {
	// Times are the seconds from the launch of a machine to the join of its node, by market ("m5.large eu-1a"), the newest last. They are
	// as exact as the ticks are frequent.
	Times map[string][]float64 `json:"times,omitempty"`
	// Waiting are the machines that have not joined. The value is true if the machine is counted in Failed, or leaves by order.
	Waiting map[string]bool `json:"waiting,omitempty"`
	// Failed is how many machines in a row ended, or ran for longer than the limit for orphans, before they joined. Last is the last one.
	Failed int    `json:"failed,omitempty"`
	Last   string `json:"last,omitempty"`
}

// Quantile returns the boot time that a share q of the machines of a market reached; an empty market means all. ok is false without any.
func (b Boots) Quantile(market string, q float64) (boot time.Duration, ok bool) {
	var all []float64
	for name, times := range b.Times {
		if market == "" || name == market {
			all = append(all, times...)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	i := int(math.Ceil(q*float64(len(all)))) - 1
	return time.Duration(all[min(max(i, 0), len(all)-1)] * float64(time.Second)), true
}

// Starting returns how many machines may still join in time.
func (b Boots) Starting() (n int) {
	for _, counted := range b.Waiting {
		if !counted {
			n++
		}
	}
	return n
}

// Lines returns one line for each market: "boot time of group a, m5.large eu-1a: p50 1m30s, p95 2m0s, of the last 12 machines". An empty
// name is left out.
func (b Boots) Lines(group string) (lines []string) {
	for _, market := range slices.Sorted(maps.Keys(b.Times)) {
		p50, ok := b.Quantile(market, 0.5)
		if !ok {
			continue
		}
		p95, _ := b.Quantile(market, 0.95)
		var names []string
		if group != "" {
			names = append(names, "group "+group)
		}
		if market != NoMarket {
			names = append(names, market)
		}
		of := ""
		if len(names) > 0 {
			of = " of " + strings.Join(names, ", ")
		}
		machines := "of the last machine"
		if n := len(b.Times[market]); n > 1 {
			machines = fmt.Sprintf("of the last %d machines", n)
		}
		lines = append(lines, fmt.Sprintf("boot time%s: p50 %v, p95 %v, %s", of, p50.Round(time.Second/10), p95.Round(time.Second/10), machines))
	}
	return lines
}

// Stuck reports whether so many machines in a row never joined that the group gets one machine at a time; 0: no limit.
func (b Boots) Stuck(limit int) bool { return limit > 0 && b.Failed >= limit }

// FailedText returns one line about machines that never joined.
func (b Boots) FailedText() string {
	return fmt.Sprintf("%d machines in a row never joined, %s last: check the image and its agent", b.Failed, b.Last)
}
