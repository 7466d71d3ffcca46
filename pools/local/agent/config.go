package agent

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Config is the identity and the declared resources of one machine.
type Config struct {
	Cluster string
	Pool    string
	Group   string
	ID      string // the instance's id at the provider
	// Resources is what the machine offers. The agent counts the footprints of its copies against
	// it, as a scheduler does. It does not limit the copies.
	Resources resource.Vector
	Heartbeat time.Duration // default 10 s
	// StopGrace is how long a copy has between SIGTERM and SIGKILL. Default 2 s.
	StopGrace time.Duration
	// SelfFenceAfter is how long the machine may be without contact with the bus. Then it stops its
	// copies and accepts none until the contact returns. 0: unlimited.
	SelfFenceAfter time.Duration
	// Fenced: the owner fenced the machine earlier. It accepts no copies until the owner lifts the
	// fence.
	Fenced bool
	// DataDir is the machine's folder. It contains the working directory of each running copy, and
	// the file with the conditions of problem detectors.
	DataDir string
	// Env is the environment of every copy besides its own WEIR_ variables, as "NAME=value". PATH
	// has a default. Env is not a flag.
	Env []string
}

// WithDefaults returns a copy with the default of each field that is zero.
func (c Config) WithDefaults() Config {
	if c.Heartbeat == 0 {
		c.Heartbeat = liveness.DefaultPeriod
	}
	if c.StopGrace == 0 {
		c.StopGrace = 2 * time.Second
	}
	return c
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	errs := []error{
		names.CheckToken("cluster", c.Cluster), names.CheckToken("pool", c.Pool),
		names.CheckToken("group", c.Group), names.CheckToken("id", c.ID),
	}
	if err := c.Resources.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("resources: %w", err))
	}
	if c.Heartbeat <= 0 || c.Heartbeat > liveness.MaxPeriod {
		errs = append(errs, fmt.Errorf("heartbeat %v: want more than 0, and at most %v", c.Heartbeat, liveness.MaxPeriod))
	}
	if c.StopGrace <= 0 {
		errs = append(errs, fmt.Errorf("stop grace %v: want more than 0", c.StopGrace))
	}
	if c.SelfFenceAfter < 0 {
		errs = append(errs, fmt.Errorf("self-fence after %v: want at least 0", c.SelfFenceAfter))
	}
	if c.DataDir == "" {
		errs = append(errs, errors.New("data directory is empty"))
	}
	return errors.Join(errs...)
}

// Args returns the flags from which Bind restores c.
func (c Config) Args() []string {
	args := []string{
		"--cluster=" + c.Cluster, "--pool=" + c.Pool, "--group=" + c.Group, "--id=" + c.ID,
		"--heartbeat=" + c.Heartbeat.String(), "--stop-grace=" + c.StopGrace.String(), "--dir=" + c.DataDir,
		"--self-fence-after=" + c.SelfFenceAfter.String(), "--fenced=" + strconv.FormatBool(c.Fenced),
	}
	for _, k := range resource.Kinds() {
		args = append(args, "--"+k.String()+"="+strconv.FormatFloat(c.Resources[k], 'g', -1, 64))
	}
	return args
}

// Bind adds flags for the fields of c to fs. The present values are the defaults.
func (c *Config) Bind(fs *flag.FlagSet) {
	fs.StringVar(&c.Cluster, "cluster", c.Cluster, "cluster of the machine")
	fs.StringVar(&c.Pool, "pool", c.Pool, "pool of the machine")
	fs.StringVar(&c.Group, "group", c.Group, "group of the machine")
	fs.StringVar(&c.ID, "id", c.ID, "the instance's id at its provider")
	fs.DurationVar(&c.Heartbeat, "heartbeat", c.Heartbeat, "time between two heartbeats")
	fs.DurationVar(&c.StopGrace, "stop-grace", c.StopGrace, "time an app instance has to stop before it is killed")
	fs.StringVar(&c.DataDir, "dir", c.DataDir, "folder of the machine, with the working directories of the app instances")
	fs.DurationVar(&c.SelfFenceAfter, "self-fence-after", c.SelfFenceAfter,
		"time without contact with the bus after which all app instances are stopped; 0: never")
	fs.BoolVar(&c.Fenced, "fenced", c.Fenced, "accept no app instances until the owner of the machines lifts the fence")
	for _, k := range resource.Kinds() {
		fs.Float64Var(&c.Resources[k], k.String(), c.Resources[k], k.String()+" that the machine offers")
	}
}
