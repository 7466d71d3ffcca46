package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// Fetcher brings a release to this machine, verified.
type Fetcher interface {
	Fetch(ctx context.Context, ref release.Ref) (release.Installed, error)
}

// Config is what a bootstrap runs, and with what. All fields but the environments
// are needed.
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
	// Env is the environment of the autoscaler, SignalEnv that of the signals.
	Env       []string
	SignalEnv []string
	// Patience is how long the autoscaler's start waits for signals that do not
	// answer; their apps fall back to the default signal then.
	Patience time.Duration
	Log      *slog.Logger
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
	if len(c.Plan.Signals) == 0 {
		errs = append(errs, errors.New("plan has no signal, not even the default one"))
	}
	return errors.Join(errs...)
}

// Bootstrap runs one pool's processes.
type Bootstrap struct {
	config     Config
	signals    []*signal
	autoscaler *supervise.Process
	stream     *stream
}

// New returns a bootstrap that runs nothing yet.
func New(c Config) (*Bootstrap, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	b := &Bootstrap{config: c}
	b.stream = newStream(b.directory)
	for _, p := range c.Plan.Signals {
		s, err := newSignal(c, p, b.stream.wake)
		if err != nil {
			return nil, err
		}
		b.signals = append(b.signals, s)
	}
	process, err := supervise.NewProcess(c.Launcher, supervise.ProcessConfig{
		Name: "autoscaler", NewSpec: b.autoscalerSpec, StartTimeout: time.Minute,
		Policy: forEver(), Log: c.Log,
	})
	b.autoscaler = process
	return b, err
}

// autoscalerGrace is a little more than what the loop takes to finish a tick.
const autoscalerGrace = 2500 * time.Millisecond

// forEver is the restart policy of what the pool cannot do without: the pauses
// grow to half a minute, so that its window never sees as many as the budget.
func forEver() supervise.Policy {
	p := supervise.DefaultPolicy()
	p.Budget = 1000
	return p
}

// Run starts the signals, then the autoscaler, and supervises all of them until
// ctx ends. When it returns, none of them is left, or the error says which.
func (b *Bootstrap) Run(ctx context.Context) error {
	errs := make([]error, len(b.signals)+1)
	var wg sync.WaitGroup
	for i, s := range b.signals {
		wg.Go(func() { errs[i] = s.run(ctx) })
	}
	streaming, stopStreaming := context.WithCancel(context.WithoutCancel(ctx))
	var streamer sync.WaitGroup
	streamer.Go(func() { b.stream.run(streaming) })
	b.awaitSignals(ctx)
	if ctx.Err() == nil {
		errs[len(b.signals)] = b.autoscaler.Run(ctx)
	}
	wg.Wait()
	stopStreaming()
	streamer.Wait()
	return errors.Join(errs...)
}

// awaitSignals waits until each signal answers, or patience ends.
func (b *Bootstrap) awaitSignals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.config.Patience)
	defer cancel()
	for _, s := range b.signals {
		if err := s.process.Ready(ctx); err != nil {
			b.config.Log.Warn("signal does not answer, its app is served by the default signal",
				"app", s.plan.App, "err", err, "why", s.status().Why)
		}
	}
}

func (b *Bootstrap) autoscalerSpec(context.Context) (supervise.Spec, error) {
	theirs, err := b.stream.connect()
	if err != nil {
		return supervise.Spec{}, err
	}
	return supervise.Spec{
		Name: "autoscaler", Argv: b.config.Autoscaler, Env: b.config.Env, StopGrace: autoscalerGrace,
		ExtraFiles: []*os.File{theirs}, Lines: supervise.WriteLines(os.Stderr),
	}, nil
}

// directory is where the signals answer now.
func (b *Bootstrap) directory() []Entry {
	entries := make([]Entry, len(b.signals))
	for i, s := range b.signals {
		entries[i] = s.entry()
	}
	return entries
}

// Status is all processes as they are now.
func (b *Bootstrap) Status() Status {
	s := Status{Cluster: b.config.Plan.Cluster, Pool: b.config.Plan.Pool, PID: os.Getpid()}
	for _, one := range b.signals {
		s.Signals = append(s.Signals, one.status())
	}
	a := b.autoscaler.Status()
	s.Autoscaler = Process{Signal: "autoscaler", State: a.State.String(), PID: a.PID, Since: a.Since, Restarts: a.Restarts, Why: a.Why}
	return s
}
