package plugin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// The handshake names a socket in the host's folder, which is removed with the server. Tests in bootstrap/control cover
// its use by a host.
func TestHandshakeNamesSocketInTheHostsFolder(t *testing.T) {
	folder, err := os.MkdirTemp("", "weir") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	t.Setenv(signalv1.FolderKey, folder)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveControl(ctx, &signalv1.DescribeResponse{}, w) }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(line, "|")
	if len(fields) != 6 || fields[0] != "1" || fields[1] != "1" || fields[2] != "unix" || fields[4] != "grpc" {
		t.Fatalf("handshake %q", line)
	}
	if info, err := os.Stat(fields[3]); err != nil || info.Mode().Type() != os.ModeSocket || filepath.Dir(fields[3]) != folder {
		t.Errorf("%s is not a socket in %s: %v", fields[3], folder, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serveControl = %v after the end of its context", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestServeControlFails(t *testing.T) {
	closed, w := io.Pipe()
	closed.Close()
	for _, test := range []struct{ name, key, value, want string }{
		{"host requires TLS", signalv1.TLSKey, "PEM", "start the program with bootstrap"},
		{"folder is missing", signalv1.FolderKey, "/no/such/folder", "no such file"},
		{"standard output is closed", "", "", "closed pipe"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.key != "" {
				t.Setenv(test.key, test.value)
			}
			err := serveControl(t.Context(), &signalv1.DescribeResponse{}, w)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("serveControl = %v, want %q", err, test.want)
			}
		})
	}
}

// The control connection has the bounds of the signal's own socket: if too many connections are open, the next one is
// closed.
func TestControlPlaneBoundsConnections(t *testing.T) {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "plugin")
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 64 {
		dial()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { _, _ = l.Accept() }) // it returns when the listener is closed
	last := dial()
	if err := last.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v, want the connection closed", err)
	}
	l.Close()
	accepting.Wait()
}
