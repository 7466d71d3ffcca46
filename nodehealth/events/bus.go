package events

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

// errDisconnected is returned for messages that cannot be sent now.
var errDisconnected = errors.New("bus is disconnected")

// LifecycleSubject is the subject of hints about any machine of a pool, from operators.
func LifecycleSubject(cluster, pool string) string { return names.Subject(cluster, "lifecycle", pool) }

// nodeLifecycleSubject is the subject of hints that a node's agent publishes about its own machine.
func nodeLifecycleSubject(cluster, pool, node string) string {
	return names.Subject(cluster, "lifecycle", pool, node)
}

// EventsSubject is the subject of a pool's findings.
func EventsSubject(cluster, pool string) string { return poolSubject(cluster, pool, "events") }

// OrderSubject is the subject of operators' orders.
func OrderSubject(cluster, pool string) string { return poolSubject(cluster, pool, "order") }

// StatusSubject is the subject of status requests.
func StatusSubject(cluster, pool string) string { return poolSubject(cluster, pool, "status") }

// loopbackSubject is the subject of the loopback probe.
func loopbackSubject(cluster, pool string) string { return poolSubject(cluster, pool, "loopback") }

func poolSubject(cluster, pool, what string) string {
	return names.Subject(cluster, "health", pool, what)
}

// Config is the configuration of a Bus.
type Config struct {
	Cluster, Pool string
	// Heartbeat is the expected_interval of AGENT_HEARTBEAT; 0: 5 s.
	Heartbeat time.Duration
}

// Validate returns all mistakes in the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if !names.ValidToken(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %.80q is not a name", c.Cluster))
	}
	if !names.ValidToken(c.Pool) {
		errs = append(errs, fmt.Errorf("pool %.80q is not a name", c.Pool))
	}
	if c.Heartbeat < 0 {
		errs = append(errs, fmt.Errorf("heartbeat interval is negative: %v", c.Heartbeat))
	}
	return errors.Join(errs...)
}

// Bus connects node health with NATS. Create it with New.
type Bus struct {
	nc  *nats.Conn
	cfg Config
	log *slog.Logger

	mu       sync.Mutex
	counters map[string]uint64
	complain map[string]*rate.Sometimes // by counter
	loopback loopback
}

// loopback is the state of the loopback probe.
type loopback struct {
	token    string    // of the last probe; empty after it returned
	since    time.Time // time of the first probe since one returned
	reported bool      // the loss was reported
}

var _ nodehealth.Bus = (*Bus)(nil)

// New returns a bus on the connection, or an error if the configuration is invalid.
func New(nc *nats.Conn, cfg Config, log *slog.Logger) (*Bus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 5 * time.Second
	}
	return &Bus{nc: nc, cfg: cfg, log: log, counters: map[string]uint64{}, complain: map[string]*rate.Sometimes{}}, nil
}

// Counters returns the number of messages without effect, by reason. "bad_hint" and "bad_request"
// could not be decoded. "old_hint" arrived too late. "limited_hint" came within a second of another one of its node. "dropped_hint", "dropped_request" and
// "dropped_loopback" exceeded the queue or the rate. "refused_hint", "refused_request" and
// "refused_loopback" were made by the server for another client, are requests without a reply subject,
// or are about another node than that of their subject. "unanswered" are requests without a response.
func (b *Bus) Counters() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counters)
}

// warn counts a message without effect, and logs its problem at most once a minute for each name.
func (b *Bus) warn(name, problem string, err error) {
	b.mu.Lock()
	b.counters[name]++
	n := b.counters[name]
	s := b.complain[name]
	if s == nil {
		s = &rate.Sometimes{Interval: time.Minute}
		b.complain[name] = s
	}
	b.mu.Unlock()
	s.Do(func() {
		b.log.Warn("message of node health not handled", "problem", problem, "pool", b.cfg.Pool, "counter", name, "so_far", n, "err", err)
	})
}

// eventsBytes is the maximum size of one message of findings.
const eventsBytes = 256 << 10

// Publish implements nodehealth.Bus: it sends lists on EventsSubject. If the bus is disconnected,
// it returns errDisconnected.
func (b *Bus) Publish(published []api.HealthNotification) error {
	return bus.Lists(published, eventsBytes, func(list []byte) error { return b.send(EventsSubject(b.cfg.Cluster, b.cfg.Pool), list) })
}

// LoopbackProbe implements nodehealth.Bus: it sends a random token to this process.
func (b *Bus) LoopbackProbe() error {
	token := rand.Text()
	b.mu.Lock()
	b.loopback.token = token
	if b.loopback.since.IsZero() {
		b.loopback.since = time.Now()
	}
	b.mu.Unlock()
	return b.send(loopbackSubject(b.cfg.Cluster, b.cfg.Pool), []byte(token))
}

// probeReturned reports whether token is that of the last probe.
func (b *Bus) probeReturned(token string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token == "" || token != b.loopback.token {
		return false
	}
	b.loopback = loopback{}
	return true
}

// probeLost reports, once, that no probe returned for two intervals.
func (b *Bus) probeLost(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loopback.reported || b.loopback.since.IsZero() || now.Sub(b.loopback.since) <= 2*b.cfg.Heartbeat {
		return false
	}
	b.loopback.reported = true
	return true
}

// send publishes at once or returns an error.
func (b *Bus) send(subject string, data []byte) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("publish %s: %w", subject, errDisconnected)
	}
	if err := bus.Publish(b.nc, subject, data); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
