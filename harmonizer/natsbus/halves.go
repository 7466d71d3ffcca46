package natsbus

import (
	"maps"
	"sync"
	"time"
)

const (
	maxHalves = 1000        // that are remembered
	halfLife  = time.Minute // of each: then it is another nudge
)

// halves remembers which nudges were sent in the first form only, and when.
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
