package config

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
)

// fragment is the part of a pool file that a decision depends on.
type fragment struct {
	Limits      Limits      `yaml:"scaling_limits"`
	Autoscaling Autoscaling `yaml:"autoscaling"`
	Signals     []Signal    `yaml:"autoscale_signals"`
	Signal      *Signal     `yaml:"autoscale_signal"`
}

// Policy decodes the keys scaling_limits, autoscaling and autoscale_signals. It returns a case with this policy, its
// limits and its apps. The signals need no releases and no windows, because none is evaluated. Problems name the file
// "policy".
func Policy(text []byte) (api.Case, error) {
	var f fragment
	doc, err := decode("policy", text, &f)
	if err != nil {
		return api.Case{}, err
	}
	p := Pool{Name: "pool", Limits: f.Limits, Autoscaling: f.Autoscaling, Signals: f.Signals, Signal: f.Signal, document: doc}.withDefaults()
	ps := append(p.Limits.problems(doc), p.Autoscaling.problems(doc)...)
	for i, s := range p.Signals {
		path := fmt.Sprintf("autoscale_signals[%d]", i)
		ps = append(ps, nameProblem(doc, path+".app", s.App)...)
		ps = append(ps, periodOf(s.Period, s.PeriodMin).problems(doc, path)...)
		ps = append(ps, span{key: "hold_for", value: s.HoldFor, least: shortestPeriod}.problems(doc, path)...)
		ps = append(ps, s.MaxRequest.problems(doc, path+".max_request")...)
		for j, a := range s.Raise {
			at := fmt.Sprintf("%s.raise[%d]", path, j)
			ps = append(ps, periodOf(a.Period, a.PeriodMin).problems(doc, at)...)
			ps = append(ps, a.MaxRequest.problems(doc, at+".max_request")...)
		}
	}
	if err := ps.OrNil(); err != nil {
		return api.Case{}, err
	}
	loop := Autoscaler(Service{}.withDefaults(), p)
	c := api.Case{Limits: loop.Prune, OrphansAfter: loop.OrphansAfter, Input: api.DecisionInput{Policy: loop.Policy}}
	for _, s := range loop.Apps {
		app := api.AppInput{Name: s.App, Configured: s.Name != "", HoldFor: s.HoldFor, MaxRequest: s.MaxRequest}
		for _, a := range s.Raise {
			app.Raise = append(app.Raise, api.AdvisorInput{Name: a.App, HoldFor: a.HoldFor, MaxRequest: a.MaxRequest})
		}
		c.Input.Apps = append(c.Input.Apps, app)
	}
	return c, nil
}

// DefaultHold is how long the last value of an app stays usable if its period is unknown.
const DefaultHold = holdPeriods * defaultPeriod
