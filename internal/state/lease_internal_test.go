package state

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"
)

// world is a bucket shared by several processes, and the invariants of their leases. Its register does
// compare-and-set only.
type world struct {
	leases []*Lease

	mu       sync.Mutex
	sequence uint64
	value    []byte
	revision uint64
	epochs   map[uint64]bool
	broken   string // the first broken invariant
	terms    int
}

// inspect checks for two holders. The bubble's clock does not advance meanwhile.
func (w *world) inspect() {
	var holders strings.Builder
	n := 0
	for i, l := range w.leases {
		if left := l.Left(); left > 0 {
			n++
			holders.WriteString(fmt.Sprintf(" %d (epoch %d, %v left)", i, l.Epoch(), left))
		}
	}
	if n > 1 {
		w.fail("two holders:%s", holders.String())
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) began(epoch uint64) {
	w.mu.Lock()
	used := w.epochs[epoch]
	w.epochs[epoch] = true
	w.terms++
	w.mu.Unlock()
	if used {
		w.fail("epoch %d is used twice", epoch)
	}
}

// call is the delay of one request, of its answer, and of the process after it. A halted process notices no deadline
// meanwhile.
type call struct{ There, Back, Stopped time.Duration }

// connection is one process's connection to the register.
type connection struct {
	world *world
	calls []call
	next  int
	late  *sync.WaitGroup // calls that arrive after their caller gave up
}

// do calls f when the request arrives and returns when the answer arrives.
func (l *connection) do(ctx context.Context, f func()) error {
	c := l.calls[l.next%len(l.calls)]
	l.next++
	done := make(chan struct{})
	l.late.Go(func() {
		<-time.After(c.There)
		f()
		<-time.After(c.Back)
		close(done)
	})
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	<-time.After(c.Stopped)
	return err
}

func (l *connection) get(ctx context.Context, _ string) (entry, error) {
	got := make(chan entry, 1)
	err := l.do(ctx, func() {
		l.world.mu.Lock()
		defer l.world.mu.Unlock()
		got <- entry{revision: l.world.revision, value: l.world.value, found: l.world.revision != 0}
	})
	if err != nil {
		return entry{}, err
	}
	return <-got, nil
}

func (l *connection) update(ctx context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	got := make(chan uint64, 1)
	err := l.do(ctx, func() {
		l.world.mu.Lock()
		defer l.world.mu.Unlock()
		if l.world.revision != revision {
			got <- 0
			return
		}
		l.world.sequence++
		l.world.revision, l.world.value = l.world.sequence, value
		got <- l.world.revision
	})
	if err != nil {
		return 0, err
	}
	if next := <-got; next != 0 {
		return next, nil
	}
	return 0, jetstream.ErrKeyRevisionMismatch
}

func (l *connection) sequence(context.Context) (uint64, error) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return l.world.sequence, nil
}

// holderScript is the script of one process: in each term it halts, runs, and releases the lease.
type holderScript struct {
	TTL   time.Duration
	Calls []call
	Halts []time.Duration // before Run
	Runs  []time.Duration
}

func (w *world) live(ctx context.Context, l *Lease, p holderScript) {
	for i := 0; ctx.Err() == nil; i++ {
		if err := l.Acquire(ctx); err != nil {
			return
		}
		w.began(l.Epoch())
		w.inspect()
		halt := time.NewTimer(p.Halts[i%len(p.Halts)])
		select {
		case <-halt.C:
		case <-ctx.Done():
			halt.Stop()
		}
		term, cancel := context.WithTimeout(ctx, p.Runs[i%len(p.Runs)])
		_ = l.Run(term) // lost or released: both are valid
		cancel()
	}
}

// play runs the processes for a while.
func (w *world) play(t *testing.T, processes []holderScript) {
	synctest.Test(t, func(t *testing.T) {
		var late, alive sync.WaitGroup
		for i, p := range processes {
			l, err := newLease(LeaseConfig{
				Bucket: "b", Holder: fmt.Sprint("process ", i), TTL: p.TTL, Log: slog.New(slog.DiscardHandler),
			}, func(context.Context) (register, error) {
				return &connection{world: w, calls: p.Calls, late: &late}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w.leases = append(w.leases, l)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		for i, p := range processes {
			alive.Go(func() { w.live(ctx, w.leases[i], p) })
		}
		look := time.NewTicker(7 * time.Millisecond)
		defer look.Stop()
		for ctx.Err() == nil {
			w.inspect()
			select {
			case <-look.C:
			case <-ctx.Done():
			}
		}
		alive.Wait()
		late.Wait()
	})
}

// TestLeaseHasOneHolder runs competing processes. Their connections delay, lose and repeat messages, and the
// processes halt for longer than a lease lasts.
func TestLeaseHasOneHolder(t *testing.T) {
	ms := func(from, to int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(from, to), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	mostly := func(usual, seldom *rapid.Generator[time.Duration]) *rapid.Generator[time.Duration] {
		return rapid.OneOf(usual, usual, usual, seldom)
	}
	calls := rapid.Custom(func(t *rapid.T) call {
		return call{
			There:   mostly(ms(1, 20), ms(1, 2000)).Draw(t, "there"),
			Back:    mostly(ms(0, 20), ms(0, 2000)).Draw(t, "back"),
			Stopped: mostly(ms(0, 0), ms(0, 3000)).Draw(t, "stopped"),
		}
	})
	process := rapid.Custom(func(t *rapid.T) holderScript {
		return holderScript{
			TTL:   ms(200, 1000).Draw(t, "ttl"),
			Calls: rapid.SliceOfN(calls, 1, 12).Draw(t, "calls"),
			Halts: rapid.SliceOfN(mostly(ms(0, 10), ms(0, 3000)), 1, 4).Draw(t, "halts"),
			Runs:  rapid.SliceOfN(ms(0, 10_000), 1, 4).Draw(t, "runs"),
		}
	})
	terms := 0
	rapid.Check(t, func(rt *rapid.T) {
		processes := rapid.SliceOfN(process, 2, 4).Draw(rt, "processes")
		w := &world{epochs: map[uint64]bool{}}
		w.play(t, processes)
		if w.broken != "" {
			rt.Fatal(w.broken)
		}
		terms += w.terms
	})
	if terms < 100 {
		t.Errorf("%d terms in all: the test shows nothing", terms)
	}
}
