// Package s3test gives tests an S3 server: package s3gateway in a child
// process, which is the test binary itself. So a test binary may have several,
// keeps its working directory, and can kill one to see what happens with the
// bucket away.
//
//	func TestMain(m *testing.M) {
//		s3test.RunIfChild()
//		os.Exit(m.Run())
//	}
//
// A Server may be used by any number of goroutines.
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

	"github.com/weirkeeper/weirkeeper/internal/s3gateway"
)

const (
	// AccessKey and SecretKey open every Server.
	AccessKey = "weir-test"
	SecretKey = "weir-test-secret"

	// childEnv holds the child's folder, and its buckets after a newline each.
	childEnv = "WEIR_S3TEST_CHILD"
	deadline = 20 * time.Second
)

// RunIfChild runs the server and exits, if this process is a child that Start
// made; else it returns at once. The server ends with its standard input.
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
	stdin    io.Closer // held open as long as the server is wanted
	ended    chan struct{}
}

// Start runs a server with these buckets until the test ends. It also puts the
// server's credentials into the environment, where the usual chain finds them
// first; a test that calls it cannot be parallel.
func Start(t testing.TB, buckets ...string) *Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
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

// Path is the file that holds an object's bytes. Writing it changes what the
// server gives behind the back of everything that would check.
func (s *Server) Path(bucket, key string) string {
	return filepath.Join(s.dir, "buckets", bucket, filepath.FromSlash(key))
}

// Kill ends the server as a crash would, and returns when it is gone. The end of
// the test does the same.
func (s *Server) Kill() {
	s.cmd.Process.Kill() // an error means that it is gone already
	<-s.ended
	s.stdin.Close()
}
