package local

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
)

// schedulerWatch has the latest state of the pool's scheduler. It may be used concurrently.
type schedulerWatch struct {
	mu    sync.Mutex
	began time.Time
	state api.SchedulerState // guarded by mu
	at    time.Time          // of its receipt, by the local clock; zero: never
	kind  string             // of the scheduler that speaks for all nodes, also of an earlier process; empty: none
}

// take stores a state from the subject of the pool.
func (w *schedulerWatch) take(now time.Time, pool string, m *nats.Msg) error {
	s, err := message.DecodeState(pool, m.Data)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, w.at, w.kind = s, now, ""
	if !s.Rows {
		w.kind = s.Kind
	}
	return nil
}

// ExpectScheduler makes a scheduler of that kind speak for all nodes of the pool until another state arrives: an earlier process
// has received its state.
func (n *Nodes) ExpectScheduler(kind string) {
	w := &n.scheduler
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() {
		w.kind = kind
	}
}

// Scheduler returns the known state of the scheduler that speaks for all nodes of the pool. Its state counts for two of its periods.
func (n *Nodes) Scheduler(now time.Time) pools.NodeScheduler {
	w := &n.scheduler
	w.mu.Lock()
	defer w.mu.Unlock()
	s := pools.NodeScheduler{Kind: w.kind}
	switch {
	case w.kind == "":
		return s
	case w.at.IsZero():
		s.Why = fmt.Sprintf("the scheduler (%s) has reported nothing since this process began at %s", w.kind, w.began.UTC().Format(time.RFC3339))
		return s
	case now.Sub(w.at) > 2*w.state.Period:
		s.Why = fmt.Sprintf("the scheduler (%s) is silent since %s", w.kind, w.at.UTC().Format(time.RFC3339))
	case !w.state.Fresh:
		s.Why = fmt.Sprintf("the scheduler (%s) has no current state of its nodes", w.kind)
		if w.state.Why != "" {
			s.Why += ": " + w.state.Why
		}
	}
	s.Period, s.Accepts = w.state.Period, w.state.Accepts
	return s
}
