package harmonizer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// platform is a bus with nodes behind it that obey: each start runs on the one
// node, which beats every 10 s and after each change. It is a source of rows too.
type platform struct {
	mu     sync.Mutex
	events chan apps.Event // of the rows
	alive  bool            // the node beats
	runs   map[string]message.Beat
	starts int
	counts []message.Counts
	change chan struct{}
}

func newPlatform() *platform {
	return &platform{events: make(chan apps.Event, 16), alive: true, runs: map[string]message.Beat{}, change: make(chan struct{}, 1)}
}

func (p *platform) Listen(ctx context.Context, h *Harmonizer) error {
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	err := h.Tell(ctx, apps.BusUp{})
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		case <-p.change:
		}
		if hb, ok := p.heartbeat(); ok {
			err = h.Tell(ctx, hb)
		}
	}
	return err
}

func (p *platform) heartbeat() (apps.Heartbeat, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hb := apps.Heartbeat{Heartbeat: message.Heartbeat{Node: "n1"}}
	for _, b := range p.runs {
		hb.Beats = append(hb.Beats, b)
	}
	return hb, p.alive
}

func (p *platform) Nudge(n apps.Nudge) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Start != nil {
		p.starts += len(n.Start.Indices)
		for _, i := range n.Start.Indices {
			id := n.Start.App + string(rune('a'+i))
			p.runs[id] = message.Beat{App: n.Start.App, Version: n.Start.Version, Instance: id, Index: i, State: message.Running}
		}
	} else {
		for id := range n.Stop.Instances {
			delete(p.runs, id)
		}
	}
	select {
	case p.change <- struct{}{}:
	default:
	}
	return nil
}

func (p *platform) PublishCounts(c message.Counts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = append(p.counts, c)
	return nil
}

func (p *platform) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// last returns what was published last of the pool.
func (p *platform) last(pool string) message.Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range slices.Backward(p.counts) {
		if c.Pool == pool {
			return c
		}
	}
	return message.Counts{}
}

func (p *platform) Watch(ctx context.Context, tell Tell) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-p.events:
			if err := tell(ctx, ev); err != nil {
				return err
			}
		}
	}
}

// store keeps samples, or refuses them while broken.
type store struct {
	mu      sync.Mutex
	broken  bool
	samples []metrics.Sample
}

func (s *store) Write(_ context.Context, samples []metrics.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("store is broken")
	}
	s.samples = append(s.samples, samples...)
	return nil
}

func (s *store) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// values returns what was written of one series.
func (s *store) values(name, app string) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []float64
	for _, x := range s.samples {
		if got, ok := x.Dimensions["app"]; x.Name == name && got == app && ok == (app != "") {
			out = append(out, x.Value)
		}
	}
	return out
}

func row(n int) apps.ExpectedApp {
	return apps.ExpectedApp{App: message.App{Name: "web", Pool: "default", Version: "v1", Instances: n, Command: "run", CPUs: 0.5, Mem: 10}}
}

// pass lets virtual time pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// run runs a harmonizer over a platform and a store until the test ends.
func run(t *testing.T, body func(t *testing.T, h *Harmonizer, p *platform, s *store)) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newPlatform(), &store{}
		h, err := New(Config{Cluster: "c", Pools: []string{"idle"}}, Ports{Bus: p, Source: p, Metrics: s}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		body(t, h, p, s)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestKeepsTheCount(t *testing.T) {
	run(t, func(t *testing.T, h *Harmonizer, p *platform, s *store) {
		p.events <- row(2)
		p.events <- apps.ExpectedComplete{}
		pass(t, 10*time.Second)
		if p.started() != 0 || p.last("default").Complete || len(s.values("instances_expected", "")) != 0 {
			t.Fatalf("before a heartbeat period: %d starts, counts %+v", p.started(), p.last("default"))
		}
		pass(t, 3*time.Second)
		c, err := h.Counts(t.Context(), "default")
		if want := (message.AppCount{Expected: 2, Running: 2, CPUs: 1, Mem: 20}); err != nil || !c.Complete || c.Apps["web"] != want {
			t.Fatalf("Counts = %+v, %v, want %+v", c, err, want)
		}
		p.events <- row(20)
		pass(t, time.Second)
		if c := p.last("default"); c.Apps["web"].Running != 20 {
			t.Errorf("published %+v, want 20 running", c)
		}
		st, err := h.Status(t.Context(), "web")
		if err != nil || st.App == nil || len(st.App.Indices) != 20 || st.Counters["nudges_start"] != 2 {
			t.Errorf("Status = %+v, %v", st, err)
		}
	})
}

func TestLosesASilentNode(t *testing.T) {
	run(t, func(t *testing.T, h *Harmonizer, p *platform, s *store) {
		p.events <- row(2)
		p.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		p.mu.Lock()
		p.alive = false
		p.mu.Unlock()
		pass(t, 25*time.Second)
		if n := p.started(); n != 2 {
			t.Errorf("%d starts before droplet_lost, want 2", n)
		}
		pass(t, 4*time.Second)
		if n := p.started(); n != 4 {
			t.Errorf("%d starts after droplet_lost, want 4", n)
		}
	})
}

// A loop that was held up has not heard its nodes. That is not their silence:
// the counts are incomplete for a period, and nothing is nudged.
func TestHeldUpLoopHearsAnew(t *testing.T) {
	run(t, func(t *testing.T, h *Harmonizer, p *platform, s *store) {
		p.events <- row(2)
		p.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		err := h.ask(t.Context(), func(time.Time) {
			halt := time.NewTimer(40 * time.Second)
			<-halt.C
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(t, time.Second)
		st, err := h.Status(t.Context(), "")
		if err != nil || st.Complete || st.Counters["held_up"] != 1 {
			t.Errorf("after a halt: %+v, %v, want it incomplete and held_up 1", st, err)
		}
		pass(t, 15*time.Second)
		if c := p.last("default"); !c.Complete || c.Apps["web"].Running != 2 || p.started() != 2 {
			t.Errorf("a period later: %+v and %d starts, want it complete and 2", c, p.started())
		}
	})
}

func TestWritesCounts(t *testing.T) {
	run(t, func(t *testing.T, h *Harmonizer, p *platform, s *store) {
		p.events <- row(2)
		p.events <- apps.ExpectedComplete{}
		pass(t, 60*time.Second)
		if v := s.values("instances_expected", "web"); len(v) < 5 || v[len(v)-1] != 2 {
			t.Errorf("instances_expected of web = %v, want 2 each heartbeat period", v)
		}
		if v := s.values("cpus_expected", ""); len(v) < 5 || slices.Max(v) != 1 {
			t.Errorf("cpus_expected of the pools = %v, want 1 of default and 0 of idle", v)
		}
		s.setBroken(true)
		pass(t, 30*time.Second)
		s.setBroken(false)
		p.events <- apps.ExpectedGone{Name: "web"}
		pass(t, 60*time.Second) // the copies are lost after 30 s: nobody said that they ended
		v := s.values("instances_expected", "web")
		if v[len(v)-1] != 0 {
			t.Errorf("instances_expected of web = %v, want 0 in the end", v)
		}
		pass(t, 60*time.Second)
		if again := s.values("instances_expected", "web"); len(again) != len(v) {
			t.Errorf("instances_expected of web = %v, want no more after %v", again, v)
		}
		p.events <- apps.ExpectedLost{Why: "test"}
		pass(t, time.Second)
		before := len(s.values("instances_expected", ""))
		pass(t, 60*time.Second)
		if after := len(s.values("instances_expected", "")); after != before {
			t.Errorf("%d counts written while the source is lost", after-before)
		}
	})
}

// An app whose row never could be read has an unknown count: what was written
// before gets old, and other apps are nudged as ever.
func TestUnreadableRowLeavesMetricsStale(t *testing.T) {
	run(t, func(t *testing.T, h *Harmonizer, p *platform, s *store) {
		p.events <- row(2)
		p.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		p.events <- apps.ExpectedUnreadable{Name: "api"}
		pass(t, time.Second)
		before := len(s.values("instances_expected", ""))
		p.events <- row(3)
		pass(t, 60*time.Second)
		if after := len(s.values("instances_expected", "")); before == 0 || after != before {
			t.Errorf("%d counts written, then %d more while a row is unreadable, want some and none", before, after-before)
		}
		if n := p.started(); n != 3 {
			t.Errorf("%d starts, want 3", n)
		}
		if c := p.last("default"); c.Complete || !strings.Contains(c.Why, "the row of app api cannot be read") {
			t.Errorf("published %+v, want it incomplete because of api", c)
		}
		p.events <- apps.ExpectedGone{Name: "api"}
		pass(t, time.Second)
		if v := s.values("instances_expected", "web"); v[len(v)-1] != 3 || !p.last("default").Complete {
			t.Errorf("instances_expected of web = %v, want 3 in the end", v)
		}
	})
}

// deaf is a bus that cannot be.
type deaf struct{ *platform }

var errDeaf = errors.New("deaf")

func (deaf) Listen(context.Context, *Harmonizer) error { return errDeaf }

func TestRunEndsWithItsPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlatform()
		h, err := New(Config{Cluster: "c"}, Ports{Bus: deaf{p}, Source: p}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Run(t.Context()); !errors.Is(err, errDeaf) {
			t.Errorf("Run = %v, want %v", err, errDeaf)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no cluster": {},
		"bad pool":   {Cluster: "c", Pools: []string{"a.b"}},
		"bad rules":  {Cluster: "c", Apps: apps.Config{DropletLost: -1}},
	} {
		if _, err := New(cfg, Ports{}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: New took %+v", name, cfg)
		}
	}
}
