package webd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

const (
	checkEvery = 2 * time.Second // between two checks of the connection
	maxPending = 4096            // messages that wait
	maxBytes   = 64 << 20        // of them
)

// source reads the pools of one cluster over the bus. It implements web.Source.
type source struct {
	bus     *bus.Bus
	cluster string
	configs string // folder of the pools' files
	log     *slog.Logger
}

func (s source) past(pool string) history.Pool {
	return history.Pool{JS: s.bus.JetStream(), Cluster: s.cluster, Pool: pool}
}

// Pools implements web.Source.
func (s source) Pools(ctx context.Context) ([]web.Pool, error) {
	fleet := view.Fleet{Bus: s.bus, Cluster: s.cluster, Configs: s.configs, Warn: func(format string, args ...any) {
		s.log.Warn("list of pools incomplete", "err", fmt.Sprintf(format, args...))
	}}
	names, facts, err := fleet.Facts(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	pools := make([]web.Pool, len(names))
	for i, name := range names {
		pools[i] = web.Pool{Name: web.Name{Cluster: s.cluster, Pool: name}, Facts: facts[i]}
	}
	return pools, nil
}

// Since implements web.Source.
func (s source) Since(ctx context.Context, pool web.Name, from time.Time, visit func(api.Summary) error) error {
	skipped, err := s.past(pool.Pool).Summaries(ctx, from, time.Time{}, visit)
	if skipped > 0 {
		s.log.Warn("summaries of another version omitted", "pool", pool.Pool, "ticks", skipped)
	}
	return err
}

// Follow implements web.Source. It ends when the connection is lost, because the summaries of that time would be missing.
func (s source) Follow(ctx context.Context, visit func(web.Name, api.Summary)) error {
	conn := s.bus.Conn()
	connects := conn.Stats().Reconnects
	if !conn.IsConnected() {
		return errors.New("not connected to NATS")
	}
	in, err := bus.Receive(conn, bus.InboxConfig{Events: history.Subjects(s.cluster, "*")[:1], Messages: maxPending, Bytes: maxBytes, Log: s.log})
	if err != nil {
		return err
	}
	defer in.Close()
	feed := history.NewFeed(s.cluster)
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if !conn.IsConnected() || conn.Stats().Reconnects != connects {
				return errors.New("the connection to NATS was lost")
			}
		case m, ok := <-in.Messages():
			if !ok {
				return errors.New("the subscription ended")
			}
			got, err := feed.Read(time.Now(), m)
			if err != nil {
				s.log.Warn("tick omitted", "subject", m.Subject, "err", err)
			} else if got.Tick != nil {
				visit(web.Name{Cluster: s.cluster, Pool: got.Tick.Pool}, got.Tick.Summary)
			}
		}
	}
}

// Tick implements web.Source.
func (s source) Tick(ctx context.Context, pool web.Name, at time.Time) (history.Tick, error) {
	return s.past(pool.Pool).TickAt(ctx, at)
}
