package bulktest

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
)

// Fault is a kind of trouble.
type Fault int

const (
	NoFault   Fault = iota // no trouble
	Status                 // answers Trouble.Status
	Cut                    // closes the connection within an answer
	Truncated              // ends within an answer, without an error of the connection

	Held    // does not answer until ClearFault
	Garbage // answers invalid JSON
	Foreign // answers JSON of another form

	Gone     // closes each connection at once
	Redirect // redirects to Trouble.Location

	Huge // an endless answer
	Loop // each answer repeats the token of its request
)

// String returns the name of the fault.
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
	After int // number of requests answered normally before
	Times int // number of affected requests; 0: all, until ClearFault

	Status     int    // of Status; default 500
	RetryAfter string // a header of Status and Redirect
	Location   string // of Redirect
}

// nextFault returns the fault of the next request.
func (t *Trouble) nextFault() Fault {
	switch {
	case t.Fault == NoFault:
		return NoFault
	case t.After > 0:
		t.After--
		return NoFault
	case t.Times < 0:
		return NoFault
	case t.Times > 0:
		t.Times--
		if t.Times == 0 {
			t.Times = -1 // all used
		}
	}
	return t.Fault
}

// apply answers a request with a fault. answer is the normal answer.
func (t Trouble) apply(w http.ResponseWriter, r *http.Request, faultCleared <-chan struct{}, answer []byte) {
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
		_, _ = w.Write(answer[:len(answer)/2])    // the client may have closed the connection
		_ = http.NewResponseController(w).Flush() // otherwise nothing is sent
		panic(http.ErrAbortHandler)
	case Truncated:
		_, _ = w.Write(answer[:len(answer)/2])
	case Held:
		select {
		case <-faultCleared:
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

// hangUp resets the connection, as the kernel does for a port without a listener.
func hangUp(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // otherwise it is closed normally
			}
			_ = conn.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// flood writes a row until the client disconnects.
func flood(w http.ResponseWriter, r *http.Request) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	_, err := w.Write([]byte(`{"results":{"a":{"id":"`))
	for err == nil && r.Context().Err() == nil {
		_, err = w.Write(chunk)
	}
}
