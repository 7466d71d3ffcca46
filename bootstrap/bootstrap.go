package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// Bootstrap runs the processes of one pool.
type Bootstrap struct {
	config       Config
	dependencies dependencies
	autoscaler   *supervise.Process
	stream       *stream
	newProcesses chan struct{} // buffer of 1: app processes wait to be started
	alive        chan struct{} // the loop responds to Alive

	mu           sync.Mutex
	plan         Plan
	appProcesses []*appProcess // in the plan's order
	started      map[*appProcess]bool
	kept         []api.Trial            // trials loaded at the start
	yanked       map[release.Ref]string // of SetYanked
	// ending holds the last app process of each removed app. It runs until the autoscaler sends it no more requests.
	ending map[string]*appProcess
}

// New returns a bootstrap. It starts nothing until Run is called.
func New(c Config) (*Bootstrap, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	b := &Bootstrap{config: c, newProcesses: make(chan struct{}, 1), alive: make(chan struct{}), started: map[*appProcess]bool{}, ending: map[string]*appProcess{}}
	b.stream = newStream(b.directory, b.receive, b.restartAutoscaler, c.Log)
	b.dependencies = dependencies{config: c, log: c.Log, releaseCache: newReleaseCache(c.Releases), stream: b.stream, environment: b.environment, folder: keepFolder(c.Folder)}
	process, err := supervise.NewProcess(c.Launcher, supervise.ProcessConfig{
		Name: "autoscaler", NewSpec: b.autoscalerSpec, StartTimeout: time.Minute,
		Policy: unlimitedRestarts(), Expected: wantsRestart, Watch: b.watchAutoscaler, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	b.autoscaler = process
	return b, b.Update(c.Plan)
}

func wantsRestart(e supervise.Exit) bool { return e.Code == api.ExitRestart }

// autoscalerGrace is slightly longer than the loop needs to finish a tick.
const autoscalerGrace = 2500 * time.Millisecond

// unlimitedRestarts is the restart policy of processes that the pool needs. The pauses grow to half a minute, so that
// the failures in the window never reach the budget.
func unlimitedRestarts() supervise.Policy {
	p := supervise.DefaultPolicy()
	p.Budget = 1000
	return p
}

// Run starts the signals, then the autoscaler, and runs them according to the plan until ctx ends. When it returns, all
// processes have ended, or the error lists those that are left. Call it once.
func (b *Bootstrap) Run(ctx context.Context) error {
	if err := b.loadTrials(ctx); err != nil {
		return err
	}
	streaming, stopStreaming := context.WithCancel(context.WithoutCancel(ctx))
	var streamer, running sync.WaitGroup
	streamer.Go(func() { b.stream.run(streaming) })
	var errs errorList
	b.startAppProcesses(ctx, &running, &errs)
	running.Go(func() {
		b.awaitSignals(ctx)
		if ctx.Err() == nil {
			errs.add(b.autoscaler.Run(ctx))
		}
	})
	for ctx.Err() == nil {
		select {
		case <-b.newProcesses:
			b.startAppProcesses(ctx, &running, &errs)
		case b.alive <- struct{}{}:
		case <-ctx.Done():
		}
	}
	running.Wait()
	stopStreaming()
	streamer.Wait()
	return errs.join()
}

// Alive returns nil when the loop of Run responds. It waits at most until ctx ends.
func (b *Bootstrap) Alive(ctx context.Context) error {
	select {
	case <-b.alive:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the loop of bootstrap: %w", ctx.Err())
	}
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

// startAppProcesses starts the app processes that have not been started.
func (b *Bootstrap) startAppProcesses(ctx context.Context, running *sync.WaitGroup, errs *errorList) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.appProcesses {
		if !b.started[s] {
			b.started[s] = true
			running.Go(func() { errs.add(s.run(ctx)) })
		}
	}
}

// awaitSignals waits until all signals are ready, at most ReadyTimeout.
func (b *Bootstrap) awaitSignals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.config.ReadyTimeout)
	defer cancel()
	b.mu.Lock()
	appProcesses := slices.Clone(b.appProcesses)
	b.mu.Unlock()
	for _, s := range appProcesses {
		s.mu.Lock()
		current := s.current
		s.mu.Unlock()
		if err := current.process.Ready(ctx); err != nil {
			b.config.Log.Warn("signal not ready, default signal serves its app",
				"app", s.app, "err", err, "why", current.status().Why)
		}
	}
}

func (b *Bootstrap) autoscalerSpec(context.Context) (supervise.Spec, error) {
	childEnd, err := b.stream.connect()
	if err != nil {
		return supervise.Spec{}, err
	}
	return supervise.Spec{
		Name: "autoscaler", Title: "weir: autoscaler " + b.config.Plan.Pool, Argv: b.config.Autoscaler, Env: b.config.Env, StopGrace: autoscalerGrace,
		ExtraFiles: []*os.File{childEnd}, Lines: output.WriteLines(os.Stderr, b.config.Log.With("process", "autoscaler")),
	}, nil
}

// watchAutoscaler receives each status of the autoscaler's process.
func (b *Bootstrap) watchAutoscaler(now supervise.Status) {
	if now.PID == 0 {
		b.stream.gone()
	}
}

// restartAutoscaler reports the autoscaler's process as hung. Its supervisor starts another.
func (b *Bootstrap) restartAutoscaler(why string) { b.autoscaler.Fail(why) }

// environment returns the plan as environment variables for children.
func (b *Bootstrap) environment() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plan.Environment(b.config.Bucket, b.config.Args)
}

// directory returns the current endpoints of the signals.
func (b *Bootstrap) directory() Directory {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Directory{Config: b.plan.Config, Signals: make([]Entry, len(b.appProcesses))}
	for i, s := range b.appProcesses {
		d.Signals[i] = s.entry()
		d.Signals[i].Yanked = prose.Marked(b.yanked[s.running(d.Signals[i].Version)], maxRemark)
	}
	return d
}

// SetYanked reports which releases were withdrawn, and why. The autoscaler learns it with the next revision.
func (b *Bootstrap) SetYanked(why map[release.Ref]string) {
	b.mu.Lock()
	changed := !maps.Equal(b.yanked, why)
	b.yanked = why
	b.mu.Unlock()
	if changed {
		b.stream.wake()
	}
}

// receive passes an answer to the app process that it concerns.
func (b *Bootstrap) receive(a Answer) {
	if s, err := b.appProcess(a.App); err == nil {
		s.receive(a)
	}
}

// ErrNoApp: the plan has no signal for that app. Restart and Logs return it.
var ErrNoApp = errors.New("the plan has no signal for that app")

func (b *Bootstrap) appProcess(app string) (*appProcess, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.appProcessLocked(app); s != nil {
		return s, nil
	}
	var apps []string
	for _, s := range b.appProcesses {
		apps = append(apps, s.app)
	}
	return nil, fmt.Errorf("app %q: %w, which has %s", app, ErrNoApp, strings.Join(apps, ", "))
}

// Restart restarts the process of an app's signal at once, also after its restart budget is spent. If the last fetch of
// its release failed, it fetches again. It does not wait. It returns ErrNoApp if the plan has no such app.
func (b *Bootstrap) Restart(app string) error {
	s, err := b.appProcess(app)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.restart("requested by an operator")
	if s.candidate != nil {
		s.candidate.fetchNow()
	}
	return nil
}

// Logs returns the last output of an app's signal and of its candidates. It returns ErrNoApp if the plan has no such
// app.
func (b *Bootstrap) Logs(app string) (*output.Tail, error) {
	s, err := b.appProcess(app)
	if err != nil {
		return nil, err
	}
	return s.tail, nil
}

// Status returns the current state of all processes.
func (b *Bootstrap) Status() api.PoolProcesses {
	alive := b.stream.alive() // first: the stream locks its mutex before b's
	b.mu.Lock()
	defer b.mu.Unlock()
	s := api.PoolProcesses{Cluster: b.plan.Cluster, Pool: b.plan.Pool, PID: os.Getpid()}
	for _, one := range b.appProcesses {
		s.Signals = append(s.Signals, one.status())
	}
	a := b.autoscaler.Status()
	s.Autoscaler = api.Process{Signal: "autoscaler", State: a.State.String(), PID: a.PID, Since: a.Since, Restarts: a.Restarts, Why: a.Why}
	if a.State == supervise.Running {
		s.Autoscaler.Alive = alive
	}
	return s
}

// Releases returns the sorted releases in use: those that run, and those that the plan requires or may return to.
func (b *Bootstrap) Releases() []release.Ref {
	refs := b.dependencies.releaseCache.inUse()
	b.mu.Lock()
	for _, s := range b.appProcesses {
		refs = append(refs, s.releases()...)
	}
	b.mu.Unlock()
	slices.SortFunc(refs, func(x, y release.Ref) int { return strings.Compare(x.String(), y.String()) })
	return slices.Compact(refs)
}
