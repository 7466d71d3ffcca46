package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
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

// work is a stream of events on a real NATS server, and the bucket of positions.
type work struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	news   chan struct{}
}

const positions = "positions"

func newWork(t *testing.T, c jetstream.StreamConfig) *work {
	t.Helper()
	server := bustest.Serve(t, natsserver.Options{JetStream: true, StoreDir: t.TempDir()})
	js, err := jetstream.New(bustest.Connect(t, server.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	c.Name, c.Subjects, c.AllowDirect = "events", []string{"events"}, true
	stream, err := js.CreateStream(t.Context(), c)
	if err == nil {
		_, err = js.CreateStream(t.Context(), kvbucket.Settings(positions, "", 1, -1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &work{js, stream, make(chan struct{}, 100)}
}

// sender returns the sender of a target with a position of its own.
func (w *work) sender(t *testing.T, target Target) *Sender {
	t.Helper()
	s := NewSender(target, NewReader(ReaderConfig{JS: w.js, Stream: "events", Positions: positions, Key: target.Name, News: w.news}), slog.New(slog.DiscardHandler))
	s.first = time.Millisecond
	return s
}

func (w *work) add(t *testing.T, events ...Event) {
	t.Helper()
	for _, e := range events {
		id, data, err := e.Encode()
		if err == nil {
			_, err = w.js.Publish(t.Context(), "events", data, jetstream.WithMsgID(id))
		}
		w.news <- struct{}{}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newSender(t *testing.T, target Target) (*work, *Sender) {
	t.Helper()
	w := newWork(t, jetstream.StreamConfig{})
	return w, w.sender(t, target)
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
	return Event{At: noon, Cluster: "prod", Pool: "web", Kind: "decision", Name: "target", Severity: api.SeverityInfo, Text: fmt.Sprintf("event %d", n)}
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

// hangingOnce is the transport of a sender. Its first attempt gets no response until the limit of the client ends it. All later
// attempts have a long limit.
type hangingOnce struct {
	*http.Transport
	client *http.Client
	hung   bool
}

func (h *hangingOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.hung {
		return h.Transport.RoundTrip(r)
	}
	h.hung, h.client.Timeout = true, patience // this attempt already has its limit
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// The target hangs, redirects, fails and is busy. Each event arrives once, in order.
func TestFailedAttemptsAreRepeatedInOrder(t *testing.T) {
	elsewhere := newEndpoint(t)
	e := newEndpoint(t,
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
	w, s := newSender(t, Target{Name: "x", URL: e.URL})
	s.client.Timeout = 200 * time.Millisecond // of the attempt that hangs
	s.client.Transport = &hangingOnce{Transport: s.client.Transport.(*http.Transport), client: s.client}
	run(t, s)
	w.add(t, event(1), event(2), event(3))
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
	w, s := newSender(t, Target{Name: "x", URL: e.URL})
	s.first = time.Hour
	stop := run(t, s)
	w.add(t, event(1))
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

// A process ends while it sends an event. The next one sends that event first, and a damaged one affects only itself.
func TestEventsSurviveARestart(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	begun := make(chan struct{})
	e := newEndpoint(t, func(_ http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done() })
	stop := run(t, w.sender(t, Target{Name: "x", URL: e.URL}))
	w.add(t, event(1))
	<-begun
	stop()
	if _, err := w.js.Publish(t.Context(), "events", []byte("{")); err != nil {
		t.Fatal(err)
	}
	w.add(t, event(3))
	after := w.sender(t, Target{Name: "x", URL: e.URL})
	run(t, after)
	if got := texts(t, e.accepted(t, 2)); !slices.Equal(got, []string{"event 1", "event 3"}) {
		t.Errorf("received %q", got)
	}
	if got := after.Status().Dropped; got != 1 {
		t.Errorf("%d dropped, want the damaged one", got)
	}
}

// A process is killed after the target has accepted an event, and before the position is stored: the next process sends that
// event again, with its id, and then the later ones.
func TestEventOfAKilledProcessFollowsAgain(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	e := newEndpoint(t)
	s := w.sender(t, Target{Name: "x", URL: e.URL})
	w.add(t, event(1), event(2))
	p, err := s.queue.Next(t.Context())
	if err != nil || len(p.Messages) != 2 {
		t.Fatalf("Next = %+v, %v, want two events", p, err)
	}
	if done, _ := s.deliver(t.Context(), p.Messages[0]); !done { // and then it is killed
		t.Fatal("the event is not sent")
	}
	run(t, w.sender(t, Target{Name: "x", URL: e.URL}))
	if got := texts(t, e.accepted(t, 3)); !slices.Equal(got, []string{"event 1", "event 1", "event 2"}) {
		t.Errorf("received %q", got)
	}
}

// What the stream drops before a target has it counts as dropped, also from before the start of the process.
func TestDropsOfTheStreamAreCounted(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{MaxMsgs: 2})
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s := w.sender(t, Target{Name: "x", URL: e.URL})
	w.add(t, event(0))
	if p, err := s.queue.Next(t.Context()); err != nil || s.queue.Done(t.Context(), p.Messages[0].Sequence) != nil {
		t.Fatalf("Next = %+v, %v", p, err)
	}
	w.add(t, event(1), event(2), event(3), event(4), event(5))
	run(t, s)
	if got := texts(t, e.accepted(t, 2)); !slices.Equal(got, []string{"event 4", "event 5"}) {
		t.Errorf("received %q", got)
	}
	if got := s.Status(); got.Dropped != 3 {
		t.Errorf("status %+v, want 3 dropped", got)
	}
}

// Two processes have one position: the second one to write finds another revision, reads the position again, and goes on
// behind it.
func TestPositionHasOneWriter(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	w.add(t, event(1), event(2))
	one, two := w.sender(t, Target{Name: "x"}).queue, w.sender(t, Target{Name: "x"}).queue
	for _, r := range []*Reader{one, two} {
		if p, err := r.Next(t.Context()); err != nil || len(p.Messages) != 2 {
			t.Fatalf("Next = %+v, %v", p, err)
		}
	}
	if err := one.Done(t.Context(), 2); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("Done of the first = %v, want another writer", err)
	}
	if err := two.Done(t.Context(), 1); err != nil {
		t.Errorf("Done of the second = %v", err)
	}
	if p, err := one.Next(t.Context()); err != nil || len(p.Messages) != 1 || p.Messages[0].Sequence != 2 {
		t.Errorf("Next = %+v, %v, want the second event", p, err)
	}
}

// A stream that was created again is read from its beginning.
func TestStreamThatWasCreatedAgain(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	w.add(t, event(1), event(2))
	e := newEndpoint(t)
	s := w.sender(t, Target{Name: "x", URL: e.URL})
	run(t, s)
	e.accepted(t, 2)
	if err := w.js.DeleteStream(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	w.add(t, event(3))
	if got := texts(t, e.accepted(t, 1)); got[len(got)-1] != "event 3" || s.Status().Dropped != 0 {
		t.Errorf("received %q, %d dropped", got, s.Status().Dropped)
	}
}

// A target that hangs delays no other.
func TestTargetsAreIndependent(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	hanging := newEndpoint(t, slices.Repeat([]http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, 1000)...)
	e := newEndpoint(t)
	run(t, w.sender(t, Target{Name: "hangs", URL: hanging.URL}))
	run(t, w.sender(t, Target{Name: "x", URL: e.URL}))
	w.add(t, event(1), event(2))
	if got := texts(t, e.accepted(t, 2)); !slices.Equal(got, []string{"event 1", "event 2"}) {
		t.Errorf("received %q", got)
	}
}

func TestOldEventsAreDropped(t *testing.T) {
	e := newEndpoint(t)
	w, s := newSender(t, Target{Name: "x", URL: e.URL})
	old := event(1)
	old.At = time.Now().Add(-maxAge - time.Minute)
	w.add(t, old, event(2))
	run(t, s)
	if got := texts(t, e.accepted(t, 1)); !slices.Equal(got, []string{"event 2"}) {
		t.Errorf("received %q", got)
	}
	if got := s.Status().Dropped; got != 1 {
		t.Errorf("%d dropped, want 1", got)
	}
}

// While the stream is missing, the status names the command that creates it. Then the events follow.
func TestMissingStreamIsShown(t *testing.T) {
	w := newWork(t, jetstream.StreamConfig{})
	if err := w.js.DeleteStream(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t)
	s := w.sender(t, Target{Name: "x", URL: e.URL})
	run(t, s)
	await.True(t, "the status names the command", func() bool { return strings.Contains(s.Status().Unread, "weir nats streams") })
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "events", Subjects: []string{"events"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	w.add(t, event(1))
	e.accepted(t, 1)
	if got := s.Status(); got.Unread != "" || got.Failed != 0 {
		t.Errorf("status %+v, want no failed attempt", got)
	}
}

// The receiver in docs/events.md accepts a signed request. It refuses the request with another id, time or body.
func TestDocumentedReceiverVerifiesRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEndpoint(t)
	w, s := newSender(t, Target{Name: "x", URL: e.URL, SecretFile: file})
	run(t, s)
	w.add(t, event(1))
	body := e.accepted(t, 1)[0]
	var got Event
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.ID == "" || e.header.Get(headerID) != got.ID {
		t.Errorf("id %q in the header, event %+v, %v", e.header.Get(headerID), got, err)
	}
	sent, err := strconv.ParseInt(e.header.Get(webhook.HeaderTimestamp), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	later := strconv.FormatInt(sent+1, 10)
	for _, test := range []struct {
		name        string
		header      string // changed; empty: none
		value, body string
		want        string
	}{
		{"as sent", "", "", body, "True"},
		{"another id", headerID, got.ID[1:] + "0", body, "False"},
		{"no id", headerID, "", body, "False"},
		{"another time", webhook.HeaderTimestamp, later, body, "False"},
		{"another body", "", "", body + " ", "False"},
		{"no signature", webhook.HeaderSignature, "", body, "False"},
	} {
		t.Run(test.name, func(t *testing.T) {
			headers := map[string]string{}
			for _, name := range []string{headerID, webhook.HeaderTimestamp, webhook.HeaderSignature} {
				headers[name] = e.header.Get(name)
			}
			if test.header != "" {
				headers[test.header] = test.value
			}
			if got := verifiedByDocument(t, headers, test.body); got != test.want {
				t.Errorf("verified = %s, want %s", got, test.want)
			}
		})
	}
	old := http.Header{}
	webhook.Sign(old, time.Now().Add(-time.Hour), []byte("0123456789abcdef"), got.ID, []byte(body))
	headers := map[string]string{headerID: got.ID, webhook.HeaderTimestamp: old.Get(webhook.HeaderTimestamp), webhook.HeaderSignature: old.Get(webhook.HeaderSignature)}
	if got := verifiedByDocument(t, headers, body); got != "False" {
		t.Errorf("a genuine request of an hour ago: verified = %s, want False", got)
	}
}

// verifiedByDocument returns what the function of docs/events.md returns for a request: True or False.
func verifiedByDocument(t *testing.T, headers map[string]string, body string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```python\n")
	code, _, found := strings.Cut(rest, "```")
	request, err := json.Marshal(map[string]any{"headers": headers, "body": body})
	if !found || err != nil {
		t.Fatalf("code found: %v, %v", found, err)
	}
	code += "\nimport json, sys\nr = json.load(sys.stdin)\nprint(verified(r['headers'], r['body'].encode(), b'0123456789abcdef'))\n"
	cmd := exec.CommandContext(t.Context(), "python3", "-c", code)
	cmd.Stdin = bytes.NewReader(request)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
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
	s := NewSender(Target{Name: "x", URLFile: file}, nil, slog.New(slog.DiscardHandler))
	send := func() error {
		_, data, err := event(1).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return s.send(t.Context(), event(1), data)
	}
	for _, text := range []string{"http://127.0.0.1:1/hush-hush", "http://hush-hush:x\x7f/", "hush-hush-hush-hush"} {
		write(text)
		if err := send(); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("with %q: error %v, want one without the URL", text, err)
		}
	}
	write(e.URL + "/hush-hush\n")
	if err := send(); err != nil {
		t.Fatal(err)
	}
	e.accepted(t, 1)
}

// Equal events have equal ids, so that a receiver can drop a repetition.
func TestIDsFollowTheContent(t *testing.T) {
	id := func(e Event) string {
		id, data, err := e.Encode()
		var got Event
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || got.ID != id {
			t.Fatalf("id %q, event %+v, %v", id, got, err)
		}
		return id
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
		"severity":        {Filter{Least: api.SeverityInfo}, true},
		"higher severity": {Filter{Least: api.SeverityWarning}, false},
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
		"slack":  {slackBody, map[string]any{"text": "*info* prod/web target: " + strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;").Replace(hostile.Text)}},
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
	_, data, err := e.Encode()
	if err != nil || len(data) > maxEvent+100 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func FuzzBody(f *testing.F) {
	f.Add(slackBody, "text")
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
