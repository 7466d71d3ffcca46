package ask

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Ports is what a panel uses of the world.
type Ports struct {
	Directory Directory
	// Dial returns a client of the process at an endpoint, for requests of that
	// RequestSpec. Dial does not wait, and may be called concurrently.
	Dial    func(Endpoint, RequestSpec) Client
	Metrics metrics.Store
}

// Panel holds the signals of one pool: their connections, their opinions, and when
// each is due. Its methods must not be called concurrently.
type Panel struct {
	config  Config
	ports   Ports
	log     *slog.Logger
	sources []*source // the default signal first
	listing Listing   // the newest that the panel follows
	heard   []Result  // not yet reported
}

// New returns a panel that follows no listing yet.
func New(c Config, ports Ports, log *slog.Logger) *Panel {
	p := &Panel{config: c, ports: ports, log: log}
	for _, s := range c.Signals {
		p.sources = append(p.sources, &source{signal: s})
	}
	return p
}

// Opinions are the newest opinions of all signals.
type Opinions struct {
	Default decide.Opinion
	Apps    []decide.App // in the order of the configuration
	// Short says which window of usage misses its beginning in a request whose
	// response counts; empty if no window does.
	Short string
}

// Opinions returns the newest opinions.
func (p *Panel) Opinions() Opinions {
	o := Opinions{Default: p.sources[0].opinion}
	for _, s := range p.sources[1:] {
		o.Apps = append(o.Apps, decide.App{
			Name: s.signal.App, Configured: s.configured(), Opinion: s.opinion, HoldFor: s.signal.HoldFor,
		})
	}
	for _, s := range p.sources {
		if s.short != "" && p.counts(s) {
			o.Short = s.short
			break
		}
	}
	return o
}

// counts reports whether the opinion of s counts for an app: that of the default
// signal counts for the apps that have no other.
func (p *Panel) counts(s *source) bool {
	if s != p.sources[0] {
		return s.configured()
	}
	unconfigured := func(s *source) bool { return !s.configured() }
	return len(p.sources) == 1 || slices.ContainsFunc(p.sources[1:], unconfigured)
}

// Reconfigure replaces the configuration. A signal of the same name keeps its
// opinion, its connection and its schedule.
func (p *Panel) Reconfigure(c Config) {
	before := p.sources
	p.config, p.sources = c, nil
	for _, signal := range c.Signals {
		p.sources = append(p.sources, successor(before, signal))
	}
	for _, s := range before {
		if !slices.Contains(p.sources, s) {
			s.close()
		}
	}
}

// successor returns the source of that signal if there is one already, else a new
// one, which is due at once. A source with another period is due at once, too.
func successor(sources []*source, signal Signal) *source {
	i := slices.IndexFunc(sources, func(s *source) bool { return s.signal.App == signal.App })
	if i < 0 {
		return &source{signal: signal}
	}
	s := sources[i]
	if s.signal.Namespace == signal.Namespace && s.signal.Name == signal.Name {
		if s.signal.Period != signal.Period {
			s.next = time.Time{}
		}
		s.signal = signal
		return s
	}
	renewed := &source{signal: signal}
	if renewed.configured() {
		renewed.opinion = s.opinion // until the next evaluation: it shows that the app's signal did respond
	}
	return renewed
}

// Close closes all connections. A later evaluation opens them again.
func (p *Panel) Close() {
	for _, s := range p.sources {
		s.close()
	}
}

// Changed returns a channel that is closed when there is a newer listing than the
// one that the panel follows; nil if there never is.
func (p *Panel) Changed() <-chan struct{} { return p.listing.Changed }

// Sync takes up the newest listing: after it, nobody is asked at a place that
// is not listed any more.
func (p *Panel) Sync() {
	p.listing = p.ports.Directory.Listing()
	for _, s := range p.sources {
		s.follow(p.listing)
	}
}

// Follow takes up the newest listing between two ticks, reports that, probes who is
// to take a signal's place, and reports what they said. The next tick waits for the
// probes, for no longer than it would for a signal.
func (p *Panel) Follow(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	before := p.listing.Revision
	p.Sync()
	if p.listing.Revision != before {
		p.Report()
	}
	waiting := slices.DeleteFunc(slices.Clone(p.sources), func(s *source) bool { return !s.rival.waits() })
	if len(waiting) == 0 {
		return
	}
	p.probe(ctx, now.UTC(), waiting)
	if ctx.Err() == nil { // else the end of ctx was theirs, and they are not to blame
		p.Report()
	}
}

// probe asks the candidates of these sources on the windows of now, all at the
// same time. What they answer is reported and has no other effect.
func (p *Panel) probe(ctx context.Context, now time.Time, sources []*source) {
	r := newReading(p.ports.Metrics)
	answers := make([]Result, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.config.Timeout())
			defer cancel()
			answers[i] = p.try(ctx, r, s, now)
		})
	}
	wg.Wait()
	p.heard = append(p.heard, answers...)
}

// try asks the candidate of s. If its windows are not good nobody is asked.
func (p *Panel) try(ctx context.Context, r *reading, s *source, now time.Time) Result {
	at := reply{line: s.rival.line}
	i, err := p.inquire(ctx, r, s.signal.asked(s.rival.question), now)
	o := decide.Opinion{Verdict: decide.Unasked}
	if err != nil {
		o.Why = err.Error()
	} else {
		at = p.evaluate(ctx, s.signal, s.rival.line, i)
		o = p.judge(s.signal, at, now)
		s.rival.line, s.rival.probed = at.line, true
	}
	a := heardOf(s.signal, at, o)
	a.Candidate = true
	return a
}

// Report tells the directory what is followed and what was heard since the last
// report.
func (p *Panel) Report() {
	p.ports.Directory.Report(Report{Revision: p.listing.Revision, Results: p.heard})
	p.heard = nil
}
