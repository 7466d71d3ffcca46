package api

import (
	"slices"
	"time"
)

// Cost is what the machines of a pool cost for an hour, as of one tick.
type Cost struct {
	Currency string `json:"currency,omitempty"`
	// PerHour is the sum of the parts with a price.
	PerHour float64 `json:"per_hour"`
	// Parts are in order of group, market, cause and rule. Each machine that is billed is in one of them, or is divided between
	// several by its weight.
	Parts []CostPart `json:"parts,omitempty"`
	// Failed is why no price is known: the price file could not be read. Then all parts are without a price.
	Failed string `json:"failed,omitempty"`
	// Aged are why prices may be wrong: all are old, or the first one of a market is later.
	Aged []string `json:"aged,omitempty"`
	// Files are the price files, if they have no price of a market.
	Files []string `json:"files,omitempty"`
}

// CostPart is the cost of the machines of one group, market and cause.
type CostPart struct {
	Group    string    `json:"group"`
	Market   string    `json:"market"` // such as "spot m5.large in us-east-1a"
	Cause    CostCause `json:"cause"`
	Rule     string    `json:"rule,omitempty"` // that holds them; only of CostHeld
	Machines float64   `json:"machines"`
	PerHour  *float64  `json:"per_hour,omitempty"` // nil: the market has no price
}

// CostCause is why a machine is paid for.
type CostCause string

const (
	CostServing  CostCause = "serving"         // the requests of the signals need it
	CostJoining  CostCause = "waiting to join" // its instance runs, and its node has not joined
	CostDraining CostCause = "draining"        // it leaves
	CostRoll     CostCause = "roll"            // it is replaced, and its replacement exists or is awaited
	CostRepair   CostCause = "repair"          // it is repaired, or node health quarantines it
	CostHeadroom CostCause = "headroom"        // no request needs it, and it holds free places of the headroom
	CostHeld     CostCause = "held"            // no request needs it, and a rule keeps it
)

// CauseText returns the cause for people: "serving", or "held by cooldown".
func (p CostPart) CauseText() string { return p.Cause.Text(p.Rule) }

// Text returns the cause with the rule of CostHeld, for people.
func (c CostCause) Text(rule string) string {
	if c == CostHeld {
		return "held by " + rule
	}
	return string(c)
}

// Unpriced returns the markets of machines without a price, in order. While there are any, PerHour is a lower bound.
func (c Cost) Unpriced() (markets []string) {
	for _, p := range c.Parts {
		if p.PerHour == nil {
			markets = append(markets, p.Market)
		}
	}
	slices.Sort(markets)
	return slices.Compact(markets)
}

// ByCause returns the cost of an hour by CauseText, without what has no price.
func (c Cost) ByCause() map[string]float64 {
	out := map[string]float64{}
	for _, p := range c.Parts {
		if p.PerHour != nil {
			out[p.CauseText()] += *p.PerHour
		}
	}
	return out
}

// OtherParts is the group and the market of merged parts.
const OtherParts = "other"

// AtMost returns the cost with the first n parts. The others are merged by cause and rule, apart if they have no price, so that the
// sums stay the same.
func (c Cost) AtMost(n int) Cost {
	if len(c.Parts) <= n {
		return c
	}
	kept := slices.Clip(c.Parts[:n])
	merged := len(kept)
	for _, p := range c.Parts[n:] {
		p.Group, p.Market = OtherParts, OtherParts
		i := slices.IndexFunc(kept[merged:], func(o CostPart) bool {
			return o.Cause == p.Cause && o.Rule == p.Rule && (o.PerHour == nil) == (p.PerHour == nil)
		})
		if i < 0 {
			if p.PerHour != nil {
				p.PerHour = new(*p.PerHour)
			}
			kept = append(kept, p)
			continue
		}
		one := &kept[merged+i]
		one.Machines += p.Machines
		if p.PerHour != nil {
			*one.PerHour += *p.PerHour
		}
	}
	c.Parts = kept
	return c
}

// Bill is what the machines of a pool cost between two times.
type Bill struct {
	Pool     string    `json:"pool"`
	From     time.Time `json:"from"` // of the first tick
	To       time.Time `json:"to"`   // until which the last one counts
	Currency string    `json:"currency"`
	Cost     float64   `json:"cost"` // the sum of the parts with a price
	Hours    float64   `json:"machine_hours"`
	// Parts are in order of cost, the largest first; those without a price are the last.
	Parts []BillPart `json:"parts"`
	Gaps  []BillGap  `json:"gaps,omitempty"` // times that the bill lacks
	// Files are the last price files that had no price of a market.
	Files []string `json:"files,omitempty"`
}

// Unpriced returns the markets that had no price, in order, and their machine-hours.
func (b Bill) Unpriced() (markets []string, hours float64) {
	for _, p := range b.Parts {
		if p.Cost == nil {
			markets, hours = append(markets, p.Market), hours+p.Hours
		}
	}
	slices.Sort(markets)
	return slices.Compact(markets), hours
}

// BillPart is the bill of one group, market and cause.
type BillPart struct {
	Group  string    `json:"group"`
	Market string    `json:"market"`
	Cause  CostCause `json:"cause"`
	Rule   string    `json:"rule,omitempty"` // that held the machines; only of CostHeld
	Hours  float64   `json:"machine_hours"`
	Cost   *float64  `json:"cost,omitempty"` // nil: the market had no price
}

// BillGap is a time whose cost is unknown.
type BillGap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Why  string    `json:"why"`
}

// Savings are changes of a pool's policy, each simulated over the recorded past.
type Savings struct {
	Cluster string    `json:"cluster"`
	Pool    string    `json:"pool"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Ticks   int       `json:"ticks"`
	Unit    string    `json:"unit"` // of the cost: a currency, or machine-hours without a price of each market
	Cost    float64   `json:"cost"` // with the policy of the pool's file
	// Changes are in order of what they save, the largest first.
	Changes []Saving `json:"changes"`
	Notes   []string `json:"notes,omitempty"` // what the comparison leaves out
}

// Saving is one change of a key of the pool's file.
type Saving struct {
	Key         string        `json:"key"`
	Value       string        `json:"value"`
	Saved       float64       `json:"saved"`        // in Savings.Unit; below 0: it costs more
	UnmetBefore float64       `json:"unmet_before"` // share of the demand that no machine did, without the change
	Unmet       float64       `json:"unmet"`        // with it
	Waited      time.Duration `json:"waited_ns"`    // the longest time in which work waited, with it
}
