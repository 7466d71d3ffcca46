package bustest

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"testing"
)

// ServeVersion answers logins and pings as a server of NATS of that version until the test ends. It returns its URL.
func ServeVersion(tb testing.TB, version string) string {
	tb.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	tb.Cleanup(func() { door.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				fmt.Fprintf(c, `INFO {"server_id":"1","server_name":"n1","version":%q,"headers":true,"jetstream":true,"max_payload":1048576}`+"\r\n", version)
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if lines.Text() == "PING" {
						fmt.Fprint(c, "PONG\r\n") // a lost connection ends the loop
					}
				}
			})
		}
	})
	return "nats://" + door.Addr().String()
}

// Wire is a network path to a server that a test cuts. While it is cut, its connections stay open, and no byte passes.
type Wire struct {
	address string // of the server
	door    net.Listener
	wg      sync.WaitGroup

	mu   sync.Mutex
	cut  chan struct{} // closed when the wire is repaired; nil: it is whole
	open map[net.Conn]struct{}
	shut bool // connections end at once
	done bool
}

// NewWire returns a whole path to an address, until the test ends.
func NewWire(tb testing.TB, address string) *Wire {
	tb.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &Wire{address: address, door: door, open: map[net.Conn]struct{}{}}
	w.wg.Go(w.accept)
	tb.Cleanup(func() {
		door.Close()
		w.mu.Lock()
		w.done = true
		w.mu.Unlock()
		w.Mend()
		w.wg.Wait()
	})
	return w
}

// Address returns the near end.
func (w *Wire) Address() string { return w.door.Addr().String() }

// Cut cuts the wire. Bytes on their way are lost.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

// Shut ends all connections, and each new one until Mend.
func (w *Wire) Shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = true
	for c := range w.open {
		c.Close()
	}
}

// Mend makes the wire whole for new connections, and ends all others.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = false
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
	for c := range w.open {
		c.Close()
	}
}

func (w *Wire) accept() {
	for {
		near, err := w.door.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.serve(near) })
	}
}

// serve passes the bytes of one connection, both ways.
func (w *Wire) serve(near net.Conn) {
	defer w.drop(near)
	if !w.addConn(near) || !w.whole() {
		return
	}
	far, err := net.Dial("tcp", w.address)
	if err != nil {
		return
	}
	defer w.drop(far)
	if !w.addConn(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.pass(far, near) })
	both.Go(func() { w.pass(near, far) })
	both.Wait()
}

// pass copies until one end is closed or the wire was cut.
func (w *Wire) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if !w.whole() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// whole reports whether the wire is whole. If it is cut, whole waits until it is repaired and returns false.
func (w *Wire) whole() bool {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut == nil {
		return true
	}
	<-cut
	return false
}

// addConn stores a connection for Mend. It returns false if connections end at once, and after the end of the test.
func (w *Wire) addConn(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[c] = struct{}{}
	return !w.shut && !w.done
}

func (w *Wire) drop(c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}
