package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// patience is the maximum wait of a request to the Loop, in addition to the caller's context.
	patience = 5 * time.Second
	// workRoom is the capacity of the queue. If it is full, send waits.
	workRoom = 64
	// tickEvery is the period of the ticks.
	tickEvery = time.Second
	// tryTimeout is the timeout of one try of a call. The autoscaler responds between two of its ticks.
	tryTimeout = time.Minute
	// fenceTimeout is the timeout of one call that fences a node or ends its fence.
	fenceTimeout = 30 * time.Second
	// retryFirst and retryLast are the pauses between two tries of a save, a load or a publication.
	retryFirst = time.Second
	retryLast  = 15 * time.Second
)

// work runs in the Loop's goroutine, which owns the state of all parts. It may read the judge. The
// Loop steps the judge with the returned batch.
type work func(now time.Time, j *judge.Judge) batch

// batch holds events for the judge: first the events, then the observations. The observations are
// separate because there may be one for each node.
type batch struct {
	events   []judge.Event
	observed []judge.Observation
}

func of(events ...judge.Event) batch { return batch{events: events} }

// mailbox passes work to the Loop's goroutine. Its WaitGroup counts the goroutines of the Loop's
// parts. It may be used concurrently.
type mailbox struct {
	sync.WaitGroup
	work  chan work
	ended chan struct{} // closed when the Loop ends

	mu   sync.Mutex
	lost map[string]uint64 // number of dropped items, by kind
}

func newMailbox() *mailbox {
	return &mailbox{work: make(chan work, workRoom), ended: make(chan struct{}), lost: map[string]uint64{}}
}

// send waits until the queue accepts the work. Its error is that of ctx, or ErrNotRunning.
func (m *mailbox) send(ctx context.Context, do work) error {
	select {
	case m.work <- do:
		return nil
	case <-m.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notify sends work that has no events for the judge.
func (m *mailbox) notify(ctx context.Context, do func(now time.Time)) error {
	return m.send(ctx, func(now time.Time, _ *judge.Judge) batch {
		do(now)
		return batch{}
	})
}

// offer does not wait: if the queue is full, it drops and counts the work.
func (m *mailbox) offer(what string, do work) {
	select {
	case m.work <- do:
	default:
		m.lose(what, 1)
	}
}

// do waits until the work is done, for at most patience. After an error the Loop has not done it
// and will not do it.
func (m *mailbox) do(ctx context.Context, do func(now time.Time, j *judge.Judge)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done, taken := make(chan struct{}), make(chan bool, 1)
	taken <- true
	err := m.send(ctx, func(now time.Time, j *judge.Judge) batch {
		defer close(done)
		select {
		case <-taken:
			do(now, j)
		default:
		}
		return batch{}
	})
	if err != nil {
		return fmt.Errorf("request to node health: %w", err)
	}
	select {
	case <-done:
		return nil
	case <-m.ended:
	case <-ctx.Done():
	}
	select {
	case <-taken:
		return fmt.Errorf("request to node health: %w", errors.Join(ErrNotRunning, ctx.Err()))
	default:
		<-done
		return nil
	}
}

func (m *mailbox) lose(what string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[what] += uint64(n)
}

func (m *mailbox) losses() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.lost)
}

// shared is shared by the parts of a Loop.
type shared struct {
	config Config
	policy judge.Policy // with its defaults
	world  *World
	mail   *mailbox
	log    *slog.Logger
}

// acts reports whether the policy carries out orders.
func (k *shared) acts() bool { return k.policy.Mode == api.ModeAct }

// call makes a provider call in a separate goroutine. The Loop's goroutine runs ended.
func (k *shared) call(ctx context.Context, timeout time.Duration, f func(context.Context) error, ended func(now time.Time, err error)) {
	k.mail.Go(func() {
		try, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := k.world.Writer.Write(try, f)
		_ = k.mail.notify(ctx, func(now time.Time) { ended(now, err) })
	})
}

// pathDown returns why heartbeats prove nothing now although the bus works; empty: they do. Where a scheduler speaks for all nodes,
// all of them are silent while it is away. That is no failure of a node.
func (k *shared) pathDown(now time.Time) string {
	mode, heartbeats := k.policy.Detection.Mode(api.DetectAgentHeartbeat)
	if k.world.Scheduler == nil || !heartbeats {
		return ""
	}
	s := k.world.Scheduler(now)
	expected := time.Duration(*mode.Options.ExpectedInterval)
	silence := expected * time.Duration(*mode.Options.Miss)
	switch {
	case s.Kind == "" || s.Why != "":
		return s.Why
	case 2*s.Period+expected/2 >= silence: // its silence would show after that of the nodes
		return fmt.Sprintf("the scheduler (%s) reports only every %v, and nodes are silent after %v: lower its period, or raise expected_interval of AGENT_HEARTBEAT", s.Kind, s.Period, silence)
	}
	return ""
}
