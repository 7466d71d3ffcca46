package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// Bootstrap runs one pool's processes.
type Bootstrap struct {
	config     Config
	means      means
	autoscaler *supervise.Process
	stream     *stream
	fresh      chan struct{} // has room for one: seats are to be started

	mu    sync.Mutex
	plan  Plan
	seats []*seat // in the plan's order
	begun map[*seat]bool
	kept  []Trial // as they were at the start
	// ending are the last seats of apps that were removed. They run until nobody
	// asks them any more.
	ending map[string]*seat
}

// New returns a bootstrap that runs nothing yet.
func New(c Config) (*Bootstrap, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	b := &Bootstrap{config: c, fresh: make(chan struct{}, 1), begun: map[*seat]bool{}, ending: map[string]*seat{}}
	b.stream = newStream(b.directory, b.hear, b.autoscalerHangs, c.Log)
	b.means = means{config: c, log: c.Log, shelf: newShelf(c.Releases), stream: b.stream, environment: b.environment}
	process, err := supervise.NewProcess(c.Launcher, supervise.ProcessConfig{
		Name: "autoscaler", NewSpec: b.autoscalerSpec, StartTimeout: time.Minute,
		Policy: forEver(), Expected: wantsRestart, Watch: b.watchAutoscaler, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	b.autoscaler = process
	return b, b.Update(c.Plan)
}

// ExitRestart is the exit status with which the autoscaler asks to be started
// again, as when its files have changed in what it is built on: no failure, and
// at once, unless it ends so several times within some minutes.
const ExitRestart = 75

func wantsRestart(e supervise.Exit) bool { return e.Code == ExitRestart }

// autoscalerGrace is a little more than what the loop takes to finish a tick.
const autoscalerGrace = 2500 * time.Millisecond

// forEver is the restart policy of what the pool cannot do without: the pauses
// grow to half a minute, so that its window never sees as many as the budget.
func forEver() supervise.Policy {
	p := supervise.DefaultPolicy()
	p.Budget = 1000
	return p
}

// Run starts the signals, then the autoscaler, and keeps all of them as the plan
// says until ctx ends. When it returns, none of them is left, or the error says
// which. It is called once.
func (b *Bootstrap) Run(ctx context.Context) error {
	if err := b.loadTrials(ctx); err != nil {
		return err
	}
	streaming, stopStreaming := context.WithCancel(context.WithoutCancel(ctx))
	var streamer, running sync.WaitGroup
	streamer.Go(func() { b.stream.run(streaming) })
	var errs errorList
	b.startSeats(ctx, &running, &errs)
	running.Go(func() {
		b.awaitSignals(ctx)
		if ctx.Err() == nil {
			errs.add(b.autoscaler.Run(ctx))
		}
	})
	for ctx.Err() == nil {
		select {
		case <-b.fresh:
			b.startSeats(ctx, &running, &errs)
		case <-ctx.Done():
		}
	}
	running.Wait()
	stopStreaming()
	streamer.Wait()
	return errs.join()
}

// errorList collects errors of several goroutines.
type errorList struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorList) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errs...)
}

// startSeats runs the seats that do not run yet.
func (b *Bootstrap) startSeats(ctx context.Context, running *sync.WaitGroup, errs *errorList) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seats {
		if !b.begun[s] {
			b.begun[s] = true
			running.Go(func() { errs.add(s.run(ctx)) })
		}
	}
}

// awaitSignals waits until each signal answers, or patience ends.
func (b *Bootstrap) awaitSignals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.config.Patience)
	defer cancel()
	b.mu.Lock()
	seats := slices.Clone(b.seats)
	b.mu.Unlock()
	for _, s := range seats {
		s.mu.Lock()
		current := s.current
		s.mu.Unlock()
		if err := current.process.Ready(ctx); err != nil {
			b.config.Log.Warn("signal does not answer, its app is served by the default signal",
				"app", s.app, "err", err, "why", current.status().Why)
		}
	}
}

func (b *Bootstrap) autoscalerSpec(context.Context) (supervise.Spec, error) {
	theirs, err := b.stream.connect()
	if err != nil {
		return supervise.Spec{}, err
	}
	return supervise.Spec{
		Name: "autoscaler", Title: "weir: autoscaler " + b.config.Plan.Pool, Argv: b.config.Autoscaler, Env: b.config.Env, StopGrace: autoscalerGrace,
		ExtraFiles: []*os.File{theirs}, Lines: output.WriteLines(os.Stderr),
	}, nil
}

// watchAutoscaler is told of each status of the autoscaler's process.
func (b *Bootstrap) watchAutoscaler(now supervise.Status) {
	if now.PID == 0 {
		b.stream.gone()
	}
}

// autoscalerHangs ends the autoscaler's process; another is started.
func (b *Bootstrap) autoscalerHangs(why string) { b.autoscaler.Fail(why) }

// environment is the plan as children are told it.
func (b *Bootstrap) environment() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plan.Environment(b.config.Bucket, b.config.Args)
}

// directory is where the signals answer now.
func (b *Bootstrap) directory() Directory {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Directory{Config: b.plan.Config, Signals: make([]Entry, len(b.seats))}
	for i, s := range b.seats {
		d.Signals[i] = s.entry()
	}
	return d
}

// hear gives an answer to the seat that it is about.
func (b *Bootstrap) hear(a Answer) {
	if s, err := b.seat(a.App); err == nil {
		s.hear(a)
	}
}

// ErrNoApp: the plan has no signal for that app. From Restart and Logs.
var ErrNoApp = errors.New("the plan has no signal for that app")

func (b *Bootstrap) seat(app string) (*seat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.seatLocked(app); s != nil {
		return s, nil
	}
	var apps []string
	for _, s := range b.seats {
		apps = append(apps, s.app)
	}
	return nil, fmt.Errorf("app %q: %w, which has %s", app, ErrNoApp, strings.Join(apps, ", "))
}

// Restart stops the process of an app's signal and starts it again at once, or
// starts it if it was given up, or fetches its release if that was not to be had.
// It does not wait for any of it. ErrNoApp if the plan has no such app.
func (b *Bootstrap) Restart(app string) error {
	s, err := b.seat(app)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.restart("an operator asked for it")
	if s.candidate != nil {
		s.candidate.fetchNow()
	}
	return nil
}

// Logs returns the last output of an app's signal and of the candidates that were
// beside it. ErrNoApp if the plan has no such app.
func (b *Bootstrap) Logs(app string) (*output.Tail, error) {
	s, err := b.seat(app)
	if err != nil {
		return nil, err
	}
	return s.tail, nil
}

// Status is all processes as they are now.
func (b *Bootstrap) Status() Status {
	alive := b.stream.alive() // first: the stream locks itself, then b
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Cluster: b.plan.Cluster, Pool: b.plan.Pool, PID: os.Getpid()}
	for _, one := range b.seats {
		s.Signals = append(s.Signals, one.status())
	}
	a := b.autoscaler.Status()
	s.Autoscaler = Process{Signal: "autoscaler", State: a.State.String(), PID: a.PID, Since: a.Since, Restarts: a.Restarts, Why: a.Why}
	if a.State == supervise.Running {
		s.Autoscaler.Alive = alive
	}
	return s
}

// Releases returns the releases that are in use: those that run, in whatever
// part, and those that the plan wants or may come back to. They are in order.
func (b *Bootstrap) Releases() []release.Ref {
	refs := b.means.shelf.inUse()
	b.mu.Lock()
	for _, s := range b.seats {
		refs = append(refs, s.releases()...)
	}
	b.mu.Unlock()
	slices.SortFunc(refs, func(x, y release.Ref) int { return strings.Compare(x.String(), y.String()) })
	return slices.Compact(refs)
}
