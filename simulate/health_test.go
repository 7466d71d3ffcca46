package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// failing is a pool of 10 machines of 4 cpus for a day, each of which fails once in 20 hours.
func failing(t *testing.T, mode api.PolicyMode) simulate.Scenario {
	g := machine("a", 10)
	g.Failures = 1.0 / 20
	s := simulate.Scenario{Seed: 3, Start: noon, Ticks: 24 * 60, Pool: policy(0.9), Groups: []simulate.Group{g}, Work: demand(t, time.Hour, 30, 30)}
	if mode != "" {
		s.Health = &judge.Policy{Mode: mode, Detection: judge.Detection{Modes: []judge.DetectionMode{{Type: api.DetectAgentHeartbeat}}}}
	}
	return s
}

// Node health replaces the machines that fail: the judge of production finds them by their silence, and the loop launches the
// replacements. Without it a failed machine is paid for to the end.
func TestFailedMachinesAreReplaced(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	results := map[api.PolicyMode]simulate.Result{}
	for _, mode := range []api.PolicyMode{"", api.ModeObserve, api.ModeAct} {
		causes := map[string]int{}
		s := failing(t, mode)
		s.Prices = &price.Prices{}
		if err := s.Prices.Set(s.Groups[0].Market, noon, 1); err != nil {
			t.Fatal(err)
		}
		s.Sink = func(r api.TickRecord) error {
			if r.Cost != nil {
				for cause := range r.Cost.ByCause() {
					causes[cause]++
				}
			}
			return explained(r)
		}
		r := run(t, s)
		results[mode] = r
		t.Logf("%q: %d failed, %d replaced, %d launched, unmet %.2f of %.0f cpu-hours, existed %.1f h, longest wait %v; %v", mode, r.Broken, r.Repaired, r.Launches, r.Unmet[resource.CPUs], r.Wanted[resource.CPUs], r.Existed, r.Waited, causes)
		if (causes["repair"] > 0) != (mode == api.ModeAct) {
			t.Errorf("%q: the causes of cost are %v", mode, causes)
		}
	}
	act, none := results[api.ModeAct], results[""]
	if act.Broken < 5 || act.Repaired < act.Broken-1 {
		t.Errorf("%d machines failed, %d were replaced", act.Broken, act.Repaired)
	}
	if watched := results[api.ModeObserve]; watched.Launches != none.Launches || watched.Broken != none.Broken || !near(watched.Unmet[resource.CPUs], none.Unmet[resource.CPUs]) || watched.Cost != none.Cost {
		t.Errorf("a policy that observes changes the run:\n%+v\n%+v", none, watched)
	}
	if act.Waited > time.Hour || act.Unmet[resource.CPUs] > none.Unmet[resource.CPUs]/10 {
		t.Errorf("with repairs %+v\nwithout %+v", act, none)
	}
	again := run(t, failing(t, api.ModeAct))
	if again.Repaired != act.Repaired || again.Launches != act.Launches || again.Existed != act.Existed || again.Unmet != act.Unmet {
		t.Errorf("the second run differs:\n%+v\n%+v", act, again)
	}
}

// If too many machines fail, the breaker opens: nothing is repaired, and the pool keeps its other machines.
func TestBreakerStopsRepairs(t *testing.T) {
	t.Parallel()
	s := failing(t, api.ModeAct)
	s.Groups[0].Failures, s.Ticks = 1, 300
	barred := 0
	s.Sink = func(r api.TickRecord) error {
		if r.Case != nil && strings.Contains(r.Case.Input.Barred, "the breaker is open") {
			barred++
		}
		return nil
	}
	if r := run(t, s); barred == 0 || r.Broken < 6 || r.Repaired > r.Broken/2 {
		t.Errorf("scale-in was barred at %d ticks; %d machines failed and %d were replaced", barred, r.Broken, r.Repaired)
	}
}
