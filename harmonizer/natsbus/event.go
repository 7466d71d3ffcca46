package natsbus

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// event returns the event of a message, nil if the message is ignored.
func (b *Bus) event(m *nats.Msg) apps.Event {
	var ev apps.Event
	var err error
	node, subject := message.OfNode(m.Subject)
	if node.Name != "" && node.Validate() != nil {
		b.tally.countMalformed(subject, &message.FieldError{Field: "node", Problem: "of the subject is not a valid name"})
		return nil
	}
	switch subject {
	case message.SubjectHeartbeat:
		return apps.Heartbeat{Node: node, Data: m.Data}
	case message.LoopbackProbeSubject(b.cfg.Cluster):
		return b.probeReturned(string(m.Data))
	case message.SubjectExited:
		ev, err = b.exit(node, m.Data)
	case message.LimitedSubject(b.cfg.Cluster, ""):
		subject = "metrics.limited"
		ev, err = limited("", m.Data)
	case message.SubjectUpdated:
		ev, err = b.updated(m.Data)
	default:
		switch pool, what := message.OfScheduler(m.Subject); what {
		case "confirmed":
			subject = "placer.confirmed"
			ev, err = confirmed(pool, m.Data)
		case "never":
			subject = "placer.never"
			ev, err = never(pool, m.Data)
		case "limited":
			subject = "placer.limited"
			ev, err = limited(pool, m.Data)
		case "state":
			subject = "placer.state"
			ev, err = scheduler(pool, m.Data)
		default:
			ev, err = b.nudged(m)
		}
	}
	if err != nil {
		b.tally.countMalformed(subject, err)
		return nil
	}
	return ev
}

func (b *Bus) exit(node message.Node, data []byte) (apps.Event, error) {
	e, err := message.DecodeExited(node, data)
	if err != nil || b.skips(message.SubjectExited, e.Partition) {
		return nil, err
	}
	return apps.Exit{Exited: e, Node: node}, nil
}

func (b *Bus) updated(data []byte) (apps.Event, error) {
	u, err := message.DecodeUpdated(data)
	if err != nil || b.skips(message.SubjectUpdated, u.Partition) {
		return nil, err
	}
	return apps.Updated{App: u.App}, nil
}

// nudged returns a nudge of another harmonizer. It ignores our own nudges, which have our id.
func (b *Bus) nudged(m *nats.Msg) (apps.Event, error) {
	if m.Header.Get(headerFrom) == b.id {
		return nil, nil
	}
	start, stop, err := cloudfoundry.DecodeNudge(m.Subject, m.Data)
	if err != nil {
		return nil, err
	}
	return apps.Nudged{Nudge: apps.Nudge{Start: start, Stop: stop}}, nil
}

// never returns the copies that no machine can hold, from a pool's scheduler, which speaks for its own pool only.
func never(pool string, data []byte) (apps.Event, error) {
	n, err := message.DecodeNever(data)
	if err == nil && n.Pool != pool {
		err = fmt.Errorf("subject of pool %.80q: the list is of pool %.80q", pool, n.Pool)
	}
	if err != nil {
		return nil, &message.FieldError{Field: "never", Problem: err.Error()}
	}
	return apps.Never{NeverPlaced: n}, nil
}

// limited returns a sender that lost messages at an inbox of a pool's daemon, which reports senders of its own pool only, or of the
// metrics store.
func limited(pool string, data []byte) (apps.Event, error) {
	s, err := message.DecodeLimited(pool, data)
	if err != nil {
		return nil, &message.FieldError{Field: "limited", Problem: err.Error()}
	}
	return apps.SenderLimited{Node: message.Node{Pool: s.Pool, Name: s.Node}, Writer: s.Writer, Lost: s.Lost}, nil
}

// scheduler returns the state of a pool's scheduler, which speaks for its own pool only.
func scheduler(pool string, data []byte) (apps.Event, error) {
	s, err := message.DecodeState(pool, data)
	if err != nil {
		return nil, &message.FieldError{Field: "state", Problem: err.Error()}
	}
	return apps.Scheduler{SchedulerState: s}, nil
}

// confirmed returns the confirmation of a pool's scheduler, which speaks for its own pool only.
func confirmed(pool string, data []byte) (apps.Event, error) {
	c, err := message.DecodeConfirmation(data)
	if err == nil && c.Pool != pool {
		err = fmt.Errorf("subject of pool %.80q: the confirmation is of pool %.80q", pool, c.Pool)
	}
	if err != nil {
		return nil, &message.FieldError{Field: "confirmation", Problem: err.Error()}
	}
	return apps.Confirmed{Pool: c.Pool, Nudges: c.Nudges, Waiting: c.Waiting}, nil
}

// skips reports whether a message of that partition belongs to another controller.
func (b *Bus) skips(subject, partition string) bool {
	if !b.cfg.CloudFoundry.Skips(partition) {
		return false
	}
	b.tally.count("skipped_"+subject, 1)
	return true
}

// probeReturned receives each returning probe. Only the latest probe counts; an older one does
// not show that the bus works now.
func (b *Bus) probeReturned(token string) apps.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token == "" || token != b.probeToken {
		return nil
	}
	b.probeToken = ""
	return apps.LoopbackProbe{}
}
