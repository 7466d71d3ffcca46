package natsconf_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// A server ends the connection of an agent that sends a heartbeat of 7 MB, at its first line, so no receiver has to hold it. It
// accepts the same from a pool, whose records are long. The client of a thief does not heed the limit that the server announces.
func TestAgentsSendShortMessages(t *testing.T) {
	c := bustest.ServeEdited(t, addOpenUsers, prod)
	for role, want := range map[roles.Role]string{roles.Agent: "-ERR 'Maximum Payload Violation'", roles.Pool: "+OK"} {
		account := roles.User{Role: role, Cluster: "prod", Pool: "web"}.Account()
		if got := sendLong(t, c, account, "weir.prod.heartbeat.web.i-01", 7<<20); got != want {
			t.Errorf("account %s: the answer to a message of 7 MB is %q, want %q", account, got, want)
		}
	}
}

// sendLong sends one message in the protocol of the servers, and returns the answer to it.
func sendLong(t *testing.T, c *bustest.Cluster, account, subject string, size int) string {
	t.Helper()
	plain, err := net.Dial("tcp", strings.TrimPrefix(c.URL(0), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(plain, 16).ReadString('\n'); err != nil { // INFO, before TLS begins
		t.Fatal(err)
	}
	config := c.TLS()
	config.ServerName = "127.0.0.1"
	conn := tls.Client(plain, config)
	lines := bufio.NewReader(conn)
	next := func() string {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line = strings.TrimSpace(line); line != "PING" && !strings.HasPrefix(line, "INFO ") {
				return line
			}
		}
	}
	fmt.Fprintf(conn, "CONNECT {\"verbose\":true,\"user\":%q,\"pass\":%q}\r\n", openUser+" "+account, openUser)
	if got := next(); got != "+OK" {
		t.Fatalf("the answer to CONNECT is %q", got)
	}
	fmt.Fprintf(conn, "PUB %s %d\r\n", subject, size)
	go func() { _, _ = conn.Write(append(make([]byte, size), "\r\n"...)) }() // fails when the server ends the connection
	return next()
}
