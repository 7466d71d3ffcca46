package natsbus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/names"
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
	if !names.Valid(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a name", c.Cluster))
	}
	if !c.Dialect.valid() {
		errs = append(errs, fmt.Errorf("dialect %q is none of %s, %s, %s", c.Dialect, DialectHealth, DialectCloudController, DialectBoth))
	}
	if !names.Valid(c.Partition) {
		errs = append(errs, fmt.Errorf("partition %q is not a name", c.Partition))
	}
	if c.RequestTimeout < 0 {
		errs = append(errs, fmt.Errorf("request timeout is negative: %v", c.RequestTimeout))
	}
	return errors.Join(errs...)
}

// Bus is a harmonizer's bus on NATS. Make it with NewBus.
type Bus struct {
	nc  *nats.Conn
	cfg Config
	log *slog.Logger
	id  string // of this Bus among all that speak

	tally *tally
	half  halves // of DialectBoth

	mu     sync.Mutex
	canary string // the last one that has not come back
}

var _ harmonizer.Bus = (*Bus)(nil)

// NewBus returns a bus on the connection, or says what is wrong with the
// configuration, whose zeros are defaults.
func NewBus(nc *nats.Conn, cfg Config, log *slog.Logger) (*Bus, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	return &Bus{nc: nc, cfg: cfg, log: log, id: rand.Text(), tally: newTally(log), half: halves{sent: map[string]time.Time{}}}, nil
}

// Counters returns what became of messages that told nothing:
// "bad_SUBJECT_CAUSE" could not be decoded, see message.Cause (heartbeats are read
// and counted elsewhere); "skipped_SUBJECT" were of another partition;
// "dropped" came faster than they were taken; "unanswered" are requests.
// "connected" is how often hearing began anew.
func (b *Bus) Counters() map[string]uint64 { return b.tally.snapshot() }
