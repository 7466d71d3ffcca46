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

// claim is what a lease's key says.
type claim struct {
	Holder   string        `json:"holder"`
	Epoch    uint64        `json:"epoch"`
	TTL      time.Duration `json:"ttl_ns"`
	At       time.Time     `json:"at"` // for people: by the holder's clock
	Released bool          `json:"released,omitempty"`
}

func decodeClaim(value []byte) (claim, error) {
	var c claim
	if err := json.Unmarshal(value, &c); err != nil {
		return claim{}, err
	}
	switch {
	case c.Holder == "" || len(c.Holder) > maxHolder:
		return claim{}, errors.New("it names no holder")
	case c.Epoch == 0 || c.Epoch >= maxEpoch:
		return claim{}, fmt.Errorf("epoch %d is none", c.Epoch)
	case c.TTL <= 0 || c.TTL > maxTTL:
		return claim{}, fmt.Errorf("ttl %v is none", c.TTL)
	}
	return c, nil
}

// is reports whether it is the same term of the same holder, and not ended.
func (c claim) is(holder string, epoch uint64) bool {
	return c.Holder == holder && c.Epoch == epoch && !c.Released
}

// sighting is a revision of a lease's key, and since when it is seen.
type sighting struct {
	revision uint64
	since    time.Time
}

// stoodStill reports whether the revision has been the same for that long.
func (s *sighting) stoodStill(revision uint64, now time.Time, patience time.Duration) bool {
	if s.revision != revision || s.since.IsZero() {
		s.revision, s.since = revision, now
	}
	return now.Sub(s.since) >= patience
}
