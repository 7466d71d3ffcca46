package apiserver

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

const (
	behind = 8   // events that may wait for a connection; one more closes it
	kept   = 256 // events for connections that come back
)

// Live publishes events to open streams. It keeps the last ones for streams that reconnect.
type Live struct {
	process string // in each id: ids of another process are unknown

	mu   sync.Mutex
	next uint64
	last []frame // at most kept, in order
	open map[*listener]struct{}
}

// frame is one encoded event.
type frame struct {
	number uint64
	pool   string // empty: of all pools
	data   []byte
}

// listener is one open stream. Its channel is closed when it is too far behind.
type listener struct {
	pool   string // empty: all
	frames chan frame
}

// NewLive returns a Live without events. started is the start of this process.
func NewLive(started time.Time) *Live {
	return &Live{process: strconv.FormatInt(started.UnixNano(), 36), open: map[*listener]struct{}{}}
}

func tickOf(s api.Summary, changed bool) api.LiveTick {
	t := api.LiveTick{Pool: s.Pool, At: s.At, State: "decided", Why: s.Why, Changed: changed}
	switch {
	case s.Failed != "":
		t.State, t.Why = "failed", s.Failed
	case s.Paused != nil:
		t.State, t.Why = "paused", s.Paused.Text()
	default:
		t.Target, t.Wanted, t.Joined = s.Target, s.Wanted, &s.Joined
		if s.Limits != nil {
			t.Min, t.Max = &s.Limits.Min, s.Limits.Max
		}
	}
	return t
}

// Publish encodes an event once, and passes it to the streams of its pool; empty: to all. A stream that is too far
// behind is closed.
func (l *Live) Publish(kind, pool string, v any) error {
	data, err := seconds.Of(v)
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", kind, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	f := frame{l.next, pool, fmt.Appendf(nil, "event: %s\nid: %s-%d\ndata: %s\n\n", kind, l.process, l.next, bytes.ReplaceAll(data, []byte("\n"), nil))}
	if l.last = append(l.last, f); len(l.last) > kept {
		l.last = l.last[len(l.last)-kept:]
	}
	for one := range l.open {
		if !one.has(f) {
			continue
		}
		select {
		case one.frames <- f:
		default:
			delete(l.open, one)
			close(one.frames)
		}
	}
	return nil
}

// has reports whether the stream gets the event.
func (l *listener) has(f frame) bool { return l.pool == "" || f.pool == "" || f.pool == l.pool }

// listen opens a stream. It returns the events after the id, and whether that are all of them.
func (l *Live) listen(pool, lastID string) (one *listener, missed []frame, all bool) {
	one = &listener{pool, make(chan frame, behind)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[one] = struct{}{}
	process, number, _ := strings.Cut(lastID, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if lastID == "" {
		return one, nil, true
	}
	if process != l.process || err != nil || n > l.next || len(l.last) > 0 && n+1 < l.last[0].number {
		return one, nil, false
	}
	for _, f := range l.last {
		if f.number > n && one.has(f) {
			missed = append(missed, f)
		}
	}
	return one, missed, true
}

func (l *Live) leave(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, one)
}
