package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// ProcessConfig configures a supervised process.
type ProcessConfig struct {
	// Name is the process's name in statuses, logs and errors. It also seeds the jitter of the pauses.
	Name string

	// NewSpec is called before each start. Its files are closed after the start. An error does not count as a failure
	// of the child: NewSpec is called again after a pause of Policy, without limit.
	NewSpec func(ctx context.Context) (Spec, error)

	// Expected, if not nil, reports whether the exit of a child is expected. The child is then started again without
	// counting a failure, at once unless it ends too often.
	Expected func(Exit) bool

	// Probe is called until it returns nil; then the child is ready. If nil, a child is ready as soon as it has
	// started. ctx ends with the child and after StartTimeout. One call may use all of that time.
	Probe func(ctx context.Context) error

	// StartTimeout bounds the time from start to readiness.
	StartTimeout time.Duration

	// Health, if not nil, is called every HealthEvery while the child runs. Its ctx ends after HealthTimeout or with
	// the child, and then it must return soon. After HealthFailures errors in a row the child counts as hung: see Fail.
	Health         func(ctx context.Context) error
	HealthEvery    time.Duration
	HealthTimeout  time.Duration
	HealthFailures int

	// Policy decides when to restart and when to give up.
	Policy Policy

	// Watch, if not nil, receives each new status, in order. It must return soon.
	Watch func(Status)

	Log *slog.Logger
}

// Validate returns every problem of the configuration.
func (c ProcessConfig) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("process without a name"))
	}
	if c.NewSpec == nil {
		errs = append(errs, errors.New("no NewSpec"))
	}
	if c.StartTimeout <= 0 {
		errs = append(errs, fmt.Errorf("start timeout %s is not positive", c.StartTimeout))
	}
	if c.Health != nil && (c.HealthEvery <= 0 || c.HealthTimeout <= 0 || c.HealthFailures <= 0) {
		errs = append(errs, fmt.Errorf("health every %s, timeout %s, failures %d: want them positive",
			c.HealthEvery, c.HealthTimeout, c.HealthFailures))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("no logger"))
	}
	return errors.Join(append(errs, c.Policy.Validate())...)
}

// Process keeps one process running. See the package comment.
type Process struct {
	config   ProcessConfig
	launcher *Launcher

	// Used by Run's goroutine only:
	history []time.Time // times of failures, as many as the budget needs
	excused []time.Time // times of excused ends, as many as a pause needs
	left    error       // of the last child: ErrSurvivors if processes of it are left

	mu        sync.Mutex
	status    Status
	over      bool                    // Run has returned or is returning
	changed   chan struct{}           // closed and replaced with every new status
	interrupt context.CancelCauseFunc // of the current round; nil: no round
	condemn   context.CancelCauseFunc // of the last child; nil: no child yet
}

// NewProcess returns a process in state stopped. Run starts it.
func NewProcess(launcher *Launcher, config ProcessConfig) (*Process, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("process %s: %w", config.Name, err)
	}
	return &Process{
		config:   config,
		launcher: launcher,
		status:   Status{Name: config.Name},
		changed:  make(chan struct{}),
	}, nil
}

// Run supervises until ctx ends and then stops the child. It returns nil if no process of the child is left, and
// ErrSurvivors otherwise. If the launcher ends first, it returns errClosed. In state fatal, Run waits for Restart. Call
// it once.
func (p *Process) Run(ctx context.Context) error {
	defer p.end()
	for restarts := 0; ; restarts++ {
		err := p.round(ctx, restarts)
		if ctx.Err() != nil {
			return p.left
		}
		if errors.Is(err, errClosed) {
			return fmt.Errorf("supervise %s: %w", p.config.Name, err)
		}
	}
}

// round runs one child, from its start until the next one is due. The error is why the child ended.
func (p *Process) round(ctx context.Context, restarts int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.left = nil
	p.begin(restarts, cancel)
	failure := p.live(ctx)
	if p.left != nil {
		p.config.Log.Error("processes survive", "process", p.config.Name, "err", p.left)
	}
	if ctx.Err() == nil && !errors.Is(failure, errClosed) {
		p.fail(ctx, failure)
	}
	if r, ok := errors.AsType[*restartError](context.Cause(ctx)); ok {
		p.history, p.excused = nil, nil
		p.config.Log.Info("process restart requested", "process", p.config.Name, "why", r.why)
	}
	return failure
}

// live starts a child and waits for its end. The error is why it ended.
func (p *Process) live(ctx context.Context) error {
	child, err := p.start(ctx)
	if err != nil {
		return err
	}
	var checking sync.WaitGroup
	defer checking.Wait()
	ctx, condemn := context.WithCancelCause(ctx)
	defer condemn(nil)
	p.enter(child, condemn)
	if err := p.answer(ctx, child); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return p.stop(child, err)
	}
	p.set(func(s *Status) { s.State, s.Why = Running, "" })
	p.config.Log.Info("process running", "process", p.config.Name, "pid", child.PID())
	if p.config.Health != nil {
		checking.Go(func() { p.watchHealth(ctx, condemn) })
	}
	select {
	case <-child.Done():
		return p.stop(child, nil)
	case <-ctx.Done():
		return p.stop(child, context.Cause(ctx))
	}
}

func (p *Process) start(ctx context.Context) (*Child, error) {
	spec, err := p.config.NewSpec(ctx)
	if err != nil {
		return nil, &excusedError{fmt.Errorf("prepare start: %w", err)}
	}
	defer spec.closeFiles()
	child, err := p.launcher.Start(ctx, spec)
	if err != nil && isScarcity(err) {
		return nil, &excusedError{err}
	}
	return child, err
}

// Pauses between two probes.
const (
	firstProbePause = time.Millisecond
	maxProbePause   = 100 * time.Millisecond
)

// answer probes until the child is ready. The error is why the child did not become ready.
func (p *Process) answer(ctx context.Context, child *Child) error {
	if p.config.Probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.StartTimeout)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-child.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	for pause := firstProbePause; ; pause = min(2*pause, maxProbePause) {
		err := p.config.Probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("no answer within %s: %w", p.config.StartTimeout, err)
			}
			return fmt.Errorf("no answer: %w", err)
		case <-time.After(pause):
		}
	}
}

// hangGrace is the time from SIGTERM to SIGKILL for a child that hangs.
const hangGrace = 100 * time.Millisecond

// stop stops a child because of why, unless it has ended by itself. It returns why the child ended.
func (p *Process) stop(child *Child, why error) error {
	_, ended := child.Exit()
	if !ended {
		p.set(func(s *Status) { s.State, s.Why = Stopping, why.Error() })
	}
	stopContext := context.Background()
	if hang, hangs := errors.AsType[*hangError](why); hangs {
		child.tail.Mark("stop requested, pid %d: %v", child.pid, hang)
		var cancel context.CancelFunc
		stopContext, cancel = context.WithTimeout(stopContext, hangGrace)
		defer cancel()
	}
	p.left = child.Stop(stopContext)
	exit, known := child.Exit()
	if !known {
		return why // processes survive
	}
	if ended {
		why = p.endOf(exit)
	}
	p.set(func(s *Status) {
		s.PID, s.LastExit = 0, exit.String()
		if ended {
			s.State, s.Why, s.Excused = Backoff, why.Error(), isExcused(why)
		}
	})
	return why
}

// endOf returns the error of a child that has ended by itself.
func (p *Process) endOf(exit Exit) error {
	err := errors.New(exit.String())
	if p.config.Expected != nil && p.config.Expected(exit) {
		return &excusedError{err}
	}
	return err
}

// fail waits until the next start is due. If the budget is spent, it waits until ctx ends, which Restart causes.
func (p *Process) fail(ctx context.Context, why error) {
	now := time.Now()
	delay, giveUp := p.countEnd(why, now)
	p.set(func(s *Status) { s.State, s.Why, s.Excused = Backoff, why.Error(), isExcused(why) })
	if giveUp {
		p.set(func(s *Status) { s.State = Fatal })
		p.config.Log.Error("process given up: restart budget spent", "process", p.config.Name,
			"err", why, "budget", p.config.Policy.Budget, "window", p.config.Policy.Window)
		<-ctx.Done()
		return
	}
	p.config.Log.Warn("process ended, will be restarted", "process", p.config.Name, "err", why, "restart_in", delay)
	_ = retry.Pause(ctx, delay) // the caller returns the end of ctx
}
