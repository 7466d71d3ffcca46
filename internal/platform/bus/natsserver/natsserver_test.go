package natsserver

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options(t.TempDir())
	o.Port = l.Addr().(*net.TCPAddr).Port
	if _, err := start(o, &serverLog{log: slog.New(slog.DiscardHandler)}, &authenticator{}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("err = %v, want address already in use", err)
	}
}
