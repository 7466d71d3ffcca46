package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// DefaultTTL is how long a lease lasts after its last renewal.
	DefaultTTL = 15 * time.Second

	minTTL         = 20 * time.Millisecond
	renewals       = 5  // within a TTL
	looks          = 15 // within a TTL, of who stands by
	maxLook        = time.Second
	releaseTimeout = time.Second
	// slack is how much longer than the TTL another one waits, as a part of it:
	// two clocks may differ that much in speed.
	slack = 100
)

// register is what a lease needs of a bucket.
type register interface {
	get(ctx context.Context, key string) (entry, error)
	update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	sequence(ctx context.Context) (uint64, error)
}

// Lease is the right to act, for as long as it is renewed: first Acquire, then
// Run. It may be acquired again after Run has returned.
type Lease struct {
	config LeaseConfig
	key    string
	open   func(context.Context) (register, error)

	mu       sync.Mutex
	register register // nil until it was opened
	held     bool
	epoch    uint64
	taken    uint64    // revision of the takeover
	revision uint64    // the last one that is known to be ours
	sent     time.Time // when the last acknowledged renewal was begun
	standby  string    // who holds it while we wait
	waiting  bool
}

var _ pools.Lease = (*Lease)(nil)

// NewLease returns a lease that is not held. It does not use the bus yet.
func NewLease(js jetstream.JetStream, c LeaseConfig) (*Lease, error) {
	return newLease(c, func(ctx context.Context) (register, error) { return openBucket(ctx, js, c.Cluster) })
}

func newLease(c LeaseConfig, open func(context.Context) (register, error)) (*Lease, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	return &Lease{config: c, key: "lease." + c.Name, open: open}, nil
}

// Left implements pools.Lease. It counts what the faster of two clocks says:
// one stands still while the machine is suspended, the other one can be set.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		return 0
	}
	now := time.Now()
	gone := max(now.Sub(l.sent), now.Round(0).Sub(l.sent.Round(0)))
	return max(0, l.config.TTL-gone)
}

// Epoch implements pools.Lease. It grows with every Acquire by anybody; it is
// 0 before the first of ours.
func (l *Lease) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Standby tells who holds the lease while Acquire waits for it; holder is empty if
// that is not known.
func (l *Lease) Standby() (holder string, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standby, l.waiting
}

// Acquire waits until the lease is ours, or ctx ends; errors of the bus are told
// and waited out, all but ErrSchema. Each Acquire is a takeover, with an epoch of
// its own. Run keeps what it has got, and should be started at once.
func (l *Lease) Acquire(ctx context.Context) error {
	l.stand("", true)
	defer l.stand("", false)
	look := time.NewTicker(min(l.config.TTL/looks, maxLook))
	defer look.Stop()
	var seen sighting
	var trouble complaint
	for {
		ours, err := l.look(ctx, &seen)
		switch {
		case ours:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("acquire lease %s: %w", l.config.Name, context.Cause(ctx))
		case errors.Is(err, ErrSchema):
			return fmt.Errorf("acquire lease %s: %w", l.config.Name, err)
		}
		trouble.tell(l.config.Log, "lease cannot be read", l.config.Name, err)
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// Run renews the lease until ctx has ended, then releases it and returns nil; or
// until somebody else has it: pools.ErrNotHolder. While NATS is away Left runs
// down, and Run goes on: if nobody has taken over until NATS is back, nobody else
// has acted, and the lease is ours still. Whatever acts under the lease must have
// stopped before ctx ends.
func (l *Lease) Run(ctx context.Context) error {
	tick := time.NewTicker(l.config.TTL / renewals)
	defer tick.Stop()
	var trouble complaint
	for {
		select {
		case <-ctx.Done():
			l.release(ctx)
			return nil
		case <-tick.C:
		}
		err := l.renew(ctx)
		if errors.Is(err, pools.ErrNotHolder) {
			l.drop()
			return fmt.Errorf("keep lease %s: %w", l.config.Name, err)
		}
		if ctx.Err() == nil {
			trouble.tell(l.config.Log, "lease cannot be renewed", l.config.Name, err)
		}
	}
}

// look takes the lease if it is free.
func (l *Lease) look(ctx context.Context, seen *sighting) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, min(l.config.TTL, callTimeout))
	defer cancel()
	r, err := l.opened(ctx)
	if err != nil {
		return false, err
	}
	e, err := r.get(ctx, l.key)
	if err != nil {
		l.forget()
		l.stand("", true) // no claim can be read
		return false, err
	}
	now := time.Now() // what was read is at least that old
	if !e.found {
		last, err := r.sequence(ctx)
		if err != nil {
			return false, err
		}
		return l.takeOver(ctx, r, e.revision, max(last, 1))
	}
	c, err := decodeClaim(e.value)
	if err != nil {
		// No epoch exceeds the revision that it was written as, so this one's is free.
		c = claim{Holder: "nobody", Epoch: e.revision - 1, TTL: l.config.TTL}
		err = fmt.Errorf("read %s: %w", l.key, err)
	}
	patience := max(c.TTL, l.config.TTL)
	still := seen.stoodStill(e.revision, now, patience+patience/slack)
	if still || c.Released || c.Holder == l.config.Holder {
		return l.takeOver(ctx, r, e.revision, c.Epoch+1)
	}
	l.stand(c.Holder, true)
	return false, err
}

// takeOver writes our claim over a revision that is free. That somebody was faster
// is no error.
func (l *Lease) takeOver(ctx context.Context, r register, revision, epoch uint64) (bool, error) {
	sent := time.Now()
	ours, err := l.write(ctx, r, claim{Epoch: epoch}, revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.epoch, l.taken, l.revision, l.sent = true, epoch, ours, ours, sent
	return true, nil
}

// renew writes our claim over our last one. The answer to an earlier renewal may
// have been lost: then the claim that is there is ours, too.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.config.TTL/3, callTimeout))
	defer cancel()
	held, epoch, revision := l.claimed()
	if !held {
		return pools.ErrNotHolder
	}
	r, err := l.opened(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		sent := time.Now()
		next, err := l.write(ctx, r, claim{Epoch: epoch}, revision)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.revision, l.sent = next, sent
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			l.forget()
			return err
		}
		if revision, err = confirm(ctx, r, l.key, l.config.Holder, epoch); err != nil {
			return err
		}
	}
	return errChanged
}

// confirm returns the revision of a lease if it is still held in that term, else
// pools.ErrNotHolder.
func confirm(ctx context.Context, r register, key, holder string, epoch uint64) (uint64, error) {
	e, err := r.get(ctx, key)
	if err != nil {
		return 0, err
	}
	if !e.found {
		return 0, fmt.Errorf("%w: somebody has deleted %s", pools.ErrNotHolder, key)
	}
	c, err := decodeClaim(e.value)
	if err != nil {
		return 0, fmt.Errorf("%w: somebody has written over %s: %w", pools.ErrNotHolder, key, err)
	}
	if !c.is(holder, epoch) {
		return 0, fmt.Errorf("%w: %s holds %s with epoch %d, ours is %d", pools.ErrNotHolder, c.Holder, key, c.Epoch, epoch)
	}
	return e.revision, nil
}

// release lets the next one take over at once. If that fails, it waits for the TTL.
func (l *Lease) release(ctx context.Context) {
	held, epoch, revision := l.claimed()
	l.drop()
	if !held {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	r, err := l.opened(ctx)
	if err == nil {
		err = l.giveBack(ctx, r, epoch, revision)
	}
	if err != nil {
		l.config.Log.Warn("lease is not released: the next holder waits until it ends", "lease", l.config.Name, "err", err)
	}
}

// giveBack writes that our claim is released.
func (l *Lease) giveBack(ctx context.Context, r register, epoch, revision uint64) error {
	_, err := l.write(ctx, r, claim{Epoch: epoch, Released: true}, revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		if revision, err = confirm(ctx, r, l.key, l.config.Holder, epoch); err == nil {
			_, err = l.write(ctx, r, claim{Epoch: epoch, Released: true}, revision)
		}
	}
	return err
}

// write completes the claim, and writes it.
func (l *Lease) write(ctx context.Context, r register, c claim, revision uint64) (uint64, error) {
	c.Holder, c.TTL, c.At = l.config.Holder, l.config.TTL, time.Now().UTC()
	data, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return r.update(ctx, l.key, data, revision)
}

// opened returns the bucket, which is opened by the first call that can.
func (l *Lease) opened(ctx context.Context) (register, error) {
	l.mu.Lock()
	r := l.register
	l.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.register = r
	return r, nil
}

// forget makes the next call open the bucket, and create it if it is gone: the store may
// have come back empty.
func (l *Lease) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.register = nil
}

// claimed returns our claim, and whether the lease is held.
func (l *Lease) claimed() (held bool, epoch, revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.epoch, l.revision
}

// takenAt returns the revision with which the lease was taken over.
func (l *Lease) takenAt() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

func (l *Lease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
}

func (l *Lease) stand(holder string, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standby, l.waiting = holder, waiting
}
