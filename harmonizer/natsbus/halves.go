package natsbus

import (
	"maps"
	"sync"
	"time"
)

const (
	maxHalves = 1000        // entries
	halfLife  = time.Minute // of each entry; a later nudge counts as new
)

// halves remembers which nudges were sent only in the first form, and when.
type halves struct {
	mu   sync.Mutex
	sent map[string]time.Time
}

func (h *halves) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.sent[key]
	return ok && time.Since(at) < halfLife
}

func (h *halves) set(key string, half bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !half {
		delete(h.sent, key)
		return
	}
	maps.DeleteFunc(h.sent, func(_ string, at time.Time) bool { return time.Since(at) >= halfLife })
	if _, was := h.sent[key]; !was && len(h.sent) < maxHalves {
		h.sent[key] = time.Now()
	}
}
