package signaltest

import (
	"strings"
	"testing"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// The kit does not import the control service, so it has copies of its constants.
func TestConstantsOfControlService(t *testing.T) {
	if cookieKey != signalv1.CookieKey || cookieValue != signalv1.CookieValue || protocolVersion != signalv1.ProtocolVersion {
		t.Errorf("cookie %s=%s, version %d; want those of package signalv1: %s=%s, %d",
			cookieKey, cookieValue, protocolVersion, signalv1.CookieKey, signalv1.CookieValue, signalv1.ProtocolVersion)
	}
}

func TestHandshake(t *testing.T) {
	for _, test := range []struct {
		line string
		want int
		err  string
	}{
		{"1|1|unix|/tmp/plugin1|grpc|", 1, ""},
		{"1|7|unix|/tmp/plugin1|grpc", 7, ""},
		{"1|1|unix|/tmp/plugin1|grpc||true\n", 1, ""},
		{"starting", 0, "want the handshake"},
		{"2|1|unix|/tmp/plugin1|grpc|", 0, "want the handshake"},
		{"1|1|unix|/tmp/plugin1|netrpc|", 0, "netrpc"},
		{"1|1|tcp|127.0.0.1:1|grpc|", 0, "tcp"},
		{"1|one|unix|/tmp/plugin1|grpc|", 0, "want a number"},
		{"", 0, "want the handshake"},
	} {
		got, err := handshake(test.line)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("handshake(%q) = %d, %v, want %d and an error with %q", test.line, got, err, test.want, test.err)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add("1|1|unix|/tmp/plugin1|grpc|")
	f.Add("1||||")
	f.Fuzz(func(t *testing.T, line string) {
		if version, err := handshake(line); err != nil && version != 0 {
			t.Errorf("handshake(%q) = %d, %v", line, version, err)
		}
	})
}

func TestWithoutPlugin(t *testing.T) {
	got := withoutPlugin([]string{"A=1", cookieKey + "=" + cookieValue, versionsKey + "=1", "B=2"})
	if strings.Join(got, " ") != "A=1 B=2" {
		t.Errorf("withoutPlugin left %q, want A=1 and B=2", got)
	}
}
