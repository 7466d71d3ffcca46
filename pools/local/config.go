package local

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxMachines bounds the machines of one group: all of them run on one host.
const maxMachines = 1000

// Config is the configuration of one owner: some groups of one pool.
type Config struct {
	Cluster string
	Pool    string
	Groups  []GroupConfig
	// Argv is the command of an agent, with an absolute path. The flags of agent.Config.Args are
	// appended. Env is the agent's whole environment.
	Argv []string
	Env  []string
	// Heartbeat, StopGrace and SelfFenceAfter are as in agent.Config, with its defaults.
	Heartbeat      time.Duration
	StopGrace      time.Duration
	SelfFenceAfter time.Duration
	// DataDir contains the groups' state and the machines' folders.
	DataDir string
}

// GroupConfig is one group of equal machines. Min, Max and Target are in weight.
type GroupConfig struct {
	ID     string
	Min    int
	Max    int
	Target int // the initial target
	// Weight and Resources are those of one machine. Weight 0 means 1.
	Weight    float64
	Resources resource.Vector
	Market    pools.Market // default: type and zone "local"
}

func (g GroupConfig) withDefaults() GroupConfig {
	if g.Weight == 0 {
		g.Weight = 1
	}
	if g.Market == (pools.Market{}) {
		g.Market = pools.Market{InstanceType: "local", Zone: "local"}
	}
	return g
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	errs := []error{names.CheckToken("cluster", c.Cluster), names.CheckToken("pool", c.Pool)}
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		errs = append(errs, fmt.Errorf("agent argv %q does not begin with an absolute path", c.Argv))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("data directory is empty"))
	}
	if c.Heartbeat < 0 || c.StopGrace < 0 || c.SelfFenceAfter < 0 {
		errs = append(errs, errors.New("heartbeat, stop grace and self-fencing: want at least 0"))
	}
	seen := map[string]bool{}
	for _, g := range c.Groups {
		if seen[g.ID] {
			errs = append(errs, fmt.Errorf("group %s occurs twice: use unique ids", g.ID))
		}
		seen[g.ID] = true
		if err := g.validate(); err != nil {
			errs = append(errs, fmt.Errorf("group %q: %w", g.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (g GroupConfig) validate() error {
	errs := []error{names.CheckToken("id", g.ID)}
	if g.Min < 0 || g.Max < g.Min {
		errs = append(errs, fmt.Errorf("bounds [%d, %d]: want 0 <= min <= max", g.Min, g.Max))
	}
	if g.Target < g.Min || g.Target > g.Max {
		errs = append(errs, fmt.Errorf("target %d is outside [%d, %d]", g.Target, g.Min, g.Max))
	}
	weight := g.withDefaults().Weight
	if !(weight > 0) || math.IsInf(weight, 0) {
		errs = append(errs, fmt.Errorf("weight %v: want a finite number above 0", weight))
	} else if float64(g.Max)/weight > maxMachines {
		errs = append(errs, fmt.Errorf("max %d: more than %d machines of weight %v", g.Max, maxMachines, weight))
	}
	if err := g.Resources.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("resources: %w", err))
	}
	return errors.Join(errs...)
}
