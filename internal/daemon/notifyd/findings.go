package notifyd

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// Pauses after a failure to read or to store findings.
const (
	firstAgain   = time.Second
	longestAgain = 30 * time.Second
)

// findings publishes the stored findings as events, in their order, until ctx ends. Then it returns nil.
func (f *feed) findings(ctx context.Context) error {
	// A live message is a hint: the findings are read from their stream.
	in, err := bus.Receive(f.bus.Conn(), bus.InboxConfig{Events: history.Subjects(f.cluster, "*")[1:], Messages: 1, Lost: func(*nats.Msg, error) {}})
	if err != nil {
		return err
	}
	var hints sync.WaitGroup
	defer hints.Wait()
	defer in.Close()
	news := make(chan struct{}, 1)
	hints.Go(func() {
		for range in.Messages() {
			select {
			case news <- struct{}{}:
			default: // one waits already
			}
		}
	})
	r := notify.NewReader(notify.ReaderConfig{
		JS: f.bus.JetStream(), Stream: names.FindingsStream(f.cluster), Positions: names.NotifyBucket(f.cluster), Key: findingsPosition,
		Start: f.notices.started, News: news,
	})
	pauses := retry.Policy{First: firstAgain, Longest: longestAgain}.Pauses()
	for {
		p, err := r.Next(ctx)
		for _, m := range p.Messages {
			if err = f.finding(ctx, m); err == nil {
				err = r.Done(ctx, m.Sequence)
			}
			if err != nil {
				break
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		f.report(sourceFindings, err)
		if err == nil {
			pauses.Reset()
			continue
		}
		if !retry.Pause(ctx, pauses.NextBackOff()) {
			return nil
		}
	}
}

// finding publishes the findings of a message.
func (f *feed) finding(ctx context.Context, m bus.Stored) error {
	if m.Forged {
		return nil
	}
	list, err := history.FindingEvents(f.cluster, m.At, m.Subject, m.Data)
	f.drop(m.Subject, err)
	return f.notices.publish(ctx, "", list)
}
