package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	backlog      = 8192                   // messages that wait to be decoded; more are dropped, and counted
	lookPeriod   = 500 * time.Millisecond // between looks at the connection
	flushTimeout = 5 * time.Second
)

// ErrDisconnected is returned for what cannot be sent now.
var ErrDisconnected = errors.New("bus is disconnected")

// Config is how the bus is spoken to.
type Config struct {
	Cluster   string
	Dialect   Dialect // of nudges; zero is DialectHealth
	Partition string  // of DialectCloudController; zero is message.Partition
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if !message.ValidName(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a name", c.Cluster))
	}
	if c.Dialect != "" && c.Dialect != DialectHealth && c.Dialect != DialectCloudController {
		errs = append(errs, fmt.Errorf("dialect %q is neither %s nor %s", c.Dialect, DialectHealth, DialectCloudController))
	}
	if c.Partition != "" && !message.ValidName(c.Partition) {
		errs = append(errs, fmt.Errorf("partition %q is not a name", c.Partition))
	}
	return errors.Join(errs...)
}

// Bus is a harmonizer's bus on NATS. Make it with NewBus.
type Bus struct {
	nc  *nats.Conn
	cfg Config
	log *slog.Logger

	mu       sync.Mutex
	counters map[string]uint64
	complain map[string]*rate.Sometimes // by subject
}

// NewBus returns a bus on the connection, or says what is wrong with the
// configuration.
func NewBus(nc *nats.Conn, cfg Config, log *slog.Logger) (*Bus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	if cfg.Partition == "" {
		cfg.Partition = message.Partition
	}
	return &Bus{nc: nc, cfg: cfg, log: log, counters: map[string]uint64{}, complain: map[string]*rate.Sometimes{}}, nil
}

// Counters returns how many messages were not usable: "bad_SUBJECT" for those
// that could not be decoded, "dropped" for those that came faster than they were
// decoded; "connected" is how often hearing began anew.
func (b *Bus) Counters() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counters)
}

// Listen tells h what nodes say and answers requests, until ctx ends or the
// connection is closed for good.
func (b *Bus) Listen(ctx context.Context, h *harmonizer.Harmonizer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard, err := b.subscribe(message.SubjectHeartbeat, message.SubjectExited, message.SubjectUpdated)
	defer heard.unsubscribe()
	if err != nil {
		return err
	}
	asked, err := b.subscribe(message.CountsRequestSubject(b.cfg.Cluster, "*"), message.StatusSubject(b.cfg.Cluster))
	defer asked.unsubscribe()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { b.answerAll(ctx, asked.messages, h) })
	return b.hear(ctx, heard, h.Tell)
}

// hear is the only reader of what nodes say, so that the order is theirs.
func (b *Bus) hear(ctx context.Context, heard inbox, tell harmonizer.Tell) error {
	status := b.nc.StatusChanged()
	defer b.nc.RemoveStatusListener(status)
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	var e ear
	for {
		if err := b.look(ctx, heard, &e, tell); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-status:
		case <-look.C:
		case m := <-heard.messages:
			if ev := b.decode(m); ev != nil {
				if err := tell(ctx, ev); err != nil {
					return nil
				}
			}
		}
	}
}

// ear is what was last known of the connection.
type ear struct {
	up         bool
	reconnects uint64
	dropped    int
}

// look compares the connection with what was known of it. After a reconnect,
// or after messages were dropped, hearing begins anew, and nodes are asked to
// speak at once.
func (b *Bus) look(ctx context.Context, heard inbox, e *ear, tell harmonizer.Tell) error {
	if b.nc.IsClosed() {
		return fmt.Errorf("hear nodes: %w", nats.ErrConnectionClosed)
	}
	now := ear{up: b.nc.IsConnected(), reconnects: b.nc.Stats().Reconnects, dropped: heard.dropped()}
	was := *e
	if now == was {
		return nil
	}
	*e = now
	if now.dropped > was.dropped {
		b.count("dropped", uint64(now.dropped-was.dropped))
	}
	if !now.up {
		if was.up {
			_ = tell(ctx, apps.BusDown{})
		}
		return nil
	}
	if err := b.announce(ctx); err != nil {
		e.up = false // not hearing yet; the next look tries again
		if was.up {
			_ = tell(ctx, apps.BusDown{})
		}
		return nil
	}
	b.count("connected", 1)
	b.log.Info("hearing nodes", "reconnects", now.reconnects, "dropped", now.dropped)
	_ = tell(ctx, apps.BusUp{})
	return nil
}

// announce makes sure that the server has our subscriptions, and asks nodes for
// a heartbeat.
func (b *Bus) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	if err := b.nc.Publish(message.SubjectAnnounce, nil); err != nil {
		return fmt.Errorf("publish %s: %w", message.SubjectAnnounce, err)
	}
	return nil
}

// decode returns the event that a message is, nil if it is none.
func (b *Bus) decode(m *nats.Msg) apps.Event {
	var ev apps.Event
	var err error
	switch m.Subject {
	case message.SubjectHeartbeat:
		var hb message.Heartbeat
		hb, err = message.DecodeHeartbeat(m.Data)
		ev = apps.Heartbeat{Heartbeat: hb}
	case message.SubjectExited:
		var e message.Exited
		e, err = message.DecodeExited(m.Data)
		ev = apps.Exit{Exited: e}
	case message.SubjectUpdated: // the source tells what changed; only a bad one is of interest
		_, err = message.DecodeUpdated(m.Data)
	}
	if err != nil {
		b.bad(m.Subject, err)
		return nil
	}
	return ev
}

// bad counts a message that cannot be used, and says so at most once a minute.
func (b *Bus) bad(subject string, err error) {
	n := b.count("bad_"+subject, 1)
	b.mu.Lock()
	s := b.complain[subject]
	if s == nil {
		s = &rate.Sometimes{Interval: time.Minute}
		b.complain[subject] = s
	}
	b.mu.Unlock()
	s.Do(func() { b.log.Warn("message dropped", "subject", subject, "so_far", n, "err", err) })
}

func (b *Bus) count(name string, n uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counters[name] += n
	return b.counters[name]
}

// inbox is one channel for several subscriptions, in the order of arrival.
type inbox struct {
	messages chan *nats.Msg
	subs     []*nats.Subscription
}

func (b *Bus) subscribe(subjects ...string) (inbox, error) {
	in := inbox{messages: make(chan *nats.Msg, backlog)}
	for _, subject := range subjects {
		sub, err := b.nc.ChanSubscribe(subject, in.messages)
		if err != nil {
			return in, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		in.subs = append(in.subs, sub)
	}
	return in, nil
}

func (in inbox) dropped() int {
	var sum int
	for _, s := range in.subs {
		if n, err := s.Dropped(); err == nil {
			sum += n
		}
	}
	return sum
}

func (in inbox) unsubscribe() {
	for _, s := range in.subs {
		_ = s.Unsubscribe() // fails only on a connection that is gone
	}
}
