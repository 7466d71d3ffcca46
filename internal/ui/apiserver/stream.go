package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	commentsAt  = 15 * time.Second // without an event
	tokenEvery  = time.Second      // between two checks of the token of an open stream
	reconnectMS = 3000             // after the end of a stream
)

// live serves a stream of events.
func (s *server) live(c *call, w http.ResponseWriter) {
	pool := c.value("pool")
	switch {
	case s.Live == nil:
		writeError(w, http.StatusServiceUnavailable, errors.New("this server has no live events"))
		return
	case pool != "" && !names.Valid(pool):
		writeError(w, http.StatusBadRequest, fmt.Errorf("pool %.64q: %s", pool, names.Rule))
		return
	}
	if pool != "" {
		if err := c.checkPool(pool); err != nil {
			writeError(w, statusOf(err), err)
			return
		}
	}
	if c.request.Method == http.MethodHead {
		return
	}
	if !s.takeStream(c.by) {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusTooManyRequests, fmt.Errorf("this token has %d open streams: close one, or use another token", maxOfToken))
		return
	}
	defer s.giveStream(c.by)
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	one, missed, all := s.Live.listen(pool, c.request.Header.Get("Last-Event-ID"))
	defer s.Live.leave(one)
	send := func(data []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := w.Write(data)
		return err == nil && out.Flush() == nil
	}
	begin := fmt.Appendf(nil, "retry: %d\n\n", reconnectMS)
	if !all {
		begin = append(begin, "event: reset\ndata: {}\n\n"...) // the client reads the present state again
	}
	for _, f := range missed {
		begin = append(begin, f.data...)
	}
	if !send(begin) {
		return
	}
	comments := time.NewTicker(commentsAt)
	defer comments.Stop()
	check := time.NewTicker(tokenEvery)
	defer check.Stop()
	for {
		var data []byte
		select {
		case <-c.request.Context().Done():
			return
		case <-check.C:
			if token, err := s.tokenOf(c.request); err != nil || token != c.by {
				return // the token was removed or changed, or the file is unreadable: the next request says which
			}
			continue
		case <-comments.C:
			data = []byte(": open\n\n")
		case f, ok := <-one.frames:
			if !ok {
				return // too far behind: the client reconnects
			}
			data = f.data
		}
		if !send(data) {
			return
		}
	}
}
