package local

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/provider"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Selector is the value of the key "local" in a pool file. It selects one group.
type Selector struct {
	Name    string  `yaml:"name"`
	Min     int     `yaml:"min"`
	Max     int     `yaml:"max"`
	Machine Machine `yaml:"machine"`
}

// Machine has the declared resources of a machine. Its weight is 1.
type Machine struct {
	CPUs float64 `yaml:"cpus"`
	Mem  float64 `yaml:"mem"`  // MB
	Disk float64 `yaml:"disk"` // MB
	GPUs float64 `yaml:"gpus"`
}

// ProviderKind returns the description of the provider for the configuration and the daemons.
func ProviderKind() provider.Kind {
	return provider.Kind{
		Name: "local machines",
		Selectors: []provider.Selector{{
			Key: "local", About: "machines that are processes of this host", New: func() provider.Group { return new(Selector) },
			Can: judge.Abilities{
				Actions:    []api.RepairAction{api.ActionStart, api.ActionReboot, api.ActionRebuild, api.ActionRecreate, api.ActionWorkflow},
				Modes:      []api.DetectionType{api.DetectAgentHeartbeat, api.DetectNodeStatus, api.DetectPollURL, api.DetectLifecycleEvents},
				Fencing:    []judge.Level{judge.FenceService, judge.FenceCompute},
				OwnsRepair: true,
			},
		}},
		Networks: []string{"127.0.0.0/8", "::1/128"},
		Owner:    "\"weir up\" owns local machines and runs them as processes of its host; start \"weir up --pool-file FILE\", which also runs bootstrap, placer and harmonizer",
		Open:     open,
	}
}

// GroupName implements provider.Named.
func (s *Selector) GroupName() string { return s.Name }

// Check implements provider.Group.
func (s *Selector) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	if s.Min < 0 || s.Max < 1 || s.Min > s.Max {
		ps = append(ps, &strictyaml.Problem{Key: "max", What: fmt.Sprintf("min %d and max %d: want 0 <= min <= max, and max at least 1", s.Min, s.Max)})
	}
	if s.Machine.CPUs <= 0 || s.Machine.Mem <= 0 || s.Machine.Disk < 0 || s.Machine.GPUs < 0 {
		ps = append(ps, &strictyaml.Problem{Key: "machine", What: "want cpus and mem above 0, disk and gpus at least 0"})
	}
	return ps
}

// Config returns the configuration of the group, with its minimum as the target.
func (s *Selector) Config() GroupConfig {
	m := s.Machine
	return GroupConfig{ID: s.Name, Min: s.Min, Max: s.Max, Target: s.Min, Resources: resource.Vector{m.CPUs, m.Mem, m.Disk, m.GPUs}}
}

// Machines implements provider.Sized.
func (s *Selector) Machines() api.PlacesKind {
	return api.PlacesKind{Group: s.Name, Resources: s.Config().Resources, Weight: 1, Room: s.Max}
}

// Selectors returns those groups that belong to this provider.
func Selectors(groups []provider.Group) []*Selector {
	var out []*Selector
	for _, g := range groups {
		if s, ok := g.(*Selector); ok {
			out = append(out, s)
		}
	}
	return out
}

// open returns a Pool, which sends requests to the owner of the machines. The owner may start
// later.
func open(_ context.Context, site provider.Site) (provider.Opened, error) {
	var ids []string
	for _, s := range Selectors(site.Groups) {
		ids = append(ids, s.Name)
	}
	pool := NewPool(site.Conn, site.Cluster, site.Pool, ids...)
	return provider.Opened{Provider: pool, Console: pool.Console}, nil
}
