package influx_test

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

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

const (
	user, password = "admin", "s3cret"
	token          = influx.Token(user + ":" + password)
)

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

// influxServer is one influxd. It starts at its first use, and listens on loopback only. Each test has its own databases.
type influxServer struct {
	once      sync.Once
	err       error
	dir       string
	process   *child
	address   string
	databases atomic.Int64
}

// Address returns host and port. The first call builds and starts influxd.
func (s *influxServer) Address(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() { s.err = s.run() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.address
}

func (s *influxServer) run() error {
	program, err := testprograms.Influxd(context.Background())
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
	deadline := time.NewTimer(await.Patience)
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
func (s *influxServer) Stop() {
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
func (s *influxServer) influxQL(command string) error {
	request, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/query?"+url.Values{"q": {command}}.Encode(), nil)
	if err != nil {
		return err
	}
	request.SetBasicAuth(user, password)
	direct := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: await.Patience}
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
func (s *influxServer) Do(tb testing.TB, command string) {
	tb.Helper()
	s.Address(tb)
	if err := s.influxQL(command); err != nil {
		tb.Fatal(err)
	}
}

// Config returns the Config of a new database.
func (s *influxServer) Config(tb testing.TB) influx.Config {
	tb.Helper()
	name := fmt.Sprintf("db%d", s.databases.Add(1))
	s.Do(tb, "CREATE DATABASE "+name)
	return influx.Config{URL: "http://" + s.Address(tb), Bucket: name + "/autogen", Token: token}
}
