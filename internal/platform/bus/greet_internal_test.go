package bus

import (
	"strings"
	"testing"
)

// A greeting of any content returns bounded, printable texts or an error.
func FuzzGreeting(f *testing.F) {
	for _, line := range []string{
		`INFO {"server_name":"n1","version":"2.15.2","cluster":"weir","jetstream":true,"tls_required":true,"connect_urls":["a:1","a:1"]}` + "\r\n",
		"INFO {}\r\n", "INFO null\n", "HTTP/1.1 400 Bad Request\r\n", "", `INFO {"server_name":"` + strings.Repeat("\x1b[2J", 100) + `"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		g, _, err := decodeGreeting(line)
		if err != nil {
			return
		}
		for _, text := range append(g.Peers, g.Server, g.Version, g.Cluster) {
			if len([]rune(text)) > maxText+len("...") || strings.ContainsAny(text, "\x1b\n\r") {
				t.Errorf("%q from %q", text, line)
			}
		}
		if len(g.Peers) > maxPeers {
			t.Errorf("%d peers", len(g.Peers))
		}
	})
}

// A version of another form is not refused.
func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"2.10.29": true, "2.14.99": true, "2.15.0-RC.1": false, "2.15.2": false, "3.0.0": false, "1.99.9": true, "": false, "x": false} {
		if got := older(version); got != want {
			t.Errorf("NATS %q is older = %v, want %v", version, got, want)
		}
	}
}
