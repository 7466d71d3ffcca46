// Package agentd is the process of "weir agent". It finds out which machine it runs on, and what that machine offers.
//
//	p := agentd.New()
//	err := p.Choose(ctx, service, flagGiven)
//	err = p.Run(ctx, service)
//
// For each value the first place that has it is used: the flag, the block "agent" of weir.yaml, the variables CMAN_CLUSTER
// and CMAN_POOL, and then the metadata of EC2 for names, or a measurement for resources.
//
// [Place] has the places, and Place.Choose returns the configuration of the agent. A value that no place has is an
// error with all places. The package sends one request to the metadata service at most for each start. Choose runs
// once, before the agent starts.
package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/metadata"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Place is where the values of a machine come from.
type Place struct {
	Given  func(flag string) bool // the command line has the flag
	Block  agent.Settings
	File   string                   // path of weir.yaml
	Getenv func(name string) string // value of an environment variable; empty: not set
	Dir    string                   // default folder of the machine
	// Measure returns what the machine offers, with the disk of a folder.
	Measure func(dir string) (resource.Vector, error)
	Log     *slog.Logger
}

// name is one value that the metadata may have.
type name struct {
	flag         string
	into         *string
	block, found string
	variable     string // name of its environment variable; may be empty
	why          string // why the metadata lack it
}

// Choose completes the configuration of the flags. Its error names each place, and what that place has.
func (p Place) Choose(ctx context.Context, c agent.Config) (agent.Config, error) {
	if c.DataDir == "" {
		c.DataDir = cmp.Or(p.Block.Dir, p.Dir)
	}
	c, err := p.complete(ctx, c)
	if err != nil {
		return c, err
	}
	return c, p.offer(&c)
}

// Name returns the names of the machine without flags: cluster, pool, group and id. Its error names each place, and what
// that place has.
func (p Place) Name(ctx context.Context) (agent.Config, error) {
	return p.complete(ctx, agent.Config{})
}

// complete completes the names of the configuration; see Name.
func (p Place) complete(ctx context.Context, c agent.Config) (agent.Config, error) {
	missing := false
	var wrong []error // a wrong name ends the search: the metadata would hide it
	for _, n := range namesOf(&c, p.Block, metadata.Machine{}) {
		if *n.into = cmp.Or(*n.into, n.block, p.variable(n)); *n.into == "" {
			missing = true
		} else if err := names.CheckToken(n.flag, *n.into); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return c, errors.Join(wrong...)
	}
	if missing {
		m, errMachine := p.machine(ctx)
		c.Type, c.Zone, c.Region = cmp.Or(c.Type, m.Type), cmp.Or(c.Zone, m.Zone), cmp.Or(c.Region, m.Region)
		var errs []error
		for _, n := range namesOf(&c, p.Block, m) {
			if *n.into = cmp.Or(*n.into, n.found); *n.into == "" {
				errs = append(errs, p.noName(n, errMachine))
			}
		}
		if len(errs) > 0 {
			return c, errors.Join(errs...)
		}
	}
	return c, nil
}

// variable returns the value of the environment variable of a name.
func (p Place) variable(n name) string {
	if n.variable == "" {
		return ""
	}
	return p.Getenv(n.variable)
}

// machine returns what the metadata have.
func (p Place) machine(ctx context.Context) (metadata.Machine, error) {
	if p.Block.Metadata == agent.MetadataOff {
		return metadata.Machine{}, errors.New(`not read, because agent.metadata is "off"`)
	}
	m, err := metadata.Read(ctx, metadata.Config{Endpoint: p.Block.MetadataEndpoint, PoolTag: p.Block.PoolTag})
	if err == nil {
		p.Log.Info("machine found in the EC2 metadata", "id", m.ID, "type", m.Type, "zone", m.Zone, "region", m.Region,
			"group", m.Group, "cluster", m.Cluster, "pool", m.Pool, "tags", !m.NoTags)
	}
	return m, err
}

// noName returns the error for a name that no place has.
func (p Place) noName(n name, errMachine error) error {
	if errMachine == nil {
		errMachine = errors.New(n.why)
	}
	variable := ""
	if n.variable != "" {
		variable = n.variable + " is not set; "
	}
	return fmt.Errorf("find the %s of this machine: --%s is not given; agent.%s is not set in %s; %sEC2 metadata: %w; set one of them",
		n.flag, n.flag, n.flag, p.File, variable, errMachine)
}

// namesOf returns the names of a machine with their places.
func namesOf(c *agent.Config, s agent.Settings, m metadata.Machine) []name {
	tags := "the instance has no tag of "
	if m.NoTags {
		tags = "they have no tags (set InstanceMetadataTags to enabled in the launch template), so no tag of "
	}
	poolTag := cmp.Or(s.PoolTag, metadata.DefaultPoolTag)
	return []name{
		{"cluster", &c.Cluster, s.Cluster, m.Cluster, bootstrap.VarCluster, tags + "its pool, " + poolTag},
		{"pool", &c.Pool, s.Pool, m.Pool, bootstrap.VarPool, tags + "its pool, " + poolTag},
		{"group", &c.Group, s.Group, m.Group, "", tags + "a group"},
		{"id", &c.ID, s.ID, m.ID, "", "no instance id"},
	}
}

// offer sets the resources that no flag gives: those of the block, or those that are measured without the reserve.
func (p Place) offer(c *agent.Config) error {
	var measured *resource.Vector
	for _, k := range resource.Kinds() {
		if p.Given(k.String()) {
			continue
		}
		if v := p.Block.Resources.Of(k); v != nil {
			c.Resources[k] = *v
			continue
		}
		if measured == nil {
			all, err := p.Measure(c.DataDir)
			if err != nil {
				return fmt.Errorf("%w; set agent.resources in %s, or --cpus, --mem and --disk", err, p.File)
			}
			measured = &all
			p.Log.Info("resources measured", "cpus", all[resource.CPUs], "mem_mb", all[resource.Mem], "disk_mb", all[resource.Disk])
		}
		c.Resources[k] = measured[k]
		if keep := p.Block.Reserve.Of(k); keep != nil {
			if c.Resources[k] -= *keep; c.Resources[k] < 0 {
				return fmt.Errorf("offer the resources of this machine: agent.reserve.%s in %s is %v, but the machine has only %v: lower it", k, p.File, *keep, measured[k])
			}
		}
	}
	p.warnOfTooMuch(*c)
	return nil
}

// warnOfTooMuch logs each resource of which the configuration offers more than the machine has, such as memory in bytes. The
// autoscaler ignores the excess if the provider reports the resources of the machine. If the machine cannot be measured, nothing is logged.
func (p Place) warnOfTooMuch(c agent.Config) {
	all, err := p.Measure(c.DataDir)
	if err != nil {
		return
	}
	for _, k := range resource.Kinds() {
		if all[k] > 0 && c.Resources[k] > 1.1*all[k] {
			p.Log.Warn("offers more than this machine has: mem and disk are in MB", "resource", k.String(), "offers", c.Resources[k], "machine_has", all[k])
		}
	}
}
