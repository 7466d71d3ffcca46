package bus_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// A server that sends a ping while a login waits for its auth callout is tried again.
func TestPingBeforeTheLogin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	logins := make(chan int, 10)
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "INFO {\"server_id\":\"s\",\"version\":\"2.15.0\",\"headers\":true,\"max_payload\":1048576}\r\n")
			lines := bufio.NewScanner(conn)
			for lines.Scan() && lines.Text() != "PING" {
			}
			logins <- n
			if n < 3 {
				fmt.Fprintf(conn, "PING\r\n")
				continue
			}
			fmt.Fprintf(conn, "PONG\r\n")
			go func() {
				for lines.Scan() {
					if lines.Text() == "PING" {
						fmt.Fprintf(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{"nats://" + l.Addr().String()}}, Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if n := len(logins); n != 3 {
		t.Errorf("%d logins, want 3", n)
	}
}
