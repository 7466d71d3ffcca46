package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	cluster  = "test"
	deadline = 20 * time.Second // of what a test waits for
)

// logger writes to the test's output, which is shown if it fails.
func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// startServer runs a NATS server over a folder; port -1 is any.
func startServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(deadline) {
		t.Fatal("the NATS server does not come up")
	}
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	return ns
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// agent is a node that obeys every nudge, on a connection of its own.
type agent struct {
	nc     *nats.Conn
	mu     sync.Mutex
	runs   map[string]message.Beat
	starts [][]int
	stops  []string
}

func startAgent(t *testing.T, nc *nats.Conn, period time.Duration) *agent {
	t.Helper()
	a := &agent{nc: nc, runs: map[string]message.Beat{}}
	ctx, cancel := context.WithCancel(t.Context())
	nudges := make(chan *nats.Msg, 100)
	for _, subject := range []string{message.SubjectStart, message.SubjectStop, message.SubjectAnnounce} {
		if _, err := nc.ChanSubscribe(subject, nudges); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case m := <-nudges:
				a.obey(t, m)
			}
			a.beat(t)
		}
	})
	return a
}

func (a *agent) obey(t *testing.T, m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch m.Subject {
	case message.SubjectStart:
		s, err := message.DecodeStart(m.Data)
		if err != nil {
			t.Errorf("start %s: %v", m.Data, err)
		}
		a.starts = append(a.starts, s.Indices)
		for _, i := range s.Indices {
			id := fmt.Sprintf("%s-%d-%d", s.App, i, len(a.starts))
			a.runs[id] = message.Beat{App: s.App, Version: s.Version, Instance: id, Index: i, State: message.Running}
		}
	case message.SubjectStop:
		s, err := message.DecodeStop(m.Data)
		if err != nil {
			t.Errorf("stop %s: %v", m.Data, err)
		}
		for id := range s.Instances {
			b := a.runs[id]
			delete(a.runs, id)
			a.stops = append(a.stops, id)
			a.publish(t, message.SubjectExited, message.Exited{App: b.App, Version: b.Version, Instance: id, Index: b.Index, Reason: message.ReasonStopped})
		}
	}
}

func (a *agent) beat(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hb := message.Heartbeat{Node: "n1", Beats: []message.Beat{}}
	for _, b := range a.runs {
		hb.Beats = append(hb.Beats, b)
	}
	a.publish(t, message.SubjectHeartbeat, hb)
}

func (a *agent) publish(t *testing.T, subject string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	if a.nc.IsConnected() {
		_ = a.nc.Publish(subject, data) // a beat that is lost is followed by another
	}
}

func (a *agent) nudged() (starts, stops int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.starts {
		starts += len(s)
	}
	return starts, len(a.stops)
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("in vain: %s", what)
		}
	}
}

// startHarmonizer runs one with short intervals until the test ends.
func startHarmonizer(t *testing.T, nc *nats.Conn) (*harmonizer.Harmonizer, *Bus) {
	t.Helper()
	bus, err := NewBus(nc, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := NewRows(nc, cluster, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	h, err := harmonizer.New(harmonizer.Config{Cluster: cluster, Apps: apps.Config{HeartbeatPeriod: 500 * time.Millisecond, DropletLost: 2 * time.Second}},
		harmonizer.Ports{Bus: bus, Source: rows}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return h, bus
}

func bucket(t *testing.T, nc *nats.Conn) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	kv, err := OpenBucket(ctx, js, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func set(t *testing.T, kv jetstream.KeyValue, app string, instances int) {
	t.Helper()
	data, err := json.Marshal(message.App{Name: app, Pool: "default", Instances: instances, Version: "v1", Command: "run", CPUs: 0.5, Mem: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), app, data); err != nil {
		t.Fatal(err)
	}
}

func answerTo[T any](t *testing.T, nc *nats.Conn, subject, query string) T {
	t.Helper()
	var out T
	m, err := nc.Request(subject, []byte(query), deadline)
	if err != nil {
		t.Fatalf("request %s: %v", subject, err)
	}
	if err := json.Unmarshal(m.Data, &out); err != nil {
		t.Fatalf("answer to %s: %v", subject, err)
	}
	return out
}

func runs(h *harmonizer.Harmonizer, t *testing.T, app string, want int) func() bool {
	return func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && c.Complete && c.Apps[app].Running == want && c.Apps[app].Missing == 0
	}
}

func TestKeepsAppsRunning(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	kv := bucket(t, connect(t, url))
	set(t, kv, "web", 2)
	a := startAgent(t, connect(t, url), 200*time.Millisecond)
	client := connect(t, url)
	published, err := client.SubscribeSync(message.CountsSubject(cluster, "default"))
	if err != nil {
		t.Fatal(err)
	}
	h, bus := startHarmonizer(t, connect(t, url))

	eventually(t, "two run", runs(h, t, "web", 2))
	began := time.Now()
	set(t, kv, "web", 20)
	eventually(t, "twenty are nudged", func() bool { starts, _ := a.nudged(); return starts == 20 })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("nudges after %v, want 2 s at most", took)
	}
	eventually(t, "twenty run", runs(h, t, "web", 20))

	for _, bad := range []string{"not json", `{"dea":"n1","droplets":[{"droplet":"web","version":"v1","instance":"x","index":-1,"state":"RUNNING"}]}`} {
		if err := client.Publish(message.SubjectHeartbeat, []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "two bad heartbeats are counted", func() bool { return bus.Counters()["bad_dea.heartbeat"] == 2 })

	// A machine so busy that the loop halts for a heartbeat period makes the
	// counts incomplete for a while; they never are wrong.
	want := map[string]message.AppCount{"web": {Expected: 20, Running: 20, CPUs: 10, Mem: 1280}}
	eventually(t, "complete counts are answered", func() bool {
		counts := answerTo[message.Counts](t, client, message.CountsRequestSubject(cluster, "default"), "")
		if !cmp.Equal(counts.Apps, want) {
			t.Fatalf("counts = %+v, want %+v", counts, want)
		}
		return counts.Complete
	})
	all := answerTo[harmonizer.Status](t, client, message.StatusSubject(cluster), "")
	if len(all.Apps) != 1 || all.Counters["bad_dea.heartbeat"] != 2 || all.Counters["heartbeats"] == 0 {
		t.Errorf("status = %+v", all)
	}
	one := answerTo[harmonizer.Status](t, client, message.StatusSubject(cluster), `{"app":"web"}`)
	if one.App == nil || len(one.App.Indices) != 20 || one.App.Indices[19].Instances[0].Node != "n1" {
		t.Errorf("status of web = %+v", one)
	}

	if err := kv.Delete(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are stopped", func() bool { _, stops := a.nudged(); return stops == 20 })
	if starts, _ := a.nudged(); starts != 20 {
		t.Errorf("%d starts in all, want 20", starts)
	}
	m, err := published.NextMsg(deadline)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := message.DecodeCounts(m.Data); err != nil {
		t.Errorf("published counts: %v", err)
	}
}

func TestAnswersNameAnUnreadableRow(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	kv := bucket(t, connect(t, url))
	set(t, kv, "web", 2)
	if _, err := kv.Put(t.Context(), "api", []byte("not json")); err != nil {
		t.Fatal(err)
	}
	startAgent(t, connect(t, url), 200*time.Millisecond)
	client := connect(t, url)
	h, _ := startHarmonizer(t, connect(t, url))

	eventually(t, "web runs", func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && c.Apps["web"].Running == 2
	})
	// A busy machine can make the counts incomplete for another reason for a while.
	eventually(t, "the counts name api", func() bool {
		c := answerTo[message.Counts](t, client, message.CountsRequestSubject(cluster, "default"), "")
		return !c.Complete && strings.Contains(c.Why, "the row of app api cannot be read")
	})
	s := answerTo[harmonizer.Status](t, client, message.StatusSubject(cluster), `{"app":"api"}`)
	if s.App == nil || s.App.Problem == "" {
		t.Errorf("status of api = %+v, want its problem", s)
	}
}

func TestServerRestartStopsAndStartsNothing(t *testing.T) {
	dir := t.TempDir()
	ns := startServer(t, dir, -1)
	url, port := ns.ClientURL(), ns.Addr().(*net.TCPAddr).Port
	kv := bucket(t, connect(t, url))
	set(t, kv, "web", 3)
	a := startAgent(t, connect(t, url), 200*time.Millisecond)
	h, _ := startHarmonizer(t, connect(t, url))
	eventually(t, "three run", runs(h, t, "web", 3))

	ns.Shutdown()
	ns.WaitForShutdown()
	eventually(t, "the counts are incomplete", func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && !c.Complete && c.Why != ""
	})
	startServer(t, dir, port)
	eventually(t, "three run again", runs(h, t, "web", 3))
	if starts, stops := a.nudged(); starts != 3 || stops != 0 {
		t.Errorf("%d starts and %d stops, want 3 and 0", starts, stops)
	}
}

// watchRows collects what the source tells.
func watchRows(t *testing.T, nc *nats.Conn) <-chan apps.Event {
	t.Helper()
	rows, err := NewRows(nc, cluster, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan apps.Event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- rows.Watch(ctx, func(ctx context.Context, ev apps.Event) error { events <- ev; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return events
}

func next(t *testing.T, events <-chan apps.Event) string {
	t.Helper()
	select {
	case ev := <-events:
		switch ev := ev.(type) {
		case apps.ExpectedApp:
			return fmt.Sprintf("app %s %d", ev.Name, ev.Instances)
		case apps.ExpectedLost:
			return "lost"
		default:
			return strings.TrimPrefix(fmt.Sprintf("%T %v", ev, ev), "apps.Expected")
		}
	case <-time.After(deadline):
		t.Fatal("the source tells nothing")
	}
	return ""
}

func TestRows(t *testing.T) {
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	kv := bucket(t, nc)
	set(t, kv, "web", 2)
	for key, value := range map[string]string{"bad": `{"name":"bad","pool":"p","instances":-4}`, "other": `{"name":"web","pool":"p"}`} {
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	events := watchRows(t, nc)
	got := map[string]bool{next(t, events): true, next(t, events): true, next(t, events): true}
	if want := map[string]bool{"app web 2": true, "Unreadable {bad}": true, "Unreadable {other}": true}; !cmp.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	expect := func(want string) {
		t.Helper()
		if got := next(t, events); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	expect("Complete {}")
	set(t, kv, "web", 5)
	expect("app web 5")
	if err := kv.Delete(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	expect("Gone {web}")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), message.AppsBucket(cluster)); err != nil {
		t.Fatal(err)
	}
	expect("lost") // the bucket is gone: not the same as no apps
	expect("Complete {}")
}

func TestDialects(t *testing.T) {
	start := apps.Nudge{Start: &message.Start{App: "web", LastUpdated: 9, Version: "v1", Indices: []int{3}, Running: map[string]int{"v1": 1}, Flapping: true}}
	stop := apps.Nudge{Stop: &message.Stop{App: "web", Version: "v1", Instances: map[string]string{"b": "v1", "a": "v0"}, Running: map[string]int{}}}
	tests := []struct {
		name    string
		dialect Dialect
		nudge   apps.Nudge
		subject string
		want    string
	}{
		{"start", DialectHealth, start, "health.start", `{"droplet":"web","last_updated":9,"version":"v1","indices":[3],"running":{"v1":1},"flapping":true}`},
		{"stop", DialectHealth, stop, "health.stop", `{"droplet":"web","last_updated":0,"instances":{"a":"v0","b":"v1"},"running":{},"version":"v1"}`},
		{"classic start", DialectCloudController, start, "cloudcontrollers.hm.requests.default", `{"droplet":"web","op":"START","last_updated":9,"version":"v1","indices":[3],"flapping":true}`},
		{"classic stop", DialectCloudController, stop, "cloudcontrollers.hm.requests.default", `{"droplet":"web","op":"STOP","last_updated":null,"instances":["a","b"]}`},
	}
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bus, err := NewBus(nc, Config{Cluster: cluster, Dialect: tt.dialect}, logger(t))
			if err != nil {
				t.Fatal(err)
			}
			sub, err := nc.SubscribeSync(tt.subject)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
			if err := bus.Nudge(tt.nudge); err != nil {
				t.Fatal(err)
			}
			m, err := sub.NextMsg(deadline)
			if err != nil || string(m.Data) != tt.want {
				t.Errorf("published %s, %v, want %s", m.Data, err, tt.want)
			}
		})
	}
}

func TestBadMessagesAreLoggedOnceAMinute(t *testing.T) {
	var out strings.Builder
	bus, err := NewBus(nil, Config{Cluster: cluster}, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if ev := bus.decode(&nats.Msg{Subject: message.SubjectHeartbeat, Data: []byte("{")}); ev != nil {
			t.Fatalf("decode = %v", ev)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || bus.Counters()["bad_dea.heartbeat"] != 100 {
		t.Errorf("%d lines, counters %v, want one line and 100", n, bus.Counters())
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"no cluster":       {},
		"unknown dialect":  {Cluster: "c", Dialect: "morse"},
		"partition of two": {Cluster: "c", Partition: "a.b"},
	} {
		if _, err := NewBus(nil, c, logger(t)); err == nil {
			t.Errorf("%s: NewBus took %+v", name, c)
		}
	}
}
