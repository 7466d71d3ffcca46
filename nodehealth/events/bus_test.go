package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestHints(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	e := newHandler()
	bus := listen(t, connect(t, url), Config{}, e)
	stranger := connect(t, url)
	tell := func(text string) {
		t.Helper()
		if err := stranger.Publish(LifecycleSubject(cluster, pool), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	for _, bad := range []string{"", "{", "[]", `{"instance_id": 7}`, `{"event": "x"}`, `{"instance_id": ""}`, `{"instance_id": "a\u0007"}`,
		`{"instance_id": "` + strings.Repeat("a", 300) + `"}`,
		`{"instance_id": "a"}` + strings.Repeat(" ", maxHint)} {
		tell(bad)
	}
	tell(fmt.Sprintf(`{"instance_id": "old", "timestamp": %d}`, now.Add(-time.Hour).Unix()))
	tell(fmt.Sprintf(`{"event": "SHUTDOWN", "state": "shutoff", "instance_id": "i-1", "timestamp": "%s", "publisher": "nova\u001b", "operation": "x"}`,
		now.UTC().Format("2006-01-02 15:04:05.000000")))
	want := judge.Hint{Node: "i-1", Why: "event SHUTDOWN, state shutoff, published by nova"}
	if got := next(t, "the hint", e.hints); got != want {
		t.Errorf("hint %+v, want %+v", got, want)
	}
	tell(`{"instance_id": "i-2"}`)
	if got := next(t, "the second hint", e.hints); got.Why != "event unknown, state unknown, published by unknown" {
		t.Errorf("hint %+v", got)
	}
	counters := bus.Counters()
	if counters["bad_hint"] != 9 || counters["old_hint"] != 1 {
		t.Errorf("counters %v", counters)
	}
	for range hintsAtOnce * 2 { // a flood
		tell(`{"instance_id": "i-3"}`)
	}
	await.True(t, "the flood is taken", func() bool { return bus.Counters()["dropped_hint"] > 0 })
}

// An agent publishes hints about its own machine only. A hint that the server was made to send is refused too.
func TestAgentHintsAboutItsOwnNodeOnly(t *testing.T) {
	nc := connect(t, startServer(t, -1).ClientURL())
	e := newHandler()
	bus := listen(t, connect(t, nc.ConnectedUrl()), Config{}, e)
	send := func(m *nats.Msg) {
		t.Helper()
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	own := nodeLifecycleSubject(cluster, pool, "i-1")
	send(&nats.Msg{Subject: own, Data: []byte(`{"instance_id": "i-2"}`)})
	send(&nats.Msg{Subject: own, Data: []byte(`{"instance_id": "i-1"}`), Header: nats.Header{"Nats-Stream": {"S"}}})
	send(&nats.Msg{Subject: own, Data: []byte(`{"instance_id": "i-1"}`)})
	if got := next(t, "the genuine hint", e.hints); got.Node != "i-1" {
		t.Errorf("hint %+v, want one about i-1", got)
	}
	if n := bus.Counters()["refused_hint"]; n != 2 {
		t.Errorf("%d refused hints, want 2", n)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		``: {}, `null`: {}, `""`: {}, `0`: time.Unix(0, 0), `1700000000`: time.Unix(1700000000, 0), `1700000000.5`: time.Unix(1700000000, 5e8), `"1700000000"`: time.Unix(1700000000, 0),
		`"2023-11-14T22:13:20Z"`: time.Unix(1700000000, 0), `"2023-11-14T23:13:20.25+01:00"`: time.Unix(1700000000, 25e7),
		`"2023-11-14T22:13:20.123456"`: time.Unix(1700000000, 123456000), `"2023-11-14 22:13:20"`: time.Unix(1700000000, 0),
	} {
		if got, err := decodeTime(json.RawMessage(text)); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`true`, `{}`, `1e300`, `-5`, `"NaN"`, `"x"`, `"1e999"`, `"\ud800"`} {
		if got, err := decodeTime(json.RawMessage(text)); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// Only messages of this process prove the path.
func TestLoopbackProbe(t *testing.T) {
	ns := startServer(t, -1)
	e := newHandler()
	nc := connect(t, ns.ClientURL())
	bus := listen(t, nc, Config{Heartbeat: 200 * time.Millisecond}, e)
	if err := connect(t, ns.ClientURL()).Publish(loopbackSubject(cluster, pool), []byte("not ours")); err != nil {
		t.Fatal(err)
	}
	if err := bus.LoopbackProbe(); err != nil {
		t.Fatal(err)
	}
	proven := func() { // the probe may have needed longer than the limit
		t.Helper()
		for got := next(t, "the proof", e.proofs); got.Down; got = next(t, "the proof", e.proofs) {
			t.Logf("proof %+v", got)
		}
	}
	proven()
	port := portOf(ns)
	ns.Shutdown()
	ns.WaitForShutdown()
	if got := next(t, "the loss", e.proofs); !got.Down || !strings.Contains(got.Why, "connection to NATS is lost") {
		t.Errorf("proof %+v", got)
	}
	if err := bus.LoopbackProbe(); !errors.Is(err, errDisconnected) {
		t.Errorf("Canary = %v", err)
	}
	if got := next(t, "the silence", e.proofs); !got.Down || !strings.Contains(got.Why, "no loopback probe over NATS returned for 400ms") {
		t.Errorf("proof %+v", got)
	}
	startServer(t, port)
	await.True(t, "it is connected again", func() bool { return bus.LoopbackProbe() == nil })
	proven()
	if len(e.proofs) > 1 { // proofs of probes that were sent meanwhile are not counted
		t.Errorf("%d proofs more", len(e.proofs))
	}
}

// The loss is reported once, and only a returned probe ends it.
func TestLoopbackProbeThatDoesNotReturn(t *testing.T) {
	b, err := New(nil, Config{Cluster: cluster, Pool: pool}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b.loopback = loopback{token: "first", since: now}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{10 * time.Second, false}, {11 * time.Second, true}, {20 * time.Second, false}} {
		if got := b.probeLost(now.Add(step.after)); got != step.want {
			t.Errorf("after %v it is lost: %t", step.after, got)
		}
	}
	b.loopback.token = "second"
	if b.probeReturned("first") || !b.probeReturned("second") || b.probeReturned("second") || b.probeLost(now.Add(time.Hour)) {
		t.Error("which canary counts is wrong")
	}
}

func TestPublish(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	nc := connect(t, url)
	bus, err := New(nc, Config{Cluster: cluster, Pool: pool}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	other := connect(t, url)
	sub, err := other.SubscribeSync(EventsSubject(cluster, pool))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
	var published []api.HealthNotification
	for i := range api.MaxNotifications {
		published = append(published, api.HealthNotification{Pool: pool, At: time.Unix(int64(i), 0).UTC(), Alarm: "a",
			HealthFinding: api.HealthFinding{Event: api.HealthNodeSuspect, Node: fmt.Sprint(i), Why: strings.Repeat("w", 2000)}})
	}
	if err := bus.Publish(nil); err != nil {
		t.Error(err)
	}
	if err := bus.Publish(published); err != nil {
		t.Fatal(err)
	}
	var got []api.HealthNotification
	messages := 0
	for len(got) < len(published) {
		m, err := sub.NextMsg(deadline)
		if err != nil {
			t.Fatal(err)
		}
		messages++
		var list []api.HealthNotification
		if err := json.Unmarshal(m.Data, &list); err != nil || len(m.Data) > eventsBytes {
			t.Fatalf("%d bytes: %v", len(m.Data), err)
		}
		got = append(got, list...)
	}
	if diff := cmp.Diff(published, got); diff != "" || messages != 3 {
		t.Errorf("%d messages:\n%s", messages, diff)
	}
	nc.Close()
	if err := bus.Publish(published); !errors.Is(err, errDisconnected) {
		t.Errorf("Publish = %v", err)
	}
}

func TestListenEndsWithTheConnection(t *testing.T) {
	nc := connect(t, startServer(t, -1).ClientURL())
	bus, err := New(nc, Config{Cluster: cluster, Pool: pool}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- bus.Listen(t.Context(), newHandler()) }()
	await.True(t, "it listens", func() bool { return nc.NumSubscriptions() == 5 })
	nc.Close()
	if err := next(t, "Listen returns", done); err == nil {
		t.Error("Listen = nil")
	}
}

func TestOrders(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	e := newHandler()
	ordered := make(chan api.RepairOrder, 9)
	e.order = func(_ context.Context, o api.RepairOrder) (api.RepairOrderResponse, error) {
		ordered <- o
		switch o.Op {
		case api.OpRelease:
			return api.RepairOrderResponse{}, nodehealth.ErrNotRunning
		case api.OpCheck:
			return api.RepairOrderResponse{OK: true, Nodes: []api.RepairNodeResponse{{Why: strings.Repeat("x", 2<<20)}}}, nil
		}
		return api.RepairOrderResponse{OK: true, Nodes: []api.RepairNodeResponse{{Node: o.Nodes[0], OK: true, Why: "paused"}}}, nil
	}
	bus := listen(t, connect(t, url), Config{}, e)
	nc := connect(t, url)
	c := NewClient(nc, cluster, pool)

	o := api.RepairOrder{Op: api.OpPause, Nodes: []string{"i-1"}, By: "ann", For: time.Hour}
	a, err := c.Order(t.Context(), o)
	if err != nil || !a.OK || len(a.Nodes) != 1 || a.Nodes[0].Why != "paused" {
		t.Errorf("answer %+v, %v", a, err)
	}
	if diff := cmp.Diff(o, <-ordered); diff != "" {
		t.Errorf("ordered:\n%s", diff)
	}
	if a, err := c.Order(t.Context(), api.RepairOrder{Op: api.OpRelease}); err != nil || a.OK || a.Error != nodehealth.ErrNotRunning.Error() {
		t.Errorf("answer %+v, %v", a, err)
	}
	if a, err := c.Order(t.Context(), api.RepairOrder{Op: api.OpCheck}); err != nil || !a.OK || !strings.Contains(a.Error, "exceeds the maximum message size") {
		t.Errorf("answer %.100v, %v", a, err)
	}
	for len(ordered) > 0 {
		<-ordered
	}
	if _, err := c.Order(t.Context(), api.RepairOrder{Op: "explode"}); !errors.Is(err, api.ErrOrder) {
		t.Errorf("a bad order: %v", err)
	}
	for _, bad := range []string{"{", `{"op": "pause", "node": "x"}`, `{"op": "explode"}`, "", `{"op": "check"} {}`, strings.Repeat(" ", maxQuery+1)} {
		m, err := nc.Request(OrderSubject(cluster, pool), []byte(bad), deadline)
		if err != nil || json.Unmarshal(m.Data, &a) != nil || a.OK || a.Error == "" {
			t.Errorf("answer to %.20q: %+v, %v", bad, a, err)
		}
		a = api.RepairOrderResponse{}
	}
	if n := bus.Counters()["bad_request"]; n != 6 || len(ordered) > 0 {
		t.Errorf("%d bad requests, %d carried out", n, len(ordered))
	}
}

func TestStatus(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	e := newHandler()
	e.status = func(_ context.Context, q api.HealthQuery) (api.HealthStatus, error) {
		if q.After == "fail" {
			return api.HealthStatus{}, errors.New("no\nidea")
		}
		s := api.HealthStatus{Pool: pool, Mode: api.ModeObserve}
		for i := range api.MaxRows {
			s.Nodes = append(s.Nodes, api.NodeHealth{NodeExplanation: api.NodeExplanation{NodeHealthState: api.NodeHealthState{Node: fmt.Sprintf("i-%03d", i)}}})
			if q.All || len(q.Nodes) > 0 {
				s.Nodes[i].Why = strings.Repeat("x", 30_000)
			}
		}
		return s, nil
	}
	listen(t, connect(t, url), Config{}, e)
	c := NewClient(connect(t, url), cluster, pool)

	s, err := c.Status(t.Context(), api.HealthQuery{})
	if err != nil || s.Pool != pool || len(s.Nodes) != api.MaxRows || s.Next != "" {
		t.Errorf("status of %d nodes, next %q, %v", len(s.Nodes), s.Next, err)
	}
	s, err = c.Status(t.Context(), api.HealthQuery{All: true})
	if err != nil || len(s.Nodes) < 10 || s.Next != s.Nodes[len(s.Nodes)-1].Node {
		t.Errorf("a long page: %d nodes, next %q, %v", len(s.Nodes), s.Next, err)
	}
	if _, err := c.Status(t.Context(), api.HealthQuery{Nodes: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "name fewer nodes") {
		t.Errorf("a page of named nodes that is too long: %v", err)
	}
	if _, err := c.Status(t.Context(), api.HealthQuery{After: "fail"}); err == nil || !strings.Contains(err.Error(), "pool web: no idea") {
		t.Errorf("an error: %v", err)
	}
	if _, err := NewClient(c.nc, cluster, "other").Status(t.Context(), api.HealthQuery{}); !errors.Is(err, ErrNoResponse) {
		t.Errorf("another pool: %v", err)
	}
}

// Messages that cannot be decoded are counted in the status.
func TestStatusCountsDroppedMessages(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	e := newHandler()
	e.status = func(context.Context, api.HealthQuery) (api.HealthStatus, error) {
		return api.HealthStatus{Pool: pool, Lost: map[string]uint64{"findings": 3}}, nil
	}
	listen(t, connect(t, url), Config{}, e)
	c := NewClient(connect(t, url), cluster, pool)
	if err := c.nc.Publish(LifecycleSubject(cluster, pool), []byte("{")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	for {
		s, err := c.Status(ctx, api.HealthQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Lost["bad_hint"] == 1 && s.Lost["findings"] == 3 {
			return
		}
	}
}

func TestOrdersDoNotBlockTheStatus(t *testing.T) {
	url := startServer(t, -1).ClientURL()
	e := newHandler()
	began := make(chan struct{}, 99)
	e.order = func(ctx context.Context, _ api.RepairOrder) (api.RepairOrderResponse, error) {
		began <- struct{}{}
		<-ctx.Done()
		return api.RepairOrderResponse{}, ctx.Err()
	}
	e.status = func(context.Context, api.HealthQuery) (api.HealthStatus, error) {
		return api.HealthStatus{Pool: pool}, nil
	}
	listen(t, connect(t, url), Config{}, e)
	nc := connect(t, url)
	for range 50 {
		if err := nc.PublishRequest(OrderSubject(cluster, pool), nats.NewInbox(), []byte(`{"op": "check"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		next(t, "an order begins", began)
	}
	if s, err := NewClient(nc, cluster, pool).Status(t.Context(), api.HealthQuery{}); err != nil || s.Pool != pool {
		t.Errorf("status %+v, %v", s, err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Cluster: "a.b", Pool: "p"}, {Cluster: "a", Pool: ">"}, {Cluster: "a", Pool: "p", Heartbeat: -1}, {Cluster: "a", Pool: strings.Repeat("p", 200)}} {
		if _, err := New(nil, c, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// A fault in a hint drops at most that hint. Of an event of another program, only the machine must be readable, because a
// hint causes a check and no decision. Hints about other machines count.
func TestFaultsOfHints(t *testing.T) {
	const whole = `{"event":"E","state":"S","instance_id":"i-1","timestamp":1700000000,"publisher":"P"}`
	if lacks := jsonfault.Lacks[wireHint](whole); lacks != nil {
		t.Errorf("the hint lacks %q", lacks)
	}
	rules := jsonfault.Rules{Except: []jsonfault.Except{
		{Field: "timestamp", Faults: []jsonfault.Fault{jsonfault.Text}, Values: `"7"`, Why: "a readable time, long ago"},
	}}
	for _, field := range []string{"event", "state", "timestamp", "publisher"} {
		rules.Except = append(rules.Except, jsonfault.Except{Field: field, Usable: true, Why: "it only describes the hint, or its age"})
	}
	at := time.Unix(1700000000, 0).UTC()
	cases := jsonfault.Cases(whole)
	for _, c := range append(cases, jsonfault.Case{Text: ""}, jsonfault.Case{Text: "[]"}, jsonfault.Case{Text: whole + " {}"}, jsonfault.Case{Text: whole}) {
		usable := rules.Usable("", c) || c.Text == whole
		bus, err := New(nil, Config{Cluster: cluster, Pool: pool}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		e := newHandler()
		for _, text := range []string{`{"instance_id":"i-0"}`, c.Text, `{"instance_id":"i-2"}`} {
			text = strings.Replace(text, "1700000000", strconv.FormatInt(time.Now().Unix(), 10), 1)
			bus.takeHint(&nats.Msg{Data: []byte(text)}, "", nil, rate.NewLimiter(rate.Inf, 1), e)
		}
		var got []string
		for range len(e.hints) {
			got = append(got, (<-e.hints).Node)
		}
		want := []string{"i-0", "i-1", "i-2"}
		if !usable {
			want = []string{"i-0", "i-2"}
		}
		if !slices.Equal(got, want) || (bus.Counters()["bad_hint"]+bus.Counters()["old_hint"] > 0) == usable {
			t.Errorf("%v %.100s: hints about %q, want %q; counters %v", c, c.Text, got, want, bus.Counters())
		}
		h, err := decodeHint([]byte(c.Text))
		if usable && c.Path != "timestamp" && (err != nil || !h.at.Equal(at)) {
			t.Errorf("%v: the time is %v, %v", c, h.at, err)
		}
		if usable && c.Path == "" && h.Why != "event E, state S, published by P" {
			t.Errorf("%v: %q", c, h.Why)
		}
	}
	t.Logf("%d faulty hints", len(cases))
}

func FuzzHint(f *testing.F) {
	f.Add([]byte(`{"event": "POWER_OFF", "state": "stopped", "instance_id": "i-1", "timestamp": 1700000000.5, "publisher": "nova"}`))
	f.Add([]byte(`{"instance_id": "i-1", "timestamp": "2023-11-14 22:13:20.1"}`))
	f.Add([]byte(`{"instance_id": "\u0000"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := decodeHint(data)
		if err != nil {
			return
		}
		if h.Node == "" || len(h.Node) > api.MaxNodeID || len(h.Why) > 4*maxWord+100 || strings.ContainsAny(h.Node+h.Why, "\x00\x1b\n\x7f") {
			t.Errorf("hint %+v", h)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add([]byte(`{"op": "pause", "nodes": ["i-1"], "for": 5}`))
	f.Add([]byte(`{"nodes": ["i-1"], "all": true}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o api.RepairOrder
		if err := strictjson.Request(data, maxQuery, &o); err == nil && api.ValidateOrder(o) == nil && (len(o.Nodes) > api.MaxOrderNodes || o.For < 0) {
			t.Errorf("order %+v", o)
		}
		var q api.HealthQuery
		if err := strictjson.Request(data, maxQuery, &q); err == nil && api.ValidateQuery(q) == nil && len(q.Nodes) > api.MaxOrderNodes {
			t.Errorf("query %+v", q)
		}
	})
}

// A node that sends many hints uses up its own observations only.
func TestLoudNodeLosesItsOwnHints(t *testing.T) {
	hints, now := nodeHints{}, time.Unix(1000, 0)
	passed := 0
	for i := range 1000 {
		if hints.allow(now.Add(time.Duration(i)*time.Millisecond), "loud") {
			passed++
		}
	}
	if passed != 1 || !hints.allow(now, "other") || !hints.allow(now.Add(time.Second), "loud") {
		t.Errorf("%d hints of a loud node passed in a second, want 1, and those of others", passed)
	}
	for i := range 3 * maxHinting {
		hints.allow(now, fmt.Sprint(i))
	}
	if len(hints) > maxHinting {
		t.Errorf("%d nodes are known, want at most %d", len(hints), maxHinting)
	}
}
