package notifyd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/notifyd"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

const patience = await.Patience

// world is a real NATS server with roles in a data folder, the summaries of a pool, and an endpoint.
type world struct {
	t         *testing.T
	data      string
	bus       *bus.Bus            // as the pool
	admin     jetstream.JetStream // as an admin
	summaries *state.Ledger
	url       string
	received  chan notify.Event
	ids       map[string]bool // of received findings
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, data: t.TempDir(), received: make(chan notify.Event, 100), ids: map[string]bool{}}
	open := func(u roles.User) *bus.Bus {
		b, err := bus.Open(t.Context(), bus.Config{Data: w.data, Name: "test", User: u, Log: slog.New(slog.DiscardHandler), Serve: natsserver.ServeRoles})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	b := open(roles.User{Role: roles.Pool, Cluster: "here", Pool: "web"})
	w.bus, w.admin = b, open(roles.User{Role: roles.Admin, Cluster: "here"}).JetStream()
	bustest.Streams(t, w.admin, "here", 1, "web")
	var err error
	if w.summaries, err = state.OpenSummaries(t.Context(), b.JetStream(), "here", "web"); err != nil {
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

// run runs "weir notify" with these targets, or with "hook", until the returned function is called.
func (w *world) run(targets ...string) (stop func()) {
	w.t.Helper()
	if len(targets) == 0 {
		targets = []string{"hook"}
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	p := notifyd.Process{
		Settings: daemon.Settings{Data: w.data, Cluster: "here"}, AdminAddr: config.AdminOff, Out: io.Discard, Log: slog.New(slog.DiscardHandler),
	}
	var service config.Service
	for _, name := range targets {
		service.Notify = append(service.Notify, notify.Settings{Name: name, URL: w.url})
	}
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
	s := api.Summary{Schema: history.SummarySchema, Pool: "web", At: time.Now(), Every: time.Second, Before: &target, Target: &target}
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
	w.finding("before the first start")
	await.True(t, "the finding is stored", func() bool {
		s, err := w.admin.Stream(t.Context(), names.FindingsStream("here"))
		return err == nil && s.CachedInfo().State.Msgs > 0
	})
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
	if err := w.admin.DeleteStream(t.Context(), names.FindingsStream("here")); err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, w.admin, "here", 1, "web")
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprintf("%d in the new stream", i))
		w.finding(want[i])
	}
	w.run()
	w.wantFindings(want...)
}

// A finding that is too long for an event is lost alone: those behind it arrive.
func TestTooLongFindingDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	w.run()
	w.ready()
	w.findingOf(api.HealthEvent(strings.Repeat("x", 100_000)), "too long")
	w.finding("behind it")
	w.wantFindings("behind it")
}

// finding publishes a finding of node health.
func (w *world) finding(why string) { w.t.Helper(); w.findingOf(api.HealthBreakerOpened, why) }

func (w *world) findingOf(event api.HealthEvent, why string) {
	w.t.Helper()
	data, err := json.Marshal([]api.HealthNotification{{Pool: "web", At: time.Now(), HealthFinding: api.HealthFinding{Event: event, Why: why}}})
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
		if e.Name != string(api.HealthBreakerOpened) || e.Severity != api.SeverityWarning {
			t.Errorf("event %+v, want the breaker as a warning", e)
		}
		return
	}
}

// positions returns the targets with a position, in order.
func (w *world) positions() (list []string) { w.t.Helper(); return w.positionsOf("position.target.") }

// positionsOf returns the ends of the keys with that prefix, in order.
func (w *world) positionsOf(prefix string) (list []string) {
	w.t.Helper()
	found, err := integrity.Read(w.t.Context(), w.admin, names.NotifyBucket("here"), prefix+">")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range found.Keys {
		if !k.Deleted {
			list = append(list, strings.TrimPrefix(k.Name, prefix))
		}
	}
	slices.Sort(list)
	return list
}

// A target that is removed from the settings has no position after the next start. The other one keeps its place.
func TestRemovedTargetHasNoPosition(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	stop := w.run("old", "pager")
	w.ready()
	if got := w.positions(); !slices.Equal(got, []string{"old", "pager"}) {
		t.Fatalf("positions of %q", got)
	}
	stop()
	w.tick("in the gap")
	w.run("pager")
	w.wantPause("in the gap")
	if got := w.positions(); !slices.Equal(got, []string{"pager"}) {
		t.Errorf("positions of %q, want only that of pager", got)
	}
}

// A pool that no longer exists has no position after the next start, once its position is older than what is read again. A young one
// stays, because a list of the pools may lack some for a moment, and one that cannot be read stays too.
func TestRemovedPoolHasNoPosition(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	for pool, value := range map[string]string{
		"old": `{"at": "2020-01-02T03:04:05Z"}`, "young": fmt.Sprintf(`{"at": %q}`, time.Now().Add(-time.Hour).Format(time.RFC3339)), "odd": "x", "web": `{"at": "2020-01-02T03:04:05Z"}`,
	} {
		if _, err := kvbucket.New(w.admin, names.NotifyBucket("here")).Put(t.Context(), "position.ticks."+pool, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	w.run("pager")
	w.ready()
	if got := w.positionsOf("position.ticks."); !slices.Equal(got, []string{"odd", "web", "young"}) {
		t.Errorf("positions of %q, want all but the old one of a pool that is gone", got)
	}
}

// The stream of events is lost, and an admin creates it again. No event of that time is lost.
func TestLostStreamOfEvents(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	w.run()
	w.ready()
	if err := w.admin.DeleteStream(t.Context(), names.NoticesStream("here")); err != nil {
		t.Fatal(err)
	}
	w.tick("after the loss")
	bustest.Streams(t, w.admin, "here", 1, "web")
	w.wantPause("after the loss")
}

// Two processes of a cluster send each event once.
func TestTwoProcessesSendEachEventOnce(t *testing.T) {
	w := newWorld(t)
	w.tick("")
	w.run()
	w.run()
	w.ready()
	seen := map[string]bool{}
	for i := range 10 {
		w.tick(fmt.Sprint("work ", i))
		w.tick("")
	}
	w.tick("the end")
	for {
		e := w.next()
		if seen[e.ID] {
			t.Errorf("received %+v twice", e)
		}
		seen[e.ID] = true
		if strings.Contains(e.Text, "the end") {
			return
		}
	}
}
