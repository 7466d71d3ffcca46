package bootstrap

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	signalStartTimeout = 10 * time.Second
	signalStopGrace    = 2 * time.Second
)

// States of a signal without a process. The other states are those of supervise.State.
const (
	fetching   = "fetching"    // its release is being fetched
	notFetched = "not fetched" // the last fetch failed
)

// signal is one signal process and its release.
type signal struct {
	plan       SignalPlan
	appProcess *appProcess
	log        *slog.Logger
	process    *supervise.Process
	life       context.Context // of run; set before run starts, as cancel is
	cancel     context.CancelFunc
	done       chan struct{} // closed when run has ended
	retryNow   chan struct{} // buffer of 1: ends the pause between two fetches

	requestConfig string // as listed; guarded by the mutex of appProcess

	mu       sync.Mutex
	place    place
	release  *cachedRelease   // nil until fetched, and for a shipped signal
	fetchErr error            // of the last attempt; nil if it succeeded
	session  *control.Session // of a plugin's last start
	kindNow  api.ProcessKind  // of the last start
	columnar bool             // it supports the columnar body
	user     int              // of the last start; 0: bootstrap's user
	sameUser string           // why it runs as bootstrap's user
	state    supervise.State  // last state that Watch received
	failure  string           // reason of the last failure; empty: no failure yet
	silence  silence
}

func newSignal(s *appProcess, p SignalPlan, policy supervise.Policy) (*signal, error) {
	sig := &signal{
		plan: p, appProcess: s, log: s.log.With("app", p.App, "version", p.Version), requestConfig: p.RequestConfig,
		done: make(chan struct{}), retryNow: make(chan struct{}, 1),
	}
	process, err := supervise.NewProcess(s.config.Launcher, supervise.ProcessConfig{
		Name: sig.title(), NewSpec: sig.spec, Probe: sig.probe, StartTimeout: signalStartTimeout,
		Health: sig.health, HealthEvery: healthEvery, HealthTimeout: healthTimeout, HealthFailures: healthFailures,
		Policy: policy, Watch: sig.watch, Log: s.config.Log,
	})
	sig.process = process
	return sig, err
}

// installed returns the release; zero for a shipped signal.
func (sig *signal) installed() release.Installed {
	if sig.plan.Shipped() {
		return release.Installed{}
	}
	return sig.release.installed
}

func (sig *signal) setUser(user int, sameUser string) {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.user, sig.sameUser = user, sameUser
}

// title returns its name in logs and errors.
func (sig *signal) title() string {
	if sig.plan.Shipped() {
		return "signal " + sig.plan.App
	}
	return "signal " + sig.plan.App + " " + sig.plan.Version
}

// run fetches the release and supervises the process until ctx ends.
func (sig *signal) run(ctx context.Context) error {
	if !sig.plan.Shipped() {
		if !sig.awaitRelease(ctx) {
			return nil // ctx has ended before a start
		}
		defer sig.appProcess.releaseCache.giveBack(sig.release)
	}
	defer sig.endSession()
	return sig.process.Run(ctx)
}

// awaitRelease fetches until it succeeds, and reports whether it did before ctx ended. Nothing runs meanwhile.
func (sig *signal) awaitRelease(ctx context.Context) bool {
	pauses := retry.Policy{First: 500 * time.Millisecond, Longest: 30 * time.Second}.Pauses()
	for !sig.fetch(ctx) {
		pause := time.NewTimer(pauses.NextBackOff())
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-sig.retryNow:
			pauses.Reset()
		}
		pause.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// restart restarts the process at once, or retries the fetch at once.
func (sig *signal) restart(why string) {
	sig.process.Restart(why)
	sig.fetchNow()
}

// fetchNow ends the pause between two fetches, if there is one.
func (sig *signal) fetchNow() {
	select {
	case sig.retryNow <- struct{}{}:
	default:
	}
}

// fetch makes one attempt, and stores and reports its result.
func (sig *signal) fetch(ctx context.Context) bool {
	release, err := sig.appProcess.releaseCache.takeRelease(ctx, sig.plan.Ref())
	if err != nil && ctx.Err() != nil {
		return false // cancelled; this implies nothing about the release
	}
	sig.mu.Lock()
	sig.release, sig.fetchErr = release, err
	sig.mu.Unlock()
	sig.appProcess.changed()
	if err != nil {
		sig.log.Error("release not available", "release", sig.plan.Ref().String(), "err", err)
	}
	return err == nil
}

// watch receives each status of the process.
func (sig *signal) watch(now supervise.Status) {
	sig.mu.Lock()
	failed := now.State == supervise.Backoff && sig.state != supervise.Backoff && !now.Excused
	if failed || now.State == supervise.Fatal {
		sig.failure = now.Why
	}
	if now.State == supervise.Running {
		sig.silence = silence{}
	}
	sig.state = now.State
	sig.mu.Unlock()
	sig.appProcess.changed()
}

// lastFailure returns the reason of the last failure, and whether there was one.
func (sig *signal) lastFailure() (why string, did bool) {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.failure, sig.failure != ""
}

// launched reports whether there has been anything to start.
func (sig *signal) launched() bool {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.plan.Shipped() || sig.release != nil
}

// received counts requests without a response, and restarts a process with too many of them, under its restart
// budget. limit is its time limit.
func (sig *signal) received(a Answer, now time.Time, limit time.Duration) {
	sig.mu.Lock()
	sig.silence = sig.silence.after(a.Silent && sig.state == supervise.Running, now)
	why, dead := sig.silence.dead(now, limit)
	if dead {
		sig.silence = silence{}
	}
	sig.mu.Unlock()
	if dead {
		sig.process.Fail(why)
	}
}

// isSourceOf reports whether an answer is from the process that runs now. Another process may have had its address.
func (sig *signal) isSourceOf(a Answer) bool {
	running := sig.process.Status().PID
	sameGroup := a.Group == 0 || running == 0 || a.Group == running
	return a.Address == sig.currentPlace().address && a.Version == sig.plan.Version && sameGroup
}

func (sig *signal) currentPlace() place {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.place
}

func (sig *signal) setPlace(at place) {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.place = at
}

// endpoint returns the signal's address, or why it does not respond, and its request configuration.
func (sig *signal) endpoint(requestConfig string) Endpoint {
	p := sig.status()
	e := Endpoint{Address: p.Address, Group: p.PID, Version: p.Version, Columnar: p.Columnar, RequestConfig: requestConfig}
	if p.State != supervise.Running.String() {
		e.Down = "the signal is " + p.State
		if p.Why != "" {
			e.Down = prose.Marked(e.Down+": "+p.Why, maxRemark)
		}
	}
	return e
}

func (sig *signal) status() api.Process {
	now := sig.process.Status()
	p := api.Process{
		App: sig.plan.App, Signal: sig.plan.Namespace + "/" + sig.plan.Name, Wanted: sig.plan.Version,
		State: now.State.String(), PID: now.PID, Since: now.Since, Restarts: now.Restarts, Why: now.Why,
		Unenforced: now.Unenforced,
	}
	sig.mu.Lock()
	defer sig.mu.Unlock()
	p.Address, p.User, p.SameUser = sig.place.address, sig.user, sig.sameUser
	p.Kind, p.Columnar = sig.kindNow, sig.columnar && now.State == supervise.Running
	switch {
	case sig.plan.Shipped():
	case sig.fetchErr != nil:
		p.State, p.Why = notFetched, sig.fetchErr.Error()
	case sig.release == nil:
		p.State = fetching
	default:
		p.Version = sig.plan.Version
		if away := sig.release.installed.BucketErr; p.Why == "" && away != nil {
			p.Why = "from the cache, because the bucket was unavailable at the fetch: " + away.Error()
		}
	}
	return p
}
