package bootstrap

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/control"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/retry"
)

const (
	signalStartTimeout = 10 * time.Second
	signalStopGrace    = 2 * time.Second
)

// States of a signal that has no process yet; the others are those of
// supervise.State.
const (
	fetching   = "fetching"    // its release is on the way
	notFetched = "not fetched" // the last attempt to fetch it went wrong
)

// signal is one signal process and, before it can run, its release.
type signal struct {
	plan    SignalPlan
	seat    *seat
	log     *slog.Logger
	process *supervise.Process
	life    context.Context // of run; set, as cancel is, before that begins
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended
	hurry   chan struct{} // has room for one: the pause between two fetches is to end

	question string // as it is listed; guarded by the seat's mutex

	mu       sync.Mutex
	place    place
	release  *item            // nil until fetched, and for a shipped signal
	fetchErr error            // of the last attempt; nil if it went well
	session  *control.Session // of a plugin's last start
	kindNow  Kind             // of the last start
	columnar bool             // it offered the columnar body
	user     int              // of the last start; 0: that of bootstrap
	sameUser string           // why it is that of bootstrap
	state    supervise.State  // as Watch saw it last
	fall     string           // how it fell; empty: it never did
	silence  silence
}

func newSignal(s *seat, p SignalPlan, policy supervise.Policy) (*signal, error) {
	sig := &signal{
		plan: p, seat: s, log: s.log.With("app", p.App, "version", p.Version), question: p.Question,
		done: make(chan struct{}), hurry: make(chan struct{}, 1),
	}
	process, err := supervise.NewProcess(s.config.Launcher, supervise.ProcessConfig{
		Name: sig.title(), NewSpec: sig.spec, Probe: sig.probe, StartTimeout: signalStartTimeout,
		Health: sig.health, HealthEvery: healthEvery, HealthTimeout: healthTimeout, HealthFailures: healthFailures,
		Policy: policy, Watch: sig.watch, Log: s.config.Log,
	})
	sig.process = process
	return sig, err
}

// installed is the release; of a signal that weir ships, nothing.
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

// title names it in logs and errors.
func (sig *signal) title() string {
	if sig.plan.Shipped() {
		return "signal " + sig.plan.App
	}
	return "signal " + sig.plan.App + " " + sig.plan.Version
}

// run fetches and then supervises it, until ctx ends.
func (sig *signal) run(ctx context.Context) error {
	if !sig.plan.Shipped() {
		if !sig.awaitRelease(ctx) {
			return nil // ctx ended: nothing was started
		}
		defer sig.seat.shelf.giveBack(sig.release)
	}
	defer sig.endSession()
	return sig.process.Run(ctx)
}

// awaitRelease fetches until the release is here, and reports whether it is
// before ctx ends. Nothing runs in its place.
func (sig *signal) awaitRelease(ctx context.Context) bool {
	pauses := retry.Policy{First: 500 * time.Millisecond, Longest: 30 * time.Second}.Pauses()
	for !sig.fetch(ctx) {
		pause := time.NewTimer(pauses.NextBackOff())
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-sig.hurry:
			pauses.Reset()
		}
		pause.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// restart starts it again, or fetches it again, at once.
func (sig *signal) restart(why string) {
	sig.process.Restart(why)
	sig.fetchNow()
}

// fetchNow ends the pause between two fetches, if it is in one.
func (sig *signal) fetchNow() {
	select {
	case sig.hurry <- struct{}{}:
	default:
	}
}

// fetch makes one attempt, and keeps and tells its outcome.
func (sig *signal) fetch(ctx context.Context) bool {
	release, err := sig.seat.shelf.take(ctx, sig.plan.Ref())
	if err != nil && ctx.Err() != nil {
		return false // it was not awaited, which says nothing of the release
	}
	sig.mu.Lock()
	sig.release, sig.fetchErr = release, err
	sig.mu.Unlock()
	sig.seat.changed()
	if err != nil {
		sig.log.Error("release is not here", "release", sig.plan.Ref().String(), "err", err)
	}
	return err == nil
}

// wait waits, and reports whether it did to the end.
func wait(ctx context.Context, d time.Duration) bool {
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
		return true
	}
}

// watch is told of each status of the process.
func (sig *signal) watch(now supervise.Status) {
	sig.mu.Lock()
	fell := now.State == supervise.Backoff && sig.state != supervise.Backoff && !now.Excused
	if fell || now.State == supervise.Fatal {
		sig.fall = now.Why
	}
	if now.State == supervise.Running {
		sig.silence = silence{}
	}
	sig.state = now.State
	sig.mu.Unlock()
	sig.seat.changed()
}

// fallen returns how it fell, if it ever did.
func (sig *signal) fallen() (why string, did bool) {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.fall, sig.fall != ""
}

// launched reports whether there was ever something to start.
func (sig *signal) launched() bool {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.plan.Shipped() || sig.release != nil
}

// heard counts the answers that did not come, and ends a process that owes too
// many of them: it is started again, under its restart budget. limit is its time limit.
func (sig *signal) heard(a Answer, now time.Time, limit time.Duration) {
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

// gave reports whether an answer is that of the process that runs now: another one
// may have had its address.
func (sig *signal) gave(a Answer) bool {
	running := sig.process.Status().PID
	sameGroup := a.Group == 0 || running == 0 || a.Group == running
	return a.Address == sig.at().address && a.Version == sig.plan.Version && sameGroup
}

func (sig *signal) at() place {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	return sig.place
}

func (sig *signal) move(at place) {
	sig.mu.Lock()
	defer sig.mu.Unlock()
	sig.place = at
}

// endpoint is where it answers, or why it does not, and what it is asked with.
func (sig *signal) endpoint(question string) Endpoint {
	p := sig.status()
	e := Endpoint{Address: p.Address, Group: p.PID, Version: p.Version, Columnar: p.Columnar, Question: question}
	if p.State != supervise.Running.String() {
		e.Down = "the signal is " + p.State
		if p.Why != "" {
			e.Down = clip(e.Down + ": " + p.Why)
		}
	}
	return e
}

func (sig *signal) status() Process {
	now := sig.process.Status()
	p := Process{
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
		if away := sig.release.installed.Away; p.Why == "" && away != nil {
			p.Why = "from the cache, as the bucket was away when it was fetched: " + away.Error()
		}
	}
	return p
}
