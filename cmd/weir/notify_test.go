package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// notifySocket is the socket of systemd for one daemon.
type notifySocket struct {
	testing.TB
	c *net.UnixConn
}

// until reads messages until one has the line, and returns its lines.
func (s notifySocket) until(line string) []string {
	s.Helper()
	if err := s.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.Fatal(err)
	}
	data := make([]byte, 4096)
	for {
		n, err := s.c.Read(data)
		if err != nil {
			s.Fatalf("wait for %s: %v", line, err)
		}
		lines := strings.Split(string(data[:n]), "\n")
		if slices.Contains(lines, line) {
			return lines
		}
		if lines[0] == endedEarly {
			s.Fatalf("the daemon ended without %s", line)
		}
	}
}

// listenNotify listens as systemd does for the messages of a unit.
func listenNotify(path string) (*net.UnixConn, error) {
	return net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
}

// endedEarly is the message of the test itself when the daemon has ended.
const endedEarly = "ENDED"

// startNotified starts a daemon as systemd does for Type=notify with a watchdog.
func startNotified(t *testing.T, args ...string) (notifySocket, *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s") // short: a socket's path has at most 107 bytes
	c, err := listenNotify(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	out := &strings.Builder{}
	cmd := exec.Command(filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), args...)
	cmd.Env = append(os.Environ(), asWeir+"=1", "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=1000000")
	cmd.Stdout, cmd.Stderr = out, out
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		if c, err := net.Dial("unixgram", path); err == nil { // the test may have closed it
			fmt.Fprint(c, endedEarly)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			_ = cmd.Process.Kill() // it may have ended
		}
		if err := <-ended; err != nil {
			t.Errorf("weir %s: %v\n%s", args[0], err, out)
		}
	})
	return notifySocket{t, c}, cmd
}

func TestDaemonsNotifySystemd(t *testing.T) {
	t.Parallel()
	bus := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()
	createStreams(t, bus, "here", "web")
	configs := t.TempDir()
	if err := os.Mkdir(filepath.Join(configs, "here"), 0o755); err != nil {
		t.Fatal(err)
	}
	pool := `resource_groups: [{local: {name: blue, min: 1, max: 4, machine: {cpus: 1, mem: 1024}}}]
scaling_limits: {min_capacity: 1, max_capacity: 4, max_weight_to_add: 4, max_weight_to_remove: 4}
`
	for name, text := range map[string]string{"weir.yaml": "autoscale_signal: {name: default}\nnotify: [{name: hook, url: \"http://127.0.0.1:1/\"}]\n", "here/web.yaml": pool} {
		if err := os.WriteFile(filepath.Join(configs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports := bustest.Ports(t, 7)
	for i, args := range [][]string{
		{"bootstrap"},
		{"harmonizer"},
		{"placer"},
		{"agent", "--id", "n1", "--group", "blue", "--cpus", "1", "--mem", "64", "--dir", filepath.Join(t.TempDir(), "n1")},
		{"metrics", "serve"},
		{"notify"},
		{"web", "--addr", "127.0.0.1:0"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			address := fmt.Sprint("127.0.0.1:", ports[i])
			args := append(args, "--admin-addr", address, "--nats", bus, "--config-dir", configs, "--data", t.TempDir(), "--cluster", "here", "--pool", "web")
			systemd, cmd := startNotified(t, args...)
			systemd.until("READY=1")
			systemd.until("WATCHDOG=1")
			want := map[string]string{"/healthz": "", "/readyz?verbose": "[+] ", "/metrics": "go_goroutines"}
			switch args[0] {
			case "bootstrap":
				want["/metrics"] = `weir_autoscaler_dry_run{cluster="here",pool="web"} 0` // of its autoscaler
			case "harmonizer", "placer", "notify":
				want["/metrics"] = "# TYPE weir_" + args[0] + "_"
			}
			probed(t, address, want)
			documented(t, address)
			if args[0] == "bootstrap" {
				reload(systemd, cmd, filepath.Join(configs, "here", "web.yaml"), pool)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			systemd.until("STOPPING=1")
		})
	}
}

// documented requires that docs/metrics.md has each metric of weir that a daemon exports.
func documented(t *testing.T, address string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "# TYPE weir_")
		if name, _, _ := strings.Cut(rest, " "); ok && !strings.Contains(string(page), "| `weir_"+name+"` |") {
			t.Errorf("docs/metrics.md lacks weir_%s", name)
		}
	}
}

// probed requires that paths of the admin server of a daemon have these texts in the end.
func probed(t *testing.T, address string, texts map[string]string) {
	t.Helper()
	get := func(path string) (int, string) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode, fmt.Sprint(string(body), err)
	}
	for path, want := range texts {
		eventually(t, path, func() error {
			if code, body := get(path); code != http.StatusOK || !strings.Contains(body, want) {
				return fmt.Errorf("%s of %s: %d %s", path, address, code, body)
			}
			return nil
		})
	}
}

// reload sends SIGHUP, with a correct and with a wrong pool file. The end of a reload has its status in the same message.
func reload(systemd notifySocket, cmd *exec.Cmd, file, text string) {
	systemd.Helper()
	hangup := func(content, status string) {
		systemd.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			systemd.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			systemd.Fatal(err)
		}
		if lines := systemd.until("RELOADING=1"); !strings.HasPrefix(lines[len(lines)-1], "MONOTONIC_USEC=") {
			systemd.Errorf("message %q, want the monotonic time", lines)
		}
		lines := systemd.until("READY=1")
		if got, _, _ := strings.Cut(lines[len(lines)-1], ": "); got != "STATUS="+status {
			systemd.Errorf("message %q, want the status %q", lines, status)
		}
	}
	hangup(text, "")
	hangup("wrong: true\n", "configuration rejected, previous plan continues")
	hangup(text, "")
}
