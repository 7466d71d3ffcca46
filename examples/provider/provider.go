// Package folder is an example of a provider. Its machines are records in files, one file for each
// group. Your own program reads the file, runs a machine for each record, and removes the record of
// a machine that it lost. This suits racks and hypervisors that a script or a configuration
// management already operates.
//
// To use it, copy the folder to pools/folder and add [ProviderKind] to the list in
// internal/config/providers.
package folder

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// selector is the value of the key "folder" in a pool file. It selects one group.
type selector struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"` // folder with the file NAME.json; the provider creates both
	Min  int    `yaml:"min"`
	Max  int    `yaml:"max"`
}

// ProviderKind returns the description of the provider for the configuration and the daemons.
func ProviderKind() provider.Kind {
	return provider.Kind{
		Name: "folders of records",
		Selectors: []provider.Selector{{
			Key: "folder", About: "machines that are records in a file", New: func() provider.Group { return new(selector) },
			Can: judge.Abilities{
				Actions: []api.RepairAction{api.ActionRecreate, api.ActionWorkflow},
				Modes:   []api.DetectionType{api.DetectAgentHeartbeat},
			},
		}},
		Open: open,
	}
}

// GroupName implements provider.Named.
func (s *selector) GroupName() string { return s.Name }

// Check implements provider.Group.
func (s *selector) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	if !filepath.IsAbs(s.Path) {
		ps = append(ps, &strictyaml.Problem{Key: "path", What: fmt.Sprintf("is %q: want an absolute path", s.Path)})
	}
	if s.Min < 0 || s.Max < 1 || s.Min > s.Max {
		ps = append(ps, &strictyaml.Problem{Key: "max", What: fmt.Sprintf("min %d and max %d: want 0 <= min <= max, and max at least 1", s.Min, s.Max)})
	}
	return ps
}

func open(_ context.Context, site provider.Site) (provider.Opened, error) {
	var groups pools.Static
	for _, g := range site.Groups {
		s := g.(*selector) // each group of a site was made by New
		group, err := newGroup(*s)
		if err != nil {
			return provider.Opened{}, err
		}
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b pools.Group) int { return strings.Compare(a.ID(), b.ID()) })
	return provider.Opened{Provider: groups}, nil
}
