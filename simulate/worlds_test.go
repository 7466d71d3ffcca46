package simulate_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// randomWorld draws a scenario of some hours. Its bills have no rule but the price.
func randomWorld(t testing.TB, seed uint64) simulate.Scenario {
	r := rand.New(rand.NewPCG(seed, 2))
	any := func(some ...float64) float64 { return some[r.IntN(len(some))] }
	s := simulate.Scenario{
		Seed: seed, Start: noon, Ticks: 60 + r.IntN(180), Pool: policy(any(0.6, 0.8, 1)), Delay: time.Duration(r.IntN(3)) * time.Minute,
		Headroom: any(0, 1.2), Prices: prices(t),
	}
	p := &s.Pool.Policy
	p.MarginUp, p.MarginDown = any(0, 0.1), any(0, 0.1)
	p.Limits.MaxAdd, p.Limits.MaxRemove = any(api.Unlimited, 5, 20), any(api.Unlimited, 5, 20)
	if r.IntN(3) == 0 {
		p.Cooldown.Down = time.Duration(r.IntN(20)) * time.Minute
	}
	s.Pool.Drain.Force = r.IntN(2) == 0
	s.Pool.Drain.Threshold = time.Duration(1+r.IntN(20)) * time.Minute
	s.Pool.Drain.EndSpot = r.IntN(2) == 0
	for i := range 1 + r.IntN(3) {
		weight := any(1, 1, 2, 0.5)
		s.Groups = append(s.Groups, simulate.Group{
			ID: string(rune('a' + i)), Target: r.IntN(10) * max(1, int(weight)), Max: int(any(0, 40)), Weight: weight,
			Machine: resource.Vector{4 * weight, 16_000 * weight}, Market: price.Market{Type: "m5", Zone: "z" + strconv.Itoa(i%2), Spot: r.IntN(2) == 0},
			Launch: simulate.Delay{P50: time.Duration(r.IntN(200)) * time.Second, P95: time.Duration(r.IntN(400)) * time.Second},
			Leave:  time.Duration(r.IntN(120)) * time.Second, Interruptions: any(0, 0.1, 1), Warning: time.Duration(any(0, 120)) * time.Second,
		})
	}
	for range r.IntN(4) {
		e := simulate.Event{At: time.Duration(r.IntN(180)) * time.Minute, For: time.Duration(r.IntN(60)) * time.Minute}
		switch r.IntN(4) {
		case 0:
			e.Group, e.Stock = s.Groups[r.IntN(len(s.Groups))].ID, new(float64(r.IntN(10)))
		case 1:
			e.Zone, e.Lost = s.Groups[r.IntN(len(s.Groups))].Market.Zone, true
		case 2:
			e.Orders = &api.Orders{Pause: &api.Note{By: "me", At: noon}}
		case 3:
			e.Orders = &api.Orders{Pin: &api.Pin{Note: api.Note{By: "me", At: noon}, Target: float64(r.IntN(30))}}
		}
		s.Events = append(s.Events, e)
	}
	if seed%3 == 2 {
		s.Work = randomApps(t, r)
		return s
	}
	work := simulate.NewSeries()
	work.Linear, work.Linger = r.IntN(2) == 0, time.Duration(r.IntN(3))*50*time.Second
	for _, app := range []string{"web", "mail"}[:1+r.IntN(2)] {
		at := noon
		for range 20 {
			if err := work.Add(app, at, resource.Vector{float64(r.IntN(800)) / 10, float64(r.IntN(100_000))}); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Duration(1+r.IntN(900)) * time.Second)
		}
	}
	s.Work = work
	return s
}

// byCost makes a world distribute by cost. Each market has a price of its own, which changes twice.
func byCost(t testing.TB, s simulate.Scenario) simulate.Scenario {
	t.Helper()
	r := rand.New(rand.NewPCG(s.Seed, 3))
	p := &s.Pool.Policy
	p.Distribution, p.InterruptedWork = api.DistributeCheapest, time.Duration(r.IntN(9))*time.Hour
	if r.IntN(2) == 0 {
		p.MaxShare = 0.3 + 0.5*r.Float64()
	}
	s.Prices = &price.Prices{}
	for _, g := range s.Groups {
		if s.Prices.Has(g.Market) == nil {
			continue // another group has this market
		}
		for i := range 3 {
			if err := s.Prices.Set(g.Market, noon.Add(time.Duration(i)*time.Hour), float64(1+r.IntN(5))/10); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// randomApps draws copies of up to three apps. A few fit on no machine.
func randomApps(t testing.TB, r *rand.Rand) *simulate.Apps {
	counts := simulate.NewSeries()
	var apps []simulate.App
	for i := range 1 + r.IntN(3) {
		app := simulate.App{
			Name: fmt.Sprint("app", i), Copy: resource.Vector{[]float64{0.3, 0.5, 1, 1.5, 2.5, 9}[r.IntN(6)], float64(r.IntN(8000))},
			StartsIn: time.Duration(r.IntN(3)*r.IntN(60)) * time.Second,
		}
		apps = append(apps, app)
		at := noon
		for range 10 {
			if err := counts.AddInstances(app.Name, at, r.IntN(25)); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Duration(1+r.IntN(1800)) * time.Second)
		}
	}
	work, err := simulate.NewApps("default", counts, apps...)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// worlds returns the numbers of the random worlds. SOAK is how many, FROM the first one.
func worlds(t *testing.T, few, many uint64) (from, to uint64) {
	t.Helper()
	read := func(name string, to *uint64) {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*to = n
		}
	}
	count := testsize.Pick(many, few)
	read("SOAK", &count)
	read("FROM", &from)
	return from, from + count
}

// The bills are those of the machines that existed: each machine-second is billed once, at its price. Each machine was launched, and ended once or exists.
func TestConservation(t *testing.T) {
	t.Parallel()
	from, to := worlds(t, 5, 20)
	launches, interrupted := 0, 0
	for seed := from; seed < to; seed++ {
		s := randomWorld(t, seed)
		var last api.TickRecord
		s.Columns, s.Why = int(seed%40)+1, func(api.TickRecord) string { return "a limit" }
		s.Sink = func(r api.TickRecord) error {
			last = r
			return explained(r)
		}
		r := run(t, s)
		hours, machines := 0.0, 0
		for _, m := range r.Markets {
			hours += m.Hours
			machines += m.Machines
		}
		if !near(hours, r.Existed) || !near(r.Cost.Float(), hours*0.36) {
			t.Errorf("seed %d: %v machine-hours are billed for %v, and %v existed", seed, hours, r.Cost.Float(), r.Existed)
		}
		if ended := r.Interrupted + r.Removed; machines > r.Launches || ended > r.Launches {
			t.Errorf("seed %d: %d launches, %d machines are billed, %d ended", seed, r.Launches, machines, ended)
		}
		for k := range r.Wanted {
			if r.Unmet[k] > r.Wanted[k]+1e-6 || r.Wanted[k]-r.Unmet[k] > r.Offered[k]+1e-6 {
				t.Errorf("seed %d: wanted %v, unmet %v, offered %v", seed, r.Wanted, r.Unmet, r.Offered)
				break
			}
		}
		if r.Failed > 0 {
			t.Errorf("seed %d: %d ticks failed, the last record: %s", seed, r.Failed, last.Failed)
		}
		if err := columnsOf(r); err != nil || len(r.Columns) > s.Columns {
			t.Errorf("seed %d, %d columns: %v", seed, len(r.Columns), err)
		}
		launches, interrupted = launches+r.Launches, interrupted+r.Interrupted
	}
	t.Logf("%d machines in %d worlds, %d of them interrupted", launches, to-from, interrupted)
}

// columnsOf checks that the columns of a result add up to it, and that its worst stretches are parts of it.
func columnsOf(r simulate.Result) error {
	var sum simulate.Column
	for _, c := range r.Columns {
		sum.Hours, sum.Existed, sum.Waited = sum.Hours+c.Hours, sum.Existed+c.Existed, max(sum.Waited, c.Waited)
		sum.Wanted, sum.Unmet, sum.Offered = sum.Wanted.Add(c.Wanted), sum.Unmet.Add(c.Unmet), sum.Offered.Add(c.Offered)
		sum.Launches, sum.Interrupted, sum.Removed, sum.Changes = sum.Launches+c.Launches, sum.Interrupted+c.Interrupted, sum.Removed+c.Removed, sum.Changes+c.Changes
	}
	for k := range r.Wanted {
		if !near(sum.Wanted[k], r.Wanted[k]) || !near(sum.Unmet[k], r.Unmet[k]) || !near(sum.Offered[k], r.Offered[k]) {
			return fmt.Errorf("they have %+v, want %+v", sum, r)
		}
	}
	if !near(sum.Hours, r.To.Sub(r.From).Hours()) || !near(sum.Existed, r.Existed) || sum.Waited != r.Waited || sum.Launches != r.Launches ||
		sum.Interrupted != r.Interrupted || sum.Removed != r.Removed || sum.Changes != r.Changes {
		return fmt.Errorf("they have %+v, want %+v", sum, r)
	}
	for _, m := range r.Markets {
		cost := price.Money(0)
		for _, x := range m.Columns {
			cost += x
		}
		if cost != m.Cost {
			return fmt.Errorf("they cost %v of %s, want %v", cost, m.Market, m.Cost)
		}
	}
	unmet, longest := 0.0, time.Duration(0)
	for _, w := range r.Worst {
		if w.Why == "" || !w.To.After(w.From) {
			return fmt.Errorf("stretch %+v", w)
		}
		unmet, longest = unmet+w.Unmet[0], max(longest, w.To.Sub(w.From))
	}
	if unmet > r.Unmet[0]*(1+1e-9) || (len(r.Worst) == 0) != (r.Waited < time.Second) {
		return fmt.Errorf("the worst stretches have %v of %v, the longest wait is %v", unmet, r.Unmet[0], r.Waited)
	}
	return nil
}

// A run that ends early has the result until then, with the columns that began.
func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop, ticks := errors.New("stop"), 0
	s := simulate.Scenario{
		Start: noon, Ticks: 1000, Pool: policy(0.8), Groups: []simulate.Group{machine("a", 3)}, Work: demand(t, time.Hour, 8, 30, 2), Prices: prices(t), Billing: price.Linux(),
		Columns: 100, Why: func(api.TickRecord) string { return "a limit" },
		Sink: func(api.TickRecord) error {
			if ticks++; ticks == 105 {
				cancel(stop)
			}
			return nil
		},
	}
	r, err := simulate.Run(ctx, s)
	if !errors.Is(err, stop) || r.Ticks != 105 || !r.To.Equal(noon.Add(105*time.Minute)) {
		t.Errorf("the run ended at %v, tick %d: %v", r.To, r.Ticks, err)
	}
	if err := columnsOf(r); err != nil || len(r.Columns) != 11 {
		t.Errorf("%d columns: %v", len(r.Columns), err)
	}
}

// explained checks that a record resolves to its result again.
func explained(r api.TickRecord) error {
	if r.Case == nil {
		return nil
	}
	again, err := json.Marshal(resolve.Resolve(*r.Case).Result())
	if err != nil {
		return err
	}
	if recorded, err := json.Marshal(r.Result); err != nil || string(recorded) != string(again) {
		return fmt.Errorf("the record at %v does not resolve to its result: %w\n%s\n%s", r.At, err, recorded, again)
	}
	return nil
}

// digest returns a sum of all records of a world and its result.
func digest(t *testing.T, s simulate.Scenario) string {
	t.Helper()
	sum := sha256.New()
	out := json.NewEncoder(sum)
	s.Sink = func(r api.TickRecord) error { return out.Encode(r) }
	if err := out.Encode(run(t, s)); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// The same seed gives the same bytes, on one processor and on two. It is not parallel, because it sets the number of processors.
func TestSameSeedSameBytes(t *testing.T) {
	from, to := worlds(t, 5, 15)
	for seed := from; seed < to; seed++ {
		var sums [2]string
		for i := range sums {
			before := runtime.GOMAXPROCS(i + 1)
			s := randomWorld(t, seed)
			if seed%2 == 1 {
				s = byCost(t, s)
			}
			sums[i] = digest(t, s)
			runtime.GOMAXPROCS(before)
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d: %s and %s", seed, sums[0], sums[1])
		}
	}
}
