package config

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap"
)

// TestAdvisors checks the keys of an advisor, one wrong at a time.
func TestAdvisors(t *testing.T) {
	const forecast = "{namespace: shop, name: forecast, version: v3, required_metrics: [{name: load, type: app_metrics, range: 28h, resolution: 5m}]}"
	calendar := func(more string) string {
		return "{name: calendar, kind: builtin" + more + ", parameters: {time_zone: Europe/Berlin, periods: [{name: p, days: daily, from: 08:00, for: 1h, at_least: {cpus: 4}}]}}"
	}
	pool := func(advisors ...string) string {
		return goodPool + "autoscale_signals:\n  - app: web\n    raise:\n      - " + strings.Join(advisors, "\n      - ") + "\n"
	}
	const at = "FILE:7: autoscale_signals[0].raise[0]"
	for _, c := range []struct{ name, text, want string }{
		{"good", pool(calendar(""), forecast), ""},
		{"max_request", pool(calendar(", max_request: {cpus: 0}")), at + ".max_request.cpus: is 0: want a number above 0"},
		{"without a name", pool("{kind: builtin}"), at + ".name: is missing: want the name of the advisor's signal"},
		{"a number", pool("{name: \"7\", version: v1, required_metrics: [{name: m, type: app_metrics, range: 1m}]}"), at + `.name: is "7": want a name that is not a number`},
		{"twice", pool(calendar(""), calendar("")), `FILE:8: autoscale_signals[0].raise[1].name: "calendar" is an advisor of the app already`},
		{"not pinned", pool("{name: forecast, required_metrics: [{name: m, type: app_metrics, range: 1m}]}"), at + ".version: is missing: a signal is pinned"},
		{"without windows", pool("{name: forecast, version: v1}"), at + ".required_metrics: is missing: a signal needs at least one window"},
		{"hold_for", pool(calendar(", hold_for: 1h")), at + ".hold_for: no such key"},
		{"an app", pool(calendar(", app: web")), at + ".app: no such key"},
		{"an advisor of its own", pool(calendar(", raise: []")), at + ".raise: no such key"},
		{"a period of 0s", pool(calendar(", period: 0s")), at + ".period: is 0s: want"},
		{"a wrong zone", pool(strings.Replace(calendar(""), "Berlin", "Belin", 1)), at + ".parameters.time_zone: no time zone has the name"},
		{"a calendar as the signal of an app", goodPool + "autoscale_signals:\n  - app: web\n    name: calendar\n    kind: builtin\n    parameters: {time_zone: UTC, periods: [{name: p, days: daily, from: 08:00, for: 1h, at_least: {cpus: 4}}]}\n",
			"FILE:6: autoscale_signals[0].name: is calendar, which has no opinion outside of its periods"},
		{"times without windows", pool(strings.Replace(calendar(""), "at_least: {cpus: 4}", "times: 2", 1)), at + ".required_metrics: is missing: times and plus need windows"},
		{"times with windows", pool(strings.Replace(calendar(", required_metrics: [{name: cpus_expected, type: instance_counts, range: 10m, app: web}]"), "at_least: {cpus: 4}", "times: 2", 1)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expectLines(t, err, c.want)
		})
	}
	p := mustReadPool(t, pool(calendar(""), forecast))
	plan := Bootstrap(Service{}.withDefaults(), p)
	if err := plan.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []bootstrap.SignalPlan{
		plan.Signals[0], bootstrap.NewSignalPlan("web~calendar", "default", "calendar", ""), bootstrap.NewSignalPlan("web~forecast", "shop", "forecast", "v3"),
	}
	for i, s := range plan.Signals {
		if s.App != want[i].App || s.Address != want[i].Address || s.Version != want[i].Version || s.RequestConfig == "" {
			t.Errorf("process %d: %+v, want %+v", i, s, want[i])
		}
	}
	if c := p.Calendars(); len(c) != 1 || c["web~calendar"].NeedsRequest() {
		t.Errorf("calendars %+v, want one that needs no request", c)
	}
}

// TestForecastWindow checks the window of the shipped forecast, one wrong at a time.
func TestForecastWindow(t *testing.T) {
	pool := func(windows, more string) string {
		return goodPool + "autoscale_signals:\n  - app: web\n    raise:\n      - {name: forecast, kind: builtin, required_metrics: [" + windows +
			"], parameters: {unit: {cpus: 0.01}, time_zone: UTC" + more + "}}\n"
	}
	const requests, load = "{name: requests, type: app_metrics, range: 672h, resolution: 5m}", "{name: load, type: app_metrics, range: 120h, resolution: 15m}"
	const at = "FILE:7: autoscale_signals[0].raise[0]"
	for _, c := range []struct{ name, text, want string }{
		{"good", pool(requests, ""), ""},
		{"named", pool(requests+", "+load, ", metric: load"), ""},
		{"a series", pool(requests+", "+load, `, metric: "load|zone=a"`), ""},
		{"another window of twenty minutes", pool(requests+", {name: load, type: app_metrics, range: 20m}", ", metric: requests"), ""},
		{"short", pool("{name: requests, type: app_metrics, range: 100h, resolution: 5m}", ""), at + ".required_metrics[0].range: is 100h: want at least 120h for a forecast"},
		{"all points", pool("{name: requests, type: app_metrics, range: 672h}", ""), at + ".required_metrics[0].resolution: is 0s: want 5m for a forecast, at most 15m"},
		{"hours", pool("{name: requests, type: app_metrics, range: 672h, resolution: 1h}", ""), at + ".required_metrics[0].resolution: is 1h: want 5m"},
		{"two windows", pool(requests+", "+load, ""), at + ".parameters.metric: is missing: name one of required_metrics"},
		{"the signal of an app", strings.NewReplacer("    raise:\n      - {name: forecast", "    name: forecast", ", kind:", "\n    kind:", ", required_metrics", "\n    required_metrics", ", parameters", "\n    parameters", "UTC}}", "UTC}").Replace(pool(requests, "")),
			"FILE:6: autoscale_signals[0].name: is forecast, which has no opinion without a season, so the pool would never shrink: list it in raise of an app"},
		{"no such window", pool(requests, ", metric: load"), at + `.parameters.metric: is "load": want the name of one of required_metrics`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expectLines(t, err, c.want)
		})
	}
}
