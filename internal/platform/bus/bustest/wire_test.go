package bustest_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// echo answers with what it receives.
func echo(t *testing.T) string {
	t.Helper()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { door.Close() })
	go func() {
		for {
			c, err := door.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the connection
			}()
		}
	}()
	return door.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(c net.Conn) error {
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// A cut wire passes nothing. After its repair it ends the connections from before, and passes new ones.
func TestWire(t *testing.T) {
	t.Parallel()
	w := bustest.NewWire(t, echo(t))
	before := dial(t, w.Address())
	if err := ask(before); err != nil {
		t.Fatal(err)
	}
	w.Cut()
	dial(t, w.Address())
	if _, err := before.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	w.Mend()
	if n, err := before.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a connection from before the cut received %d bytes, %v, want none", n, err)
	}
	if err := ask(dial(t, w.Address())); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}
