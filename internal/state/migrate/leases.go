package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	leasePrefix = "lease."
	// ownLease admits one migration at a time.
	ownLease = leasePrefix + "migrate"
	renewals = 5   // within a TTL
	slack    = 100 // a waiting process waits a 100th of the TTL longer: clocks differ in speed
	maxTTL   = 10 * time.Minute
	maxEpoch = 1 << 62
	look     = 50 * time.Millisecond // between two readings of a lease
)

// claim is the value of a lease's key, as the old layout has it.
type claim struct {
	Holder   string        `json:"holder"`
	Epoch    uint64        `json:"epoch"`
	TTL      time.Duration `json:"ttl_ns"`
	At       time.Time     `json:"at"`
	Released bool          `json:"released,omitempty"`
}

// readClaim returns the claim of a lease's value. An unreadable claim counts as unreleased: its epoch is below its
// revision, as every epoch is. It lasts for ttl.
func readClaim(value []byte, revision uint64, ttl time.Duration) claim {
	var c claim
	if err := json.Unmarshal(value, &c); err != nil || c.Holder == "" || c.Epoch == 0 || c.Epoch >= maxEpoch || c.TTL <= 0 || c.TTL > maxTTL {
		return claim{Holder: "unknown", Epoch: max(revision, 1), TTL: ttl}
	}
	return c
}

// lease is the newest entry of a lease's key. Its revision is 0 if the key was never written.
type lease struct {
	key      string
	revision uint64
	claim    claim
	found    bool
}

// freeLeases returns all leases of the old bucket. It waits until each unreleased one has lasted for its TTL without a
// renewal. If a holder renews one, the error names all such leases.
func (m *migration) freeLeases(ctx context.Context, stream jetstream.Stream) ([]lease, error) {
	all, err := m.leases(ctx, stream)
	if err != nil {
		return nil, err
	}
	var heldBy []string
	began, printed := time.Now(), false
	for i, l := range all {
		for l.found && !l.claim.Released && !m.Exclusive {
			now, err := m.lease(ctx, stream, l.key)
			if err != nil {
				return nil, err
			}
			if now.revision != l.revision {
				all[i] = now
				if now.found && !now.claim.Released {
					heldBy = append(heldBy, fmt.Sprintf("%s by %s", strings.TrimPrefix(l.key, leasePrefix), now.claim.Holder))
				}
				break
			}
			patience := max(l.claim.TTL, m.TTL)
			patience += patience / slack
			if time.Since(began) >= patience {
				break
			}
			if !printed {
				m.progress("lease %s of %s is not released: wait up to %v for a renewal", l.key, l.claim.Holder, patience.Round(time.Second))
				printed = true
			}
			if err := wait(ctx, look); err != nil {
				return nil, err
			}
		}
	}
	if len(heldBy) > 0 {
		return nil, fmt.Errorf("daemons of the old version hold leases (%s): stop them, for example with \"systemctl stop\", "+
			"and run the command again", strings.Join(heldBy, ", "))
	}
	return all, nil
}

// leases reads all leases, and the one of migrations.
func (m *migration) leases(ctx context.Context, stream jetstream.Stream) ([]lease, error) {
	keys := []string{ownLease}
	prefix := "$KV." + OldBucket(m.Cluster) + "."
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(prefix+leasePrefix+">"))
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	for subject := range info.State.Subjects {
		keys = append(keys, strings.TrimPrefix(subject, prefix))
	}
	slices.Sort(keys)
	var all []lease
	for _, key := range slices.Compact(keys) {
		l, err := m.lease(ctx, stream, key)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func (m *migration) lease(ctx context.Context, stream jetstream.Stream, key string) (lease, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	message, err := stream.GetLastMsgForSubject(ctx, "$KV."+OldBucket(m.Cluster)+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return lease{key: key}, nil
	}
	if err != nil {
		return lease{}, fmt.Errorf("read %s: %w", key, err)
	}
	if message.Header.Get("KV-Operation") != "" {
		return lease{key: key, revision: message.Sequence}, nil
	}
	return lease{key: key, revision: message.Sequence, claim: readClaim(message.Data, message.Sequence, m.TTL), found: true}, nil
}

// held are the leases of this process.
type held struct {
	kv     jetstream.KeyValue
	holder string
	ttl    time.Duration

	mu   sync.Mutex
	all  []lease
	sent time.Time // before the oldest acknowledged renewal of any lease
}

// take writes a claim of this process over each lease. A returned held is never nil.
func (m *migration) take(ctx context.Context, free []lease) (*held, error) {
	h := &held{holder: m.Holder, ttl: m.TTL, sent: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, min(m.TTL, m.Timeout))
	defer cancel()
	var err error
	if h.kv, err = m.JS.KeyValue(ctx, OldBucket(m.Cluster)); err != nil {
		return h, fmt.Errorf("open bucket %s: %w", OldBucket(m.Cluster), err)
	}
	status, err := h.kv.Status(ctx)
	if err != nil {
		return h, fmt.Errorf("open bucket %s: %w", OldBucket(m.Cluster), err)
	}
	for _, l := range free {
		l.claim.Epoch++
		if !l.found { // no epoch exceeds the last sequence number
			l.claim.Epoch = max(status.(*jetstream.KeyValueBucketStatus).StreamInfo().State.LastSeq, 1)
		}
		if l, err = h.write(ctx, l, false); err != nil {
			return h, fmt.Errorf("take %s: %w: another process has it; stop all daemons and run the command again", l.key, err)
		}
		h.all = append(h.all, l)
	}
	return h, nil
}

func (h *held) write(ctx context.Context, l lease, released bool) (lease, error) {
	l.claim = claim{Holder: h.holder, Epoch: l.claim.Epoch, TTL: h.ttl, At: time.Now().UTC(), Released: released}
	data, err := json.Marshal(l.claim)
	if err != nil {
		return l, err
	}
	revision, err := h.kv.Update(ctx, l.key, data, l.revision)
	if err == nil {
		l.revision = revision
	}
	return l, err
}

// errLost: another process has taken a lease, or none of the renewals in a TTL was acknowledged.
var errLost = errors.New("a lease of the old bucket is lost: stop all daemons and run the command again")

// renew renews all leases until ctx ends, and returns nil then. Otherwise it returns an error: a lease is lost.
func (h *held) renew(ctx context.Context) error {
	tick := time.NewTicker(h.ttl / renewals)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := h.renewAll(ctx); err != nil && ctx.Err() == nil && (h.left() <= 0 || errors.Is(err, jetstream.ErrKeyRevisionMismatch)) {
			return fmt.Errorf("%w: %w", errLost, err)
		}
	}
}

func (h *held) renewAll(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.ttl/2)
	defer cancel()
	sent := time.Now()
	for i, l := range h.all {
		next, err := h.write(ctx, l, false)
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			next, err = h.confirm(ctx, l)
		}
		if err != nil {
			return fmt.Errorf("renew %s: %w", l.key, err)
		}
		h.all[i] = next
	}
	h.sent = sent
	return nil
}

// confirm writes again if the newest claim is ours: the answer to an earlier renewal was lost.
func (h *held) confirm(ctx context.Context, l lease) (lease, error) {
	e, err := h.kv.Get(ctx, l.key)
	if err != nil {
		return l, err
	}
	var c claim
	if err := json.Unmarshal(e.Value(), &c); err != nil || c.Holder != h.holder || c.Epoch != l.claim.Epoch || c.Released {
		return l, jetstream.ErrKeyRevisionMismatch
	}
	l.revision = e.Revision()
	return h.write(ctx, l, false)
}

// left returns how long no other process can take a lease.
func (h *held) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return h.ttl - max(now.Sub(h.sent), now.Round(0).Sub(h.sent.Round(0)))
}

// bounded returns a context that ends with the leases, and after Timeout at the latest.
func (m *migration) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := m.Timeout
	if m.held != nil {
		limit = min(limit, m.held.left())
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit.Round(time.Millisecond)))
}

// release lets daemons of the old version take the leases at once.
func (h *held) release(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for _, l := range h.all {
		_, _ = h.write(ctx, l, true) // a lease that is not released ends with its TTL
	}
}

// awaitForeign waits until leases that other processes took before the old bucket was sealed have ended.
func (m *migration) awaitForeign(ctx context.Context, stream jetstream.Stream) error {
	if stream == nil || m.Exclusive {
		return nil
	}
	all, err := m.leases(ctx, stream)
	if err != nil {
		return err
	}
	for _, l := range all {
		if !l.found || l.claim.Released || l.claim.Holder == m.Holder {
			continue
		}
		m.progress("lease %s of %s ends within %v", l.key, l.claim.Holder, l.claim.TTL)
		if err := wait(ctx, l.claim.TTL+l.claim.TTL/slack); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
