package builtin_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

// twoWeeks returns windows of 14 days in slots of five minutes before now, with a load of each time.
func twoWeeks(now time.Time, load func(time.Time) float64) windows {
	var s signals.Series
	for at := now.Add(-14 * 24 * time.Hour); at.Before(now); at = at.Add(5 * time.Minute) {
		s.Times = append(s.Times, at.Unix())
		s.Values = append(s.Values, load(at))
	}
	return windows{"requests": s, "requests#count": s}
}

// office is 200 at night and 1000 by day. It rises from 8 to 9 and falls from 18 to 19, with a ripple in each hour.
func office(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	return 200 + 800*min(max(hour-8, 0), 1, max(19-hour, 0)) + float64(at.Minute()*7%11)
}

func TestForecastRaisesBeforeTheLoad(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 10, 0, 0, time.UTC)
	in := signals.Input{
		Now: now, App: "web", Setpoint: 0.9, Metrics: twoWeeks(now, office),
		Parameters: signals.Parameters{"unit": map[string]any{"cpus": 0.01, "mem": 1.0}, "launch": "15m", "time_zone": "UTC"},
	}
	signal := &builtin.Forecast{}
	ctx, explanation := signals.WithExplanation(t.Context())
	got, err := signal.Value(ctx, in)
	if err != nil {
		t.Fatalf("Value = %v, want a request", err)
	}
	// The load is 333 now, and 600 at 08:30.
	cpus, _ := got.Get(resource.CPUs)
	mem, _ := got.Get(resource.Mem)
	if cpus < 4.8 || cpus > 7 || math.Abs(mem-100*cpus) > 1e-6 {
		t.Errorf("Value = %v, want 5 to 7 cpus and 100 times as much memory", got)
	}
	for _, part := range []string{"over now", "season of weekdays", "08:25", "won 7 of 7 days", "against"} {
		if !strings.Contains(explanation(), part) {
			t.Errorf("explanation %q, want %q in it", explanation(), part)
		}
	}
	if again, err := (&builtin.Forecast{}).Value(t.Context(), in); again != got {
		t.Errorf("Value after a restart = %v, %v, want %v", again, err, got)
	}
	in.Setpoint = 0.2
	if _, err := signal.Value(t.Context(), in); !errors.Is(err, signals.ErrNoOpinion) || !strings.Contains(err.Error(), "setpoint 0.2") {
		t.Errorf("Value with setpoint 0.2 = %v, want no opinion", err)
	}
}

// Without the parameter launch, the measured time of the pool counts, and 10 minutes before there is one.
func TestForecastUsesTheMeasuredTimeOfLaunch(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 10, 0, 0, time.UTC)
	value := func(launch string, measured time.Duration) (cpus float64, explanation string) {
		in := signals.Input{
			Now: now, App: "web", Setpoint: 0.9, Launch: measured, Metrics: twoWeeks(now, office),
			Parameters: signals.Parameters{"unit": map[string]any{"cpus": 0.01}, "time_zone": "UTC"},
		}
		if launch != "" {
			in.Parameters["launch"] = launch
		}
		ctx, explain := signals.WithExplanation(t.Context())
		got, err := (&builtin.Forecast{}).Value(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		cpus, _ = got.Get(resource.CPUs)
		return cpus, explain()
	}
	given10, _ := value("10m", 30*time.Minute)
	given30, _ := value("30m", 0)
	unknown, _ := value("", 0)
	measured, why := value("", 30*time.Minute)
	if given10 != unknown || measured != given30 || !(measured > given10) || !strings.HasSuffix(why, "; machines join within 30 minutes") {
		t.Errorf("launch 10m %v, unknown %v, 30m %v, measured 30m %v: %s", given10, unknown, given30, measured, why)
	}
	if long, _ := value("", 5*time.Hour); !(long > 0) {
		t.Errorf("a launch above the bound: %v cpus", long)
	}
}

func TestForecastUsesImportedHistory(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 10, 0, 0, time.UTC)
	in := signals.Input{Now: now, App: "web", Setpoint: 0.9, Parameters: signals.Parameters{"unit": map[string]any{"cpus": 0.01}, "time_zone": "UTC"}}
	all := twoWeeks(now, office)["requests"]
	day := len(all.Times) - 288
	signal := &builtin.Forecast{}
	in.Metrics = windows{"requests": {Times: all.Times[day:], Values: all.Values[day:]}}
	if _, err := signal.Value(t.Context(), in); !errors.Is(err, signals.ErrNoOpinion) || !strings.Contains(err.Error(), "needs 3 days of back-test") {
		t.Fatalf("Value with one day = %v, want no opinion", err)
	}
	in.Metrics = windows{"requests": all}
	if _, err := signal.Value(t.Context(), in); err != nil {
		t.Errorf("Value with two weeks = %v, want a request", err)
	}
}

func TestForecastWithoutSeason(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 10, 0, 0, time.UTC)
	state := uint64(1)
	noise := func(time.Time) float64 { // xorshift, a factor of up to 3
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return 300 + 600*float64(state%1000)/1000
	}
	in := signals.Input{Now: now, App: "web", Setpoint: 0.9, Metrics: twoWeeks(now, noise)}
	parameters := func(more ...any) signals.Parameters {
		p := signals.Parameters{"unit": map[string]any{"cpus": 0.01}, "time_zone": "Europe/Berlin"}
		for i := 0; i < len(more); i += 2 {
			p[more[i].(string)] = more[i+1]
		}
		return p
	}
	in.Parameters = parameters()
	if got, err := (&builtin.Forecast{}).Value(t.Context(), in); !errors.Is(err, signals.ErrNoOpinion) || !strings.Contains(err.Error(), "would do as well") {
		t.Errorf("Value = %v, %v, want no opinion, and the reason", got, err)
	}
	in.Parameters = parameters("without_season", "headroom")
	ctx, explanation := signals.WithExplanation(t.Context())
	got, err := (&builtin.Forecast{}).Value(ctx, in)
	if cpus, _ := got.Get(resource.CPUs); err != nil || cpus < 4 || !strings.Contains(explanation(), "a headroom of") {
		t.Errorf("Value = %v, %v, %q, want the best headroom", got, err, explanation())
	}
	in.Metrics = windows{"requests": {}}
	if _, err := (&builtin.Forecast{}).Value(t.Context(), in); !errors.Is(err, signals.ErrNoOpinion) {
		t.Errorf("Value without points = %v, want no opinion", err)
	}
	in.Metrics = windows{"a": {}, "b": {}}
	if _, err := (&builtin.Forecast{}).Value(t.Context(), in); err == nil || errors.Is(err, signals.ErrNoOpinion) || !strings.Contains(err.Error(), `name one in the parameter "metric"`) {
		t.Errorf("Value with two windows = %v, want an error", err)
	}
}

func TestForecastParameters(t *testing.T) {
	for _, tt := range []struct {
		name  string
		key   string
		value any
		wrong string // empty: valid
	}{
		{"valid", "launch", "15m", ""},
		{"integers of a file", "waiting_costs", uint64(20), ""},
		{"holidays", "like_weekend", []any{"2026-12-25"}, ""},
		{"no such key", "lauch", "15m", `"lauch" is unknown: want one of launch, like_weekend, metric`},
		{"launch without a unit", "launch", 15, `"launch"`},
		{"launch is too long", "launch", "2h", "at most 1h0m0s"},
		{"waiting costs", "waiting_costs", 100, "want 1 to 50"},
		{"no zone", "time_zone", nil, "is missing"},
		{"a zone of three countries", "time_zone", "IST", "want UTC, or a name"},
		{"an offset", "time_zone", "Etc/GMT+1", "want UTC, or a name"},
		{"a zone that does not exist", "time_zone", "Europe/Atlantis", "no known zone"},
		{"no unit", "unit", nil, "such as {cpus: 0.01}"},
		{"a unit without a kind", "unit", 0.01, "such as {cpus: 0.01}"},
		{"an unknown kind", "unit", map[string]any{"cpu": 1}, "has cpu: 1"},
		{"a unit of zero", "unit", map[string]any{"cpus": 0}, "has cpus: 0"},
		{"a date that does not exist", "like_weekend", []any{"2026-02-30"}, "2026-02-30"},
		{"without a season", "without_season", "headrom", `want "headroom" or "no opinion"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parameters := map[string]any{"unit": map[string]any{"cpus": 0.01}, "time_zone": "Europe/Berlin"}
			parameters[tt.key] = tt.value
			err := builtin.Check("forecast", parameters)
			if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("Check = %v, want %q", err, tt.wrong)
			}
		})
	}
}
