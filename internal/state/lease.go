package state

import (
	"cmp"
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
	// DefaultTTL is how long a lease lasts after its last renewal, on a single server.
	DefaultTTL = 15 * time.Second
	// clusterTTL is the same on a cluster. It outlasts a renewal that was due, the election of a leader, which takes 9 s
	// at most, and the next renewals.
	clusterTTL = 30 * time.Second

	minTTL          = 20 * time.Millisecond
	renewals        = 5  // within a TTL
	pollsPerTTL     = 15 // polls of a standby within a TTL
	maxPollInterval = time.Second
	releaseTimeout  = time.Second
	// retryPause is the wait after a failed renewal, if the next one is not due before.
	retryPause = 500 * time.Millisecond
	// clusterRenewal bounds one renewal on a cluster: a request to a server that has just failed has no answer.
	clusterRenewal = 3 * time.Second
	// slack is the part of the TTL that a standby waits longer than the TTL. It allows for two clocks of different
	// speed.
	slack = 100
)

// leaseKey is the key of the lease in the bucket of its holders.
const leaseKey = "lease"

// register is the part of a bucket that a lease needs.
type register interface {
	get(ctx context.Context, key string) (entry, error)
	update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	sequence(ctx context.Context) (uint64, error)
}

// Lease is the right to act while it is renewed: first call Acquire, then Run. It may be acquired again after Run has
// returned.
type Lease struct {
	config LeaseConfig
	open   func(context.Context) (register, error)

	mu       sync.Mutex
	register register // nil until it is opened
	held     bool
	epoch    uint64
	taken    uint64    // revision of the takeover
	revision uint64    // the newest known one of ours
	sent     time.Time // when the last acknowledged renewal started
	standby  string    // the current holder, while we wait
	waiting  bool
}

var _ pools.Lease = (*Lease)(nil)

// NewLease returns a lease that is not held. It sends no request.
func NewLease(js jetstream.JetStream, c LeaseConfig) (*Lease, error) {
	return newLease(c, func(ctx context.Context) (register, error) {
		return openBucket(ctx, js, c.Bucket)
	})
}

func newLease(c LeaseConfig, open func(context.Context) (register, error)) (*Lease, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Replicas = max(c.Replicas, 1)
	c.TTL = cmp.Or(c.TTL, defaultTTL(c.Replicas))
	return &Lease{config: c, open: open}, nil
}

// Left implements pools.Lease. It uses the wall clock or the monotonic clock, whichever ran further. The monotonic
// clock stops while the machine is suspended; the wall clock can be set.
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

// TTL returns how long the lease lasts after its last renewal.
func (l *Lease) TTL() time.Duration { return l.config.TTL }

// Epoch implements pools.Lease. It grows with every takeover of any process. It is 0 before our first Acquire.
func (l *Lease) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Standby returns the current holder while Acquire waits. holder is empty if it is unknown.
func (l *Lease) Standby() (holder string, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standby, l.waiting
}

// Acquire waits until the lease is held or ctx ends. It logs errors of the bus and retries, except ErrSchema. Each Acquire is a takeover with a new epoch. Call Run at once afterwards.
func (l *Lease) Acquire(ctx context.Context) error {
	l.setStandby("", true)
	defer l.setStandby("", false)
	look := time.NewTicker(min(l.config.TTL/pollsPerTTL, maxPollInterval))
	defer look.Stop()
	var seen revisionAge
	var problems problemLog
	for {
		ours, err := l.look(ctx, &seen)
		switch {
		case ours:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("acquire lease %s: %w", l.config.Bucket, context.Cause(ctx))
		case errors.Is(err, ErrSchema):
			return fmt.Errorf("acquire lease %s: %w", l.config.Bucket, err)
		}
		problems.report(l.config.Log, "lease cannot be read", l.config.Bucket, err)
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// Run renews the lease until ctx ends, then releases it and returns nil. If another process has the lease, Run
// returns pools.ErrNotHolder. While NATS is away, Left falls and Run continues. If no process took over until NATS is
// back, the lease is still ours. Stop everything that acts under the lease before ctx ends.
func (l *Lease) Run(ctx context.Context) error {
	every := l.config.TTL / renewals
	due := time.NewTimer(every)
	defer due.Stop()
	var problems problemLog
	for {
		select {
		case <-ctx.Done():
			l.release(ctx)
			return nil
		case <-due.C:
		}
		began := time.Now()
		err := l.renew(ctx)
		if errors.Is(err, pools.ErrNotHolder) {
			l.drop()
			return fmt.Errorf("renew lease %s: %w", l.config.Bucket, err)
		}
		wait := every - time.Since(began)
		if err != nil {
			wait = min(every, retryPause)
		}
		due.Reset(max(wait, 0))
		if ctx.Err() == nil {
			problems.report(l.config.Log, "lease cannot be renewed", l.config.Bucket, err)
		}
	}
}

// look reads the lease once and takes it if it is free.
func (l *Lease) look(ctx context.Context, seen *revisionAge) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, min(l.config.TTL, callTimeout))
	defer cancel()
	r, err := l.opened(ctx)
	if err != nil {
		return false, err
	}
	e, err := r.get(ctx, leaseKey)
	if err != nil {
		l.forget()
		l.setStandby("", true) // the holder is unknown
		return false, err
	}
	now := time.Now() // the value read is at least that old
	if !e.found {
		if seen.heldAt(now) {
			l.setStandby("", true) // the bucket or the key was lost, and its holder may not know yet
			return false, fmt.Errorf("read %s: the lease was held and is lost: waiting as long as its holder may act", leaseKey)
		}
		last, err := r.sequence(ctx)
		if err != nil {
			return false, err
		}
		return l.takeOver(ctx, r, e.revision, max(last, 1))
	}
	c, err := decodeClaim(e.value)
	if err != nil {
		// An epoch never exceeds the revision of its write, so this epoch is free.
		c = claim{Holder: "unknown", Epoch: e.revision - 1, TTL: l.config.TTL}
		err = fmt.Errorf("read %s: %w", leaseKey, err)
	}
	patience := max(c.TTL, l.config.TTL)
	still := seen.unchangedFor(e.revision, now, patience+patience/slack)
	if still || c.Released || c.Holder == l.config.Holder {
		return l.takeOver(ctx, r, e.revision, c.Epoch+1)
	}
	seen.until = now.Add(patience + patience/slack)
	l.setStandby(c.Holder, true)
	return false, err
}

// takeOver writes our claim over a free revision. It returns false without an error if another process was faster.
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

// renew writes our claim over our last one. If the answer to an earlier renewal was lost, the claim in the bucket is
// ours too.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.renewalTimeout())
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
		if revision, err = confirm(ctx, r, l.config.Holder, epoch); err != nil {
			return err
		}
	}
	return errChanged
}

// confirm returns the revision of a lease that is still held in that term, or pools.ErrNotHolder.
func confirm(ctx context.Context, r register, holder string, epoch uint64) (uint64, error) {
	const key = leaseKey
	e, err := r.get(ctx, key)
	if err != nil {
		return 0, err
	}
	if !e.found {
		return 0, fmt.Errorf("%w: %s was deleted", pools.ErrNotHolder, key)
	}
	c, err := decodeClaim(e.value)
	if err != nil {
		return 0, fmt.Errorf("%w: %s was overwritten: %w", pools.ErrNotHolder, key, err)
	}
	if !c.is(holder, epoch) {
		return 0, fmt.Errorf("%w: %s holds %s with epoch %d, ours is %d", pools.ErrNotHolder, c.Holder, key, c.Epoch, epoch)
	}
	return e.revision, nil
}

// release lets the next holder take over at once. If it fails, the next holder waits for the TTL.
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
		l.config.Log.Warn("lease release failed, the next holder waits for the TTL", "lease", l.config.Bucket, "err", err)
	}
}

// giveBack marks our claim as released.
func (l *Lease) giveBack(ctx context.Context, r register, epoch, revision uint64) error {
	_, err := l.write(ctx, r, claim{Epoch: epoch, Released: true}, revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		if revision, err = confirm(ctx, r, l.config.Holder, epoch); err == nil {
			_, err = l.write(ctx, r, claim{Epoch: epoch, Released: true}, revision)
		}
	}
	return err
}

// write completes the claim and writes it.
func (l *Lease) write(ctx context.Context, r register, c claim, revision uint64) (uint64, error) {
	c.Holder, c.TTL, c.At = l.config.Holder, l.config.TTL, time.Now().UTC()
	data, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	return r.update(ctx, leaseKey, data, revision)
}

// opened returns the bucket. The first successful call opens it.
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

// forget makes the next call open the bucket again. The store may be empty after a restart.
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

func (l *Lease) setStandby(holder string, waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standby, l.waiting = holder, waiting
}
