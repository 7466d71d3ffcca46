package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/forecast"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Forecast requests what a metric will need when a machine that is requested now serves (package forecast):
//
//	request = setpoint * capacity * unit, for each kind of unit
//
// It has no opinion while its guard does not find a season in the last seven days. It is an advisor, because its request is
// only to raise that of another signal. Without a state of its own it answers the same after a restart: it keeps the latest
// judgement to save time. Parameters are listed in [ForecastParameters].
type Forecast struct {
	mu        sync.Mutex
	key       string // what judgement depends on, beside the window
	points    int    // of the window
	judgement forecast.Judgement
}

// ForecastParameters are the parameters of [Forecast].
type ForecastParameters struct {
	Metric       string           // key of the window; empty: the only one
	Unit         resource.Request // what one unit of the metric needs
	Measured     bool             // launch is not given: the measured time counts, if there is one
	WithHeadroom bool             // without a season, request the best headroom of the judged days
	Rule         forecast.Rule    // its Headroom is that of the setpoint
}

// Bounds of the window of [Forecast].
const (
	LeastHistory = 5 * 24 * time.Hour // two days for a profile, and three of back-test
	CoarsestSlot = 15 * time.Minute
)

// The defaults of the parameters.
const (
	defaultLaunch       = 10 * time.Minute
	defaultWaitingCosts = 20
)

var forecastKeys = []string{"launch", "like_weekend", "metric", "time_zone", "unit", "waiting_costs", "without_season"}

// DecodeForecast returns the parameters of [Forecast], or all problems of them. Values are those of JSON or of a file, which
// has integers too.
func DecodeForecast(parameters map[string]any) (f ForecastParameters, err error) {
	var p signals.Parameters
	text, err := json.Marshal(parameters)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	errs := []error{err}
	keep := func(err error) { errs = append(errs, err) }
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(forecastKeys, name) {
			keep(fmt.Errorf("parameter %q is unknown: want one of %s", name, strings.Join(forecastKeys, ", ")))
		}
	}
	f.Metric, err = p.String("metric", "")
	keep(err)
	f.Rule.Launch, err = p.Duration("launch", defaultLaunch)
	keep(err)
	f.Measured = p["launch"] == nil
	f.Rule.WaitingCosts, err = p.Float("waiting_costs", defaultWaitingCosts)
	keep(err)
	f.Rule.Zone, err = zone(p)
	keep(err)
	f.Rule.LikeWeekend, err = dates(p["like_weekend"])
	keep(err)
	f.Unit, err = unit(p["unit"])
	keep(err)
	without, err := p.String("without_season", "no opinion")
	keep(err)
	if f.WithHeadroom = without == "headroom"; !f.WithHeadroom && without != "no opinion" && err == nil {
		keep(fmt.Errorf(`parameter "without_season" is %.40q, want "headroom" or "no opinion"`, without))
	}
	if err := errors.Join(errs...); err != nil {
		return f, err
	}
	f.Rule.Headroom = 1
	return f, f.Rule.Validate()
}

// zone reads a time zone. EST has no summer time, and IST is three zones: a zone is an area and a city, or UTC.
func zone(p signals.Parameters) (*time.Location, error) {
	const want = "want UTC, or a name of the IANA database, such as Europe/Berlin"
	name, err := p.String("time_zone", "")
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return nil, errors.New(`parameter "time_zone" is missing: ` + want)
	case name != "UTC" && !strings.Contains(name, "/"), strings.HasPrefix(name, "Etc/"):
		return nil, fmt.Errorf(`parameter "time_zone" is %.40q: %s`, name, want)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`parameter "time_zone" is %.40q, which is no known zone: %s`, name, want)
	}
	return location, nil
}

// mostDates bounds like_weekend.
const mostDates = 1000

func dates(value any) (all []time.Time, err error) {
	const want = `a list of dates, such as ["2026-12-25"]`
	list, ok := value.([]any)
	if value != nil && (!ok || len(list) > mostDates) {
		return nil, fmt.Errorf(`parameter "like_weekend" is %.40v, want %s`, value, want)
	}
	for _, v := range list {
		text, _ := v.(string)
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, fmt.Errorf(`parameter "like_weekend" has %.40v, want %s`, v, want)
		}
		all = append(all, at)
	}
	return all, nil
}

func unit(value any) (r resource.Request, err error) {
	const want = "what one unit of the metric needs, such as {cpus: 0.01}"
	values, _ := value.(map[string]any)
	if len(values) == 0 {
		return r, fmt.Errorf(`parameter "unit" is %.40v, want %s`, value, want)
	}
	kinds := map[string]resource.Kind{}
	for _, k := range resource.Kinds() {
		kinds[k.String()] = k
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k, known := kinds[name]
		x, ok := values[name].(float64)
		if !known || !ok || !(x > 0) || math.IsInf(x, 0) {
			return r, fmt.Errorf(`parameter "unit" has %.40s: %.40v, want %s`, name, values[name], want)
		}
		r = r.With(k, x)
	}
	return r, nil
}

// Check returns the problems of a shipped signal's parameters that are known without windows.
func Check(name string, parameters map[string]any) error {
	if name != "forecast" {
		return nil
	}
	_, err := DecodeForecast(parameters)
	return err
}

// Value implements [signals.Signal].
func (f *Forecast) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	p, err := DecodeForecast(in.Parameters)
	if err != nil {
		return resource.Request{}, err
	}
	if !(in.Setpoint > 0) {
		return resource.Request{}, fmt.Errorf("the autoscaler sent no setpoint: %w", signals.ErrNoOpinion)
	}
	horizon := ""
	if p.Measured && in.Launch > 0 {
		p.Rule.Launch = min(in.Launch, forecast.MostLaunch)
		horizon = fmt.Sprintf("; machines join within %.3g minutes", p.Rule.Launch.Minutes())
	}
	p.Rule.Headroom = max(1, 1/in.Setpoint)
	if p.Rule.Headroom > forecast.MostHeadroom {
		return resource.Request{}, fmt.Errorf("setpoint %.2g has room for a load of %.1f times, which no forecast needs: %w", in.Setpoint, p.Rule.Headroom, signals.ErrNoOpinion)
	}
	series, err := window(in, p.Metric)
	if err != nil {
		return resource.Request{}, err
	}
	w := forecast.Window{Times: series.Times, Values: series.Values}
	j := f.judge(p, w, in)
	a := p.Rule.Forecast(w, in.Now, j)
	capacity, why := a.Capacity, a.Why
	if !a.On {
		if !p.WithHeadroom || !(j.Best > p.Rule.Headroom) || math.IsNaN(a.Now) {
			return resource.Request{}, fmt.Errorf("%s: %w", why, signals.ErrNoOpinion)
		}
		capacity, why = j.Best*a.Now, fmt.Sprintf("a headroom of %.2f; no season: %s", j.Best, why)
	}
	var request resource.Request
	var parts []string
	for _, k := range resource.Kinds() {
		if x, ok := p.Unit.Get(k); ok {
			request = request.With(k, capacity*in.Setpoint*x)
			parts = append(parts, fmt.Sprintf("%s %.4g, %+.3g over now", k, capacity*in.Setpoint*x, (capacity*in.Setpoint-a.Now)*x))
		}
	}
	signals.Explain(ctx, "%s: %s%s", strings.Join(parts, "; "), why, horizon)
	return request, nil
}

// judge returns the judgement of the time, by the latest window that was judged with these parameters. A window that was too
// short is judged again when it has grown: a history can be imported later.
func (f *Forecast) judge(p ForecastParameters, w forecast.Window, in signals.Input) forecast.Judgement {
	key := fmt.Sprint(forecast.Boundary(in.Now).Unix(), in.Setpoint, p.Rule.Launch, in.App, in.Parameters)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.key != key || f.judgement.Season == "" && f.points != len(w.Times) {
		f.key, f.points, f.judgement = key, len(w.Times), p.Rule.Judge(w, in.Now)
	}
	return f.judgement
}

// window returns the window of a metric, or the only one.
func window(in signals.Input, name string) (signals.Series, error) {
	var keys []string
	for key := range in.Metrics {
		if !strings.HasSuffix(key, sigproto.CountSuffix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	switch s, ok := in.Metrics[name]; {
	case ok:
		return s, nil
	case name != "":
		return s, fmt.Errorf("there is no window %q: %w", name, signals.ErrNoOpinion)
	case len(keys) == 0:
		return s, fmt.Errorf("there is no window: %w", signals.ErrNoOpinion)
	case len(keys) > 1:
		return s, fmt.Errorf(`windows of %d metrics, the first is %s: name one in the parameter "metric"`, len(keys), keys[0])
	}
	return in.Metrics[keys[0]], nil
}
