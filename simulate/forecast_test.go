package simulate_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/simulate"
)

const slot = 5 * time.Minute

// advised is a series whose signal requests the highest load of ten minutes, and what the built-in forecast adds to it.
type advised struct {
	*simulate.Series
	t        testing.TB
	setpoint float64
	launch   time.Duration
	without  string
	start    time.Time
	cpus     []float64 // at the begin of each slot
	forecast *builtin.Forecast
	latest   int // slot of the latest answer
	answer   resource.Request
}

// Requests implements simulate.Work.
func (a *advised) Requests(at time.Time, _ string) resource.Request {
	highest := 0.0
	for age := range 3 {
		x, _ := a.Series.Requests(at.Add(-time.Duration(age)*slot), "").Get(resource.CPUs)
		highest = max(highest, x)
	}
	if n := int(at.Sub(a.start) / slot); a.forecast != nil && n != a.latest {
		a.latest = n
		a.answer = a.advice(n)
	}
	if x, has := a.answer.Get(resource.CPUs); has {
		highest = max(highest, x)
	}
	return resource.Request{}.With(resource.CPUs, highest)
}

// advice evaluates the shipped signal on the means of the 28 days before slot n, as the store of metrics returns them.
func (a *advised) advice(n int) resource.Request {
	var s signals.Series
	for i := max(0, n-28*288); i < n; i++ {
		s.Times = append(s.Times, a.start.Add(time.Duration(i)*slot).Unix())
		s.Values = append(s.Values, (a.cpus[i]+a.cpus[i+1])/2)
	}
	r, err := a.forecast.Value(a.t.Context(), signals.Input{
		Now: a.start.Add(time.Duration(n) * slot), App: "all", Setpoint: a.setpoint, Metrics: map[string]signals.Series{"cpus": s},
		Parameters: signals.Parameters{"unit": map[string]any{"cpus": 1.0}, "launch": a.launch.String(), "time_zone": "UTC", "without_season": a.without},
	})
	if err != nil && !errors.Is(err, signals.ErrNoOpinion) {
		a.t.Fatal(err)
	}
	return r
}

// office is a weekly load: a business day on weekdays, a third of it on weekends, and noise of 2 %.
func office(days int) []float64 {
	var out []float64
	for i := range days * 288 {
		hour := float64(i%288) / 12
		up, down := 1/(1+math.Exp(-(hour-8.5)*2)), 1/(1+math.Exp((hour-18)*1.5))
		day := up * down * (1 - 0.15*math.Exp(-(hour-12.5)*(hour-12.5)*2))
		if i/288%7 >= 5 {
			day *= 0.3
		}
		out = append(out, (100+900*day)*(0.96+0.08*noise(i)))
	}
	return out
}

// recordedSeries returns a real series; a missing value is the one before it.
func recordedSeries(t testing.TB, name string) (all []float64) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "signals", "forecast", "testdata", "series", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	each, last := 1, math.NaN()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text := lines.Text(); strings.HasPrefix(text, "#") {
			if strings.Contains(text, "step_seconds=1800") {
				each = 6
			}
			continue
		} else if text != "" {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			for k := 1; k < each && len(all) > 0; k++ {
				all = append(all, last+(x-last)*float64(k)/float64(each))
			}
			last = x
		}
		if !math.IsNaN(last) {
			all = append(all, last)
		}
	}
	return all
}

// closed is one row of the comparison.
type closed struct {
	setpoint float64
	forecast bool
	without  string // without_season
}

func (c closed) String() string {
	if c.without == "headroom" {
		return fmt.Sprint(c.setpoint, " with forecast or headroom")
	}
	if c.forecast {
		return fmt.Sprintf("%g with forecast", c.setpoint)
	}
	return fmt.Sprint(c.setpoint)
}

// closedLoop runs a pool for some days after a history of 28 days.
func closedLoop(t *testing.T, load []float64, days int, launch time.Duration, c closed) simulate.Result {
	t.Helper()
	const history = 28 * 288
	load = load[:history+days*288+1]
	mean := 0.0
	for _, x := range load {
		mean += x / float64(len(load))
	}
	a := &advised{Series: simulate.NewSeries(), t: t, setpoint: c.setpoint, launch: launch, without: c.without, start: noon.Truncate(24 * time.Hour), latest: -1}
	a.Linear = true
	for i, x := range load {
		a.cpus = append(a.cpus, x/mean*200) // of 50 machines
		if err := a.Add("all", a.start.Add(time.Duration(i)*slot), resource.Vector{a.cpus[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if c.forecast {
		a.forecast = &builtin.Forecast{}
	}
	group := machine("a", int(math.Ceil(a.cpus[history]/c.setpoint/4)))
	group.Launch = simulate.Delay{P50: launch, P95: launch * 5 / 4}
	return run(t, simulate.Scenario{
		Seed: 1, Start: a.start.Add(history * slot), Ticks: days * 24 * 60, Pool: policy(c.setpoint), Groups: []simulate.Group{group},
		Work: a, Delay: time.Minute, Prices: prices(t), Billing: price.Linux(),
	})
}

// TestForecastInClosedLoop compares a setpoint of 0.7 with one of 0.9 and the built-in forecast, in the loop of a pool. It prints
// the table of docs/guide-forecast.md. SOAK runs 14 days of all series, else the test runs two days of the office load.
func TestForecastInClosedLoop(t *testing.T) {
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	soak := os.Getenv("SOAK") != ""
	days, worlds := 2, map[string][]float64{"office": office(43)}
	names, launches := []string{"office"}, []time.Duration{5 * time.Minute}
	if soak {
		days = 14
		for _, name := range []string{"taxi", "asg_cpu", "tweets_amzn"} {
			names = append(names, name)
			worlds[name] = recordedSeries(t, name)
		}
		launches = append(launches, 15*time.Minute)
	}
	t.Log("| load | launch | setpoint | cost | unused | waiting | longest wait |")
	for _, name := range names {
		for _, launch := range launches {
			results := map[closed]simulate.Result{}
			for _, c := range []closed{{0.7, false, ""}, {0.9, false, ""}, {0.9, true, "no opinion"}, {0.9, true, "headroom"}} {
				r := closedLoop(t, worlds[name], days, launch, c)
				results[c] = r
				wanted, unmet := r.Wanted[resource.CPUs], r.Unmet[resource.CPUs]
				cost := 100 * r.Cost.Float() / results[closed{0.7, false, ""}].Cost.Float()
				t.Logf("| %s | %v | %v | %.0f %% | %.0f %% | %.3f %% | %v |", name, launch, c, cost, 100*(r.Offered[resource.CPUs]/wanted-1), 100*unmet/wanted, r.Waited.Round(time.Minute))
			}
			low, with := results[closed{0.7, false, ""}], results[closed{0.9, true, "no opinion"}]
			if without := results[closed{0.9, false, ""}]; name == "office" && (with.Cost > low.Cost*9/10 || with.Unmet[resource.CPUs] > without.Unmet[resource.CPUs]/2) {
				t.Errorf("%s, launch %v: a setpoint of 0.9 with the forecast costs %v, %v at 0.7; unmet %v, without it %v", name, launch, with.Cost, low.Cost,
					with.Unmet[resource.CPUs], without.Unmet[resource.CPUs])
			}
		}
	}
}
