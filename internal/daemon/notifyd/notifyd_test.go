package notifyd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/notifyd"
	"github.com/weirkeeper/weirkeeper/internal/past"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

const patience = await.Patience

// world is a real NATS server in a data folder, the summaries of a pool, and an endpoint.
type world struct {
	t         *testing.T
	data      string
	bus       *bus.Bus
	summaries *state.Ledger
	url       string
	received  chan notify.Event
	ids       map[string]bool // of received findings
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, data: t.TempDir(), received: make(chan notify.Event, 100), ids: map[string]bool{}}
	b, err := bus.Open(t.Context(), bus.Config{Data: w.data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	w.bus = b
	c := state.LedgerConfig{Cluster: "here", Pool: "web"}
	_, err = state.CreateLedger(t.Context(), b.JetStream(), c)
	if err == nil {
		w.summaries, err = state.NewSummaries(b.JetStream(), c)
	}
	if err == nil {
		err = w.summaries.Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e notify.Event
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&e); err != nil {
			t.Errorf("body: %v", err)
		}
		w.received <- e
	}))
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

// run runs "weir notify" until the returned function is called.
func (w *world) run() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	p := notifyd.Process{
		Settings: daemon.Settings{Data: w.data, Cluster: "here"}, AdminAddr: config.AdminOff, Out: io.Discard, Log: slog.New(slog.DiscardHandler),
	}
	service := config.Service{Notify: []notify.Settings{{Name: "hook", URL: w.url}}}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx, service); err != nil {
			w.t.Errorf("Run = %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// tick stores the summary of a tick that begins now; why pauses the pool, if it is not empty.
func (w *world) tick(why string) {
	w.t.Helper()
	target := 3.0
	s := api.Summary{Schema: past.Schema, Pool: "web", At: time.Now(), Every: time.Second, Before: &target, Target: &target}
	if why != "" {
		s.Paused = &api.Note{By: "kim@ops", Why: why, At: time.Now()}
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = w.summaries.Append(w.t.Context(), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// next waits for the next received event.
func (w *world) next() notify.Event {
	w.t.Helper()
	select {
	case e := <-w.received:
		return e
	case <-time.After(patience):
		w.t.Fatalf("no event within %v", patience)
		return notify.Event{}
	}
}

// ready ticks until the process passes events on, which is not before it has read the pools.
func (w *world) ready() {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		w.tick("first")
		w.tick("")
		select {
		case <-w.received:
			for len(w.received) > 0 {
				<-w.received
			}
			return
		case <-deadline:
			w.t.Fatalf("no event within %v", patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wantPause waits for the event of a pause with that reason.
func (w *world) wantPause(why string) {
	w.t.Helper()
	for {
		e := w.next()
		if e.Kind == "order" && e.Name == "pause" && json.Valid(e.Data) && e.Cluster == "here" && e.Pool == "web" {
			if !strings.Contains(e.Text, why) {
				continue // of an earlier tick
			}
			return
		}
	}
}

// Events arrive live. Those of ticks while no process runs follow after the next start.
func TestEventsFollowAcrossARestart(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	stop := w.run()
	w.ready()
	w.tick("network work")
	w.wantPause("network work")
	stop()
	w.tick("")
	w.tick("in the gap")
	w.run()
	w.wantPause("in the gap")
}

// Stored findings arrive once and in order, also those of the time in which no process ran.
func TestFindingsFollowAcrossARestart(t *testing.T) {
	w := newWorld(t)
	if _, err := state.EnsureStream(t.Context(), w.bus.JetStream(), state.FindingsStream("here", 1)); err != nil {
		t.Fatal(err)
	}
	w.finding("before the first start")
	stop := w.run()
	w.tick("")
	w.ready()
	for i := range 3 {
		w.finding(fmt.Sprint("live ", i))
	}
	w.wantFindings("live 0", "live 1", "live 2")
	stop()
	w.finding("in the gap")
	stop = w.run()
	w.wantFindings("in the gap")
	w.finding("live again")
	w.wantFindings("live again")
	stop()

	// A new stream has other sequence numbers, also beyond the position in the lost one.
	if err := w.bus.JetStream().DeleteStream(t.Context(), names.FindingsStream("here")); err != nil {
		t.Fatal(err)
	}
	if _, err := state.EnsureStream(t.Context(), w.bus.JetStream(), state.FindingsStream("here", 1)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprintf("%d in the new stream", i))
		w.finding(want[i])
	}
	w.run()
	w.wantFindings(want...)
}

// finding publishes a finding of node health.
func (w *world) finding(why string) {
	w.t.Helper()
	data, err := json.Marshal([]api.HealthNotification{{Pool: "web", At: time.Now(), HealthFinding: api.HealthFinding{Event: api.HealthBreakerOpened, Why: why}}})
	if err == nil {
		err = w.bus.Conn().Publish(events.EventsSubject("here", "web"), data)
	}
	if err == nil {
		err = w.bus.Conn().FlushTimeout(patience)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// wantFindings waits for these findings, and refuses others. An event whose response was lost arrives again with its id.
func (w *world) wantFindings(want ...string) {
	w.t.Helper()
	for len(want) > 0 {
		e := w.next()
		if e.Kind != "health" || w.ids[e.ID] {
			continue // of the ticks, or received before
		}
		w.ids[e.ID] = true
		if !strings.Contains(e.Text, want[0]) {
			w.t.Fatalf("received %q, want %q", e.Text, want[0])
		}
		want = want[1:]
	}
}

// A finding of node health has its severity, and one below that of the target is not sent.
func TestFindingsHaveTheirSeverity(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	w.run()
	w.ready()
	data, err := json.Marshal([]api.HealthNotification{
		{Pool: "web", At: time.Now(), HealthFinding: api.HealthFinding{Event: api.HealthIgnored, Why: "nothing"}},
		{Pool: "web", At: time.Now(), HealthFinding: api.HealthFinding{Event: api.HealthBreakerOpened, Why: "6 of 6 nodes are unhealthy"}},
	})
	if err == nil {
		err = w.bus.Conn().Publish(events.EventsSubject("here", "web"), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		e := w.next()
		if e.Kind != "health" {
			continue // of the ticks before
		}
		if e.Name != string(api.HealthBreakerOpened) || e.Severity != notify.Warning {
			t.Errorf("event %+v, want the breaker as a warning", e)
		}
		return
	}
}
