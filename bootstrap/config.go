package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// Config configures a bootstrap. Fields are required unless marked as optional.
type Config struct {
	Plan     Plan
	Launcher *supervise.Launcher // must run longer than the bootstrap
	Releases Fetcher
	// Shipped returns the command line of a signal that weir ships. app is the app part of the socket where it should
	// listen.
	Shipped func(p SignalPlan, app string) []string
	// Autoscaler is the command line of the pool's autoscaler. Its descriptor supervise.FirstExtraFD is the directory
	// stream.
	Autoscaler []string
	// Env is the environment of the autoscaler; optional.
	Env []string
	// Environ is the source of the signals' environments. A signal gets the variables of supervise.PlainEnvironment,
	// those that SignalPlan.Environment names, and those of the plan. Optional.
	Environ []string
	// Users assigns each signal its own user. It requires the capabilities of supervise.MissingCapabilities. If nil,
	// signals run as this process's user, and SameUser gives the reason and the remedy.
	Users    Users
	SameUser string
	// Bucket and Args are the values of VarBucket and VarArgs for signals; optional.
	Bucket string
	Args   string
	// Folder is the absolute path, at most 69 bytes, of the folder for plugin sockets. Each plugin has a subfolder with
	// mode 0700, owned by the signal's user. Empty means the folder for temporary files. With Users, all users must be
	// able to reach it.
	Folder string
	// ReadyTimeout bounds how long the autoscaler's start waits for signals. Apps of signals that are not ready get the
	// default signal.
	ReadyTimeout time.Duration
	// SwapTimeout bounds how long a new version may take, in addition to its time limit, to answer on live windows.
	// After that the swap is retried later. 0 means defaultSwapTimeout.
	SwapTimeout time.Duration
	// Trials stores the outcomes of shadows; nil: in memory until bootstrap ends.
	Trials Trials
	Log    *slog.Logger

	policy supervise.Policy // of processes that the pool needs; set by tests only
}

// defaultSwapTimeout replaces a Config.SwapTimeout of zero.
const defaultSwapTimeout = 30 * time.Second

func (c Config) swapTimeout() time.Duration {
	if c.SwapTimeout == 0 {
		return defaultSwapTimeout
	}
	return c.SwapTimeout
}

// restarts returns the restart policy of processes that the pool needs.
func (c Config) restarts() supervise.Policy {
	if c.policy == (supervise.Policy{}) {
		return unlimitedRestarts()
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
	if c.ReadyTimeout <= 0 {
		errs = append(errs, fmt.Errorf("ready timeout %v: want more than 0", c.ReadyTimeout))
	}
	if c.SwapTimeout < 0 {
		errs = append(errs, fmt.Errorf("swap timeout %v is negative", c.SwapTimeout))
	}
	return errors.Join(append(errs, c.Plan.Validate())...)
}
