package replay

import (
	"context"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// deliver processes a message, unless the bus is down. A malformed message only makes a
// finding, if findings are printed.
func (p *player) deliver(ctx context.Context, l messageLine) {
	if p.busDown {
		return
	}
	var err error
	node, subject := message.OfNode(l.subject)
	switch subject {
	case message.SubjectHeartbeat:
		p.step(ctx, apps.Heartbeat{Node: node, Data: l.data})
	case message.SubjectExited:
		err = p.exited(ctx, node, l.data)
	case message.SubjectUpdated:
		err = p.updated(ctx, l.data)
	case report.SubjectStatus, report.SubjectHealth, report.SubjectDroplet:
		err = p.answer(l)
	default:
		if pool, what := message.OfScheduler(l.subject); what == "confirmed" {
			err = p.confirmed(ctx, pool, l.data)
		} else {
			err = p.otherNudge(ctx, l)
		}
	}
	if err != nil && p.cfg.Events {
		p.out.print(eventOut{T: p.second, Event: api.AppFinding{
			Kind: api.AppFindingRefused, Detail: l.subject + ": " + err.Error(),
		}})
	}
}

func (p *player) exited(ctx context.Context, node message.Node, data []byte) error {
	e, err := message.DecodeExited(node, data)
	if err == nil && p.ours(e.Partition) {
		p.step(ctx, apps.Exit{Exited: e, Node: node})
	}
	return err
}

// updated reports a changed row, and reads the expected state again, as the loop makes its
// source do.
func (p *player) updated(ctx context.Context, data []byte) error {
	u, err := message.DecodeUpdated(data)
	if err == nil && p.ours(u.Partition) {
		p.step(ctx, apps.Updated{App: u.App})
		p.refresh(ctx)
	}
	return err
}

// confirmed processes the confirmation of a pool's scheduler. Only the waiting starts in it change a decision.
func (p *player) confirmed(ctx context.Context, pool string, data []byte) error {
	c, err := message.DecodeConfirmation(data)
	if err == nil && c.Pool == pool {
		p.step(ctx, apps.Confirmed{Pool: pool, Waiting: c.Waiting})
	}
	return err
}

// ours reports whether a message of this cc_partition is for us.
func (p *player) ours(partition string) bool {
	return p.cfg.Apps.Partition == "" || partition == p.cfg.Apps.Partition
}

func (p *player) answer(l messageLine) error {
	answers, err := report.Answer(p.machine.View(), p.now(), l.subject, l.data)
	if l.reply != "" {
		for _, a := range answers {
			p.publish(l.reply, a)
		}
	}
	return err
}

// otherNudge processes a nudge of another harmonizer. It ignores any other message.
func (p *player) otherNudge(ctx context.Context, l messageLine) error {
	if l.subject != message.SubjectStart && l.subject != message.SubjectStop && !cloudfoundry.IsRequestsSubject(l.subject) {
		return nil
	}
	start, stop, err := cloudfoundry.DecodeNudge(l.subject, l.data)
	if err == nil {
		p.step(ctx, apps.Nudged{Nudge: apps.Nudge{Start: start, Stop: stop}})
	}
	return err
}
