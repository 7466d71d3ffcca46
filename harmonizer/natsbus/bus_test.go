package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	weirbus "github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// handler is a harmonizer.Handler that records events and answers requests with fixed values.
type handler struct {
	events   chan apps.Event
	standby  atomic.Bool
	shadow   bool
	ordered  chan api.HarmonizerOrder
	refusing error
}

func newEar() *handler {
	return &handler{events: make(chan apps.Event, 1000), ordered: make(chan api.HarmonizerOrder, 10)}
}

func (e *handler) Enqueue(ctx context.Context, ev apps.Event) error {
	select {
	case e.events <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *handler) Leading() bool { return !e.standby.Load() }

func (e *handler) Counts(_ context.Context, pool string) (api.InstanceCounts, error) {
	if e.shadow {
		return api.InstanceCounts{}, harmonizer.ErrShadow
	}
	c := api.InstanceCounts{Pool: pool, Complete: true, At: time.Unix(9, 0).UTC(), Apps: map[string]api.AppCount{}}
	for i := range message.MaxCountApps + 1 {
		c.Apps[fmt.Sprintf("app-%05d", i)] = api.AppCount{Expected: i}
	}
	return c, nil
}

func (e *handler) Status(_ context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error) {
	return api.HarmonizerStatus{Complete: true, Why: q.App, Leading: e.Leading(), Counters: map[string]uint64{"own": 1}}, nil
}

func (e *handler) Report(_ context.Context, subject string, data []byte) ([][]byte, error) {
	if string(data) == "bad" {
		return nil, &message.FieldError{Field: "droplets[0].droplet", Problem: "is missing"}
	}
	return [][]byte{[]byte(subject), data}, nil
}

func (e *handler) Order(_ context.Context, o api.HarmonizerOrder) error {
	e.ordered <- o
	return e.refusing
}

// listen runs a bus that receives legacy DEAs too, until the test ends. It returns once the bus is up.
func listen(t *testing.T, nc *nats.Conn, cfg Config, e *handler) *Bus {
	t.Helper()
	cfg.CloudFoundry.LegacyDEAs = true
	return listenAs(t, nc, cfg, e)
}

// listenAs is listen with the configuration as it is.
func listenAs(t *testing.T, nc *nats.Conn, cfg Config, e *handler) *Bus {
	t.Helper()
	cfg.Cluster, cfg.CloudFoundry.Requests = cluster, true
	bus, err := NewBus(nc, cfg, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bus.Listen(ctx, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Listen = %v", err)
		}
	})
	e.expect(t, apps.BusUp{})
	return bus
}

func (e *handler) expect(t *testing.T, want apps.Event) {
	t.Helper()
	select {
	case got := <-e.events:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("other event:\n%s", diff)
		}
	case <-time.After(deadline):
		t.Fatalf("%T is missing", want)
	}
}

func publish(t *testing.T, nc *nats.Conn, subject, data string) {
	t.Helper()
	if err := nc.Publish(subject, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

const (
	exitOf    = `{"cc_partition":%q,"droplet":"7","version":"v","instance":"i","index":0,"reason":"CRASHED"}`
	updateOf  = `{"cc_partition":%q,"droplet":7}`
	requestOf = `{"droplet":"web","op":"STOP","instances":["i"],"last_updated":3}`
)

func exited(partition string) apps.Exit {
	return apps.Exit{Exited: api.Exited{Partition: partition, App: "7", Version: "v", Instance: "i", Reason: api.ExitCrashed}}
}

func TestReceivesEvents(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	node := connect(t, url)
	requests, err := node.SubscribeSync(cloudfoundry.SubjectManagerStart)
	if err != nil || node.Flush() != nil {
		t.Fatal(err)
	}
	e := newEar()
	bus := listen(t, connect(t, url), Config{CloudFoundry: cloudfoundry.Features{FilterPartition: true}}, e)
	if _, err := requests.NextMsg(deadline); err != nil {
		t.Errorf("nodes are not asked to speak: %v", err)
	}

	publish(t, node, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), "as it is")
	e.expect(t, apps.Heartbeat{Node: message.Node{Pool: "p", Name: "n1"}, Data: []byte("as it is")})
	publish(t, node, message.HeartbeatSubject("other", message.Node{Pool: "p", Name: "n1"}), "of another cluster")
	publish(t, node, message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n~1"}), "of no token")
	publish(t, node, message.ExitedSubject(cluster, message.Node{Pool: "p", Name: "n1"}), "{")
	publish(t, node, message.ExitedSubject(cluster, message.Node{Pool: "p", Name: "n1"}), fmt.Sprintf(exitOf, "default"))
	e.expect(t, apps.Exit{Node: message.Node{Pool: "p", Name: "n1"}, Exited: exited("default").Exited})
	publish(t, node, message.SubjectHeartbeat, "as it is")
	e.expect(t, apps.Heartbeat{Data: []byte("as it is")})
	publish(t, node, message.SubjectExited, fmt.Sprintf(exitOf, "other"))
	publish(t, node, message.SubjectUpdated, `{"droplet":7}`)
	publish(t, node, message.SubjectExited, "{")
	publish(t, node, message.SubjectExited, `{"droplet":7,"instance":"i","index":-1,"reason":"CRASHED"}`)
	publish(t, node, message.SubjectStart, `{"droplet":"web","indices":{}}`)
	publish(t, node, message.SubjectExited, fmt.Sprintf(exitOf, "default"))
	e.expect(t, exited("default"))
	publish(t, node, message.SubjectUpdated, fmt.Sprintf(updateOf, "default"))
	e.expect(t, apps.Updated{App: "7"})
	publish(t, node, message.SubjectStart, `{"droplet":"web","version":"v","indices":[2],"running":{"v":1}}`)
	e.expect(t, apps.Nudged{Nudge: apps.Nudge{Start: &api.Start{App: "web", Version: "v", Indices: []int{2}, Running: map[string]int{"v": 1}}}})
	stop := apps.Nudged{Nudge: apps.Nudge{Stop: &api.Stop{App: "web", LastUpdated: 3, Instances: map[string]string{"i": ""}, Running: map[string]int{}}}}
	for _, subject := range []string{"cloudcontrollers.hm.requests.default", "cloudcontrollers.hm.requests", message.SubjectStop} {
		publish(t, node, subject, requestOf)
		e.expect(t, stop)
	}
	want := map[string]uint64{"connected": 1, "dropped": 0, "skipped_droplet.exited": 1, "skipped_droplet.updated": 1,
		"bad_droplet.exited_not_json": 2, "bad_droplet.exited_index": 1, "bad_dea.heartbeat_node": 1, "bad_health.start_indices": 1}
	if diff := cmp.Diff(want, bus.Counters()); diff != "" {
		t.Errorf("counters:\n%s", diff)
	}
}

func TestPartitions(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	node := connect(t, url)
	all, mine := newEar(), newEar()
	listen(t, connect(t, url), Config{CloudFoundry: cloudfoundry.Features{Partition: "mine"}}, all)
	listen(t, connect(t, url), Config{CloudFoundry: cloudfoundry.Features{Partition: "mine", FilterPartition: true}}, mine)
	publish(t, node, message.SubjectExited, fmt.Sprintf(exitOf, "other"))
	publish(t, node, message.SubjectExited, fmt.Sprintf(exitOf, ""))
	publish(t, node, message.SubjectExited, fmt.Sprintf(exitOf, "mine"))
	for _, p := range []string{"other", "", "mine"} {
		all.expect(t, exited(p))
	}
	mine.expect(t, exited("mine"))
	publish(t, node, "cloudcontrollers.hm.requests.other", requestOf)
	publish(t, node, message.SubjectHeartbeat, "last")
	for _, e := range []*handler{all, mine} {
		e.expect(t, apps.Heartbeat{Data: []byte("last")})
	}
}

func TestReceivesOnlyNudgesOfOthers(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	for _, dialect := range []cloudfoundry.Dialect{cloudfoundry.DialectHealth, cloudfoundry.DialectCloudController, cloudfoundry.DialectBoth} {
		t.Run(string(dialect), func(t *testing.T) {
			one, other := newEar(), newEar()
			bus := listen(t, connect(t, url), Config{CloudFoundry: cloudfoundry.Features{Dialect: dialect}}, one)
			listen(t, connect(t, url), Config{}, other)
			stop := api.Stop{App: "web", Instances: map[string]string{"i": ""}, Running: map[string]int{}}
			if err := bus.Nudge(apps.Nudge{Stop: &stop}); err != nil {
				t.Fatal(err)
			}
			if err := bus.Probe(); err != nil { // returns after the nudge
				t.Fatal(err)
			}
			one.expect(t, apps.LoopbackProbe{})
			other.expect(t, apps.Nudged{Nudge: apps.Nudge{Stop: &stop}})
			if dialect == cloudfoundry.DialectBoth {
				other.expect(t, apps.Nudged{Nudge: apps.Nudge{Stop: &stop}})
			}
		})
	}
}

func TestOnlyLatestProbeCounts(t *testing.T) {
	bus, err := NewBus(nil, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	bus.probeToken = "last"
	came := func(token string) apps.Event {
		return bus.event(&nats.Msg{Subject: message.LoopbackProbeSubject(cluster), Data: []byte(token)})
	}
	for _, token := range []string{"", "first", "LAST"} {
		if ev := came(token); ev != nil {
			t.Errorf("canary %q tells %v", token, ev)
		}
	}
	if ev := came("last"); ev != (apps.LoopbackProbe{}) {
		t.Errorf("the last canary tells %v", ev)
	}
	if ev := came("last"); ev != nil {
		t.Errorf("the same canary once more tells %v", ev)
	}
}

// Without the permission to receive heartbeats, the path to the nodes is down until the server permits them again.
func TestRejectedHeartbeatsAreBusDown(t *testing.T) {
	options := func(deny ...string) *server.Options {
		return &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, Users: []*server.User{
			{Username: "h", Password: "h", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: deny}}},
		}}
	}
	ns := bustest.Serve(t, *options("none"))
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("h"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := weirbus.Open(t.Context(), weirbus.Config{
		NATS: weirbus.NATS{Servers: []string{ns.ClientURL()}, User: "h", PasswordFile: password}, Name: "test", Log: logger(t),
		ReconnectWait: 20 * time.Millisecond, FilesEvery: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	e := newEar()
	listenAs(t, b.Conn(), Config{}, e)
	for _, step := range []struct {
		deny string
		want apps.Event
	}{{message.HeartbeatSubject(cluster, message.Node{Pool: "*", Name: "*"}), apps.BusDown{}}, {"none", apps.BusUp{}}} {
		next := options(step.deny)
		next.Port = portOf(ns)
		if err := ns.ReloadOptions(next); err != nil {
			t.Fatal(err)
		}
		e.expect(t, step.want)
	}
}

func TestReconnectSendsBusUpAgain(t *testing.T) {
	dir := t.TempDir()
	ns := startServer(t, dir, -1)
	e := newEar()
	nc := connect(t, ns.ClientURL())
	bus := listen(t, nc, Config{}, e)
	port := portOf(ns)
	ns.Shutdown()
	ns.WaitForShutdown()
	e.expect(t, apps.BusDown{})
	for what, err := range map[string]error{
		"nudge":    bus.Nudge(apps.Nudge{Stop: &api.Stop{App: "a"}}),
		"counts":   bus.PublishCounts(api.InstanceCounts{Pool: "p"}),
		"findings": bus.PublishFindings([]api.AppFinding{{Kind: api.AppFindingMissing}}),
		"loopback": bus.Probe(),
	} {
		if !errors.Is(err, errDisconnected) {
			t.Errorf("%s without a bus = %v, want ErrDisconnected", what, err)
		}
	}
	startServer(t, dir, port)
	e.expect(t, apps.BusUp{})
}

func TestExcessMessagesAreDroppedAndBusUpIsSent(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	bus, err := NewBus(connect(t, url), Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	in, err := weirbus.Receive(bus.nc, weirbus.InboxConfig{Events: []string{"load"}, Messages: 4, Bytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, data := range []string{"12345678", "123", "1", "1", "1"} { // 8 + 3 bytes are too many, 8 + 1 are not
		publish(t, bus.nc, "load", data)
	}
	await.True(t, "two are dropped", func() bool { return in.Dropped() == 2 })
	anew := 0
	c := &connection{bus: bus, received: in, report: func(_ context.Context, ev apps.Event) error {
		if ev == (apps.BusUp{}) {
			anew++
		}
		return nil
	}}
	for range 2 {
		if err := c.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := bus.Counters(); n["connected"] != 1 || n["dropped"] != 2 || anew != 1 {
		t.Errorf("counters %v, BusUp %d times, want one connected and two dropped", n, anew)
	}
	requests, err := bus.nc.SubscribeSync(message.AnnounceSubject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, bus.nc, "load", strings.Repeat("1", 11))
	await.True(t, "the third is dropped", func() bool { return in.Dropped() == 3 })
	if err := c.check(t.Context()); err != nil || anew != 2 {
		t.Errorf("after a drop: check = %v, BusUp %d times, want 2", err, anew)
	}
	publish(t, bus.nc, message.AnnounceSubject(cluster), "the test's")
	if m, err := requests.NextMsg(deadline); err != nil || string(m.Data) != "the test's" {
		t.Errorf("nodes that send too much are requested to send: %v, %v", m, err)
	}
}

// Without a feature of Cloud Foundry, a bus receives only messages of this product.
func TestNoMessagesOfCloudFoundry(t *testing.T) {
	bus, err := NewBus(nil, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	requests := responder{cfg: bus.cfg}
	for _, subject := range slices.Concat(bus.eventSubjects(), requests.subjects()) {
		own := []string{message.SubjectUpdated, message.SubjectStart, message.SubjectStop}
		if !strings.HasPrefix(subject, "weir."+cluster+".") && !slices.Contains(own, subject) {
			t.Errorf("receives %s", subject)
		}
	}
}

func TestShadowPublishesNothing(t *testing.T) {
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	all, err := client.SubscribeSync(">")
	if err != nil || client.Flush() != nil {
		t.Fatal(err)
	}
	e := newEar()
	e.shadow = true
	listen(t, connect(t, url), Config{Shadow: true, CloudFoundry: cloudfoundry.Features{Component: new(cloudfoundry.NewComponent(0, "h:1"))}}, e)
	if err := client.PublishRequest(message.CountsRequestSubject(cluster, "p"), "answer", nil); err != nil {
		t.Fatal(err)
	}
	publish(t, client, cloudfoundry.SubjectComponentDiscover, "")
	publish(t, client, message.SubjectHeartbeat, "x")
	e.expect(t, apps.Heartbeat{Data: []byte("x")})
	s := answerTo[api.HarmonizerStatus](t, client, message.StatusSubject(cluster), `{"app":"web"}`) // an operator may request it
	if s.Why != "web" {
		t.Errorf("status = %+v", s)
	}
	for {
		m, err := all.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if m.Subject == cloudfoundry.SubjectManagerStart || m.Subject == message.AnnounceSubject(cluster) || m.Subject == cloudfoundry.SubjectComponentAnnounce || m.Subject == "answer" {
			t.Errorf("published %s", m.Subject)
		}
	}
}

func TestDialects(t *testing.T) {
	start := apps.Nudge{Start: &api.Start{App: "web", LastUpdated: 9, Version: "v1", Indices: []int{3}, Running: map[string]int{"v1": 1}, Flapping: true}}
	stop := apps.Nudge{Stop: &api.Stop{App: "web", Version: "v1", Instances: map[string]string{"b": "v1", "a": "v0"}, Running: map[string]int{}}}
	const (
		healthStart  = `health.start {"droplet":"web","last_updated":9,"version":"v1","indices":[3],"running":{"v1":1},"flapping":true}`
		healthStop   = `health.stop {"droplet":"web","last_updated":0,"instances":{"a":"v0","b":"v1"},"running":{},"version":"v1"}`
		classicStart = `cloudcontrollers.hm.requests.cf {"droplet":"web","op":"START","last_updated":9,"version":"v1","indices":[3],"flapping":true}`
		classicStop  = `cloudcontrollers.hm.requests.cf {"droplet":"web","op":"STOP","last_updated":null,"instances":["a","b"]}`
	)
	tests := []struct {
		name    string
		dialect cloudfoundry.Dialect
		nudge   apps.Nudge
		want    []string
	}{
		{"start", cloudfoundry.DialectHealth, start, []string{healthStart}},
		{"stop", "", stop, []string{healthStop}},
		{"classic start", cloudfoundry.DialectCloudController, start, []string{classicStart}},
		{"classic stop", cloudfoundry.DialectCloudController, stop, []string{classicStop}},
		{"both start", cloudfoundry.DialectBoth, start, []string{healthStart, classicStart}},
		{"both stop", cloudfoundry.DialectBoth, stop, []string{healthStop, classicStop}},
	}
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	sub, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bus, err := NewBus(nc, Config{Cluster: cluster, CloudFoundry: cloudfoundry.Features{Dialect: tt.dialect, Partition: "cf"}}, logger(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := bus.Nudge(tt.nudge); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				m, err := sub.NextMsg(deadline)
				if err != nil {
					t.Fatal(err)
				}
				if got := m.Subject + " " + string(m.Data); got != want || m.Header.Get(headerFrom) != bus.id {
					t.Errorf("published %s from %q\nwant %s", got, m.Header.Get(headerFrom), want)
				}
			}
		})
	}
	bus, err := NewBus(nc, Config{Cluster: cluster}, logger(t))
	if err != nil || bus.Nudge(apps.Nudge{}) == nil {
		t.Errorf("a nudge of nothing was sent: %v", err)
	}
}

func TestPublishesCountsAndFindings(t *testing.T) {
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	bus, err := NewBus(nc, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := nc.SubscribeSync(message.CountsSubject(cluster, "p"))
	if err != nil {
		t.Fatal(err)
	}
	findings, err := nc.SubscribeSync(message.EventsSubject(cluster))
	if err != nil {
		t.Fatal(err)
	}
	want := api.InstanceCounts{Pool: "p", Part: 1, Parts: 2, Apps: map[string]api.AppCount{"a": {Expected: 1}}}
	if err := bus.PublishCounts(want); err != nil {
		t.Fatal(err)
	}
	m, err := counts.NextMsg(deadline)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := message.DecodeCounts(m.Data); err != nil || !cmp.Equal(got, want) {
		t.Errorf("counts = %+v, %v", got, err)
	}
	batch := make([]api.AppFinding, 5000)
	for i := range batch {
		batch[i] = api.AppFinding{Kind: api.AppFindingMissing, App: fmt.Sprintf("app-%d", i), Version: strings.Repeat("v", 100)}
	}
	if err := bus.PublishFindings(nil); err != nil {
		t.Errorf("no findings: %v", err)
	}
	if err := bus.PublishFindings(batch); err != nil {
		t.Fatal(err)
	}
	var got []api.AppFinding
	for len(got) < len(batch) {
		m, err := findings.NextMsg(deadline)
		if err != nil {
			t.Fatal(err)
		}
		var some []api.AppFinding
		if err := json.Unmarshal(m.Data, &some); err != nil || len(m.Data) > eventsBytes {
			t.Fatalf("message of %d bytes: %v", len(m.Data), err)
		}
		got = append(got, some...)
	}
	if diff := cmp.Diff(batch, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadMessagesAreLoggedOnceAMinute(t *testing.T) {
	var out strings.Builder
	bus, err := NewBus(nil, Config{Cluster: cluster}, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		data := fmt.Sprintf(`{"droplet":"web","indices":[],"running":{"v%d":-1}}`, i)
		if ev := bus.event(&nats.Msg{Subject: message.SubjectStart, Data: []byte(data)}); ev != nil {
			t.Fatalf("event = %v", ev)
		}
	}
	// Words of the sender make no counters.
	want := map[string]uint64{"bad_health.start_running": 100}
	if n := strings.Count(out.String(), "\n"); n != 1 || !cmp.Equal(bus.Counters(), want) {
		t.Errorf("%d lines, counters %v, want one line and %v", n, bus.Counters(), want)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"no cluster":       {},
		"unknown dialect":  {Cluster: "c", CloudFoundry: cloudfoundry.Features{Dialect: "morse"}},
		"partition of two": {Cluster: "c", CloudFoundry: cloudfoundry.Features{Partition: "a.b"}},
	} {
		if _, err := NewBus(nil, c, logger(t)); err == nil {
			t.Errorf("%s: NewBus took %+v", name, c)
		}
	}
}

// Any message on any subject makes an event or counts as bad.
func FuzzEvent(f *testing.F) {
	bus, err := NewBus(nil, Config{Cluster: cluster, CloudFoundry: cloudfoundry.Features{FilterPartition: true, LegacyDEAs: true, Requests: true}}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	subjects := bus.eventSubjects()
	for i := range subjects {
		for _, seed := range []string{"", "null", "{", "[]", fmt.Sprintf(exitOf, "default"), fmt.Sprintf(updateOf, "default"), requestOf,
			`{"droplet":1,"op":"START","indices":[1,null],"version":2,"last_updated":1.5}`, `{"droplet":"a","instances":{"i":null}}`} {
			f.Add(byte(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, subject byte, data []byte) {
		m := &nats.Msg{Subject: subjects[int(subject)%len(subjects)], Data: data}
		switch ev := bus.event(m).(type) {
		case nil, apps.Heartbeat, apps.Updated:
		case apps.Exit:
			if ev.Index < 0 || ev.Index >= message.MaxInstances {
				t.Errorf("exit of index %d", ev.Index)
			}
		case apps.Nudged:
			if (ev.Start == nil) == (ev.Stop == nil) {
				t.Errorf("nudged %+v", ev)
			}
		default:
			t.Errorf("got %T", ev)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"app":"a"}`, `{"op":"retry","app":"a","index":3}`, `{"op":1}`, "[", strings.Repeat(" ", maxQuery+1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q api.HarmonizerQuery
		var o api.HarmonizerOrder
		if strictjson.Request(data, maxQuery, &q) == nil && strictjson.Request(data, maxQuery, &o) == nil && len(data) > maxQuery {
			t.Errorf("took %d bytes", len(data))
		}
	})
}
