package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

const (
	maxStreams   = 512 // open streams of live pages
	maxBehind    = 8   // events that a stream may be behind; then it ends, and the page reads its present state
	keepAlive    = 15 * time.Second
	writeTimeout = 10 * time.Second // of one event
)

// hub sends events to live pages. It encodes an event once for all of them.
type hub struct {
	mu      sync.Mutex
	streams map[*stream]bool
	changes int // publications so far
}

// address returns the address of the stream of a topic for a page that is made now. If something is published before the
// page opens the stream, the stream begins with the event "changed".
func (h *hub) address(topic string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "/events?" + url.Values{"pool": {topic}, "at": {strconv.Itoa(h.changes)}}.Encode()
}

// begin counts a publication.
func (h *hub) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
}

// changed reports whether something was published after the address of a page.
func (h *hub) changed(at string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return at != "" && at != strconv.Itoa(h.changes)
}

// stream is one open page. topic is "" for the fleet, or the name of a pool.
type stream struct {
	topic  string
	events chan []byte
}

// join opens a stream; nil if there are too many.
func (h *hub) join(topic string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= maxStreams {
		return nil
	}
	s := &stream{topic, make(chan []byte, maxBehind)}
	if h.streams == nil {
		h.streams = map[*stream]bool{}
	}
	h.streams[s] = true
	return s
}

// leave closes a stream. It may be closed already.
func (h *hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(s)
}

func (h *hub) drop(s *stream) {
	if h.streams[s] {
		delete(h.streams, s)
		close(s.events)
	}
}

// listened reports whether a topic has a stream.
func (h *hub) listened(topic string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if s.topic == topic {
			return true
		}
	}
	return false
}

// send sends an event to the streams of a topic. It ends those that are too far behind.
func (h *hub) send(topic string, event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		if s.topic != topic {
			continue
		}
		select {
		case s.events <- event:
		default:
			h.drop(s)
		}
	}
}

// encode returns an event of a stream. It does not escape "<": no page is made of the bytes of an event.
func encode(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// publish sends what changed, at most once a second, until ctx ends.
func (s *Server) publish(ctx context.Context) {
	tick := time.NewTicker(joined)
	defer tick.Stop()
	was := "-"
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.alive:
			continue
		case <-tick.C:
		}
		away, _ := s.store.awayNow()
		names := s.store.changes()
		if away == was && (away != "" || len(names) == 0) {
			continue
		}
		if err := s.announce(ctx, names, away != was); err != nil {
			s.log.Error("cannot publish changes to the pages", "err", err)
		}
		was = away
	}
}

// tickEvent is the event of a pool.
type tickEvent struct {
	Pool  string `json:"pool"`
	At    string `json:"at"`
	State string `json:"state"` // class
	Word  string `json:"word"`
	Why   string `json:"why"`
}

// announce sends the rows of the pools to the fleet, and a tick to the pages of each pool.
func (s *Server) announce(ctx context.Context, names []Name, all bool) error {
	s.hub.begin() // before the pools are read: a page that is made from here on shows them
	if all {
		names = s.store.names()
	}
	for _, name := range names {
		if !s.hub.listened(name.String()) {
			continue
		}
		var e tickEvent
		s.store.read(name, func(r *series.Ring, k known) {
			worst := series.States(s.now(), r, k.last, k.Facts)[0]
			e = tickEvent{name.String(), r.Last().Format(time.RFC3339), stateClass(worst.Rank), worst.Word, worst.Why}
		})
		event, err := encode("tick", e)
		if err != nil {
			return err
		}
		s.hub.send(name.String(), event)
	}
	if !s.hub.listened("") {
		return nil
	}
	data, err := s.fleetEvent(ctx, names)
	if err != nil {
		return err
	}
	event, err := encode("pools", data)
	if err != nil {
		return err
	}
	s.hub.send("", event)
	return nil
}

// serveEvents streams events of the fleet, or of one pool, until the page or the server ends it.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	topic := r.URL.Query().Get("pool")
	if topic != "" {
		cluster, pool, _ := cutName(topic)
		if !s.store.read(Name{cluster, pool}, func(*series.Ring, known) {}) {
			http.Error(w, "this pool does not exist", http.StatusNotFound)
			return
		}
	}
	stream := s.hub.join(topic)
	if stream == nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many live pages; this page loads again without live values", http.StatusServiceUnavailable)
		return
	}
	defer s.hub.leave(stream)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	write := func(event []byte) error {
		// An error here means that the writer has no deadlines; then neither has the connection.
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(event); err != nil {
			return err
		}
		return out.Flush()
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	event := []byte("retry: 3000\n\n")
	if s.hub.changed(r.URL.Query().Get("at")) { // read after joining, so that no change is lost between
		event = append(event, "event: changed\ndata: {}\n\n"...)
	}
	for {
		if write(event) != nil {
			return // the page is gone
		}
		var open bool
		select {
		case event, open = <-stream.events:
			if !open {
				return
			}
		case <-alive.C:
			event = []byte(": alive\n\n")
		case <-r.Context().Done():
			return
		}
	}
}
