package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// Config is what a bootstrap runs, and with what. What is not said to be optional
// is needed.
type Config struct {
	Plan     Plan
	Launcher *supervise.Launcher // runs already, and longer than the bootstrap
	Releases Fetcher
	// Shipped is the command line of a signal that weir ships; app is the app
	// part of the socket where it shall listen.
	Shipped func(p SignalPlan, app string) []string
	// Autoscaler is the command line of the pool's autoscaler. It finds the
	// directory stream at descriptor supervise.FirstExtraFD.
	Autoscaler []string
	// Env is the environment of the autoscaler; optional.
	Env []string
	// Environ is what signals get their environment from: the variables of
	// supervise.PlainEnvironment, and those that SignalPlan.Environment names. The
	// variables of the plan are added. Optional.
	Environ []string
	// Users gives each signal a user of its own. This process needs the rights of
	// supervise.MissingRights for that. Nil: signals run as this process's user, and
	// SameUser is the reason, and what to do about it.
	Users    Users
	SameUser string
	// Bucket and Args are what signals are told in VarBucket and VarArgs; optional.
	Bucket string
	Args   string
	// Folder is where the sockets of plugins lie, each in a folder of its own with
	// mode 0700, which belongs to the signal's user: an absolute path of at most 69
	// bytes; empty: that of temporary files. With Users, all users can reach it.
	Folder string
	// Patience is how long the autoscaler's start waits for signals that do not
	// answer; their apps fall back to the default signal then.
	Patience time.Duration
	// SwapPatience is how long a new version may take, beside its time limit, to answer
	// on live windows before it is given up for a while; 0: DefaultSwapPatience.
	SwapPatience time.Duration
	// Trials keeps the outcomes of shadows; nil: until bootstrap ends.
	Trials Trials
	Log    *slog.Logger

	policy supervise.Policy // of what the pool cannot do without; tests have another than the default
}

// DefaultSwapPatience stands for a Config.SwapPatience of zero.
const DefaultSwapPatience = 30 * time.Second

func (c Config) swapPatience() time.Duration {
	if c.SwapPatience == 0 {
		return DefaultSwapPatience
	}
	return c.SwapPatience
}

// restarts is how a process is restarted that the pool cannot do without.
func (c Config) restarts() supervise.Policy {
	if c.policy == (supervise.Policy{}) {
		return forEver()
	}
	return c.policy
}

// Validate returns every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Launcher == nil || c.Releases == nil || c.Shipped == nil || c.Log == nil {
		errs = append(errs, errors.New("launcher, releases, shipped and log must be set"))
	}
	if len(c.Autoscaler) == 0 {
		errs = append(errs, errors.New("autoscaler has no command line"))
	}
	if c.Patience <= 0 {
		errs = append(errs, fmt.Errorf("patience %v: want more than 0", c.Patience))
	}
	if c.SwapPatience < 0 {
		errs = append(errs, fmt.Errorf("swap patience %v is negative", c.SwapPatience))
	}
	return errors.Join(append(errs, c.Plan.Validate())...)
}
