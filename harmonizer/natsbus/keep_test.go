package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// agent is a node that obeys every nudge. It has its own connection.
type agent struct {
	nc     *nats.Conn
	mu     sync.Mutex
	runs   map[string]api.Beat
	starts [][]int
	stops  []string
}

func startAgent(t *testing.T, nc *nats.Conn, period time.Duration) *agent {
	t.Helper()
	a := &agent{nc: nc, runs: map[string]api.Beat{}}
	ctx, cancel := context.WithCancel(t.Context())
	nudges := make(chan *nats.Msg, 100)
	for _, subject := range []string{message.SubjectStart, message.SubjectStop, message.AnnounceSubject(cluster)} {
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
			a.runs[id] = api.Beat{App: s.App, Version: s.Version, Instance: id, Index: i, State: api.CopyRunning}
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
			a.publish(t, message.ExitedSubject(cluster, message.Node{Pool: "p", Name: "n1"}), api.Exited{App: b.App, Version: b.Version, Instance: id, Index: b.Index, Reason: api.ExitStopped})
		}
	}
}

func (a *agent) beat(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hb := api.Heartbeat{Node: "n1", Beats: []api.Beat{}}
	for _, b := range a.runs {
		hb.Beats = append(hb.Beats, b)
	}
	a.publish(t, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), hb)
}

func (a *agent) publish(t *testing.T, subject string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	if a.nc.IsConnected() {
		_ = a.nc.Publish(subject, data) // if a heartbeat is lost, another follows
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

// startHarmonizer runs a harmonizer with short intervals until the test ends.
func startHarmonizer(t *testing.T, nc *nats.Conn) *harmonizer.Harmonizer {
	t.Helper()
	h, _ := runHarmonizer(t, nc)
	return h
}

// runHarmonizer runs a harmonizer with short intervals until stop is called or the test ends.
func runHarmonizer(t *testing.T, nc *nats.Conn) (h *harmonizer.Harmonizer, stop func()) {
	t.Helper()
	bus, err := NewBus(nc, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := NewRows(nc, RowsConfig{Cluster: cluster, Folder: t.TempDir()}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	h, err = harmonizer.New(harmonizer.Config{Cluster: cluster, Apps: apps.Config{HeartbeatPeriod: 500 * time.Millisecond, DropletLost: 2 * time.Second}},
		harmonizer.Ports{Bus: bus, Source: rows}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return h, stop
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
	published := bustest.SubscribeSync(t, client, message.CountsSubject(cluster, "default"))
	h := startHarmonizer(t, connect(t, url))

	await.True(t, "two run", runs(h, t, "web", 2))
	set(t, kv, "web", 20)
	await.True(t, "twenty are nudged", func() bool { starts, _ := a.nudged(); return starts == 20 })
	await.True(t, "twenty run", runs(h, t, "web", 20))

	for _, bad := range []string{"not json", `{"dea":"n2","droplets":[]}`, `{"dea":"n1","droplets":[{"droplet":"web","version":"v1","instance":"x","index":-1,"state":"RUNNING"}]}`} {
		if err := client.Publish(message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), []byte(bad)); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "bad heartbeats are counted", func() bool {
		return answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), "").Counters["found_refused"] == 3
	})

	// If the loop stalls for a heartbeat period on a busy machine, the counts are incomplete
	// for a while. They are never wrong.
	want := map[string]api.AppCount{"web": {Expected: 20, Running: 20, CPUs: 10, Mem: 1280}}
	await.True(t, "complete counts are answered", func() bool {
		counts := answerTo[api.InstanceCounts](t, client, message.CountsRequestSubject(cluster, "default"), "")
		if !cmp.Equal(counts.Apps, want) {
			t.Fatalf("counts = %+v, want %+v", counts, want)
		}
		return counts.Complete
	})
	all := answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), "")
	if len(all.Apps) != 1 || all.Counters["heartbeats"] == 0 {
		t.Errorf("status = %+v", all)
	}
	one := answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), `{"app":"web"}`)
	if one.App == nil || len(one.App.Indices) != 20 || one.App.Indices[19].Instances[0].Node != "n1" {
		t.Errorf("status of web = %+v", one)
	}

	if err := kv.Delete(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	await.True(t, "all are stopped", func() bool { _, stops := a.nudged(); return stops == 20 })
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
	h := startHarmonizer(t, connect(t, url))

	await.True(t, "web runs", func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && c.Apps["web"].Running == 2
	})
	// On a busy machine the counts can be incomplete for another reason for a while.
	await.True(t, "the counts name api", func() bool {
		c := answerTo[api.InstanceCounts](t, client, message.CountsRequestSubject(cluster, "default"), "")
		return !c.Complete && strings.Contains(c.Why, "the row of app api is unreadable")
	})
	s := answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), `{"app":"api"}`)
	if s.App == nil || s.App.Problem == "" {
		t.Errorf("status of api = %+v, want its problem", s)
	}
}

func TestServerRestartStopsAndStartsNothing(t *testing.T) {
	dir := t.TempDir()
	ns := startServer(t, dir, -1)
	url, port := ns.ClientURL(), portOf(ns)
	kv := bucket(t, connect(t, url))
	set(t, kv, "web", 3)
	a := startAgent(t, connect(t, url), 200*time.Millisecond)
	h := startHarmonizer(t, connect(t, url))
	await.True(t, "three run", runs(h, t, "web", 3))

	ns.Shutdown()
	ns.WaitForShutdown()
	await.True(t, "the counts are incomplete", func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && !c.Complete && c.Why != ""
	})
	startServer(t, dir, port)
	await.True(t, "three run again", runs(h, t, "web", 3))
	if starts, stops := a.nudged(); starts != 3 || stops != 0 {
		t.Errorf("%d starts and %d stops, want 3 and 0", starts, stops)
	}
}
