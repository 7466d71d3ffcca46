package bootstrap_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap"
)

// twoVersions returns the environment of three signals with two versions.
func twoVersions() map[string]string {
	return map[string]string{
		"CMAN_CLUSTER": "prod", "CMAN_POOL": "batch", "CMAN_ARGS": "--dry-run", "CMAN_SIGNALS_BUCKET": "releases",
		"CMAN_VERSIONS_TO_FETCH": "master v1", "CMAN_NUM_VERSIONS": "2", "CMAN_NUM_SIGNALS": "3",
		"CMAN_SIGNAL_VERSIONS": "v1 master v1", "CMAN_SIGNAL_NAMESPACES": "weir shop shop",
		"CMAN_SIGNAL_NAMES": "default rps rps", "CMAN_SIGNAL_APPS": "__default__ web api",
	}
}

func TestEnvironment(t *testing.T) {
	plan := bootstrap.Plan{Cluster: "prod", Pool: "batch", Signals: []bootstrap.SignalPlan{
		bootstrap.NewSignalPlan("__default__", "weir", "default", "v1"),
		bootstrap.NewSignalPlan("web", "shop", "rps", "master"),
		bootstrap.NewSignalPlan("api", "shop", "rps", "v1"),
	}}
	shipped := plan
	shipped.Signals = slices.Concat([]bootstrap.SignalPlan{bootstrap.NewSignalPlan("__default__", "weir", "default", "")}, plan.Signals[1:])
	withoutDefault := twoVersions()
	maps.Copy(withoutDefault, map[string]string{
		"CMAN_NUM_SIGNALS": "2", "CMAN_SIGNAL_VERSIONS": "master v1", "CMAN_SIGNAL_NAMESPACES": "shop shop",
		"CMAN_SIGNAL_NAMES": "rps rps", "CMAN_SIGNAL_APPS": "web api",
	})
	for _, c := range []struct {
		name string
		plan bootstrap.Plan
		want map[string]string
	}{
		{"releases", plan, twoVersions()},
		{"the default signal ships with weir", shipped, withoutDefault},
		{"nothing", bootstrap.Plan{}, map[string]string{
			"CMAN_CLUSTER": "", "CMAN_POOL": "", "CMAN_ARGS": "--dry-run", "CMAN_SIGNALS_BUCKET": "releases",
			"CMAN_VERSIONS_TO_FETCH": "", "CMAN_NUM_VERSIONS": "0", "CMAN_NUM_SIGNALS": "0", "CMAN_SIGNAL_VERSIONS": "",
			"CMAN_SIGNAL_NAMESPACES": "", "CMAN_SIGNAL_NAMES": "", "CMAN_SIGNAL_APPS": "",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]string{}
			for _, entry := range c.plan.Environment("releases", "--dry-run") {
				name, value, _ := strings.Cut(entry, "=")
				got[name] = value
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		name string
		set  map[string]string // overrides of twoVersions; "-" unsets
		apps []string
		err  string // part of the error
	}{
		{name: "all", apps: []string{"__default__", "web", "api"}},
		{name: "without counts and set", set: map[string]string{"CMAN_VERSIONS_TO_FETCH": "-", "CMAN_NUM_VERSIONS": "-", "CMAN_NUM_SIGNALS": "-"}, apps: []string{"__default__", "web", "api"}},
		{name: "set in another order, and twice", set: map[string]string{"CMAN_VERSIONS_TO_FETCH": " v1\tmaster  v1 "}, apps: []string{"__default__", "web", "api"}},
		{name: "an app too many", set: map[string]string{"CMAN_SIGNAL_APPS": "__default__ web api more"}, err: "lists of unequal length: CMAN_SIGNAL_VERSIONS has 3, CMAN_SIGNAL_NAMESPACES 3, CMAN_SIGNAL_NAMES 3, CMAN_SIGNAL_APPS 4"},
		{name: "no names", set: map[string]string{"CMAN_SIGNAL_NAMES": "-"}, err: "CMAN_SIGNAL_NAMES 0"},
		{name: "default signal not first", set: map[string]string{"CMAN_SIGNAL_APPS": "web __default__ api"}, err: "the default signal's app __default__ is entry 2, want it first"},
		{name: "a version less to fetch", set: map[string]string{"CMAN_VERSIONS_TO_FETCH": "v1"}, err: `CMAN_VERSIONS_TO_FETCH is ["v1"], but the signals' versions are ["master" "v1"]`},
		{name: "wrong number of signals", set: map[string]string{"CMAN_NUM_SIGNALS": "2"}, err: `CMAN_NUM_SIGNALS is "2", but there are 3`},
		{name: "no number of versions", set: map[string]string{"CMAN_NUM_VERSIONS": "two"}, err: `CMAN_NUM_VERSIONS is "two", but there are 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := twoVersions()
			for name, value := range c.set {
				env[name] = strings.TrimPrefix(value, "-")
			}
			plan, ok, err := bootstrap.PlanFromEnvironment(func(name string) string { return env[name] })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || ok {
					t.Fatalf("plan = %v, %v, %v, want the error %s", plan, ok, err, c.err)
				}
				return
			}
			if err != nil || !ok || plan.Cluster != "prod" || plan.Pool != "batch" {
				t.Fatalf("plan = %+v, %v, %v, want one of prod/batch", plan, ok, err)
			}
			var apps []string
			for _, s := range plan.Signals {
				apps = append(apps, s.App)
			}
			if diff := cmp.Diff(c.apps, apps); diff != "" {
				t.Errorf("apps (-want +got):\n%s", diff)
			}
			if web := plan.Signals[1]; web != bootstrap.NewSignalPlan("web", "shop", "rps", "master") {
				t.Errorf("signal of web is %+v", web)
			}
		})
	}
}

func TestPlanFromAnEnvironmentWithoutSignals(t *testing.T) {
	plan, ok, err := bootstrap.PlanFromEnvironment(func(name string) string { return map[string]string{"CMAN_CLUSTER": "prod"}[name] })
	if err != nil || ok || plan.Cluster != "prod" || plan.Pool != "default" || plan.Signals != nil {
		t.Errorf("plan = %+v, %v, %v, want cluster prod, pool default and nothing else", plan, ok, err)
	}
}
