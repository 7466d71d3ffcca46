package ask

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// Ports are the dependencies of a panel.
type Ports struct {
	Directory Directory
	// Dial returns a client of the process at an endpoint, for requests of that RequestSpec. It
	// does not wait, and may be called concurrently.
	Dial    func(Endpoint, RequestSpec) Client
	Metrics metrics.Store
	Trace   trace.Tracer     // nil: steps are not traced
	Now     func() time.Time // nil: time.Now
	// Limit returns a context that ends after that time; nil: context.WithTimeout.
	Limit func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc)
}

// Panel holds the signals of one pool: their connections, their opinions, and when each is due. It
// is not safe for concurrent use.
type Panel struct {
	config  Config
	ports   Ports
	log     *slog.Logger
	signals []*signalState // the default signal first
	listing Listing        // the newest one that the panel follows
	results []Result       // not yet reported
	// inProgress is the result of listInProgress at the last Evaluate. It does not change between two
	// ticks, so that a preview may read it.
	inProgress []api.InProgress
	running    sync.WaitGroup // the requests in progress
	probed     chan struct{}  // has room for one: a probe ended
}

// New returns a panel that follows no listing yet.
func New(c Config, ports Ports, log *slog.Logger) *Panel {
	if ports.Now == nil {
		ports.Now = time.Now
	}
	if ports.Limit == nil {
		ports.Limit = context.WithTimeout
	}
	p := &Panel{config: c, ports: ports, log: log, probed: make(chan struct{}, 1)}
	for _, s := range c.Signals {
		p.signals = append(p.signals, &signalState{Signal: s})
	}
	return p
}

// Evaluate updates the opinions of all signals that are due, concurrently, and waits for at most
// the Timeout. A later Evaluate adopts the response of a signal with a longer TimeLimit, which
// keeps its opinion until then. Evaluate does not wait for shadows: the caller must pass the
// Shadows to Compare.
func (p *Panel) Evaluate(ctx context.Context, now time.Time) *Shadows {
	results := p.adopt(now)
	m := p.begin(ctx, now)
	var started []*evaluation
	for _, s := range p.signals {
		if s.due(now) {
			started = append(started, p.start(m, s))
		}
	}
	for _, e := range started {
		m.await(e.Signal, e.done)
	}
	results = append(results, p.adopt(now)...)
	p.inProgress = p.listInProgress()
	if ctx.Err() == nil { // otherwise the tick was cancelled, and the processes did not fail
		p.results = append(p.results, results...)
	}
	return &Shadows{m}
}

// Compare waits for the shadows of the tick, for as long as Evaluate does for signals. It compares
// the finished opinions with those of their signals.
func (p *Panel) Compare(ctx context.Context, tick *Shadows) []api.ShadowRecord {
	for _, s := range p.signals {
		if x := s.candidate.request; x != nil && x.moment == tick.moment {
			x.moment.await(x.signal, x.done)
		}
	}
	tick.moment.end()
	results, records := p.compare()
	if ctx.Err() == nil {
		p.results = append(p.results, results...)
	}
	return records
}

// Opinions are the newest opinions of all signals.
type Opinions struct {
	Default api.Opinion
	Apps    []api.AppInput // in the order of the configuration, with their advisors
	// Short describes a window of usage without its beginning, in a request whose response counts;
	// empty: all windows are complete.
	Short string
}

// Opinions returns the newest opinions. The opinion of the default signal counts for the apps
// without a signal of their own.
func (p *Panel) Opinions() Opinions {
	standby, apps := p.signals[0], p.signals[1:]
	o := Opinions{Default: standby.opinion}
	counts := len(apps) == 0
	for _, s := range apps {
		if s.advises() { // an advisor without a whole window advises less
			of := &o.Apps[len(o.Apps)-1]
			of.Raise = append(of.Raise, api.AdvisorInput{Name: s.App, Opinion: s.opinion, HoldFor: s.HoldFor, MaxRequest: s.MaxRequest})
			continue
		}
		o.Apps = append(o.Apps, api.AppInput{
			Name: s.App, Configured: s.configured(), Opinion: s.opinion, HoldFor: s.HoldFor, MaxRequest: s.MaxRequest,
		})
		if s.configured() {
			o.Short = cmp.Or(o.Short, s.short)
		} else {
			counts = true
		}
	}
	if counts {
		o.Short = cmp.Or(standby.short, o.Short)
	}
	return o
}

// Changed returns a channel that is closed when there is a newer listing than the one that the
// panel follows; nil: never.
func (p *Panel) Changed() <-chan struct{} { return p.listing.Changed }

// Probed returns a channel that receives when a candidate's result arrived for which Follow did not
// wait. The next Follow reports it.
func (p *Panel) Probed() <-chan struct{} { return p.probed }

// Sync follows the newest listing: from then on the panel sends no request to a process that the
// listing does not contain. A request in progress continues.
func (p *Panel) Sync() {
	p.listing = p.ports.Directory.Listing()
	for _, s := range p.signals {
		s.follow(p.listing)
	}
}

// SetLaunch sets the time that the pool's machines take to join, which advisors receive in a new hello; 0: unknown. It takes effect at
// the next Sync or Follow.
func (p *Panel) SetLaunch(launch time.Duration) {
	for _, s := range p.signals {
		if s.advises() {
			s.Launch = launch
		}
	}
}

// Follow follows the newest listing between two ticks, and reports it. Then it probes the
// candidates that are to replace a process, and reports their results. It waits for at most the
// Timeout. For a signal with a longer TimeLimit, a later Follow reports the result.
func (p *Panel) Follow(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	before := p.listing.Revision
	p.Sync()
	if p.listing.Revision != before {
		p.Report()
	}
	if p.probe(ctx, now.UTC()) {
		p.Report()
	}
}

// Report reports to the directory the revision that the panel follows, and the results since the
// last report.
func (p *Panel) Report() {
	p.ports.Directory.Report(Report{Revision: p.listing.Revision, Results: p.results})
	p.results = nil
}

// Reconfigure replaces the configuration. A signal of the same name keeps its opinion, its
// connection and its schedule. It keeps its evaluation in progress unless its TimeLimit changes.
func (p *Panel) Reconfigure(c Config) {
	before := p.signals
	p.config, p.signals = c, nil
	for _, signal := range c.Signals {
		if i := slices.IndexFunc(before, func(s *signalState) bool { return s.App == signal.App }); i >= 0 {
			signal.Launch = before[i].Launch
		}
		p.signals = append(p.signals, successor(before, signal))
	}
	for _, s := range before {
		if !slices.Contains(p.signals, s) {
			s.close()
		}
	}
}

// Close ends all requests and closes all connections. When it returns, no goroutine of the panel is
// left. A later evaluation opens the connections again.
func (p *Panel) Close() {
	for _, s := range p.signals {
		s.close()
	}
	p.running.Wait()
}
