package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	maxHolder = 512              // bytes
	maxTTL    = 10 * time.Minute // of a lease
)

// LeaseConfig configures a lease.
type LeaseConfig struct {
	Bucket string // of the process that the lease admits, with the key "lease"
	// Holder names this process. Two processes may share a name if one starts only after the other is dead. Then the
	// second does not wait.
	Holder string
	TTL    time.Duration // 0: DefaultTTL on a single server, clusterTTL on a cluster
	// Replicas of the bucket; 0: 1. More than one stand for a cluster.
	Replicas int
	Log      *slog.Logger
}

// defaultTTL returns how long a lease lasts in a bucket with that many replicas.
func defaultTTL(replicas int) time.Duration {
	if replicas > 1 {
		return clusterTTL
	}
	return DefaultTTL
}

// renewalTimeout bounds one attempt to renew the lease.
func (c LeaseConfig) renewalTimeout() time.Duration {
	if c.Replicas > 1 {
		return min(c.TTL/3, clusterRenewal)
	}
	return min(c.TTL/3, callTimeout)
}

// Validate returns all problems.
func (c LeaseConfig) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("lease: "+format, args...)) }
	if c.Bucket == "" {
		bad("no bucket")
	}
	if c.Holder == "" || len(c.Holder) > maxHolder {
		bad("holder has %d bytes: want 1 to %d", len(c.Holder), maxHolder)
	}
	if c.TTL != 0 && (c.TTL < minTTL || c.TTL > maxTTL) {
		bad("ttl %v: want %v to %v", c.TTL, minTTL, maxTTL)
	}
	if c.Log == nil {
		bad("no logger")
	}
	return errors.Join(problems...)
}

// problemLog logs a repeated problem once.
type problemLog struct{ last string }

// report logs err unless the last call had the same one. After nil, it logs the end of the problem.
func (c *problemLog) report(log *slog.Logger, problem, lease string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.last:
	case err != nil:
		log.Warn("lease unavailable", "problem", problem, "lease", lease, "err", err)
	default:
		log.Info("lease recovered", "lease", lease)
	}
	c.last = text
}

// claim is the value of a lease's key.
type claim struct {
	Holder   string        `json:"holder"`
	Epoch    uint64        `json:"epoch"`
	TTL      time.Duration `json:"ttl_ns"`
	At       time.Time     `json:"at"` // for people; by the holder's clock
	Released bool          `json:"released,omitempty"`
}

func decodeClaim(value []byte) (claim, error) {
	var c claim
	if err := json.Unmarshal(value, &c); err != nil {
		return claim{}, err
	}
	switch {
	case c.Holder == "" || len(c.Holder) > maxHolder:
		return claim{}, errors.New("holder is missing or too long")
	case c.Epoch == 0 || c.Epoch >= maxEpoch:
		return claim{}, fmt.Errorf("epoch %d is out of range", c.Epoch)
	case c.TTL <= 0 || c.TTL > maxTTL:
		return claim{}, fmt.Errorf("ttl %v is out of range", c.TTL)
	}
	return c, nil
}

// is reports whether c is an unreleased claim of that holder and epoch.
func (c claim) is(holder string, epoch uint64) bool {
	return c.Holder == holder && c.Epoch == epoch && !c.Released
}

// revisionAge is a revision of a lease's key, and the time since which it is unchanged.
type revisionAge struct {
	revision uint64
	since    time.Time
	until    time.Time // until then the holder that was last seen may act, if the key is lost
}

// heldAt reports whether a holder that was seen may still act, although the key is lost.
func (s *revisionAge) heldAt(now time.Time) bool { return now.Before(s.until) }

// unchangedFor reports whether the revision is unchanged for at least patience.
func (s *revisionAge) unchangedFor(revision uint64, now time.Time, patience time.Duration) bool {
	if s.revision != revision || s.since.IsZero() {
		s.revision, s.since = revision, now
	}
	return now.Sub(s.since) >= patience
}
