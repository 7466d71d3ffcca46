package supervise

import (
	"context"
	"fmt"
	"time"
)

// Status is a Process at one moment.
type Status struct {
	Name     string
	State    State
	PID      int       // 0: no child; never in state running
	Since    time.Time // when State was reached
	Restarts int       // starts after the first, whether they succeeded or not
	LastExit string    // how the last child ended; empty: none has
	Why      string    // what led to State, for people; may be empty
	Excused  bool      // the last end was no failure of the child: see NewSpec and Expected

	// Unenforced are the limits of the child, or of the last one, that do not
	// hold, and why, for people; empty: all hold.
	Unenforced string
}

// Status returns how the process stands.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Ready waits until the process runs. It returns ErrFatal, with the reason, when
// it is fatal, ErrStopped when supervision has ended, and the cause when ctx has.
func (p *Process) Ready(ctx context.Context) error {
	for {
		p.mu.Lock()
		status, over, changed := p.status, p.over, p.changed
		p.mu.Unlock()
		switch {
		case status.State == Running:
			return nil
		case status.State == Fatal:
			return fmt.Errorf("%s: %w: %s", status.Name, ErrFatal, status.Why)
		case over:
			return fmt.Errorf("%s: %w", status.Name, ErrStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, which is %s: %w", status.Name, status.State, context.Cause(ctx))
		}
	}
}

// Restart stops the child, if there is one, and starts another at once; past
// failures are forgotten. It does not wait for any of it. Why is for people.
// Without Run it does nothing.
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

// Fail says that the child hangs, by somebody who knows. It is killed, soon also if
// it is stopped, and its end is a failure as others are: the policy says whether
// and when another is started. Why is for people. Fail waits for none of it, and
// does nothing where there is no child.
func (p *Process) Fail(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.condemn != nil {
		p.condemn(&hangError{"reported: " + why})
	}
}

// enter makes a child the present one. condemn is what Fail calls from now on.
func (p *Process) enter(child *Child, condemn context.CancelCauseFunc) {
	p.mu.Lock()
	p.condemn = condemn
	p.mu.Unlock()
	p.set(func(s *Status) { s.PID, s.Unenforced = child.PID(), child.Unenforced() })
}

// begin makes the state starting. interrupt is what Restart calls from now on.
func (p *Process) begin(restarts int, interrupt context.CancelCauseFunc) {
	p.mu.Lock()
	p.interrupt = interrupt
	p.mu.Unlock()
	p.set(func(s *Status) { s.State, s.Restarts, s.Excused = Starting, restarts, false })
}

// end makes the state stopped, for good.
func (p *Process) end() {
	p.mu.Lock()
	p.over, p.interrupt = true, nil
	p.mu.Unlock()
	p.set(func(s *Status) { s.State = Stopped })
}

// set changes the status, and tells of it if it differs. Only Run's goroutine calls it, so
// that Watch sees the statuses in order.
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
