package cloudfoundry

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// Dialect is the form of nudges.
type Dialect string

const (
	// DialectHealth is api.Start on health.start, api.Stop on health.stop.
	DialectHealth Dialect = "health"
	// DialectCloudController sends START and STOP objects on
	// cloudcontrollers.hm.requests.PARTITION, like the classic health manager.
	DialectCloudController Dialect = "cloudcontroller"
	// DialectBoth sends each nudge in both forms, for a migration. Only one receiver may obey
	// a nudge, in only one form; otherwise the nudge is executed twice.
	DialectBoth Dialect = "both"
)

// Sender sends nudges as START and STOP objects. It may be used concurrently.
type Sender struct {
	subject string
	half    *halves // of DialectBoth; nil: only in that form
}

// NewSender returns the sender of a dialect; nil for DialectHealth.
func NewSender(f Features) *Sender {
	switch f.Dialect {
	case DialectCloudController:
		return &Sender{subject: RequestsSubject(f.Partition)}
	case DialectBoth:
		return &Sender{subject: RequestsSubject(f.Partition), half: &halves{sent: map[string]time.Time{}}}
	}
	return nil
}

// Send sends a nudge by send, with DialectBoth after health, which sends it in the product's form. If the second form
// cannot be sent and the nudge is sent again, Send does not repeat the first form.
func (s *Sender) Send(n apps.Nudge, health func() error, send func(subject string, data []byte) error) error {
	var request api.Nudge
	if n.Start != nil {
		request = n.Start.Request()
	} else {
		request = n.Stop.Request()
	}
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("publish %s: %w", s.subject, err)
	}
	if s.half == nil {
		return send(s.subject, data)
	}
	key := string(data)
	if !s.half.has(key) {
		if err := health(); err != nil {
			return err
		}
	}
	err = send(s.subject, data)
	s.half.set(key, err != nil)
	return err
}

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
