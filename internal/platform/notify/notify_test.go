package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/webhook"
)

const patience = await.Patience

var noon = time.Now().Truncate(time.Second)

// endpoint is a target whose first responses are given by a list of handlers. It stores the accepted requests.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	first  []http.HandlerFunc
	calls  int
	bodies []string
	header http.Header
	more   chan struct{}
}

func newEndpoint(t *testing.T, first ...http.HandlerFunc) *endpoint {
	e := &endpoint{first: first, more: make(chan struct{}, 1000)}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(e.Server.Close)
	return e
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	e.mu.Lock()
	e.calls++
	call := e.calls
	e.mu.Unlock()
	if err != nil {
		return
	}
	if call <= len(e.first) {
		e.first[call-1](w, r)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bodies = append(e.bodies, string(body))
	e.header = r.Header
	e.more <- struct{}{}
}

// accepted waits for that many accepted requests, and returns the bodies.
func (e *endpoint) accepted(t *testing.T, n int) []string {
	t.Helper()
	deadline := time.After(patience)
	for range n {
		select {
		case <-e.more:
		case <-deadline:
			t.Fatalf("%d requests were not accepted within %v", n, patience)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.bodies)
}

func newSender(t *testing.T, dir string, target Target) *Sender {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	q, err := OpenQueue(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSender(target, q, log)
	s.first = time.Millisecond
	return s
}

// run runs a sender until the returned function is called, which waits for its end.
func run(t *testing.T, s *Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func event(n int) Event {
	return Event{At: noon, Cluster: "prod", Pool: "web", Kind: "decision", Name: "target", Severity: Info, Text: fmt.Sprintf("event %d", n)}
}

func add(t *testing.T, s *Sender, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
}

func texts(t *testing.T, bodies []string) (out []string) {
	t.Helper()
	for _, body := range bodies {
		var e Event
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatalf("body %s: %v", body, err)
		}
		out = append(out, e.Text)
	}
	return out
}

// The target hangs, redirects, fails and is busy. Each event arrives once, in order.
func TestFailedAttemptsAreRepeatedInOrder(t *testing.T) {
	elsewhere := newEndpoint(t)
	e := newEndpoint(t,
		func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "\x1b[2Jno", http.StatusInternalServerError)
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	)
	s := newSender(t, t.TempDir(), Target{Name: "x", URL: e.URL})
	s.client.Timeout = 200 * time.Millisecond
	run(t, s)
	add(t, s, event(1), event(2), event(3))
	if got := texts(t, e.accepted(t, 3)); !slices.Equal(got, []string{"event 1", "event 2", "event 3"}) {
		t.Errorf("received %q", got)
	}
	if elsewhere.calls != 0 {
		t.Error("the sender followed a redirect")
	}
	if got := s.Status(); got.Failed != 4 || got.Dropped != 0 {
		t.Errorf("status %+v, want 4 failed attempts", got)
	}
}

// A target that always fails shows since when and why, and its attempts are few.
func TestFailingTargetIsShown(t *testing.T) {
	failed := make(chan struct{}, 1)
	e := newEndpoint(t, slices.Repeat([]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such hook", http.StatusNotFound)
		select {
		case failed <- struct{}{}:
		default:
		}
	}}, 1000)...)
	s := newSender(t, t.TempDir(), Target{Name: "x", URL: e.URL})
	s.first = time.Hour
	stop := run(t, s)
	add(t, s, event(1))
	<-failed
	for s.Status().Failed == 0 && t.Context().Err() == nil {
		<-time.After(time.Millisecond)
	}
	got := s.Status()
	if got.Queued != 1 || got.Since.IsZero() || !strings.Contains(got.Err, `status 404: "no such hook"`) {
		t.Errorf("status %+v, want the cause", got)
	}
	stop()
	if e.calls != 1 {
		t.Errorf("%d attempts before the first pause ended, want 1", e.calls)
	}
}

// A process ends with events that were not sent. The next one sends them first, and a damaged one affects only itself.
func TestQueueSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	before := newSender(t, dir, Target{Name: "x", URL: "http://127.0.0.1:1"})
	add(t, before, event(1), event(2), event(3))
	if err := os.WriteFile(before.queue.path(2), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t)
	after := newSender(t, dir, Target{Name: "x", URL: e.URL})
	run(t, after)
	add(t, after, event(4))
	if got := texts(t, e.accepted(t, 3)); !slices.Equal(got, []string{"event 1", "event 3", "event 4"}) {
		t.Errorf("received %q", got)
	}
	aside, err := filepath.Glob(filepath.Join(dir, "*.damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Errorf("set aside: %q, %v", aside, err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := newSender(t, t.TempDir(), Target{Name: "x", URL: "http://127.0.0.1:1"})
	for n := range maxQueued + 2 {
		s.queue.numbers = append(s.queue.numbers, uint64(n+1)) // without files, which take long to sync
	}
	s.queue.next = maxQueued + 3
	add(t, s, event(1))
	if got := s.Status(); got.Queued != maxQueued || got.Dropped != 3 {
		t.Errorf("status %+v, want %d events and 3 dropped", got, maxQueued)
	}
}

func TestOldEventsAreDropped(t *testing.T) {
	e := newEndpoint(t)
	s := newSender(t, t.TempDir(), Target{Name: "x", URL: e.URL})
	old := event(1)
	old.At = time.Now().Add(-maxAge - time.Minute)
	add(t, s, old, event(2))
	run(t, s)
	if got := texts(t, e.accepted(t, 1)); !slices.Equal(got, []string{"event 2"}) {
		t.Errorf("received %q", got)
	}
	if got := s.Status().Dropped; got != 1 {
		t.Errorf("%d dropped, want 1", got)
	}
}

func TestRequestsAreSigned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	secret := []byte("0123456789abcdef")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t)
	s := newSender(t, t.TempDir(), Target{Name: "x", URL: e.URL, SecretFile: file})
	run(t, s)
	add(t, s, event(1))
	body := e.accepted(t, 1)[0]
	var at int64
	if _, err := fmt.Sscan(e.header.Get(webhook.HeaderTimestamp), &at); err != nil {
		t.Fatal(err)
	}
	want := http.Header{}
	webhook.Sign(want, time.Unix(at, 0), secret, []byte(body))
	if got := e.header.Get(webhook.HeaderSignature); got == "" || got != want.Get(webhook.HeaderSignature) {
		t.Errorf("signature %q, want %q", got, want.Get(webhook.HeaderSignature))
	}
	var got Event
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.ID == "" || e.header.Get(headerID) != got.ID {
		t.Errorf("id %q in the header, event %+v, %v", e.header.Get(headerID), got, err)
	}
}

// The URL of a file is used, and no error shows it.
func TestURLInAFile(t *testing.T) {
	e := newEndpoint(t)
	file := filepath.Join(t.TempDir(), "url")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newSender(t, t.TempDir(), Target{Name: "x", URLFile: file})
	add(t, s, event(1))
	for _, text := range []string{"http://127.0.0.1:1/hush-hush", "http://hush-hush:x\x7f/", "hush-hush-hush-hush"} {
		write(text)
		if err := s.next(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("with %q: error %v, want one without the URL", text, err)
		}
	}
	write(e.URL + "/hush-hush\n")
	if err := s.next(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.accepted(t, 1)
}

// Equal events have equal ids, so that a receiver can drop a repetition.
func TestIDsFollowTheContent(t *testing.T) {
	id := func(e Event) string {
		data, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		var got Event
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		return got.ID
	}
	same := event(1)
	same.ID = "other"
	if id(event(1)) != id(same) || id(event(1)) == id(event(2)) {
		t.Errorf("ids %s %s %s", id(event(1)), id(same), id(event(2)))
	}
}

func TestFilter(t *testing.T) {
	for name, test := range map[string]struct {
		filter Filter
		want   bool
	}{
		"all":             {Filter{}, true},
		"kind":            {Filter{Kinds: []string{"order", "decision"}}, true},
		"other kind":      {Filter{Kinds: []string{"order"}}, false},
		"pattern":         {Filter{Events: []string{"tar*"}}, true},
		"other event":     {Filter{Events: []string{"repair.*"}}, false},
		"pool":            {Filter{Pools: []string{"web"}}, true},
		"other pool":      {Filter{Pools: []string{"batch"}}, false},
		"severity":        {Filter{Least: Info}, true},
		"higher severity": {Filter{Least: Warning}, false},
	} {
		if got := test.filter.Passes(event(1)); got != test.want {
			t.Errorf("%s: Passes = %t, want %t", name, got, test.want)
		}
	}
	if err := (Filter{Events: []string{"[a"}}).Check(); err == nil {
		t.Error("an invalid pattern is valid")
	}
	if err := (Filter{Least: "loud"}).Check(); err == nil || !strings.Contains(err.Error(), "debug info warning error") {
		t.Errorf("an unknown severity: %v", err)
	}
}

// Values of placeholders stay inside their strings.
func TestBodies(t *testing.T) {
	hostile := event(1)
	hostile.Text = "x\", \"channel\": \"#all\x1b\n{pool} <!channel> & <http://a|b>"
	for name, test := range map[string]struct {
		body Body
		want map[string]any
	}{
		"slack":  {Slack, map[string]any{"text": "*info* prod/web target: " + strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(hostile.Text)}},
		"nested": {`{"a": "{at}", "b": "{cluster} {kind} {event}"}`, map[string]any{"a": noon.UTC().Format(time.RFC3339), "b": "prod decision target"}},
	} {
		if err := test.body.Check(); err != nil {
			t.Errorf("%s: Check = %v", name, err)
		}
		data, err := test.body.render(hostile, nil)
		var got map[string]any
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: body %s, %v, want %v", name, data, err, test.want)
		}
	}
	for _, body := range []Body{"{text}", `{"a": 1{id}}`, `{"a": "\u000{pool}"}`, `{"text": {text}}`, Body(`{"text": "` + strings.Repeat("x", maxBody) + `"}`)} {
		if err := body.Check(); err == nil {
			t.Errorf("body %.40s is valid", body)
		}
	}
}

// An event of any size fits, without its data if need be.
func TestLongEventsAreCut(t *testing.T) {
	e := event(1)
	e.Data = json.RawMessage(`"` + strings.Repeat("d", maxEvent) + `"`)
	e.Text = strings.Repeat("t", 2*maxEvent)
	data, err := e.encode()
	if err != nil || len(data) > maxEvent+100 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func FuzzBody(f *testing.F) {
	f.Add(Slack, "text")
	f.Add(`{"a": "{id}"}`, "\"\\{text}")
	f.Add(`{"a": "\u000{text}", "b": 1{id}}`, "g")
	f.Fuzz(func(t *testing.T, body, text string) {
		b := Body(body)
		if b.Check() != nil || body == "" {
			return
		}
		e := event(1)
		e.Text = text
		if out, err := b.render(e, nil); err != nil || !json.Valid(out) {
			t.Errorf("template %q with text %q: %q, %v", body, text, out, err)
		}
	})
}
