package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
)

// handle responds to one request.
func (p *Provider) handle(ctx context.Context, msg *nats.Msg) {
	body, err := p.answer(ctx, msg)
	if err != nil {
		p.log.Warn("local request rejected", "subject", msg.Subject, "err", err)
		err = refusalOf(err)
	}
	if err := call.Respond(msg, p.nc.MaxPayload(), body, err); err != nil {
		p.log.Warn("response not sent", "err", err)
	}
}

func (p *Provider) answer(ctx context.Context, msg *nats.Msg) (any, error) {
	switch op := msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]; op {
	case opSnapshot:
		var r groupRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return m.snapshot(), nil
	case opSetTarget:
		var r targetRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return nil, p.setTarget(m, r.Target)
	case opTerminate:
		var r terminateRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return nil, p.terminate(m, r.IDs)
	case opInspect, opRepairOwner, opMarkUnhealthy, opConsole:
		return p.answerPool(msg, op)
	case opRepair, opIsolate, opLift:
		return p.answerRepair(ctx, msg, op)
	default:
		return nil, call.Invalid("unknown operation %q of a local provider", op)
	}
}

// answerPool responds to a request about the whole pool.
func (p *Provider) answerPool(msg *nats.Msg, op string) (any, error) {
	switch op {
	case opInspect:
		reply := inspectReply{Instances: []pools.Inspection{}, KeepStopped: p.keepStopped}
		for _, g := range p.cfg.Groups {
			reply.Instances = append(reply.Instances, p.groups[g.ID].inspect()...)
		}
		return reply, nil
	case opRepairOwner:
		var r repairOwnerRequest
		if err := call.Decode(msg.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return nil, p.setRepairOwner(r.On)
	case opConsole:
		var r consoleRequest
		if err := call.Decode(msg.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		output, err := p.console(r.Instance)
		return consoleReply{output}, err
	default:
		var r markRequest
		if err := call.Decode(msg.Data, maxRequest, &r); err != nil {
			return nil, err
		}
		return nil, p.markUnhealthy(r)
	}
}

// answerRepair responds to a request about one machine.
func (p *Provider) answerRepair(ctx context.Context, msg *nats.Msg, op string) (any, error) {
	switch op {
	case opRepair:
		var r repairRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		done, err := p.repair(ctx, m, r)
		return repairReply{done}, err
	case opIsolate:
		var r isolateRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		confirmed, err := p.isolate(m, r)
		return isolateReply{confirmed}, err
	default:
		var r liftRequest
		m, err := p.request(msg, &r, &r.Group)
		if err != nil {
			return nil, err
		}
		return nil, p.lift(m, r.Instance)
	}
}

// request decodes a request, and returns the group that it names.
func (p *Provider) request(msg *nats.Msg, into any, group *string) (*machines, error) {
	if err := call.Decode(msg.Data, maxRequest, into); err != nil {
		return nil, err
	}
	if m := p.groups[*group]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownGroup, *group)
}
