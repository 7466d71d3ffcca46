package notifyd

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// findingsConsumer is the durable consumer of the stream of findings: it has the position.
const findingsConsumer = "notify"

// findings publishes the stored findings as events, in their order, until ctx ends. Then it returns nil.
func (f *feed) findings(ctx context.Context) error {
	notify.Follow(ctx, f.openFindings, func(err error) { f.report(sourceFindings, err) }, f.finding)
	return nil
}

func (f *feed) openFindings(ctx context.Context) (jetstream.Consumer, error) {
	from, err := f.notices.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := state.EnsureStream(ctx, f.bus.JetStream(), state.FindingsStream(f.cluster, f.notices.replicas))
	if err != nil {
		return nil, fmt.Errorf("open the stream of findings: %w", err)
	}
	return durable(ctx, s, findingsConsumer, from)
}

// finding publishes the findings of a message. After a failure the server delivers the message again.
func (f *feed) finding(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		f.drop(m.Subject(), err)
		return
	}
	list, err := history.FindingEvents(f.cluster, meta.Timestamp, m.Subject(), m.Data())
	f.drop(m.Subject(), err)
	err = f.notices.publish(ctx, "", list)
	f.report(sourceFindings, err)
	if err == nil {
		err = m.Ack()
	} else {
		err = m.NakWithDelay(time.Second)
	}
	if err != nil {
		f.log.Warn("acknowledgement of findings not sent, they follow again", "err", err)
	}
}
