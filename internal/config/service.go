package config

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Service is the file weir.yaml: what all pools of a machine share.
type Service struct {
	NATS         NATS        `yaml:"nats"`
	AWS          AWS         `yaml:"aws"`
	AutoscaleSig Default     `yaml:"autoscale_signal"`
	Autoscaling  Autoscaling `yaml:"autoscaling"`

	document document
}

// NATS is the bus. Without a url the data folder's own bus is used.
type NATS struct {
	URL string `yaml:"url"`
}

// AWS is where releases come from. Credentials come by the AWS SDK's usual
// chain: environment, shared files, role.
type AWS struct {
	Region        string `yaml:"region"`
	EndpointURL   string `yaml:"endpoint_url"` // of an S3-compatible store; empty is AWS
	PathStyle     bool   `yaml:"path_style"`   // bucket in the path, not in the host name
	SignalsBucket string `yaml:"signals_bucket"`
	SignalsPrefix string `yaml:"signals_prefix"`
}

// Default is the default signal: the fallback that answers for every app whose
// own signal cannot.
type Default struct {
	Name       string        `yaml:"name"` // a signal that weir ships
	Period     time.Duration `yaml:"period"`
	PeriodMin  int           `yaml:"period_minutes"`
	Metrics    []Metric      `yaml:"required_metrics"`
	Parameters Parameters    `yaml:"parameters"`
}

// Autoscaling holds the numbers of a decision. In a pool file they win over
// those of the service file.
type Autoscaling struct {
	DefaultSignalRole string        `yaml:"default_signal_role"` // namespace of the default signal
	Tick              time.Duration `yaml:"tick"`
	Setpoint          *float64      `yaml:"setpoint"`
	Margin            *float64      `yaml:"target_capacity_margin"`
	MarginUp          *float64      `yaml:"margin_up"`
	MarginDown        *float64      `yaml:"margin_down"`
	Excluded          []string      `yaml:"excluded_resources"`
	Combine           string        `yaml:"combine"`
}

// withDefaults returns s with what the file left out.
func (s Service) withDefaults() Service {
	if s.AWS.Region == "" {
		s.AWS.Region = "us-east-1"
	}
	if s.AutoscaleSig.Name == "" {
		s.AutoscaleSig.Name = "default"
	}
	if s.AutoscaleSig.Metrics == nil {
		for _, name := range []string{"cpus_allocated", "mem_allocated", "disk_allocated"} {
			s.AutoscaleSig.Metrics = append(s.AutoscaleSig.Metrics,
				Metric{Name: name, Type: "system_metrics", Range: 10 * time.Minute})
		}
	}
	if s.Autoscaling.DefaultSignalRole == "" {
		s.Autoscaling.DefaultSignalRole = "weir"
	}
	if s.Autoscaling.Setpoint == nil {
		s.Autoscaling.Setpoint = new(0.7)
	}
	if s.Autoscaling.Margin == nil {
		s.Autoscaling.Margin = new(0.1)
	}
	return s
}

// Validate returns the Problems of s.
func (s Service) Validate() error {
	d, of := s.document, "autoscale_signal"
	var ps Problems
	if s.AutoscaleSig.Name != "default" {
		ps = append(ps, d.problem(of+".name", fmt.Sprintf("is %q: weir ships default", s.AutoscaleSig.Name)))
	}
	ps = append(ps, periodOf(s.AutoscaleSig.Period, s.AutoscaleSig.PeriodMin).problems(d, of)...)
	ps = append(ps, metricProblems(d, of, s.AutoscaleSig.Metrics)...)
	ps = append(ps, s.AutoscaleSig.Parameters.problems(d, of)...)
	ps = append(ps, s.Autoscaling.problems(d)...)
	return ps.orNil()
}

func (a Autoscaling) problems(d document) Problems {
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("autoscaling."+key, fmt.Sprintf(format, args...)))
	}
	if a.Setpoint != nil && (*a.Setpoint <= 0 || *a.Setpoint > 1) {
		at("setpoint", "is %v: want above 0 and at most 1", *a.Setpoint)
	}
	for _, margin := range []struct {
		key   string
		value *float64
	}{{"target_capacity_margin", a.Margin}, {"margin_up", a.MarginUp}, {"margin_down", a.MarginDown}} {
		if margin.value != nil && (*margin.value < 0 || *margin.value >= 1) {
			at(margin.key, "is %v: want at least 0 and below 1", *margin.value)
		}
	}
	if role := a.DefaultSignalRole; role != "" && !message.ValidName(role) {
		at("default_signal_role", "is %q: %s", role, nameRule)
	}
	if c := a.Combine; c != "" && c != "sum" && c != "max" {
		at("combine", "is %q: want sum or max", c)
	}
	for i, name := range a.Excluded {
		if _, err := resource.ParseKind(name); err != nil {
			at(fmt.Sprintf("excluded_resources[%d]", i), "%v", err)
		}
	}
	return append(ps, span{key: "tick", value: a.Tick, least: shortestPeriod}.problems(d, "autoscaling")...)
}
