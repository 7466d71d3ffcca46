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
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// errDisconnected is returned for messages that cannot be sent now.
var errDisconnected = errors.New("not connected to the bus")

// Config configures a Bus.
type Config struct {
	Cluster string
	// Shadow publishes only answers to requests, because another harmonizer acts.
	Shadow bool
	// KeepAlive is how long a nudge holds, which its headers report; 0: unknown.
	KeepAlive time.Duration
	// CloudFoundry adds messages of Cloud Foundry. The zero value adds none.
	CloudFoundry cloudfoundry.Features
}

// WithDefaults returns a copy in which each zero field has its default.
func (c Config) WithDefaults() Config {
	c.CloudFoundry = c.CloudFoundry.WithDefaults()
	if c.Shadow {
		c.CloudFoundry.Component = nil // it would be announced
	}
	return c
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	errs := []error{c.CloudFoundry.Validate()}
	if !names.Valid(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a valid name", c.Cluster))
	}
	return errors.Join(errs...)
}

// Bus is a harmonizer's bus on NATS. NewBus makes it.
type Bus struct {
	nc  *nats.Conn
	cfg Config
	log *slog.Logger
	id  string // identifies the nudges of this Bus

	tally   *tally
	classic *cloudfoundry.Sender // nil: nudges have the product's form

	mu         sync.Mutex
	probeToken string // token of the latest probe that has not returned
}

var _ harmonizer.Bus = (*Bus)(nil)

// NewBus returns a bus on the connection, or an error if the configuration is invalid. Zero
// values in cfg become defaults.
func NewBus(nc *nats.Conn, cfg Config, log *slog.Logger) (*Bus, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	return &Bus{nc: nc, cfg: cfg, log: log, id: rand.Text(), tally: newTally(log), classic: cloudfoundry.NewSender(cfg.CloudFoundry)}, nil
}

// Counters returns counters of failures and connects. "bad_SUBJECT_CAUSE" counts malformed
// messages; see message.Cause. Malformed heartbeats are counted elsewhere. "refused_SUBJECT" counts
// messages that the server was made to send, and requests without a reply subject. "skipped_SUBJECT"
// counts messages of another partition. "dropped" counts messages that came faster than they
// were processed. "limited" counts messages that a node lost because it sends too much. "unanswered" counts requests. "connected" counts how often subscriptions
// became active.
func (b *Bus) Counters() map[string]uint64 { return b.tally.snapshot() }
