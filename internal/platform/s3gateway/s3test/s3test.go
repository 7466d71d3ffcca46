// Package s3test runs S3 servers for tests. Each is package s3gateway in a child process of the test binary. So a
// test can have several servers, keeps its working directory, and can kill a server.
//
//	func TestMain(m *testing.M) {
//		s3test.RunIfChild()
//		os.Exit(m.Run())
//	}
//
// A Server is safe for concurrent use.
//
// Tests start one by [Start] or [Serve], and its cleanup stops the process.
package s3test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway"
)

const (
	// AccessKey and SecretKey are valid for every Server.
	AccessKey = "weir-test"
	SecretKey = "weir-test-secret"

	// childEnv has the child's folder, and then each bucket after a newline.
	childEnv = "WEIR_S3TEST_CHILD"
	deadline = 20 * time.Second
)

// RunIfChild runs the server and exits if Start created this process. Otherwise it returns at once. The server stops
// at the end of its standard input.
func RunIfChild() {
	spec, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	dir, buckets, _ := strings.Cut(spec, "\n")
	err := s3gateway.Run(ctx, s3gateway.Config{
		Dir: dir, Addr: "127.0.0.1:0", AccessKey: AccessKey, SecretKey: SecretKey,
		Buckets: strings.Fields(buckets),
		Log:     slog.New(slog.DiscardHandler),
		Ready:   func(addr string) { fmt.Println(addr) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Server is a running gateway.
type Server struct {
	Endpoint string // http://host:port
	dir      string
	cmd      *exec.Cmd
	stdin    io.Closer // open while the server must run
	ended    chan struct{}
}

// Start runs a server with these buckets until the test ends. It also sets the server's credentials in the
// environment, where the SDK's chain finds them first. So its caller cannot be parallel.
func Start(t testing.TB, buckets ...string) *Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
	return Serve(t, buckets...)
}

// Serve runs a server with these buckets until the test ends. Its caller may be parallel.
func Serve(t testing.TB, buckets ...string) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir(), ended: make(chan struct{})}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), childEnv+"="+s.dir+"\n"+strings.Join(buckets, "\n"))
	s.cmd.Stderr = os.Stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr := make(chan string, 1)
	go func() {
		defer close(s.ended)
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		addr <- strings.TrimSpace(line)
		s.cmd.Wait()
	}()
	t.Cleanup(s.Kill)
	select {
	case a := <-addr:
		if a == "" {
			t.Fatal("the s3 gateway ended before it was ready")
		}
		s.Endpoint = "http://" + a
	case <-time.After(deadline):
		t.Fatal("the s3 gateway was not ready in time")
	}
	return s
}

// Path returns the file of an object's bytes. Writing it changes the object without any check.
func (s *Server) Path(bucket, key string) string {
	return filepath.Join(s.dir, "buckets", bucket, filepath.FromSlash(key))
}

// Kill kills the server and waits for its end. The end of the test does the same.
func (s *Server) Kill() {
	s.cmd.Process.Kill() // an error means that it has already ended
	<-s.ended
	s.stdin.Close()
}
