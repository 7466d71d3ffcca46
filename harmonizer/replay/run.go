package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Run replays in, which has the form in the package comment, and writes the published messages
// to out. For an invalid line it returns a *jsonlines.Error, after the output of all earlier
// lines.
func Run(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	p := &player{cfg: cfg, machine: apps.NewMachine(cfg.Apps), second: 1, out: newPrinter(out)}
	p.step(ctx, apps.BusUp{})
	p.step(ctx, apps.Lead{})
	next := reader(in)
	for {
		l, err := next()
		if err == nil {
			err = p.play(ctx, l)
		}
		if err = errors.Join(err, p.out.flush()); errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
	}
}

// player is the environment of a machine.
type player struct {
	cfg     Config
	machine *apps.Machine
	second  int64 // virtual now

	expectedRows []rawRow // the expected state; nil: not set yet
	bulkDown     bool
	busDown      bool

	out *printer
}

func (p *player) now() time.Time { return time.Unix(p.second, 0).UTC() }

// play executes a line.
func (p *player) play(ctx context.Context, l line) error {
	switch l := l.(type) {
	case bulkLine:
		p.expectedRows = l.rows
		p.refresh(ctx)
	case bulkDownLine:
		p.bulkDown = l.down
	case busDownLine:
		p.bus(ctx, l.down)
	case messageLine:
		p.deliver(ctx, l)
	case advanceLine:
		return p.advance(ctx, l.seconds)
	case dumpLine:
		return p.dump(l.app)
	}
	return errors.Join(ctx.Err(), p.out.err)
}

// advance passes time, second by second.
func (p *player) advance(ctx context.Context, seconds int64) error {
	for range seconds {
		if err := errors.Join(ctx.Err(), p.out.err); err != nil {
			return err
		}
		p.second++
		if (p.second-1)%int64(p.cfg.ExpectedStateUpdate/time.Second) == 0 {
			p.refresh(ctx)
		}
		if !p.busDown {
			p.step(ctx, apps.LoopbackProbe{})
		}
		p.step(ctx, apps.Tick{})
	}
	return p.out.err
}

// refresh makes a pass over the expected state.
func (p *player) refresh(ctx context.Context) {
	if p.expectedRows == nil {
		return
	}
	p.step(ctx, apps.ExpectedBegin{})
	if p.bulkDown {
		p.step(ctx, apps.ExpectedFailed{Why: "the bulk API is down"})
		return
	}
	rows := make([]api.App, 0, len(p.expectedRows))
	for _, raw := range p.expectedRows {
		row, err := raw.app(p.cfg.Pool)
		if err != nil {
			p.step(ctx, apps.ExpectedUnreadable{Name: raw.name})
			continue
		}
		rows = append(rows, row)
	}
	p.step(ctx, apps.ExpectedRows{Rows: rows})
	p.step(ctx, apps.ExpectedComplete{ValidFor: p.cfg.Apps.ExpectedStateLost})
}

func (p *player) bus(ctx context.Context, down bool) {
	if down == p.busDown {
		return
	}
	p.busDown = down
	if down {
		p.step(ctx, apps.BusDown{})
	} else {
		p.step(ctx, apps.BusUp{})
	}
}

// dump prints the state of an app.
func (p *player) dump(app string) error {
	e, ok := p.machine.View().Explain(p.now(), app)
	if !ok {
		p.out.print(dumpOut{T: p.second, Dump: app})
	} else {
		p.out.print(dumpOut{T: p.second, Dump: app, State: &e})
	}
	return p.out.err
}

// step passes an event to the machine, and makes the machine process all of it, unless ctx
// ends.
func (p *player) step(ctx context.Context, ev apps.Event) {
	p.stepOnce(ev)
	for p.machine.Busy() && ctx.Err() == nil {
		p.stepOnce(apps.Tick{})
	}
}

// stepOnce publishes what one step returns.
func (p *player) stepOnce(ev apps.Event) {
	nudges, found := p.machine.Step(p.now(), ev)
	if p.cfg.Events {
		for _, f := range found {
			p.out.print(eventOut{T: p.second, Event: f})
		}
	}
	for _, n := range nudges {
		p.publish(p.nudge(n))
	}
}

// nudge returns a nudge in its published form.
func (p *player) nudge(n apps.Nudge) (subject string, msg any) {
	switch {
	case p.cfg.Classic && n.Start != nil:
		return cloudfoundry.RequestsSubject(p.cfg.partition()), n.Start.Request()
	case p.cfg.Classic:
		return cloudfoundry.RequestsSubject(p.cfg.partition()), n.Stop.Request()
	case n.Start != nil:
		return message.SubjectStart, n.Start
	}
	return message.SubjectStop, n.Stop
}

func (p *player) publish(subject string, msg any) {
	p.out.print(messageOut{T: p.second, Subject: subject, Message: msg})
}
