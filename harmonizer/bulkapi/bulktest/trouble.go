package bulktest

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
)

// Fault is a kind of trouble.
type Fault int

// Faults.
const (
	Well      Fault = iota // no trouble
	Status                 // answers Trouble.Status
	Cut                    // closes the connection in the middle of an answer
	Truncated              // ends an answer in its middle, as if it were whole
	Held                   // does not answer, until Mend
	Garbage                // answers what is no JSON
	Foreign                // answers JSON that is none of a bulk API
	Gone                   // closes each connection at once
	Redirect               // points to Trouble.Location
	Huge                   // an answer that does not end
	Loop                   // each answer has the token it was asked with
)

// String returns the name.
func (f Fault) String() string {
	names := [...]string{"well", "status", "cut", "truncated", "held", "garbage", "foreign", "gone", "redirect", "huge", "loop"}
	if f < 0 || int(f) >= len(names) {
		return "fault " + strconv.Itoa(int(f))
	}
	return names[f]
}

// Trouble is what happens to requests.
type Trouble struct {
	Fault Fault
	After int // so many requests are answered well before
	Times int // so many requests; 0: all, until Mend

	Status     int    // of Status; 500
	RetryAfter string // a header of Status and Redirect
	Location   string // of Redirect
}

// take returns the fault of the next request.
func (t *Trouble) take() Fault {
	switch {
	case t.Fault == Well:
		return Well
	case t.After > 0:
		t.After--
		return Well
	case t.Times < 0:
		return Well
	case t.Times > 0:
		t.Times--
		if t.Times == 0 {
			t.Times = -1 // that was the last one
		}
	}
	return t.Fault
}

// suffer answers a request with a fault. The answer is the one that it would have
// had.
func (t Trouble) suffer(w http.ResponseWriter, r *http.Request, mended <-chan struct{}, answer []byte) {
	if t.RetryAfter != "" {
		w.Header().Set("Retry-After", t.RetryAfter)
	}
	switch t.Fault {
	case Status:
		status := t.Status
		if status == 0 {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
	case Cut:
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer[:len(answer)/2])    // the client may be gone
		_ = http.NewResponseController(w).Flush() // else all of it is cut off
		panic(http.ErrAbortHandler)
	case Truncated:
		_, _ = w.Write(answer[:len(answer)/2])
	case Held:
		select {
		case <-mended:
			_, _ = w.Write(answer)
		case <-r.Context().Done():
		}
	case Garbage:
		_, _ = w.Write([]byte("<html>it works</html>"))
	case Foreign:
		_, _ = w.Write([]byte(`{"status": "ok"}`))
	case Gone:
		hangUp(w)
	case Redirect:
		w.Header().Set("Location", t.Location)
		w.WriteHeader(http.StatusFound)
	case Huge:
		flood(w, r)
	}
}

// hangUp resets the connection, as the kernel does where nobody listens.
func hangUp(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // then it is closed politely
			}
			_ = conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// flood writes a row until the client has had enough.
func flood(w http.ResponseWriter, r *http.Request) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	_, err := w.Write([]byte(`{"results":{"a":{"id":"`))
	for err == nil && r.Context().Err() == nil {
		_, err = w.Write(chunk)
	}
}
