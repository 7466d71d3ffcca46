package autoscaler

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// reconfigure passes the world's current configuration to the loop.
func (w *world) reconfigure() {
	w.t.Helper()
	if err := w.loop.Reconfigure(w.config); err != nil {
		w.t.Fatal(err)
	}
	w.loop.adopt(<-w.loop.wanted)
}

func TestReconfigure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		change      func(*Config)
		asked       int64 // how often web gets a request in two ticks of one period
		connections int64
	}{
		{"nothing", func(*Config) {}, 1, 1},
		{"the policy", func(c *Config) { c.Policy.Setpoint = 0.5 }, 1, 1},
		{"another app", func(c *Config) { c.Apps[1].Parameters = map[string]any{"x": 1} }, 1, 1},
		{"equal parameters", func(c *Config) { c.Apps[0].Parameters = map[string]any{"headroom": 1.2} }, 1, 1},
		{"other parameters", func(c *Config) { c.Apps[0].Parameters = map[string]any{"headroom": 2.0} }, 2, 2},
		{"another version, which is not listed yet", func(c *Config) { c.Apps[0].Version = "v9" }, 1, 1},
		{"another period", func(c *Config) { c.Apps[0].Period = 9 * time.Minute }, 2, 1},
		{"how long it is held", func(c *Config) { c.Apps[0].HoldFor = time.Minute }, 1, 1},
		{"another name", func(c *Config) { c.Apps[0].Name = "Other" }, 2, 2},
		{"another window", func(c *Config) {
			c.Apps[0].Windows = []ask.Window{{Name: "target_capacity", Type: metrics.Metadata, Range: window, MaxAge: window}}
		}, 2, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{3}, "web", "mail")
			w.asks(sigproto.DefaultApp, 1)
			w.asks("mail", 1)
			var asked atomic.Int64
			connections := w.misbehave("web", func(p peer) {
				p.hello()
				for n := p.length(); n > 0; n = p.length() {
					asked.Add(1)
					p.evaluation(n, `{"Resources":{"cpus":8}}`)
				}
			})
			w.config.Apps[0].Period = 10 * time.Minute
			w.config.Apps[0].Parameters = map[string]any{"headroom": 1.2}
			w.tick()
			w.config.Apps = slices.Clone(w.config.Apps) // the loop has the old ones
			test.change(&w.config)
			w.reconfigure()
			app, _ := appOf(t, w.tick(), "web")
			wantOpinion(t, app.Opinion, api.VerdictValue)
			w.loop.Close() // ends the connection
			if asked.Load() != test.asked || connections.Load() != test.connections {
				t.Errorf("asked %d times over %d connections, want %d over %d", asked.Load(), connections.Load(), test.asked, test.connections)
			}
		})
	}
}

func TestReconfigureApps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web", "mail")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 8)
	w.asks("mail", 4)
	r := w.tick()
	if len(r.State.Held) != 2 {
		t.Fatalf("held %+v, want an answer of each app", r.State.Held)
	}
	web, mail := w.config.Apps[0], w.config.Apps[1]
	batch := mail
	batch.App = "batch"
	w.signals.set("batch", ask.Endpoint{Address: w.address(batch), Version: "v1"})
	w.config.Apps = []ask.Signal{batch, web}
	w.asks("batch", 12)
	w.reconfigure()
	if held := w.loop.state().Held; len(held) != 1 || held[0].App != "web" {
		t.Errorf("held %+v, want that of web alone", held)
	}
	r = w.tick()
	if n := len(r.Case.Input.Apps); n != 2 {
		t.Errorf("%d apps, want 2", n)
	}
	for _, name := range []string{"web", "batch"} {
		app, _ := appOf(t, r, name)
		wantOpinion(t, app.Opinion, api.VerdictValue)
	}
	w.config.Apps = []ask.Signal{{App: "web", Period: time.Minute}} // without a signal of its own
	w.reconfigure()
	app, resolved := appOf(t, w.tick(), "web")
	if app.Opinion.Verdict != api.VerdictNotRequested || resolved.Source != api.FromDefault {
		t.Errorf("%+v %+v: want it to be the default signal's", app, resolved)
	}
}

func TestReconfigureIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"another cluster", func(c *Config) { c.Cluster = "there" }, "the new configuration is of pool default of cluster there"},
		{"another pool", func(c *Config) { c.Pool = "gpu" }, "the new configuration is of pool gpu of cluster here"},
		{"no tick", func(c *Config) { c.Tick = 0 }, "tick is 0s: want more than 0"},
		{"a bad policy", func(c *Config) { c.Policy.Setpoint = 2 }, "setpoint is 2"},
		{"no default signal", func(c *Config) { c.Default.Name = "" }, `the default signal is "" of app "__default__"`},
		{"an app twice", func(c *Config) { c.Apps = append(c.Apps, c.Apps[0]) }, `app "web": want each to have a name of its own`},
		{"no period", func(c *Config) { c.Apps = []ask.Signal{{App: "web"}} }, "app web: period is 0s"},
		{"a time limit beyond the period", func(c *Config) { c.Apps[0].TimeLimit = 2 * time.Minute }, "app web: time limit is 2m0s: want 0s to the period, 1m0s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{1}, "web")
			w.start()
			c := w.config
			test.change(&c)
			if err := w.loop.Reconfigure(c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Reconfigure = %v, want %q", err, test.want)
			}
			if len(w.loop.wanted) > 0 {
				t.Error("it would take effect")
			}
		})
	}
}

// A running loop adopts the last of many configurations, with its tick, while other goroutines call
// Preview.
func TestRunReconfigures(t *testing.T) {
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = time.Hour
	w.asks(sigproto.DefaultApp, 1)
	asked := &need{request: cpus(8)}
	w.serve("web", asked)
	loop := w.newLoop()
	ended, stop := w.runLoop(loop)
	await.Value(t, "a tick", w.ledger.appended)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			c := w.config
			c.Apps = []ask.Signal{c.Apps[0]}
			c.Apps[0].Parameters = map[string]any{"i": i}
			if err := loop.Reconfigure(c); err != nil {
				t.Error(err)
			}
			if _, err := loop.Preview(t.Context(), api.WhatIf{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.config.Tick = 5 * time.Millisecond
	w.config.Apps[0].Period = w.config.Tick
	w.config.Apps[0].Parameters = map[string]any{"i": "last"}
	if err := loop.Reconfigure(w.config); err != nil {
		t.Fatal(err)
	}
	await.Value(t, "a tick", w.ledger.appended)
	await.Value(t, "a tick", w.ledger.appended)
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Fatal(err)
	}
	if got := asked.lastInput(t).Parameters["i"]; got != "last" {
		t.Errorf("asked with the parameters %v, want the last ones", got)
	}
}

// The candidate of a signal whose configuration changes is probed with the new one.
func TestReconfigureProbesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 8)
	w.tick()
	candidate := &need{request: cpus(8)}
	p := w.spawn("web", 1, "v2", candidate)
	w.signals.setCandidate("web", ask.Candidate{Endpoint: p.Endpoint})
	w.loop.signals.Follow(t.Context(), w.now)
	w.config.Apps = slices.Clone(w.config.Apps)
	w.config.Apps[0].Parameters = map[string]any{"headroom": 2.0}
	w.reconfigure()
	w.loop.signals.Follow(t.Context(), w.now)
	if got := candidate.lastInput(t).Parameters; candidate.count() != 2 || got["headroom"] != signals.Parameters(w.config.Apps[0].Parameters)["headroom"] {
		t.Errorf("asked %d times, last with %v: want twice, last with the new parameters", candidate.count(), got)
	}
}
