// Package influxtest runs influxd for tests. The first test of a user builds it, which takes a few minutes.
//
//	var shared influxtest.Server
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		shared.Stop()
//		os.Exit(code)
//	}
//
// All tests of a package share one server, with a database for each test. It listens on loopback only. Its data is in a
// temporary folder, which Stop removes. A Server is safe for concurrent use.
package influxtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// influxd is built in its own module, because its dependencies are older than ours.
var (
	//go:embed testdata/influxd/mod.txt
	influxdMod []byte
	//go:embed testdata/influxd/sum.txt
	influxdSum []byte
)

const (
	influxdVersion = "1.8.10"
	buildLimit     = 15 * time.Minute
	startLimit     = 3 * time.Minute
	user, password = "admin", "s3cret"

	// Token is that of the administrator.
	Token = influx.Token(user + ":" + password)
)

// influxd returns the program. The first call of a user builds it. If several processes need it, one builds.
func influxd(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "weirkeeper", "influxd-"+influxdVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "influxd")
	lock, err := lockWhenFree(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Unlock() // the file is only a lock
	if _, err := os.Stat(program); !errors.Is(err, os.ErrNotExist) {
		return program, err
	}
	return program, build(ctx, dir, program)
}

func lockWhenFree(ctx context.Context, path string) (*flock.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := flock.Lock(path)
		if _, held := errors.AsType[*flock.HeldError](err); !held {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// build builds the program in that folder, atomically.
func build(ctx context.Context, dir, program string) error {
	for name, data := range map[string][]byte{"go.mod": influxdMod, "go.sum": influxdSum} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "building influxd %s for the first time, in %s: this takes a few minutes\n", influxdVersion, dir)
	fresh := program + ".new"
	cmd := exec.Command("go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", fresh, "github.com/influxdata/influxdb/cmd/influxd")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	builder, err := startChild(cmd)
	if err != nil {
		return err
	}
	select {
	case <-builder.done:
	case <-ctx.Done():
		builder.kill()
		return fmt.Errorf("build influxd: %w", ctx.Err())
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("build influxd: %s\n%s", cmd.ProcessState, output.Bytes())
	}
	return os.Rename(fresh, program)
}

// child is a process that ends with this one.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig follows the thread, which ends with the goroutine
		defer close(c.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state has the result
		}
	}()
	return c, <-started
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // an error means that it has ended
	<-c.done
}

// Server is one influxd. It starts at its first use. Each test has its own databases.
type Server struct {
	once      sync.Once
	err       error
	dir       string
	process   *child
	address   string
	databases atomic.Int64
}

// Address returns host and port. The first call builds and starts influxd.
func (s *Server) Address(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() { s.err = s.run() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.address
}

func (s *Server) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	program, err := influxd(ctx)
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "influxd"); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "influxd.conf")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(influxdConfig, "DIR", s.dir)), 0o600); err != nil {
		return err
	}
	log := &addressFinder{found: make(chan string, 1)}
	cmd := exec.Command(program, "run", "-config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if s.process, err = startChild(cmd); err != nil {
		return err
	}
	deadline := time.NewTimer(startLimit)
	defer deadline.Stop()
	select {
	case s.address = <-log.found:
		return s.influxQL(fmt.Sprintf("CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES", user, password))
	case <-s.process.done:
		return fmt.Errorf("influxd ended: %s\n%s", cmd.ProcessState, log.output.Bytes())
	case <-deadline.C:
		return errors.New("influxd does not listen")
	}
}

// Stop stops influxd if it runs, and removes its files.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.kill()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // a temporary folder
	}
}

const influxdConfig = `
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
  dir = "DIR/meta"
[data]
  dir = "DIR/data"
  wal-dir = "DIR/wal"
  query-log-enabled = false
  validate-keys = true
[http]
  bind-address = "127.0.0.1:0"
  flux-enabled = true
  auth-enabled = true
  log-enabled = false
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
[logging]
  format = "json"
  level = "info"
`

// addressFinder reads the listen address from influxd's log.
type addressFinder struct {
	output bytes.Buffer // until it is found
	found  chan string
	done   bool
}

func (f *addressFinder) Write(p []byte) (int, error) {
	if f.done {
		return len(p), nil
	}
	f.output.Write(p)
	for line := range bytes.Lines(f.output.Bytes()) {
		var l struct {
			Message string `json:"msg"`
			Addr    string `json:"addr"`
		}
		if json.Unmarshal(line, &l) == nil && l.Message == "Listening on HTTP" {
			f.found <- l.Addr
			f.done = true
			break
		}
	}
	return len(p), nil
}

// influxQL runs a command on influxd as its administrator.
func (s *Server) influxQL(command string) error {
	request, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/query?"+url.Values{"q": {command}}.Encode(), nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(user, password)
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startLimit}
	response, err := direct.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && (response.StatusCode != http.StatusOK || bytes.Contains(body, []byte(`"error"`))) {
		err = fmt.Errorf("%s: %s %s", command, response.Status, body)
	}
	return err
}

// Do runs a command of InfluxQL as the administrator.
func (s *Server) Do(tb testing.TB, command string) {
	tb.Helper()
	s.Address(tb)
	if err := s.influxQL(command); err != nil {
		tb.Fatal(err)
	}
}

// Config returns the Config of a new database.
func (s *Server) Config(tb testing.TB) influx.Config {
	tb.Helper()
	name := fmt.Sprintf("db%d", s.databases.Add(1))
	s.Do(tb, "CREATE DATABASE "+name)
	return influx.Config{URL: "http://" + s.Address(tb), Bucket: name + "/autogen", Token: Token}
}
