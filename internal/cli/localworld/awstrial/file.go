package awstrial

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// maxFile bounds the file of a trial, in bytes.
const maxFile = 256 << 10

// maxInstances bounds the instances of a group or fleet.
const maxInstances = 1000

// file describes a trial.
type file struct {
	Region string        `yaml:"region"` // default us-west-2
	Bucket string        `yaml:"bucket"` // default weir-signals
	Queue  string        `yaml:"queue"`  // default weir-notices
	Boot   time.Duration `yaml:"boot"`   // from launch to running; default 30 s
	Leave  time.Duration `yaml:"leave"`  // from the end to terminated; default 30 s
	Groups []group       `yaml:"groups"`
	Fleets []fleet       `yaml:"fleets"`
	Agents *agents       `yaml:"agents"` // nil: instances have no agent
	// Metrics are reported to CloudWatch each second from the start on.
	Metrics []metric `yaml:"metrics"`
}

// metric describes a metric of CloudWatch.
type metric struct {
	Namespace  string            `yaml:"namespace"`
	Name       string            `yaml:"name"`
	Dimensions map[string]string `yaml:"dimensions"`
	Value      float64           `yaml:"value"`
}

// group describes an Auto Scaling group.
type group struct {
	Name    string            `yaml:"name"`
	Tags    map[string]string `yaml:"tags"`
	Min     int               `yaml:"min"`
	Max     int               `yaml:"max"`
	Desired int               `yaml:"desired"`
	Zones   []string          `yaml:"zones"` // default: a, b and c of the region
	Types   []instanceType    `yaml:"types"` // default m5.large
	Spot    bool              `yaml:"spot"`
	// UnprotectedNew: new instances are not protected from scale-in.
	UnprotectedNew bool `yaml:"unprotected_new"`
}

// instanceType is a type of a group.
type instanceType struct {
	Name   string `yaml:"name"`
	Weight int    `yaml:"weight"` // 0: each instance counts 1
}

// fleet describes a Spot Fleet request.
type fleet struct {
	ID     string            `yaml:"id"` // sfr-...
	Tags   map[string]string `yaml:"tags"`
	Target int               `yaml:"target"`
	Specs  []spec            `yaml:"specs"`
}

// spec is a launch specification of a fleet.
type spec struct {
	Type   string  `yaml:"type"`
	Zone   string  `yaml:"zone"`
	Weight float64 `yaml:"weight"` // 0: each instance counts 1
}

// readFile reads the file of a trial.
func readFile(path string) (f file, err error) {
	data, err := inputfile.Read(path, maxFile)
	if err != nil {
		return f, fmt.Errorf("read the file of the trial: %w", err)
	}
	if _, problem := strictyaml.Scan(data, strictyaml.Bounds{Bytes: maxFile, Tokens: 20_000, Nesting: 6, TooMuch: "has more than %d words: want a shorter file"}); problem != nil {
		problem.File = path
		return f, problem
	}
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return f, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	f.Region = cmp.Or(f.Region, "us-west-2")
	f.Bucket = cmp.Or(f.Bucket, "weir-signals")
	if err := f.validate(); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// validate returns every problem of the file.
func (f file) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(f.Groups)+len(f.Fleets)+len(f.Metrics) == 0 {
		add("it has no group, no fleet and no metric: add one to groups, fleets or metrics")
	}
	for i, m := range f.Metrics {
		if m.Namespace == "" || m.Name == "" {
			add("metrics[%d] wants a namespace and a name", i)
		}
	}
	if f.Boot < 0 || f.Leave < 0 {
		add("boot and leave: want at least 0s")
	}
	var names []string
	for i, g := range f.Groups {
		names = append(names, g.Name)
		switch {
		case g.Name == "":
			add("groups[%d] has no name", i)
		case g.Min < 0 || g.Max > maxInstances || g.Min > g.Desired || g.Desired > g.Max:
			add("group %s: want 0 <= min <= desired <= max <= %d", g.Name, maxInstances)
		}
		for _, t := range g.Types {
			if t.Name == "" || t.Weight < 0 {
				add("group %s: a type wants a name, and a weight of at least 0", g.Name)
			}
		}
	}
	for i, s := range f.Fleets {
		names = append(names, s.ID)
		switch {
		case len(s.ID) < 5 || s.ID[:4] != "sfr-":
			add("fleets[%d]: want an id like sfr-web", i)
		case s.Target < 0 || s.Target > maxInstances:
			add("fleet %s: want a target from 0 to %d", s.ID, maxInstances)
		case len(s.Specs) == 0:
			add("fleet %s has no specs", s.ID)
		}
		for _, l := range s.Specs {
			if l.Type == "" || l.Zone == "" || l.Weight < 0 {
				add("fleet %s: each of specs wants a type, a zone, and a weight of at least 0", s.ID)
			}
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		add("two groups or fleets have one name")
	}
	if f.Agents != nil {
		errs = append(errs, f.Agents.validate())
	}
	return errors.Join(errs...)
}

// config returns the configuration of the server. serial is the number before its first id.
func (f file) config(now time.Time, serial int) awsfake.Config {
	return awsfake.Config{Serial: serial, Region: f.Region, Queue: f.Queue, Start: now, Boot: f.Boot, Leave: f.Leave, Changes: true}
}

// fill creates the groups and fleets, with their instances, and the metrics.
func (f file) fill(s *awsfake.Server) {
	for _, m := range f.Metrics {
		s.SetLevel(awsfake.Metric{Namespace: m.Namespace, Name: m.Name, Dimensions: m.Dimensions}, m.Value)
	}
	for _, g := range f.Groups {
		a := awsfake.ASG{
			Name: g.Name, Tags: g.Tags, Min: g.Min, Max: g.Max, Desired: g.Desired, Zones: g.Zones, Spot: g.Spot, ProtectNew: !g.UnprotectedNew,
		}
		for _, t := range g.Types {
			a.Types = append(a.Types, awsfake.Type{Name: t.Name, Weight: t.Weight})
		}
		s.AddGroup(a)
	}
	for _, r := range f.Fleets {
		a := awsfake.SpotFleet{ID: r.ID, Tags: r.Tags, Target: r.Target}
		for _, l := range r.Specs {
			a.Specs = append(a.Specs, awsfake.LaunchSpec{Type: l.Type, Zone: l.Zone, Weight: l.Weight})
		}
		s.AddFleet(a)
	}
}
