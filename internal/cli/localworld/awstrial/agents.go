package awstrial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// agents describes the agents of the instances.
type agents struct {
	// Tag is the key of the tag of a group whose value is CLUSTER/POOL. Default weir:pool.
	Tag  string  `yaml:"tag"`
	CPUs float64 `yaml:"cpus"`
	Mem  int     `yaml:"mem"`  // MB
	Disk int     `yaml:"disk"` // MB
}

func (a agents) validate() error {
	if a.CPUs <= 0 || a.Mem <= 0 || a.Disk <= 0 {
		return errors.New("agents: want cpus, mem and disk above 0: they are the resources of each instance")
	}
	return nil
}

const (
	agentsEvery  = 200 * time.Millisecond // how often the instances are compared with their agents
	agentTimeout = 30 * time.Second
	agentGrace   = 2 * time.Second
)

// boot is one start of an instance.
type boot struct {
	instance string
	number   int
}

// runAgents runs an agent for each running instance until ctx ends. A reboot of the instance restarts its agent.
func (t trial) runAgents(ctx context.Context) error {
	return daemon.WithLauncher(ctx, t.program, t.log, func(ctx context.Context, launcher *supervise.Launcher) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		running := map[boot]context.CancelFunc{}
		ticker := time.NewTicker(agentsEvery)
		defer ticker.Stop()
		for {
			there := map[boot]bool{}
			for _, i := range t.control.server.Instances("") {
				b := boot{i.ID, i.Boots}
				cluster, pool, ok := strings.Cut(t.tagOf(i), "/")
				if i.State != "running" || !ok {
					continue
				}
				if there[b] = true; running[b] != nil {
					continue
				}
				process, err := t.agent(launcher, i, cluster, pool)
				if err != nil {
					return err
				}
				life, end := context.WithCancel(ctx)
				running[b] = end
				wg.Go(func() { process.Run(life) })
			}
			for b, end := range running {
				if !there[b] {
					end()
					delete(running, b)
				}
			}
			select {
			case <-ctx.Done():
				return nil // ctx is the parent of each life
			case <-ticker.C:
			}
		}
	})
}

// tagOf returns the tag of an instance's group or fleet that names its pool.
func (t trial) tagOf(i awsfake.Instance) string {
	key := cmp.Or(t.file.Agents.Tag, "weir:pool")
	for _, g := range t.file.Groups {
		if g.Name == i.Owner {
			return g.Tags[key]
		}
	}
	for _, f := range t.file.Fleets {
		if f.ID == i.Owner {
			return f.Tags[key]
		}
	}
	return ""
}

// agent returns the process of an instance's agent.
func (t trial) agent(launcher *supervise.Launcher, i awsfake.Instance, cluster, pool string) (*supervise.Process, error) {
	child := t.settings
	child.Program, child.Cluster, child.Pool = t.program, cluster, pool
	a := t.file.Agents
	log := t.log.With("instance", i.ID)
	policy := supervise.DefaultPolicy()
	policy.Budget = 1000 // more than fit the window, so restarts never stop: the bus may start later
	return supervise.NewProcess(launcher, supervise.ProcessConfig{
		Name: "agent " + i.ID, StartTimeout: agentTimeout, Policy: policy, Log: log,
		NewSpec: func(context.Context) (supervise.Spec, error) {
			return supervise.Spec{
				Name: "agent " + i.ID, Title: "weir: agent " + i.ID, Env: child.Env(), StopGrace: agentGrace, Lines: output.LogLines(log),
				Argv: child.Argv("agent", "--admin-addr", config.AdminOff, "--id", i.ID, "--group", i.Owner, "--dir", filepath.Join(t.settings.Data, "instances", i.ID),
					"--cpus", fmt.Sprint(a.CPUs), "--mem", fmt.Sprint(a.Mem), "--disk", fmt.Sprint(a.Disk)),
			}, nil
		},
	})
}
