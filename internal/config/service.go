package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

// Service is the file weir.yaml: what all pools of a machine share.
type Service struct {
	NATS         NATS        `yaml:"nats"`
	AWS          AWS         `yaml:"aws"`
	AutoscaleSig Default     `yaml:"autoscale_signal"`
	Autoscaling  Autoscaling `yaml:"autoscaling"`
	Releases     Releases    `yaml:"releases"`

	document document
}

// Releases says which releases may run, and how they lie in the bucket.
type Releases struct {
	TrustedKeys      []string      `yaml:"trusted_keys"`      // minisign public keys
	RequireSignature bool          `yaml:"require_signature"` // an unsigned release is not run
	Layout           string        `yaml:"layout"`            // weir (default) or clusterman
	Codename         string        `yaml:"codename"`          // layout clusterman: the folder of the tarballs
	Keep             time.Duration `yaml:"keep"`              // how long what no plan names stays in the cache; default a week
}

// NATS is the bus. Without a url the data folder's own bus is used.
type NATS struct {
	URL string `yaml:"url"`
}

// AWS is where releases come from. Credentials come from access_key_file, a JSON
// object of accessKeyId and secretAccessKey, or else by the AWS SDK's usual
// chain: environment, shared files, role.
type AWS struct {
	AccessKeyFile string `yaml:"access_key_file"`
	Region        string `yaml:"region"`
	EndpointURL   string `yaml:"endpoint_url"` // of an S3-compatible store; empty is AWS
	PathStyle     bool   `yaml:"path_style"`   // bucket in the path, not in the host name
	SignalsBucket string `yaml:"signals_bucket"`
	SignalsPrefix string `yaml:"signals_prefix"`
}

// Default is the default signal: the fallback that answers for every app whose
// own signal cannot.
type Default struct {
	Name        string        `yaml:"name"` // a signal that weir ships, or that of a release
	Version     string        `yaml:"version"`
	BranchOrTag string        `yaml:"branch_or_tag"` // another word for version
	Period      time.Duration `yaml:"period"`
	PeriodMin   int           `yaml:"period_minutes"`
	Metrics     []Metric      `yaml:"required_metrics"`
	Parameters  Parameters    `yaml:"parameters"`
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
	if s.Releases.Keep == 0 && !s.document.given("releases.keep") {
		s.Releases.Keep = 7 * 24 * time.Hour
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
	ps = append(ps, s.AutoscaleSig.problems(d, of)...)
	ps = append(ps, periodOf(s.AutoscaleSig.Period, s.AutoscaleSig.PeriodMin).problems(d, of)...)
	ps = append(ps, metricProblems(d, of, s.AutoscaleSig.Metrics)...)
	ps = append(ps, s.AutoscaleSig.Parameters.problems(d, of)...)
	ps = append(ps, s.Autoscaling.problems(d)...)
	ps = append(ps, s.Releases.problems(d)...)
	return ps.orNil()
}

func (s Default) problems(d document, path string) Problems {
	switch {
	case s.Version != "" && s.BranchOrTag != "":
		return Problems{d.problem(path+".version", "stands beside branch_or_tag: keep one")}
	case s.Pin() == "" && !slices.Contains(builtin.Names(), s.Name):
		return Problems{d.problem(path+".name", fmt.Sprintf("is %q: weir ships %s; of a release, the version is missing", s.Name, strings.Join(builtin.Names(), ", ")))}
	case s.Pin() != "":
		if err := (release.Ref{Namespace: "x", Name: s.Name, Version: s.Pin()}).Validate(); err != nil {
			return Problems{d.problem(path+".version", err.Error())}
		}
	}
	return nil
}

// Pin returns the pinned version, by whichever of its two keys; empty for a
// signal that weir ships.
func (s Default) Pin() string {
	if s.Version != "" {
		return s.Version
	}
	return s.BranchOrTag
}

func (r Releases) problems(d document) Problems {
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("releases."+key, fmt.Sprintf(format, args...)))
	}
	for i, key := range r.TrustedKeys {
		if _, err := release.ParsePublicKey(key); err != nil {
			at(fmt.Sprintf("trusted_keys[%d]", i), "%v", err)
		}
	}
	clusterman := r.Layout == LayoutClusterman
	switch {
	case r.Layout != "" && r.Layout != LayoutWeir && !clusterman:
		at("layout", "is %q: want %s or %s", r.Layout, LayoutWeir, LayoutClusterman)
	case clusterman && r.Codename == "":
		at("codename", "is missing: in which folder of the bucket are the tarballs?")
	case !clusterman && r.Codename != "":
		at("codename", "is only for layout %s: remove it", LayoutClusterman)
	case clusterman && r.RequireSignature:
		at("require_signature", "cannot be held with layout %s, which has no signatures", LayoutClusterman)
	}
	if r.RequireSignature && len(r.TrustedKeys) == 0 {
		at("require_signature", "is set without trusted_keys: whose signature would do?")
	}
	return append(ps, span{key: "keep", value: r.Keep, least: time.Minute}.problems(d, "releases")...)
}

// Layouts of a bucket.
const (
	LayoutWeir       = "weir"
	LayoutClusterman = "clusterman" // tarballs by version, without manifests
)

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
