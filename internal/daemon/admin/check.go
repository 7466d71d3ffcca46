package admin

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// State is the state of a check. The zero value is unknown.
type State int

// unknown -> any other; each may follow each.
const (
	Unknown  State = iota // the check has not finished yet
	OK                    // works
	Standby               // another process does the work; ready
	Degraded              // works, but needs an operator; ready
	Failed                // not ready
)

// String returns the name of the state in responses.
func (s State) String() string {
	return [...]string{"unknown", "ok", "standby", "degraded", "failed"}[s]
}

// MarshalJSON writes the name.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Result is the result of a check. Detail and Remedy may have text of other systems; the server escapes it.
type Result struct {
	State  State
	Detail string
	Remedy string // what an operator can do; empty if the state needs nothing
	Dead   bool   // a loop of this process does not advance, so /healthz fails too
}

// Check is one condition of a daemon.
type Check struct {
	Name string
	// Read returns the condition now. It returns soon after ctx ends.
	Read func(ctx context.Context) Result
}

// checkStatus is a check as responses show it.
type checkStatus struct {
	Name   string    `json:"name"`
	State  State     `json:"state"`
	Since  time.Time `json:"since"` // of the state
	Detail string    `json:"detail,omitempty"`
	Remedy string    `json:"remedy,omitempty"`
	dead   bool
}

// ready reports whether the state does not prevent the daemon's work.
func (s checkStatus) ready() bool { return s.State != Failed && s.State != Unknown }

const (
	checkEvery   = 5 * time.Second  // between two readings without a request
	checkTimeout = 2 * time.Second  // of one reading
	checkWait    = 3 * time.Second  // of a request for it: a reading that ends by its own bound has a result
	checkStuck   = 30 * time.Second // an older result counts as failed
)

// checks has the checks of a daemon and their last results.
type checks struct{ all []*tracked }

// tracked is one check with its last result.
type tracked struct {
	check Check
	wake  chan struct{} // requests a reading

	mu   sync.Mutex
	last checkStatus
	at   time.Time     // end of the last reading
	next chan struct{} // closed at the end of the next reading
}

func newChecks(list []Check) *checks {
	c, now := &checks{}, time.Now()
	for _, one := range list {
		c.all = append(c.all, &tracked{
			check: one, wake: make(chan struct{}, 1), at: now, next: make(chan struct{}),
			last: checkStatus{Name: one.Name, Since: now},
		})
	}
	return c
}

// run reads all checks until ctx ends.
func (c *checks) run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, t := range c.all {
		wg.Go(func() { t.run(ctx) })
	}
	<-ctx.Done()
	wg.Wait()
	return nil
}

func (t *tracked) run(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		t.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-t.wake:
		}
	}
}

// read reads the check once and stores the result.
func (t *tracked) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r := t.check.Read(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = time.Now()
	if t.last.State != r.State {
		t.last.Since = t.at
	}
	t.last.State, t.last.Detail, t.last.Remedy, t.last.dead = r.State, r.Detail, r.Remedy, r.Dead
	close(t.next)
	t.next = make(chan struct{})
}

// now returns the state of each check, in order. It requests readings, and waits at most checkWait for them.
func (c *checks) now(ctx context.Context) []checkStatus {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	var waits []chan struct{}
	for _, t := range c.all {
		t.mu.Lock()
		waits = append(waits, t.next)
		t.mu.Unlock()
		select {
		case t.wake <- struct{}{}:
		default: // a reading is requested already
		}
	}
	for _, next := range waits {
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	var list []checkStatus
	for _, t := range c.all {
		list = append(list, t.status())
	}
	return list
}

func (t *tracked) status() checkStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.last
	if age := time.Since(t.at); age > checkStuck {
		s.State, s.Since = Failed, t.at
		s.Detail = "the check does not end; before: " + s.Detail
		s.Remedy = "check the disks and the log of the process"
	}
	return s
}

// Pulse is the last sign of life of a loop. The zero value has no sign.
type Pulse struct{ last atomic.Pointer[time.Time] }

// Beat is a sign of life.
func (p *Pulse) Beat() { p.last.Store(new(time.Now())) }

// Check returns a check that fails, also for /healthz, if the last sign of life is older than the limit, which is above
// 0. A loop without a sign of life is unknown for that long after the call.
func (p *Pulse) Check(name string, limit time.Duration) Check {
	began := time.Now()
	return Check{Name: name, Read: func(context.Context) Result {
		last := p.last.Load()
		switch {
		case last == nil && time.Since(began) <= limit:
			return Result{State: Unknown, Detail: "starting"}
		case last == nil:
			last = &began
		}
		age := time.Since(*last).Round(time.Second)
		if age > limit {
			return Result{State: Failed, Dead: true, Detail: "last sign of life " + age.String() + " ago", Remedy: "see the log of the process; restart it if this lasts"}
		}
		return Result{State: OK, Detail: "last sign of life " + age.String() + " ago"}
	}}
}

// Loop returns a check of a loop by alive, which returns nil when the loop responds. The check fails if the loop does not
// respond. After checkStuck without a response, /healthz fails too.
func Loop(alive func(context.Context) error) Check {
	last, begun := time.Now(), false // only the goroutine of the check uses them
	return Check{Name: "loop", Read: func(ctx context.Context) Result {
		err := alive(ctx)
		if err == nil {
			last, begun = time.Now(), true
			return Result{State: OK, Detail: "responds"}
		}
		silent := time.Since(last)
		if !begun && silent <= checkStuck {
			return Result{State: Unknown, Detail: "starting"}
		}
		return Result{State: Failed, Dead: silent > checkStuck, Detail: err.Error(), Remedy: "see the log of the process; restart it if this lasts"}
	}}
}
