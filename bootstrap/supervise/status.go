package supervise

import (
	"context"
	"fmt"
	"time"
)

// Status is a snapshot of a Process.
type Status struct {
	Name     string
	State    State
	PID      int       // 0: no child; never 0 in state running
	Since    time.Time // start of State
	Restarts int       // starts after the first, successful or not
	LastExit string    // how the last child ended; empty: no child has ended
	Why      string    // reason for State, as text; may be empty
	Excused  bool      // the last end was not a failure of the child: see NewSpec and Expected

	// Unenforced lists the limits of the current or last child that are not enforced, and why, as text; empty: all are
	// enforced.
	Unenforced string
}

// Status returns the current status.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Ready waits until the process runs. It returns errFatal with the reason if the process is fatal, errStopped if
// supervision has ended, and ctx's cause if ctx has ended.
func (p *Process) Ready(ctx context.Context) error {
	for {
		p.mu.Lock()
		status, over, changed := p.status, p.over, p.changed
		p.mu.Unlock()
		switch {
		case status.State == Running:
			return nil
		case status.State == Fatal:
			return fmt.Errorf("%s: %w: %s", status.Name, errFatal, status.Why)
		case over:
			return fmt.Errorf("%s: %w", status.Name, errStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, which is %s: %w", status.Name, status.State, context.Cause(ctx))
		}
	}
}

// Restart stops the child, if any, starts another at once, and clears the failure history. It does not wait. why
// appears in the status. Without Run it does nothing.
func (p *Process) Restart(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.interrupt != nil {
		p.interrupt(&restartError{why})
	}
}

// restartError is the cause with which Restart ends a round.
type restartError struct{ why string }

func (e *restartError) Error() string { return "restart: " + e.why }

// Fail reports that the child hangs. The child is killed soon, even if SIGSTOP has stopped it. Its end counts as a
// failure: the policy decides whether and when another starts. why appears in the status. Fail does not wait. Without a
// child it does nothing.
func (p *Process) Fail(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.condemn != nil {
		p.condemn(&hangError{"reported: " + why})
	}
}

// enter makes a child the current one. Fail calls condemn from now on.
func (p *Process) enter(child *Child, condemn context.CancelCauseFunc) {
	p.mu.Lock()
	p.condemn = condemn
	p.mu.Unlock()
	p.set(func(s *Status) { s.PID, s.Unenforced = child.PID(), child.Unenforced() })
}

// begin sets the state to starting. Restart calls interrupt from now on.
func (p *Process) begin(restarts int, interrupt context.CancelCauseFunc) {
	p.mu.Lock()
	p.interrupt = interrupt
	p.mu.Unlock()
	p.set(func(s *Status) { s.State, s.Restarts, s.Excused = Starting, restarts, false })
}

// end sets the state to stopped for good.
func (p *Process) end() {
	p.mu.Lock()
	p.over, p.interrupt = true, nil
	p.mu.Unlock()
	p.set(func(s *Status) { s.State = Stopped })
}

// set changes the status and reports it if it differs. Only Run's goroutine calls it, so Watch receives the statuses in
// order.
func (p *Process) set(change func(*Status)) {
	p.mu.Lock()
	before := p.status
	change(&p.status)
	if p.status == before {
		p.mu.Unlock()
		return
	}
	if p.status.State != before.State {
		p.status.Since = time.Now()
	}
	status := p.status
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if p.config.Watch != nil {
		p.config.Watch(status)
	}
}

// State is the state of a Process.
//
//	                  ┌──────────── Restart ─────────────┐
//	                  ▼                                  │
//	stopped ──Run──► starting ──ready──► running ──► stopping ──► stopped
//	                  │   ▲                  │           │   ▲
//	  fails to start, │   │ pause over,      │ ends      │   │ Restart, Fail, unhealthy, or the
//	  ends            ▼   │ Restart          │           │   │ end of Run's ctx: also from
//	                 backoff ◄───────────────┘           │   │ starting, which also has the
//	                  │   ▲                              │   │ start timeout
//	                  │   └────── hung, start timeout ───┘
//	     budget spent ▼
//	                 fatal ──Restart──► starting
//
// When Run's ctx ends, backoff and fatal change to stopped.
type State uint8

const (
	// Stopped: not supervised; no child.
	Stopped State = iota
	// Starting: being started, or started and not yet ready.
	Starting
	// Running: the child is ready.
	Running
	// Backoff: no child; the next start follows after a pause.
	Backoff
	// Fatal: no child; the restart budget is spent. Only Restart starts another child.
	Fatal
	// Stopping: the child received a request to end.
	Stopping
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Stopped:
		return "stopped"
	case Starting:
		return "starting"
	case Running:
		return "running"
	case Backoff:
		return "backoff"
	case Fatal:
		return "fatal"
	case Stopping:
		return "stopping"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}
