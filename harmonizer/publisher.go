package harmonizer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	countsPart    = message.MaxCountApps   // apps per message
	findingsBatch = 200                    // findings per message
	findingsPause = 100 * time.Millisecond // between two messages
)

// publisher publishes in its own goroutine. Only the newest counts of each pool wait. Findings
// wait in order; very many are summarised.
type publisher struct {
	bus      Bus
	counters *counters
	log      *slog.Logger
	logLimit *rate.Sometimes
	wake     alarm

	mu       sync.Mutex
	probe    bool
	counts   map[string]api.InstanceCounts // by pool
	findings digest
}

func newPublisher(bus Bus, c *counters, log *slog.Logger) *publisher {
	return &publisher{
		bus: bus, counters: c, log: log, logLimit: oncePerMinute(),
		wake: make(alarm, 1), counts: map[string]api.InstanceCounts{},
	}
}

func (h *publisher) queueCounts(c api.InstanceCounts) {
	h.mu.Lock()
	h.counts[c.Pool] = c
	h.mu.Unlock()
	h.wake.ring()
}

func (h *publisher) queueProbe() {
	h.mu.Lock()
	h.probe = true
	h.mu.Unlock()
	h.wake.ring()
}

func (h *publisher) reportFindings(findings []api.AppFinding) {
	h.mu.Lock()
	summarised := 0
	for i := range findings {
		if h.findings.addFinding(&findings[i]) {
			summarised++
		}
	}
	h.mu.Unlock()
	if summarised > 0 {
		h.counters.add("findings_summarised", summarised)
	}
}

// run publishes until ctx ends. It drops a message that cannot be sent: counts and probes are
// sent again later, and the log has the findings.
func (h *publisher) run(ctx context.Context) error {
	ticker := time.NewTicker(findingsPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			h.publishFindings()
		case <-h.wake:
			h.publish()
		}
	}
}

func (h *publisher) publish() {
	h.mu.Lock()
	probe, counts := h.probe, h.counts
	h.probe, h.counts = false, map[string]api.InstanceCounts{}
	h.mu.Unlock()
	if probe {
		h.countSent("probes", h.bus.Probe())
	}
	for _, pool := range slices.Sorted(maps.Keys(counts)) {
		for _, part := range message.SplitCounts(counts[pool], countsPart) {
			h.countSent("counts", h.bus.PublishCounts(part))
		}
	}
}

func (h *publisher) publishFindings() {
	h.mu.Lock()
	batch := h.findings.takeFindings(findingsBatch)
	h.mu.Unlock()
	if len(batch) > 0 {
		h.countSent("findings", h.bus.PublishFindings(batch))
	}
}

func (h *publisher) countSent(what string, err error) {
	if err == nil {
		h.counters.add(what+"_published", 1)
		return
	}
	h.counters.add(what+"_failed", 1)
	h.logLimit.Do(func() { h.log.Error("publish", "what", what, "err", err) })
}
