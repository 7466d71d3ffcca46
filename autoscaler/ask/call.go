package ask

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// inquiry is a question with its windows as they are now.
type inquiry struct {
	evaluation sigproto.Evaluation
	short      string // which window of usage misses its beginning
}

// inquire reads what a signal is asked with. The error is that of windows.
func (p *Panel) inquire(ctx context.Context, r *reading, s Signal, now time.Time) (inquiry, error) {
	series, short, err := p.windows(ctx, r, s, now)
	return inquiry{sigproto.Evaluation{Timestamp: now.Unix(), Series: series}, short}, err
}

// reply is what came of asking one process.
type reply struct {
	line     line
	short    string // of the inquiry
	response sigproto.Response
	err      error
	unasked  bool // the windows were not good, as err says
	latency  time.Duration
}

// evaluate asks one process, and connects before if need be.
func (p *Panel) evaluate(ctx context.Context, s Signal, at line, i inquiry) reply {
	if at.asker == nil {
		at.asker = p.ports.Dial(at.endpoint, at.question)
	}
	r := reply{line: at, short: i.short}
	began := time.Now()
	r.response, r.err = at.asker.Evaluate(ctx, i.evaluation)
	r.latency = time.Since(began)
	return r
}

// silent reports whether the process took the connection and let the time pass.
func (r reply) silent() bool {
	return errors.Is(r.err, context.DeadlineExceeded) && !r.refused()
}

// refused reports whether nobody took the connection, or somebody else did.
func (r reply) refused() bool {
	e, ok := errors.AsType[*sigproto.Error](r.err)
	return ok && e.Phase == sigproto.PhaseConnect
}

// gone reports whether the error looks like the end of the process that was
// asked, and not like what it does.
func (r reply) gone() bool {
	return !r.unasked && (r.refused() || errors.Is(r.err, io.EOF) || errors.Is(r.err, io.ErrUnexpectedEOF) ||
		errors.Is(r.err, syscall.EPIPE) || errors.Is(r.err, syscall.ECONNRESET))
}

// maxDeaths bounds how many processes of a signal may die of its windows in one
// tick: bootstrap's restarts are not spent on more.
const maxDeaths = 3

// call is one signal being asked, at its process of the tick's beginning and at
// those that the directory lists for it meanwhile.
type call struct {
	panel   *Panel
	signal  Signal
	inquire func(RequestSpec) (inquiry, error) // may be called concurrently
	listing Listing
	at      line // the newest place, and what is asked there
	lost    bool // the process there is gone
	patient bool // wait for another one then
	open    int  // processes that have not replied
	deaths  int  // processes that took the windows and are gone
	replies chan reply
	over    chan struct{} // closed when no reply is taken any more
	wg      sync.WaitGroup
}

// hear asks the signal of s until one of its processes answers, none is left or
// ctx ends, and returns the replies; the last one counts, which is that of the newest
// place if all have failed. There is none if no process came up in time. The line of
// s leads to who answered.
func (p *Panel) hear(ctx context.Context, s *source, inquire func(RequestSpec) (inquiry, error)) []reply {
	c := &call{
		panel: p, signal: s.signal, inquire: inquire, listing: p.listing,
		at:      line{endpoint: s.own.endpoint, question: s.own.question},
		patient: s.answers() && p.listing.Changed != nil,
		replies: make(chan reply), over: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	if c.lost = c.at.endpoint.Down != ""; !c.lost {
		c.ask(ctx, s.own)
	}
	heard := c.run(ctx)
	cancel()
	close(c.over)
	c.wg.Wait()
	if n := len(heard); n > 0 && heard[n-1].err == nil {
		s.own = heard[n-1].line
		return heard
	}
	s.own = c.at
	elsewhere := func(r reply) bool { return !r.line.endpoint.samePlace(c.at.endpoint) }
	newest := slices.DeleteFunc(slices.Clone(heard), elsewhere)
	return append(slices.DeleteFunc(heard, func(r reply) bool { return !elsewhere(r) }), newest...)
}

func (c *call) ask(ctx context.Context, at line) {
	c.at, c.lost = line{endpoint: at.endpoint, question: at.question}, false
	c.open++
	c.wg.Go(func() {
		r := c.evaluate(ctx, at)
		select {
		case c.replies <- r:
		case <-c.over: // somebody else was faster
			r.line.close()
		}
	})
}

// evaluate asks one process with the question that is its own.
func (c *call) evaluate(ctx context.Context, at line) reply {
	i, err := c.inquire(at.question)
	if err != nil {
		return reply{line: at, err: err, unasked: true}
	}
	return c.panel.evaluate(ctx, c.signal, at, i)
}

// run takes replies and new places until somebody has answered or nobody will.
func (c *call) run(ctx context.Context) []reply {
	var heard []reply
	for c.open > 0 || c.lost && c.patient && c.deaths < maxDeaths {
		var timeout <-chan struct{}
		if c.open == 0 {
			timeout = ctx.Done()
		} // else each of them ends with ctx
		select {
		case r := <-c.replies:
			c.open--
			heard = append(heard, r)
			if r.err == nil {
				return heard
			}
			r.line.close()
			c.lost = c.lost || r.gone() && r.line.endpoint.samePlace(c.at.endpoint)
			if r.gone() && !r.refused() {
				c.deaths++
			}
		case <-c.listing.Changed:
			c.move(ctx)
		case <-timeout:
			return heard
		}
	}
	return heard
}

// move asks at the place that the directory lists now, if that is another one.
// A place that was lost and is listed again has a new process.
func (c *call) move(ctx context.Context) {
	c.listing = c.panel.ports.Directory.Listing()
	e := c.listing.endpoint(c.signal.App)
	switch {
	case e.Down != "":
		c.lost = c.lost || c.open == 0
	case (c.lost || !e.samePlace(c.at.endpoint)) && c.deaths < maxDeaths:
		c.ask(ctx, line{endpoint: e, question: c.signal.question(e)})
	}
}
