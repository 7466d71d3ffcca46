package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxGroupMarkets bounds the markets of a group that its state has.
const MaxGroupMarkets = 16

// DistributeCheapest is the value of DecisionPolicy.Distribution that prefers the groups of the cheapest market.
const DistributeCheapest = "cheapest"

// MarketName returns the name of what a provider sells: "spot m5.large in eu-1a". An empty type or zone means each one.
func MarketName(instanceType, zone string, spot bool) string {
	text := "on-demand"
	if spot {
		text = "spot"
	}
	if instanceType != "" {
		text += " " + instanceType
	}
	if zone != "" {
		text += " in " + zone
	}
	return text
}

// MarketOffer is a market in which a group buys machines.
type MarketOffer struct {
	InstanceType string  `json:"instance_type"`
	Zone         string  `json:"zone,omitempty"`
	Spot         bool    `json:"spot,omitempty"`
	Weight       float64 `json:"weight"`          // of one machine, above 0
	Count        int     `json:"count,omitempty"` // of its machines; 0: it counts like one
}

// String returns the name of the market.
func (m MarketOffer) String() string { return MarketName(m.InstanceType, m.Zone, m.Spot) }

// MaxMarkets bounds the markets of a pool whose interruptions its state has.
const MaxMarkets = 200

// MarketState is what the joined spot machines of a market have shown about its interruptions. Older hours and interruptions count
// less. It outlasts a restart and a takeover.
type MarketState struct {
	Hours         float64   `json:"hours"`                   // of machines
	Interruptions float64   `json:"interruptions,omitempty"` // machines that ended without an order
	Machines      int       `json:"machines,omitempty"`      // at the last reading
	At            time.Time `json:"at"`                      // of the last reading, by the rules' monotonic clock
}

// GroupMarket is what a unit of weight of a group costs, as of a decision.
type GroupMarket struct {
	Group  string `json:"group"`
	Market string `json:"market,omitempty"` // names of its markets; empty: unknown
	// PerHour is the price of an hour for a weight of 1; nil: unknown.
	PerHour *float64 `json:"per_hour,omitempty"`
	// Cost is what an hour for a weight of 1 is expected to cost: PerHour with what interruptions cost. nil: unknown.
	Cost *float64 `json:"cost,omitempty"`
	// Interruptions is the expected number for a machine in an hour, and Hours are the machine-hours that it was learned from; 0: the
	// group has no spot machines.
	Interruptions float64 `json:"interruptions,omitempty"`
	Hours         float64 `json:"hours,omitempty"`
	// Machine is the weight of the largest machine of its markets, rounded up.
	Machine int `json:"machine,omitempty"`
	// Short is why the group had no capacity lately; empty: it had. Then it gets at most Trial more weight while others have room.
	Short string `json:"short,omitempty"`
	Trial int    `json:"trial,omitempty"`
	// Gone is since when the prices lack it, and PerHour is the last known price; zero: the prices have it, or it was never known.
	Gone time.Time `json:"gone,omitzero"`
	// Why is why the price is unknown or old; empty: it is in the prices.
	Why string `json:"why,omitempty"`
}

// Text returns the line for people: "spot m5.large in eu-1a, 0.031 an hour for a weight of 1".
func (m GroupMarket) Text() string {
	text := cmp.Or(m.Market, "its market is unknown")
	if m.PerHour != nil {
		text += fmt.Sprintf(", %s an hour for a weight of 1", money(*m.PerHour))
	}
	if !m.Gone.IsZero() {
		text += ", the last known price, gone since " + m.Gone.UTC().Format(time.RFC3339)
	}
	if m.Why != "" {
		text += ": " + m.Why
	}
	if m.Interruptions > 0 {
		text += fmt.Sprintf("; %s interruptions of a machine in 30 days", strconv.FormatFloat(m.Interruptions*30*24, 'g', 2, 64))
		if m.Hours > 0 {
			text += fmt.Sprintf(" (from %s machine-hours)", money(m.Hours))
		} else {
			text += " (assumed)"
		}
	}
	if m.Cost != nil && m.PerHour != nil && money(*m.Cost) != money(*m.PerHour) {
		text += ", so it counts as " + money(*m.Cost)
	}
	if m.Short != "" {
		text += fmt.Sprintf("; it grows by %d as a trial while others have room, because it had no capacity: %s", m.Trial, m.Short)
	}
	return text
}

// money returns an amount with four digits that count.
func money(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// MarketsName returns one name for all markets of a group, in order: "spot m5.large in eu-1a and 2 more".
func MarketsName(offers []MarketOffer) string {
	var all []string
	for _, o := range offers {
		all = append(all, o.String())
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > 2 {
		return fmt.Sprintf("%s and %d more", all[0], len(all)-1)
	}
	return strings.Join(all, " and ")
}
