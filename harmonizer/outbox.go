package harmonizer

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	// outboxLimit bounds the nudges that wait to be sent. The machine returns few nudges each
	// second; more wait only while a save takes seconds.
	outboxLimit = 4096
	saveTimeout = 5 * time.Second
	// lastSave bounds the final save and send when the process ends.
	lastSave  = 2 * time.Second
	savePause = time.Second // after a failed save
)

// outbox sends nudges in its own goroutine. It sends each nudge after the memory of its app is
// durable, so the next leader finds every nudge that may have been sent. Nudges that are no
// longer right go back to the machine. The next save has everything that was queued during the
// current one.
//
// While saves fail, the outbox sends starts before the next attempt: the memory only prevents
// that the next leader repeats them. Stops wait.
type outbox struct {
	ports    Ports
	term     *atomic.Uint64 // term whose nudges may be sent; 0: no nudge may
	counters *counters
	log      *slog.Logger
	logLimit *rate.Sometimes
	confirm  func(ctx context.Context, nudges []apps.Nudge) []bool // reports whether each nudge is still right
	watched  *confirmations                                        // nil: schedulers do not confirm nudges
	wake     alarm
	ended    chan struct{} // closed after run
	unsaved  atomic.Int64  // since when saves fail, in unix nanoseconds; 0: they succeed

	mu    sync.Mutex
	batch saveBatch
}

// saveBatch is what waits: the newest memory of each app, and the nudges in order.
type saveBatch struct {
	term   uint64
	memory map[string]apps.Memory
	nodes  map[message.Node]int // nil: unchanged
	nudges []apps.Nudge
}

func newOutbox(ports Ports, term *atomic.Uint64, confirm func(context.Context, []apps.Nudge) []bool, c *counters, log *slog.Logger) *outbox {
	return &outbox{
		ports: ports, term: term, confirm: confirm, counters: c, log: log, logLimit: oncePerMinute(),
		wake: make(alarm, 1), ended: make(chan struct{}), batch: saveBatch{memory: map[string]apps.Memory{}},
	}
}

// begin empties the outbox for a new term, 0 for none. It returns the nudges that were not
// sent.
func (o *outbox) begin(term uint64) (unsent []apps.Nudge) {
	o.mu.Lock()
	defer o.mu.Unlock()
	unsent = o.batch.nudges
	o.batch = saveBatch{term: term, memory: map[string]apps.Memory{}}
	return unsent
}

// queueNudges queues changed memories and the nudges that were decided with them. It returns the
// nudges beyond outboxLimit.
func (o *outbox) queueNudges(changed []apps.Memory, nudges []apps.Nudge) (refused []apps.Nudge) {
	o.mu.Lock()
	for _, m := range changed {
		o.batch.memory[m.App] = m
	}
	room := min(len(nudges), outboxLimit-len(o.batch.nudges))
	o.batch.nudges = append(o.batch.nudges, nudges[:room]...)
	o.mu.Unlock()
	o.wake.ring()
	return nudges[room:]
}

func (o *outbox) queueNodes(nodes map[message.Node]int) {
	o.mu.Lock()
	o.batch.nodes = nodes
	o.mu.Unlock()
	o.wake.ring()
}

func (o *outbox) waiting() (nudges, memories int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.batch.nudges), len(o.batch.memory)
}

func (o *outbox) takeBatch() saveBatch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.batch
	o.batch = saveBatch{term: b.term, memory: map[string]apps.Memory{}}
	return b
}

// returnBatch queues what could not be saved, unless a newer value waits.
func (o *outbox) returnBatch(b saveBatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.batch.term != b.term {
		return
	}
	maps.Copy(b.memory, o.batch.memory)
	o.batch.memory = b.memory
	if o.batch.nodes == nil {
		o.batch.nodes = b.nodes
	}
}

// run saves and sends until ctx ends. Then it sends once more what still waits.
func (o *outbox) run(ctx context.Context, enqueue Enqueue) error {
	defer close(o.ended)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-o.wake:
		}
		unsent, err := o.deliver(ctx)
		for _, ev := range unsent {
			_ = enqueue(ctx, ev) // fails only when ctx ends
		}
		if err != nil {
			retry.Pause(ctx, savePause)
			o.wake.ring()
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	_, _ = o.deliver(last) // errors are in the log
	return nil
}

// deliver saves the queued memories, then sends the nudges. It returns the nudges that were
// not sent, and an error if the memories must be saved again.
func (o *outbox) deliver(ctx context.Context) ([]apps.NotSent, error) {
	b := o.takeBatch()
	if o.term.Load() != b.term {
		return notSent(b.nudges, nil), nil // of an ended term
	}
	var events []apps.NotSent
	if o.unsaved.Load() != 0 {
		events, b.nudges = o.sendStarts(ctx, b)
	}
	if err := o.save(ctx, b); err != nil {
		o.counters.add("saves_failed", 1)
		o.unsaved.CompareAndSwap(0, time.Now().UnixNano())
		o.logLimit.Do(func() { o.log.Error("save of memories failed, starts continue, stops wait", "err", err) })
		o.returnBatch(b)
		late, stops := o.sendStarts(ctx, b)
		return slices.Concat(events, late, notSent(stops, nil)), err
	}
	o.unsaved.Store(0)
	return append(events, o.sendAll(ctx, b.term, b.nudges)...), nil
}

// sendStarts sends the starts of a batch. It returns the unsent starts, and the other nudges.
func (o *outbox) sendStarts(ctx context.Context, b saveBatch) (events []apps.NotSent, others []apps.Nudge) {
	var starts []apps.Nudge
	for _, n := range b.nudges {
		if n.Start != nil {
			starts = append(starts, n)
		} else {
			others = append(others, n)
		}
	}
	return o.sendAll(ctx, b.term, starts), others
}

// sendAll sends the nudges that are still right, and returns the others.
func (o *outbox) sendAll(ctx context.Context, term uint64, nudges []apps.Nudge) []apps.NotSent {
	var wrong, failed []apps.Nudge
	right := o.confirm(ctx, nudges) // a save may have taken long
	for i, n := range nudges {
		switch {
		case !right[i]:
			wrong = append(wrong, n)
		case !o.maySend(term) || !o.send(n):
			failed = append(failed, n)
		}
	}
	return notSent(wrong, failed)
}

// since returns since when saves fail, zero if they succeed.
func (o *outbox) since() time.Time {
	if at := o.unsaved.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// notSent returns events for nudges that were not confirmed, and for confirmed nudges that
// could not be sent.
func notSent(wrong, failed []apps.Nudge) (events []apps.NotSent) {
	if len(wrong) > 0 {
		events = append(events, apps.NotSent{Nudges: wrong})
	}
	if len(failed) > 0 {
		events = append(events, apps.NotSent{Nudges: failed, Confirmed: true})
	}
	return events
}

func (o *outbox) save(ctx context.Context, b saveBatch) error {
	if o.ports.Memory == nil || len(b.memory) == 0 && b.nodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	changed := make([]apps.Memory, 0, len(b.memory))
	for _, name := range slices.Sorted(maps.Keys(b.memory)) {
		changed = append(changed, b.memory[name])
	}
	if err := o.ports.Memory.Save(ctx, changed, b.nodes); err != nil {
		return err
	}
	o.counters.add("saves", 1)
	o.counters.add("memories_saved", len(changed))
	return nil
}

// maySend reports whether a nudge of that term may be sent now.
func (o *outbox) maySend(term uint64) bool {
	return o.term.Load() == term && term != 0 && (o.ports.Lease == nil || o.ports.Lease.Left() > 0)
}

func (o *outbox) send(n apps.Nudge) bool {
	if o.watched != nil {
		n.ID = rand.Text()
		o.watched.addNudge(time.Now(), n) // before the confirmation can arrive
	}
	if err := o.ports.Bus.Nudge(n); err != nil {
		if o.watched != nil {
			o.watched.removeNudge(n.ID)
		}
		o.logLimit.Do(func() { o.log.Error("nudge not sent", "err", err) })
		return false
	}
	name := "nudges_start"
	if n.Stop != nil {
		name = "nudges_stop"
	}
	o.counters.add(name, 1)
	return true
}
