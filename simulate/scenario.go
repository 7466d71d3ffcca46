package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Policy is the configuration of a pool's loop.
type Policy = autoscaler.Config

// Client sends requests to a real signal.
type Client = ask.Client

// Scenario is all that a run depends on.
type Scenario struct {
	Seed  uint64
	Start time.Time
	Ticks int
	Pool  Policy // its own Tick is the time between two ticks
	// Groups are the groups of the pool, in order of id.
	Groups []Group
	Work   Work
	// History is the time since which forecasts know the work; zero: Start.
	History time.Time
	// Delay is the age of the demand that the signals report, and Headroom a factor of it; 0: 1.
	Delay    time.Duration
	Headroom float64
	Events   []Event
	// Signals are the clients of real signals, by app. Their windows are those of Pool; all other signals report the work directly.
	// Advisors are shipped calendars and forecasts, which know the work too.
	Signals map[string]Client
	// Samples are metrics in order of time. The loop can read each one Delay after its time.
	Samples []metrics.Sample
	// Prices are the prices of the groups' markets; nil: the result has no cost.
	Prices  *price.Prices
	Billing price.Billing
	// Sink receives the record of each tick, and keeps no part of it; nil: no receiver. Its error ends the run.
	Sink func(api.TickRecord) error
	// Columns is the most columns of the result; 0: none. Why returns what kept the pool from growing at a tick, for the worst stretches
	// of the result; nil: they have no cause.
	Columns int
	Why     func(api.TickRecord) string

	past *past // nil: there is no recording
}

// at returns the time of a tick; after the last one, the end.
func (s *Scenario) at(k int) time.Time {
	if s.past != nil {
		return s.past.at(k)
	}
	return s.Start.Add(time.Duration(k) * s.Pool.Tick)
}

// Group is a group of equal machines. Those of a recording have the weights that they had.
type Group struct {
	ID      string
	Min     int // of the target, in weight
	Max     int // 0: no upper bound
	Target  int // at the start; its machines have joined then
	Weight  float64
	Machine resource.Vector // what one machine offers
	Market  price.Market
	Launch  Delay         // from the request to the join of the node
	Pending time.Duration // the part of Launch that is not billed
	Leave   time.Duration // from the termination until the machine is gone
	// Interruptions is how often the provider interrupts a machine, for an hour. Warning is how long before it warns; 0: it does not.
	Interruptions float64
	Warning       time.Duration

	sizes map[float64]resource.Vector // of a recorded group: what a machine of a weight offers
}

// machineOf returns what a machine of a weight offers.
func (g *Group) machineOf(weight float64) resource.Vector {
	if m, known := g.sizes[weight]; known {
		return m
	}
	return g.Machine.Scale(weight / g.Weight)
}

// Event is a change from outside, after the start of the run.
type Event struct {
	At  time.Duration
	For time.Duration // 0: until the end
	// Group names the group, and Zone the groups of a zone; both empty: all groups.
	Group, Zone string
	Stock       *float64 // the provider has no more weight than that
	Lost        bool     // all machines disappear, and the provider has no other
	Silent      bool     // the signals fail
	// Orders are the operators' orders. Those of a later event count alone.
	Orders *api.Orders
}

// MaxTicks bounds a run to ten years of minutes.
const MaxTicks = 10 * 366 * 24 * 60

// Validate returns all mistakes that make s unusable, joined, or nil.
func (s Scenario) Validate() error {
	errs := []error{s.Pool.Validate()}
	if s.Start.IsZero() || s.Ticks < 1 || s.Ticks > MaxTicks {
		errs = append(errs, fmt.Errorf("start is %v, with %d ticks: want a time, and 1 to %d ticks: change the duration", s.Start, s.Ticks, MaxTicks))
	}
	if s.Work == nil || len(s.Groups) == 0 {
		errs = append(errs, errors.New("work or groups are missing"))
	}
	if s.Delay < 0 || !(s.Headroom >= 0 && s.Headroom <= 1000) {
		errs = append(errs, fmt.Errorf("delay %v, headroom %v of the signals: want at least 0", s.Delay, s.Headroom))
	}
	for _, a := range s.Pool.Signals() {
		if s.past == nil && sigproto.AppOf(a.App) != a.App && !advises(a) {
			errs = append(errs, fmt.Errorf("advisor %s is %s: want the shipped %s or %s", a.App, a.Name, nameCalendar, nameForecast))
		}
	}
	for i, g := range s.Groups {
		if i > 0 && s.Groups[i-1].ID >= g.ID {
			errs = append(errs, fmt.Errorf("group %q follows %q: want groups in order of id", g.ID, s.Groups[i-1].ID))
		}
		if err := g.validate(s.Prices); err != nil {
			errs = append(errs, fmt.Errorf("group %q: %w", g.ID, err))
		}
	}
	for i, e := range s.Events {
		if err := e.validate(s.Groups); err != nil {
			errs = append(errs, fmt.Errorf("event %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

func (g Group) validate(prices *price.Prices) error {
	var errs []error
	if g.ID == "" || g.Min < 0 || g.Max < 0 || g.Max > 0 && g.Max < g.Min || g.Target < g.Min || g.Max > 0 && g.Target > g.Max {
		errs = append(errs, fmt.Errorf("target %d, minimum %d, maximum %d: want an id, and a target within the limits", g.Target, g.Min, g.Max))
	}
	if !(g.Weight > 0 && g.Weight <= 1e6) || g.Machine.IsZero() || g.Machine.Validate() != nil {
		errs = append(errs, fmt.Errorf("weight %v, machine %v: want a weight, and what the machine offers", g.Weight, g.Machine))
	}
	if g.Launch.P50 < 0 || g.Launch.P95 < 0 || g.Pending < 0 || g.Leave < 0 || g.Warning < 0 {
		errs = append(errs, errors.New("a time is negative"))
	}
	if !(g.Interruptions >= 0 && g.Interruptions <= 1000) || math.IsInf(g.Interruptions, 0) {
		errs = append(errs, fmt.Errorf("%v interruptions an hour: want 0 to 1000", g.Interruptions))
	}
	if prices != nil {
		errs = append(errs, prices.Has(g.Market))
	}
	return errors.Join(errs...)
}

func (e Event) validate(groups []Group) error {
	if e.At < 0 || e.For < 0 {
		return fmt.Errorf("at %v for %v: want at least 0", e.At, e.For)
	}
	if e.Stock == nil && !e.Lost && !e.Silent && e.Orders == nil {
		return errors.New("it changes nothing: want a stock, a loss, failing signals or orders")
	}
	if e.Stock != nil && !(*e.Stock >= 0) {
		return fmt.Errorf("stock is %v: want at least 0", *e.Stock)
	}
	if slices.ContainsFunc(groups, e.of) {
		return nil
	}
	return fmt.Errorf("no group has the id %q and the zone %q", e.Group, e.Zone)
}

// of reports whether the event changes a group.
func (e Event) of(g Group) bool {
	return (e.Group == "" || e.Group == g.ID) && (e.Zone == "" || e.Zone == g.Market.Zone)
}
