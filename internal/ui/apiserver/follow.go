package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// Run publishes the events of all pools of the cluster until ctx ends.
func (l *Live) Run(ctx context.Context, b *bus.Bus, cluster string, log *slog.Logger) error {
	in, err := bus.Receive(b.Conn(), bus.InboxConfig{Events: history.Subjects(cluster, "*"), Messages: 4096, Bytes: 32 << 20, Log: log})
	if err != nil {
		return fmt.Errorf("follow the events of cluster %s: %w", cluster, err)
	}
	defer in.Close()
	feed := history.NewFeed(cluster)
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-in.Messages():
			if !ok {
				return nil
			}
			got, err := feed.Read(time.Now(), m)
			if err == nil {
				err = l.publishAll(got)
			}
			if err != nil {
				log.Warn("event omitted", "subject", m.Subject, "err", err)
			}
		}
	}
}

// publishAll publishes the summary of a tick, and the events.
func (l *Live) publishAll(got history.Live) error {
	if t := got.Tick; t != nil {
		if err := l.Publish("tick", t.Pool, tickOf(t.Summary, t.Changed())); err != nil {
			return err
		}
	}
	for _, e := range got.Events {
		if err := l.Publish(string(e.Kind), e.Pool, e); err != nil {
			return err
		}
	}
	return nil
}
