package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/internal/price/spending"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// world is the state of a run. Time passes only in visit: a visit is made at each moment at which something changes, not only at ticks,
// so that the loads between two visits are exact.
type world struct {
	scenario *Scenario
	now      time.Time
	machines *machines
	orders   *orders
	events   []moment // to come, in order of time
	loop     *autoscaler.Loop
	health   *health // nil: no policy
	store    *memory.Store
	samples  []metrics.Sample // to be written
	tend     time.Time        // when the drains advance; zero: they wait for the next tick
	meter    meter
	result   Result
	targets  map[string]int // of the groups, by the last tick
	failed   error          // of the sink
	counted  int            // changes that the columns have
	silent   bool           // the signals fail
	works    time.Time      // when the work changes by itself, as of the last Step; zero: never
}

// moment is the begin or the end of an event.
type moment struct {
	at time.Time
	do func()
}

// Run runs a scenario. It returns the result until then and an error if ctx ends, if the sink fails, or if the scenario is invalid.
func Run(ctx context.Context, s Scenario) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, fmt.Errorf("simulate pool %s: %w", s.Pool.Pool, err)
	}
	w := newWorld(&s)
	defer w.loop.Close()
	err := w.run(ctx)
	end, failed := w.finish(ctx)
	if err = errors.Join(err, failed); err != nil {
		err = fmt.Errorf("simulate pool %s at %s: %w", s.Pool.Pool, w.now.UTC().Format(time.RFC3339), err)
	}
	return end, err
}

func newWorld(s *Scenario) *world {
	w := &world{scenario: s, now: s.Start, machines: newMachines(s), orders: &orders{}, store: &memory.Store{Keep: keepMetrics}, samples: s.Samples}
	w.result.From = s.Start
	w.meter = meter{at: s.Start, results: &w.result, columns: newColumns(s), machine: s.Groups[0].Machine}
	for _, e := range s.Events {
		w.schedule(e)
	}
	w.events = append(w.events, w.between()...)
	slices.SortStableFunc(w.events, func(a, b moment) int { return a.at.Compare(b.at) })
	listing, dial := w.signals()
	var places func(context.Context, api.PlacesQuestion) (api.Places, error)
	if placed, is := s.Work.(*Apps); is {
		places = func(_ context.Context, q api.PlacesQuestion) (api.Places, error) { return placed.places(w.now, q) }
	}
	var cost func(*api.TickRecord, []pools.Node, func(string) bool) *api.Cost
	if s.Prices != nil && s.Sink != nil { // only records have the cost of a tick
		cost = func(r *api.TickRecord, nodes []pools.Node, quarantined func(string) bool) *api.Cost {
			return new(spending.Of(s.Prices, nodes, quarantined, r))
		}
	}
	var memory apply.Memory = forgetful{}
	var drains drain.Records = records{}
	var health autoscaler.Health
	if s.Health != nil {
		w.health = newHealth(w, *s.Health)
		health = w.health
	}
	if p := s.past; p != nil {
		memory, drains, health = p, leaving{past: p, all: p.drainsOfStart()}, p
		places = func(_ context.Context, q api.PlacesQuestion) (api.Places, error) {
			return p.places(w.machines.groupOf, q)
		}
	}
	w.loop = autoscaler.NewLoop(s.Pool, autoscaler.World{
		Provider: w.machines.provider(), Scheduler: w.machines, Cordon: w.machines, Directory: directory{listing},
		Dial:    dial,
		Metrics: w.store, Ledger: w, Memory: memory, Orders: w.orders, Lease: lease{}, Records: drains,
		Health: health, Places: places, Cost: cost, Price: w.price(), Ticked: w.ticked, Now: func() time.Time { return w.now }, Limit: unlimited,
	}, slog.New(slog.DiscardHandler))
	return w
}

// signals returns a process for each signal, and how the loop connects to it.
func (w *world) signals() (ask.Listing, func(ask.Endpoint, ask.RequestSpec) ask.Client) {
	s, listing := w.scenario, ask.Listing{Revision: 1, Endpoints: map[string]ask.Endpoint{}}
	own, count := map[string]bool{}, 0 // signals of apps, without their advisors
	names := map[string]string{}       // of the shipped ones
	for _, a := range append(s.past.signals(), s.Pool.Signals()...) {
		listing.Endpoints[a.App] = ask.Endpoint{Address: a.App}
		known := own[a.App]
		own[a.App] = a.App != sigproto.DefaultApp && a.Name != ""
		if own[a.App] && !known && sigproto.AppOf(a.App) == a.App {
			count++
		}
		if names[a.App] = a.Name; a.Version != "" {
			names[a.App] = ""
		}
	}
	return listing, func(e ask.Endpoint, r ask.RequestSpec) ask.Client {
		if real := s.Signals[e.Address]; real != nil {
			return program{w, real}
		}
		d := direct{w, sigproto.AppOf(e.Address)}
		name, advises := names[e.Address], d.app != e.Address
		if series, is := s.Work.(*Series); !own[d.app] || is && series.Unnamed() && count == 1 {
			d.app = ""
		}
		switch {
		case !advises:
			return d
		case name == nameCalendar:
			return schedule{advisor{d, builtin.Calendar{}, e.Address, r}}
		case s.past != nil:
			return direct{w, e.Address} // as it answered then
		}
		return &forecaster{advisor: advisor{d, &builtin.Forecast{}, e.Address, r}}
	}
}

// price returns the prices for decisions: those of the record, or of the scenario; nil: no decision needs them.
func (w *world) price() func(string, api.MarketOffer, time.Time) (float64, error) {
	s := w.scenario
	switch {
	case s.Pool.Policy.Distribution != api.DistributeCheapest && (s.Sink == nil || s.Prices == nil):
		return nil
	case s.past.priced():
		return s.past.price
	case s.Prices == nil:
		return nil
	}
	return func(_ string, m api.MarketOffer, at time.Time) (float64, error) {
		money, err := s.Prices.At(price.Market{Type: m.InstanceType, Zone: m.Zone, Spot: m.Spot}, at)
		return money.Float(), err
	}
}

// keepMetrics is how long metrics are kept: the loop reads those of 7 days for an empty pool.
const keepMetrics = 7*24*time.Hour + time.Hour

// schedule adds the moments of an event.
func (w *world) schedule(e Event) {
	set := func(stock float64, lost bool, orders *api.Orders, silent bool) func() {
		return func() { w.apply(e, stock, lost, orders, silent) }
	}
	stock := math.Inf(1)
	if e.Stock != nil {
		stock = *e.Stock
	}
	if e.Lost {
		stock = 0
	}
	at := w.scenario.Start.Add(e.At)
	w.events = append(w.events, moment{at, set(stock, e.Lost, e.Orders, true)})
	if e.For > 0 {
		w.events = append(w.events, moment{at.Add(e.For), set(math.Inf(1), false, nil, false)})
	}
}

// apply makes the changes of an event now.
func (w *world) apply(e Event, stock float64, lost bool, orders *api.Orders, silent bool) {
	if e.Silent {
		w.silent = silent
	}
	if e.Orders != nil {
		w.orders.now = orders
	}
	if e.Stock == nil && !e.Lost {
		return
	}
	for _, g := range w.machines.groups {
		if !e.of(g.Group) {
			continue
		}
		g.cloud.Stock(stock)
		if lost {
			for _, one := range g.known {
				g.cloud.Lose(one.id)
			}
		}
	}
}

// run runs all ticks, and the time after the last one.
func (w *world) run(ctx context.Context) error {
	s := w.scenario
	if err := w.settle(ctx, true); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.loop.Open(ctx); err != nil {
		return err
	}
	for k := range s.Ticks {
		if err := w.until(ctx, s.at(k)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.tick(ctx); err != nil {
			return err
		}
	}
	return w.until(ctx, s.at(s.Ticks))
}

// tick runs one tick, and counts it.
func (w *world) tick(ctx context.Context) error {
	if err := errors.Join(w.configure(ctx), w.arrive(ctx), w.write(ctx)); err != nil {
		return err
	}
	if err := w.settle(ctx, true); err != nil { // the loop reads the work of now
		return err
	}
	w.restrict()
	err := w.loop.Tick(ctx, w.now)
	w.release()
	if err != nil {
		return err
	}
	w.result.Ticks++
	if w.failed != nil {
		return w.failed
	}
	w.tend = time.Time{}
	return w.settle(ctx, false)
}

// until visits all moments until the next tick.
func (w *world) until(ctx context.Context, tick time.Time) error {
	for w.now.Before(tick) {
		if err := w.visit(ctx, w.next(tick)); err != nil {
			return err
		}
	}
	return nil
}

// write writes the samples that the loop can read now.
func (w *world) write(ctx context.Context) error {
	n := 0
	for n < len(w.samples) && !w.samples[n].Time.Add(w.scenario.Delay).After(w.now) {
		n++
	}
	if n == 0 {
		return nil
	}
	due := w.samples[:n]
	w.samples = w.samples[n:]
	return w.store.Write(ctx, due)
}

// next returns the next moment, at most the next tick.
func (w *world) next(tick time.Time) time.Time {
	if !w.loop.Tending() {
		w.tend = time.Time{}
	} else if w.tend.IsZero() {
		w.tend = w.now.Add(apply.TendEvery)
	}
	if !w.tend.Before(tick) {
		w.tend = time.Time{} // the tick advances the drains
	}
	next := earlier(tick, w.tend)
	next = earlier(next, w.machines.next())
	next = earlier(next, w.works)
	if w.health != nil {
		next = earlier(next, w.health.next())
	}
	if len(w.events) > 0 {
		next = earlier(next, w.events[0].at)
	}
	return maxTime(next, w.now) // a warning may be due before its machine was launched
}

// visit moves the time, and lets everything happen that is due then.
func (w *world) visit(ctx context.Context, now time.Time) error {
	w.measure(now)
	w.now = now
	w.machines.advance(now)
	for len(w.events) > 0 && !w.events[0].at.After(now) {
		w.events[0].do()
		w.events = w.events[1:]
		w.machines.advance(now)
	}
	if err := w.settle(ctx, false); err != nil {
		return err
	}
	for _, due := range w.machines.due(now) {
		if err := w.warn(ctx, due); err != nil {
			return err
		}
	}
	if w.health != nil && !now.Before(w.health.next()) {
		if err := errors.Join(w.health.step(ctx, now), w.settle(ctx, false)); err != nil {
			return err
		}
	}
	if w.tend.IsZero() || now.Before(w.tend) {
		return nil
	}
	w.tend = time.Time{}
	if err := w.loop.Tend(ctx); err != nil {
		return err
	}
	return w.settle(ctx, false)
}

// warn sends a warning to the loop. One that the loop does not handle now is sent again.
func (w *world) warn(ctx context.Context, due warning) error {
	handled := false
	n := pools.Notice{Instance: due.node, Kind: due.kind, At: w.now, Why: string(due.kind), Done: func() { handled = true }}
	if err := w.loop.Notice(ctx, n); err != nil {
		return err
	}
	if !handled {
		w.machines.warnings = append(w.machines.warnings, warning{w.now.Add(repeatWarning), due.node, due.kind})
	}
	return w.settle(ctx, false)
}

// repeatWarning is the time until a provider repeats a warning that was not handled.
const repeatWarning = 10 * time.Second

// measure adds the time until now to the result.
func (w *world) measure(now time.Time) {
	if column := w.meter.columns.at(w.meter.at); column != nil && now.After(w.meter.at) {
		w.count(column)
	}
	w.meter.advance(now, w.scenario.Work.Until(now), w.machines.offered, w.machines.existing)
}

// count adds what happened since the last count to a column.
func (w *world) count(column *Column) {
	b, r := w.machines.bill, &w.result
	b.mu.Lock()
	defer b.mu.Unlock()
	column.Launches += b.launches - r.Launches
	column.Interrupted += b.interrupted - r.Interrupted
	column.Removed += b.removed - r.Removed
	column.Changes += r.Changes - w.counted
	r.Launches, r.Interrupted, r.Removed, w.counted = b.launches, b.interrupted, b.removed, r.Changes
}

// settle adopts all changes of now. It places the work on the nodes if anything changed, or if it must.
func (w *world) settle(ctx context.Context, must bool) error {
	if err := w.lower(ctx); err != nil {
		return err
	}
	changed, err := w.machines.settle(ctx, w.now)
	if due := !w.works.IsZero() && !w.now.Before(w.works); err == nil && (changed || must || due) {
		w.meter.load = w.scenario.Work.Step(w.now, w.machines.nodes)
		w.works = w.scenario.Work.Next(w.now)
		w.machines.built = false
	}
	return err
}

// Append implements autoscaler.Ledger.
func (w *world) Append(_ context.Context, r api.TickRecord) error {
	if w.scenario.past != nil {
		w.scenario.past.last = r.State.Groups
	}
	if w.scenario.Why != nil {
		w.meter.why = w.scenario.Why(r)
	}
	if w.scenario.Sink != nil {
		w.failed = w.scenario.Sink(r)
	}
	return nil
}

// ticked counts what a tick came to.
func (w *world) ticked(r api.TickRecord, _ error) {
	if r.Result == nil {
		if r.Paused == nil {
			w.result.Failed++
		}
		return
	}
	if w.targets != nil && !maps.Equal(w.targets, r.Result.Groups) {
		w.result.Changes++
	}
	w.targets = r.Result.Groups
}

// finish bills the machines that exist, and returns the result.
func (w *world) finish(ctx context.Context) (Result, error) {
	for _, g := range w.machines.groups {
		s, err := g.cloud.Snapshot(context.WithoutCancel(ctx))
		if err != nil {
			return w.result, err
		}
		for k := range s.Instances {
			if i := &s.Instances[k]; i.State != api.InstanceTerminating {
				w.machines.bill.rest(g.Group, i.Launched, w.now)
			}
		}
	}
	r, err := &w.result, error(nil)
	r.To = w.now
	r.Markets, err = w.machines.bill.result()
	for _, m := range r.Markets {
		r.Cost += m.Cost
	}
	b := w.machines.bill
	w.finishColumns()
	r.Launches, r.Interrupted, r.Removed, r.Broken = b.launches, b.interrupted, b.removed, w.machines.failed
	w.meter.stretches.end()
	r.Worst = w.meter.stretches.worst
	if placed, is := w.scenario.Work.(*Apps); is {
		r.Disrupted = placed.disrupted
	}
	return *r, err
}

// finishColumns adds the columns to the result, without those that a run that ended early has not begun.
func (w *world) finishColumns() {
	all, r := w.meter.columns.all, &w.result
	n := len(all)
	if n == 0 {
		return
	}
	for n > 1 && all[n-1].Hours == 0 {
		n--
	}
	w.count(&all[n-1])
	r.Columns = all[:n]
	for i := range r.Markets {
		r.Markets[i].Columns = r.Markets[i].Columns[:min(n, len(r.Markets[i].Columns))]
	}
}
