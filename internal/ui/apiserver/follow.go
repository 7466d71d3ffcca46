package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// maxPools bounds the pools whose last tick is kept.
const maxPools = 1000

// Run publishes the events of all pools of the cluster until ctx ends.
func (l *Live) Run(ctx context.Context, b *bus.Bus, cluster string, log *slog.Logger) error {
	in, err := bus.Receive(b.Conn(), bus.InboxConfig{
		Events:   []string{state.SummarySubject(cluster, "*"), events.EventsSubject(cluster, "*"), message.EventsSubject(cluster)},
		Messages: 4096, Bytes: 32 << 20, Log: log,
	})
	if err != nil {
		return fmt.Errorf("follow the events of cluster %s: %w", cluster, err)
	}
	defer in.Close()
	f := &follower{live: l, bus: b, cluster: cluster, pools: map[string]*followed{}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-in.Messages():
			if !ok {
				return nil
			}
			if err := f.take(ctx, m); err != nil && ctx.Err() == nil {
				log.Warn("event omitted", "subject", m.Subject, "err", err)
			}
		}
	}
}

// follower turns messages into events.
type follower struct {
	live    *Live
	bus     *bus.Bus
	cluster string
	pools   map[string]*followed
}

// followed is the last tick of a pool.
type followed struct {
	stream *history.Stream
	ticks  history.Sequence
}

func (f *follower) take(ctx context.Context, m *nats.Msg) error {
	pool, isTick := strings.CutPrefix(m.Subject, state.SummarySubject(f.cluster, ""))
	if isTick {
		return f.tick(ctx, pool, m)
	}
	list, err := history.FindingEvents(f.cluster, time.Now(), m)
	if err != nil {
		return err
	}
	return f.publish(list)
}

// tick publishes the summary of a tick, and its events.
func (f *follower) tick(ctx context.Context, pool string, m *nats.Msg) error {
	one, err := f.of(ctx, pool)
	if err != nil {
		return err
	}
	s, err := one.stream.Tick(ctx, m)
	if err != nil || s.DryRun {
		return err
	}
	s.Pool = pool // what the message states about itself does not count
	changes := one.ticks.Next(s)
	if err := f.live.Publish("tick", pool, tickOf(s, s.Acted() || len(changes) > 0)); err != nil {
		return err
	}
	return f.publish(one.stream.Add(s))
}

func (f *follower) publish(list []api.Event) error {
	for _, e := range list {
		if err := f.live.Publish(string(e.Kind), e.Pool, e); err != nil {
			return err
		}
	}
	return nil
}

// of returns the last tick of a pool.
func (f *follower) of(ctx context.Context, pool string) (*followed, error) {
	if one := f.pools[pool]; one != nil {
		return one, nil
	}
	if !names.Valid(pool) {
		return nil, fmt.Errorf("pool %.64q: %s", pool, names.Rule)
	}
	if len(f.pools) >= maxPools {
		clear(f.pools)
	}
	stream, err := (history.Pool{JS: f.bus.JetStream(), Cluster: f.cluster, Pool: pool}).Events(ctx)
	if err != nil {
		return nil, err
	}
	one := &followed{stream: stream}
	f.pools[pool] = one
	return one, nil
}
