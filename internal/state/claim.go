package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	maxHolder = 512              // bytes
	maxTTL    = 10 * time.Minute // of a lease
)

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
