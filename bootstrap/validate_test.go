package bootstrap_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestPlanValidate(t *testing.T) {
	signal := func(app, namespace, name, version string) bootstrap.SignalPlan {
		return bootstrap.NewSignalPlan(app, namespace, name, version)
	}
	web := signal("web", "shop", "rps", "v1")
	with := func(change func(*bootstrap.SignalPlan)) []bootstrap.SignalPlan {
		s := web
		change(&s)
		return []bootstrap.SignalPlan{s}
	}
	shadow := func(s bootstrap.ShadowPlan) []bootstrap.SignalPlan {
		return with(func(p *bootstrap.SignalPlan) { p.Shadow = &s })
	}
	long := func(n int) string { return strings.Repeat("x", n-len("shop-rps--socket")) }
	for _, c := range []struct {
		name    string
		signals []bootstrap.SignalPlan // besides the default signal
		want    string                 // part of the error; empty: no error
	}{
		{"good", []bootstrap.SignalPlan{web, signal("api", "shop", "rps", "v1"), signal("cron", "shop", "rps", "")}, ""},
		{"the same signal twice", []bootstrap.SignalPlan{web, web}, `two signals have namespace "shop", name "rps" and app "web"`},
		{"two signals of an app", []bootstrap.SignalPlan{web, signal("web", "shop", "cpu", "v1")}, `app "web" has two signals, shop/rps and shop/cpu`},
		{"two signals with one socket", []bootstrap.SignalPlan{signal("web", "a-b", "c", "v1"), signal("c-web", "a", "b", "v1")},
			"two signals have socket @a-b-c-web-socket"},
		{"socket of 107 bytes", []bootstrap.SignalPlan{signal(long(107), "shop", "rps", "v1")}, ""},
		{"socket of 108 bytes", []bootstrap.SignalPlan{signal(long(108), "shop", "rps", "v1")}, "has 108 bytes, at most 107"},
		{"another socket", with(func(p *bootstrap.SignalPlan) { p.Address = "mine" }), "socket @mine: want the documented one, @shop-rps-web-socket"},
		{"app of a candidate of an advisor", []bootstrap.SignalPlan{signal("web~x~1", "shop", "rps", "v1")}, "holds a ~"},
		{"advisor of no app", []bootstrap.SignalPlan{signal("~x", "shop", "rps", "v1")}, "holds a ~"},
		{"app of a candidate", []bootstrap.SignalPlan{signal("web~1", "shop", "rps", "v1")}, "holds a ~"},
		{"two words", []bootstrap.SignalPlan{signal("web shop", "shop", "rps", "v1")}, "want a word without white space"},
		{"no app", []bootstrap.SignalPlan{signal("", "shop", "rps", "v1")}, `app ""`},
		{"bad version", []bootstrap.SignalPlan{signal("web", "shop", "rps", "../v1")}, "version"},
		{"unknown kind", with(func(p *bootstrap.SignalPlan) { p.Kind = "docker" }), `kind "docker": want plugin, exec or nothing`},
		{"negative limit", with(func(p *bootstrap.SignalPlan) { p.Limits.Memory = -1 }), "limits: memory limit of -1 bytes"},
		{"limit that is no number", with(func(p *bootstrap.SignalPlan) { p.Limits.CPUs = math.NaN() }), "limits: "},
		{"small address space", with(func(p *bootstrap.SignalPlan) { p.Limits.AddressMB = 100 }), "limits: address space"},
		{"shadow", shadow(bootstrap.ShadowPlan{Version: "v2", PromoteAfter: 3, Tolerance: 0.1}), ""},
		{"shadow without a version", shadow(bootstrap.ShadowPlan{}), "shadow: no version"},
		{"shadow of the pinned version", shadow(bootstrap.ShadowPlan{Version: "v1"}), "shadow: version v1 is the pinned one"},
		{"shadow with a bad version", shadow(bootstrap.ShadowPlan{Version: "a b"}), "shadow: release"},
		{"shadow that is promoted before it began", shadow(bootstrap.ShadowPlan{Version: "v2", PromoteAfter: -1}), "promote_after -1"},
		{"shadow with a strange tolerance", shadow(bootstrap.ShadowPlan{Version: "v2", Tolerance: math.NaN()}), "tolerance NaN"},
		{"shadow of a shipped signal", with(func(p *bootstrap.SignalPlan) { p.Version, p.Shadow = "", &bootstrap.ShadowPlan{Version: "v2"} }), "a signal that ships with weir has no versions"},
		{"shadow with a fixed app", with(func(p *bootstrap.SignalPlan) { p.FixedApp, p.Shadow = true, &bootstrap.ShadowPlan{Version: "v2"} }), "it needs a socket of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := bootstrap.Plan{Signals: append([]bootstrap.SignalPlan{signal(sigproto.DefaultApp, "weir", "default", "")}, c.signals...)}
			err := plan.Validate()
			if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("Validate = %v, want %q", err, c.want)
			}
		})
	}
	for name, plan := range map[string]bootstrap.Plan{
		"plan has no signal":                      {},
		`the plan's first signal is of app "web"`: {Signals: []bootstrap.SignalPlan{web}},
		"plan has 1001 signals, at most 1000":     {Signals: make([]bootstrap.SignalPlan, 1001)},
		"the autoscaler's configuration has":      {Config: make([]byte, bootstrap.MaxPlanConfig+1)},
	} {
		if err := plan.Validate(); !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("Validate = %v, want %q", err, name)
		}
	}
}
