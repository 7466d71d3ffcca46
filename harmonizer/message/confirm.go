package message

import (
	"encoding/json"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	// HeaderNudge is the id of a nudge, one token. A scheduler confirms the nudge by it. A nudge without the header
	// needs no confirmation.
	HeaderNudge = "Weir-Nudge"
	// HeaderKeepAlive is how long a nudge holds, in seconds. The sender repeats the request afterwards. If no scheduler
	// has confirmed it by then, operators see a problem.
	HeaderKeepAlive = "Weir-Keep-Alive"
	// MaxConfirmed bounds the nudges in a Confirmation.
	MaxConfirmed = 1000

	maxConfirmation = 128 << 10 // bytes
)

// Confirmation reports that the scheduler of a pool has nudges: it carries them out, or has refused them for good.
type Confirmation struct {
	Pool   string   `json:"pool"`
	Epoch  uint64   `json:"epoch,omitempty"` // of the scheduler's lease
	Nudges []string `json:"nudges"`          // ids, at most MaxConfirmed
}

// ConfirmedSubject returns the subject of the confirmations of a pool's scheduler.
func ConfirmedSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "confirmed")
}

// DecodeConfirmation decodes a Confirmation. Unknown fields are ignored.
func DecodeConfirmation(data []byte) (Confirmation, error) {
	if len(data) > maxConfirmation {
		return Confirmation{}, fmt.Errorf("decode confirmation: %d bytes, at most %d are allowed", len(data), maxConfirmation)
	}
	var c Confirmation
	if err := json.Unmarshal(data, &c); err != nil {
		return Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
	}
	if err := names.CheckToken("pool", c.Pool); err != nil {
		return Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
	}
	if len(c.Nudges) > MaxConfirmed {
		return Confirmation{}, fmt.Errorf("decode confirmation: %d nudges, at most %d are allowed", len(c.Nudges), MaxConfirmed)
	}
	for _, id := range c.Nudges {
		if err := names.CheckToken("nudge", id); err != nil {
			return Confirmation{}, fmt.Errorf("decode confirmation: %w", err)
		}
	}
	return c, nil
}
