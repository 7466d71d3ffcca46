package apiserver

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// stream opens /events and returns its lines. It ends with the test.
func (w *world) stream(path, lastID string) *bufio.Scanner {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+Prefix+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+viewerSecret)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		w.t.Fatalf("GET %s: %d %s", path, answer.StatusCode, kind)
	}
	return bufio.NewScanner(answer.Body)
}

// next returns the next event: its name, id and data.
func next(t *testing.T, lines *bufio.Scanner) (event, id, data string) {
	t.Helper()
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case key == "event":
			event = value
		case key == "id":
			id = value
		case key == "data":
			data = value
		case lines.Text() == "" && event != "":
			return event, id, data
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return
}

// Ticks of the bus become events of the streams of their pool, and of those of all pools.
func TestLiveTicks(t *testing.T) {
	w, at := newWorld(t), start()
	ctx, stop := context.WithCancel(t.Context())
	done, subscribed := make(chan error, 1), w.bus.Conn().NumSubscriptions()+3
	go func() { done <- w.live.Run(ctx, w.bus, "here", slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	bustest.Streams(t, w.bus.JetStream(), "here", 1, "api")
	all, other := w.stream("/events", ""), w.stream("/events?pool=api", "")
	for began := time.Now(); w.bus.Conn().NumSubscriptions() < subscribed; {
		if time.Since(began) > patience {
			t.Fatal("Run does not subscribe")
		}
		runtime.Gosched()
	}
	w.record(tick(at, 5), tick(at.Add(5*time.Second), 10))
	for _, target := range []string{`"target":10`, `"target":20`} {
		event, id, data := next(t, all)
		if event != "tick" || !strings.HasPrefix(id, w.live.process+"-") || !strings.Contains(data, `"pool":"web"`) || !strings.Contains(data, target) {
			t.Fatalf("event %s %s %s, want a tick of web with %s", event, id, data, target)
		}
	}
	if event, _, data := next(t, all); event != "decision" || !strings.Contains(data, "target 10 -") {
		t.Errorf("event %s %s, want the decision", event, data)
	}
	for subject, list := range map[string]string{
		message.EventsSubject("here"):       `[{"kind": "missing", "app": "shop", "index": 2}]`,
		events.EventsSubject("here", "web"): `[{"pool": "web", "event": "node_unhealthy", "node": "i-1"}]`,
	} {
		if err := w.bus.Conn().Publish(subject, []byte(list)); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for range 2 {
		event, _, _ := next(t, all)
		found[event] = true
	}
	if !found["harmonizer"] || !found["health"] {
		t.Errorf("the events are %v, want a finding of the harmonizer and one of node health", found)
	}
	if event, _, data := next(t, other); event != "harmonizer" || !strings.Contains(data, "shop") {
		t.Errorf("the stream of another pool has the event %s %s", event, data)
	}
}

// A stream that reconnects gets what it missed. If that is unknown, it gets a reset.
func TestLastEventID(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		if err := w.live.Publish("tick", "web", i); err != nil {
			t.Fatal(err)
		}
	}
	lines := w.stream("/events", w.live.process+"-1")
	for _, want := range []string{"1", "2"} {
		if _, _, data := next(t, lines); data != want {
			t.Errorf("missed event %s, want %s", data, want)
		}
	}
	for _, id := range []string{"other-1", w.live.process + "-9", w.live.process, "%"} {
		if event, _, _ := next(t, w.stream("/events", id)); event != "reset" {
			t.Errorf("Last-Event-ID %s: event %s, want reset", id, event)
		}
	}
	for range kept {
		if err := w.live.Publish("tick", "web", 0); err != nil {
			t.Fatal(err)
		}
	}
	if event, _, _ := next(t, w.stream("/events", w.live.process+"-1")); event != "reset" {
		t.Errorf("an id of an event that is not kept: event %s, want reset", event)
	}
}

// A stream that is more than 8 events behind is closed, and does not delay the others.
func TestSlowStreamIsClosed(t *testing.T) {
	l := NewLive(time.Now())
	slow, _, _ := l.listen("", "")
	other, _, _ := l.listen("api", "")
	for i := range behind + 1 {
		if err := l.Publish("tick", "web", i); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for range slow.frames {
		n++
	}
	if n != behind {
		t.Errorf("the slow stream has %d events before its end, want %d", n, behind)
	}
	if l.leave(slow); len(l.open) != 1 || len(other.frames) != 0 {
		t.Errorf("%d streams are open, want that of the other pool, without an event", len(l.open))
	}
}
