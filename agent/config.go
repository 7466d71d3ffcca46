package agent

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxPlace bounds Config.Type, Zone and Region.
const maxPlace = 255

// Config is the identity and the declared resources of one machine.
type Config struct {
	Cluster string
	Pool    string
	Group   string
	ID      string // the instance's id at the provider
	// Type, Zone and Region are where the machine is at its provider. They may be empty. App instances receive them.
	Type, Zone, Region string
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
	// Keep lets the copies outlive the agent. The next agent of this machine adopts them by the
	// records in DataDir. It excludes SelfFenceAfter, because a dead agent fences nothing.
	Keep bool
	// DataDir is the machine's folder. It contains the working directory of each running copy, and
	// the file with the conditions of problem detectors.
	DataDir string
	// Env is the environment of every copy besides its own WEIR_ variables, as "NAME=value". PATH
	// has a default. Env is not a flag.
	Env []string
	// Releases supplies the releases of app instances. nil: starts with a release are rejected. It is not a flag.
	Releases Releases
}

func (c Config) node() message.Node { return message.Node{Pool: c.Pool, Name: c.ID} }

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
	if c.Keep && c.SelfFenceAfter > 0 {
		errs = append(errs, errors.New("keep-instances and self-fence-after exclude each other: app instances that outlive the agent cannot fence themselves; set --keep-instances=false"))
	}
	for what, text := range map[string]string{"type": c.Type, "zone": c.Zone, "region": c.Region} {
		if len(text) > maxPlace || !wire.IsPrintable(text) {
			errs = append(errs, fmt.Errorf("%s %.80q: want at most %d printable bytes", what, text, maxPlace))
		}
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
		"--keep-instances=" + strconv.FormatBool(c.Keep), "--type=" + c.Type, "--zone=" + c.Zone, "--region=" + c.Region,
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
	fs.StringVar(&c.Type, "type", c.Type, "the machine's type at its provider, for app instances")
	fs.StringVar(&c.Zone, "zone", c.Zone, "the machine's zone at its provider, for app instances")
	fs.StringVar(&c.Region, "region", c.Region, "the machine's region at its provider, for app instances")
	fs.DurationVar(&c.Heartbeat, "heartbeat", c.Heartbeat, "time between two heartbeats")
	fs.DurationVar(&c.StopGrace, "stop-grace", c.StopGrace, "time an app instance has to stop before it is killed")
	fs.StringVar(&c.DataDir, "dir", c.DataDir, "folder of the machine, with the working directories of the app instances")
	fs.DurationVar(&c.SelfFenceAfter, "self-fence-after", c.SelfFenceAfter,
		"time without contact with the bus after which all app instances are stopped; 0: never")
	fs.BoolVar(&c.Fenced, "fenced", c.Fenced, "accept no app instances until the owner of the machines lifts the fence")
	fs.BoolVar(&c.Keep, "keep-instances", c.Keep, "app instances run on when the agent ends, and the next agent adopts them")
	for _, k := range resource.Kinds() {
		fs.Float64Var(&c.Resources[k], k.String(), c.Resources[k], k.String()+" that the machine offers")
	}
}
