package natsbus

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

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// ErrDisconnected is returned for what cannot be sent now.
var ErrDisconnected = errors.New("bus is disconnected")

// Config is how the bus is spoken to.
type Config struct {
	Cluster string
	Dialect Dialect // of nudges; zero is DialectHealth
	// Partition is the cc_partition in the names of subjects; zero is
	// message.Partition.
	Partition string
	// FilterPartition skips exits and updates of another cc_partition, and those
	// that name none. Heartbeats go on whole: the one who reads them filters.
	FilterPartition bool
	// Shadow publishes nothing that is not an answer: another harmonizer acts.
	Shadow bool
	// Component is how collectors are told where our metrics are; with an empty
	// Host nobody is.
	Component Component
	// RequestTimeout of Credentials (nats_request_timeout); zero is 5 s.
	RequestTimeout time.Duration
}

// WithDefaults returns a copy in which zeros are replaced by defaults.
func (c Config) WithDefaults() Config {
	if c.Dialect == "" {
		c.Dialect = DialectHealth
	}
	if c.Partition == "" {
		c.Partition = message.Partition
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 5 * time.Second
	}
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if !message.ValidName(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a name", c.Cluster))
	}
	if !c.Dialect.valid() {
		errs = append(errs, fmt.Errorf("dialect %q is none of %s, %s, %s", c.Dialect, DialectHealth, DialectCloudController, DialectBoth))
	}
	if !message.ValidName(c.Partition) {
		errs = append(errs, fmt.Errorf("partition %q is not a name", c.Partition))
	}
	if c.RequestTimeout < 0 {
		errs = append(errs, fmt.Errorf("request timeout is negative: %v", c.RequestTimeout))
	}
	return errors.Join(errs...)
}

// Bus is a harmonizer's bus on NATS. Make it with NewBus.
type Bus struct {
	nc    *nats.Conn
	cfg   Config
	log   *slog.Logger
	id    string // of this Bus among all that speak
	began time.Time

	mu       sync.Mutex
	counters map[string]uint64
	complain map[string]*rate.Sometimes // by counter
	canary   string                     // the last one that has not come back
	half     map[string]time.Time       // of DialectBoth, what went out in the first form only, and when
}

var _ harmonizer.Bus = (*Bus)(nil)

// NewBus returns a bus on the connection, or says what is wrong with the
// configuration, whose zeros are defaults.
func NewBus(nc *nats.Conn, cfg Config, log *slog.Logger) (*Bus, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	return &Bus{nc: nc, cfg: cfg, log: log, id: rand.Text(), began: time.Now(),
		counters: map[string]uint64{}, complain: map[string]*rate.Sometimes{}, half: map[string]time.Time{}}, nil
}

// Counters returns what became of messages that told nothing:
// "bad_SUBJECT_CAUSE" could not be decoded, see message.Cause (heartbeats are read
// and counted elsewhere); "skipped_SUBJECT" were of another partition;
// "dropped" came faster than they were taken; "unanswered" are requests.
// "connected" is how often hearing began anew.
func (b *Bus) Counters() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counters)
}

func (b *Bus) count(name string, n uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counters[name] += n
	return b.counters[name]
}

// bad counts a message that cannot be used.
func (b *Bus) bad(subject string, err error) {
	b.warn("bad_"+subject+"_"+message.Cause(err), "message dropped", err)
}

// warn counts what went wrong, and says so at most once a minute for each name.
func (b *Bus) warn(name, what string, err error) {
	n := b.count(name, 1)
	b.mu.Lock()
	s := b.complain[name]
	if s == nil {
		s = &rate.Sometimes{Interval: time.Minute}
		b.complain[name] = s
	}
	b.mu.Unlock()
	s.Do(func() { b.log.Warn(what, "counter", name, "so_far", n, "err", err) })
}
