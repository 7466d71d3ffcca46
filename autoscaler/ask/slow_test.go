package ask

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// slow has the clients of the processes of a pool under virtual time. Each process takes a fixed
// time for each response, and requests as many cpus as it takes seconds.
type slow struct {
	mu       sync.Mutex
	takes    map[string]time.Duration
	requests map[string]int           // by address
	open     map[string]int           // connections, by address
	dead     map[string]chan struct{} // closed when the process ends
}

func (s *slow) dial(e Endpoint, _ RequestSpec) Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[e.Address]++
	return &slowClient{s, e.Address}
}

func (s *slow) count(address string) (requests, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[address], s.open[address]
}

type slowClient struct {
	*slow
	address string
}

func (c *slowClient) Evaluate(ctx context.Context, _ sigproto.Evaluation) (sigproto.Response, error) {
	c.mu.Lock()
	c.requests[c.address]++
	takes, dead := c.takes[c.address], c.dead[c.address]
	c.mu.Unlock()
	select {
	case <-time.After(takes):
		return cpus(takes.Seconds()), nil
	case <-dead:
		return sigproto.Response{}, io.EOF
	case <-ctx.Done():
		return sigproto.Response{}, context.Cause(ctx)
	}
}

func (c *slowClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[c.address]--
	return nil
}

// changing is a directory whose listing changes. It counts its revisions.
type changing struct {
	mu      sync.Mutex
	listing Listing
	changed chan struct{}
	results []Result // of all reports
}

func (d *changing) Listing() Listing {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listing
}

func (d *changing) Report(r Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, r.Results...)
}

func (d *changing) Alive() {}

// take returns the results that were reported since the last call.
func (d *changing) take() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.results
	d.results = nil
	return taken
}

func (d *changing) set(web Endpoint, candidates map[string]Candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed != nil {
		close(d.changed)
	}
	d.changed = make(chan struct{})
	d.listing = Listing{
		Revision: d.listing.Revision + 1, Changed: d.changed, Candidates: candidates,
		Endpoints: map[string]Endpoint{sigproto.DefaultApp: {Address: "default"}, "mail": {Address: "mail"}, "web": web},
	}
}

// pool is a panel under virtual time, with a tick of 20 s. Its apps are web, with a
// period of five minutes and a time limit of one, and mail, with neither.
type pool struct {
	*Panel
	t         *testing.T
	began     time.Time
	config    Config
	directory *changing
	clients   *slow
}

// web is the endpoint of the process of web at the beginning.
var web = Endpoint{Address: "web", Version: "v1"}

// underVirtualTime runs a test of a pool whose processes take that long, by address.
func underVirtualTime(t *testing.T, takes map[string]time.Duration, test func(*pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &pool{
			t: t, began: time.Now(), directory: &changing{},
			clients: &slow{takes: takes, requests: map[string]int{}, open: map[string]int{}, dead: map[string]chan struct{}{}},
			config: Config{Cluster: "here", Pool: "default", Tick: 20 * time.Second, Signals: []Signal{
				{App: sigproto.DefaultApp, Name: "Default", Period: time.Hour},
				{App: "mail", Name: "Need", Period: 20 * time.Second},
				{App: "web", Name: "Need", Period: 5 * time.Minute, TimeLimit: time.Minute},
			}},
		}
		for address := range takes {
			w.clients.dead[address] = make(chan struct{})
		}
		w.directory.set(web, nil)
		w.Panel = New(w.config, Ports{Directory: w.directory, Dial: w.clients.dial, Metrics: &memory.Store{}}, slog.New(slog.DiscardHandler))
		test(w)
		w.Close()
		w.wantNothingOpen(slices.Collect(maps.Keys(takes))...)
	})
}

// wantNothingOpen checks that the connections to these processes are closed. A remaining goroutine
// fails the test anyway.
func (w *pool) wantNothingOpen(addresses ...string) {
	w.t.Helper()
	for _, address := range addresses {
		if _, open := w.clients.count(address); open != 0 {
			w.t.Errorf("%d connections to %s are open, want none", open, address)
		}
	}
}

// until waits until that long after the beginning.
func (w *pool) until(after time.Duration) {
	<-time.After(time.Until(w.began.Add(after)))
	synctest.Wait()
}

// tick makes a tick that long after the beginning, and checks how long it takes.
func (w *pool) tick(after, takes time.Duration) []api.ShadowRecord {
	w.t.Helper()
	w.until(after)
	now := time.Now()
	w.Sync()
	evaluation := w.Evaluate(w.t.Context(), now)
	records := w.Compare(w.t.Context(), evaluation)
	w.Report()
	if took := time.Since(now); took != takes {
		w.t.Errorf("the tick after %v took %v, want %v", after, took, takes)
	}
	if mail := w.opinion("mail"); mail.Verdict != api.VerdictValue || !mail.At.Equal(now) {
		w.t.Errorf("opinion of mail after %v: %+v, want one of this tick", after, mail)
	}
	return records
}

func (w *pool) opinion(app string) api.Opinion {
	apps := w.Opinions().Apps
	return apps[slices.IndexFunc(apps, func(a api.AppInput) bool { return a.Name == app })].Opinion
}

// want checks the opinion of web: cpus, or why there is no value.
func (w *pool) want(verdict api.Verdict, cpus float64, why string) api.Opinion {
	w.t.Helper()
	o := w.opinion("web")
	want := resource.Request{}
	if verdict == api.VerdictValue {
		want = want.With(resource.CPUs, cpus)
	}
	if o.Verdict != verdict || o.Request != want || !strings.HasPrefix(o.Why, why) {
		w.t.Errorf("opinion of web %+v, want %q, %v cpus, %q", o, verdict, cpus, why)
	}
	return o
}

// results returns the results of web that were reported since the last call.
func (w *pool) results() []Result {
	return slices.DeleteFunc(w.directory.take(), func(r Result) bool { return r.App != "web" })
}

const firstUnderWay = "its first evaluation is in progress"

// A tick waits for a signal for at most its Timeout, and a later tick adopts the response.
func TestSlowSignalIsAdoptedByALaterTick(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": 45 * time.Second, "mail": time.Second, "default": 0}, func(w *pool) {
		w.tick(0, 10*time.Second)
		w.want(api.VerdictNotRequested, 0, firstUnderWay)
		if got := w.InProgress(); len(got) != 1 || got[0].App != "web" || !got[0].Since.Equal(w.began) || got[0].Limit != time.Minute {
			t.Errorf("under way: %+v, want web since the beginning", got)
		}
		w.tick(20*time.Second, time.Second)
		w.tick(40*time.Second, time.Second)
		w.want(api.VerdictNotRequested, 0, firstUnderWay)
		if got := w.results(); len(got) != 0 {
			t.Errorf("results %+v, want none yet", got)
		}
		w.tick(60*time.Second, time.Second)
		if o := w.want(api.VerdictValue, 45, ""); !o.At.Equal(w.began) || o.Latency != 45*time.Second {
			t.Errorf("opinion %+v, want it to be of the tick that began it", o)
		}
		if got := w.results(); len(got) != 1 || got[0].Verdict != api.VerdictValue || w.InProgress() != nil {
			t.Errorf("results %+v, under way %+v: want one value, and nothing", got, w.InProgress())
		}
		w.tick(280*time.Second, time.Second)
		if requests, open := w.clients.count("web"); requests != 1 || open != 1 {
			t.Errorf("%d requests over %d connections within the period, want 1 over 1", requests, open)
		}
		w.clients.mu.Lock()
		w.clients.takes["web"] = 30 * time.Second
		w.clients.mu.Unlock()
		w.tick(300*time.Second, 10*time.Second) // its period begins with its request
		w.want(api.VerdictValue, 45, "")
		w.tick(340*time.Second, time.Second)
		w.want(api.VerdictValue, 30, "")
		if requests, open := w.clients.count("web"); requests != 2 || open != 1 {
			t.Errorf("%d requests over %d connections, want 2 over 1", requests, open)
		}
	})
}

// A signal with a long time limit that responds at once has its opinion in the same tick.
func TestLongTimeLimitOfAQuickSignal(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": 2 * time.Second, "mail": time.Second, "default": 0}, func(w *pool) {
		w.tick(0, 2*time.Second)
		w.want(api.VerdictValue, 2, "")
	})
}

// A signal that does not respond within its time limit has failed, and the reason has the limit.
// The next tick sends a new request.
func TestTimeLimitPasses(t *testing.T) {
	t.Parallel()
	underVirtualTime(t, map[string]time.Duration{"web": time.Hour, "mail": time.Second, "default": 0}, func(w *pool) {
		w.tick(0, 10*time.Second)
		w.tick(40*time.Second, time.Second)
		w.want(api.VerdictNotRequested, 0, firstUnderWay)
		w.tick(60*time.Second, 10*time.Second)
		w.want(api.VerdictFailed, 0, "no answer within 1m0s")
		if got := w.results(); len(got) != 1 || !got[0].Silent || got[0].Verdict != api.VerdictFailed {
			t.Errorf("results %+v, want one that is silent", got)
		}
		if requests, _ := w.clients.count("web"); requests != 2 {
			t.Errorf("%d requests, want 2", requests)
		}
		w.tick(80*time.Second, time.Second)
		w.want(api.VerdictFailed, 0, "no answer within 1m0s") // until the next response
	})
}
