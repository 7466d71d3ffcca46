package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// convergeFile is the harmonizer's file: all is soon seen.
const convergeFile = `dialect: health
legacy_deas: true
lease: 5s
bulk_api: {host: "%s", batch_size: 2000}
apps: {"*": {pool: default, cpus: 0.1}}
intervals:
  heartbeat_period: %v
  droplet_lost: %v
  nudge_keep_alive: %v
  reset_grace: 2s
  expected_state_update: %v
  expected_state_lost: %v
  nats_request_timeout: 2s
  queue_batch_size: %d
`

const convergeCluster = "converge"

// convergeBus is a NATS server that can be restarted where it was.
type convergeBus struct {
	tb     testing.TB
	dir    string
	port   int
	server *natsserver.Server
}

func startConvergeBus(tb testing.TB) *convergeBus {
	tb.Helper()
	b := &convergeBus{tb: tb, dir: tb.TempDir(), port: bustest.Ports(tb, 1)[0]}
	b.start()
	tb.Cleanup(b.stop)
	return b
}

func (b *convergeBus) start() {
	b.tb.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		ServerName: convergeCluster, Host: "127.0.0.1", Port: b.port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: b.dir, JetStreamMaxStore: bustest.MaxStore,
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		b.tb.Fatal("NATS does not come up")
	}
	b.server = s
}

func (b *convergeBus) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// serveController answers for credentials and takes nudges.
func (w *convergeWorld) serveController() {
	w.Helper()
	nc := bustest.Connect(w, w.url)
	w.nc = nc
	for subject, handle := range map[string]nats.MsgHandler{
		message.SubjectStart:                          w.start,
		message.SubjectStop:                           w.stop,
		bulkapi.CredentialsSubject(message.Partition): func(m *nats.Msg) { _ = m.Respond([]byte(w.login())) },
	} {
		sub, err := nc.Subscribe(subject, handle)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		w.Fatal(err)
	}
}

// login is the credentials that the bulk API requires now.
func (w *convergeWorld) login() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf(`{"user":"bulk","password":%q}`, w.password)
}

// convergeProcess is "weir harmonizer", as a process of its own.
type convergeProcess struct {
	world  *convergeWorld
	data   string
	config string
	cmd    *exec.Cmd
	done   chan struct{}

	mu    sync.Mutex
	lines []string
}

func (w *convergeWorld) newProcess() *convergeProcess {
	w.Helper()
	server := httptest.NewServer(w.api)
	w.Cleanup(server.Close)
	p := &convergeProcess{world: w, data: w.TempDir(), config: filepath.Join(w.TempDir(), "harmonizer.yaml")}
	text := fmt.Sprintf(convergeFile, server.URL, convergeBeat, convergeLost, convergeKeepAlive, convergeUpdate, convergeRowsLost, convergeRate)
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return p
}

// start runs it. It ends with the test.
func (p *convergeProcess) start() {
	w := p.world
	w.Helper()
	p.cmd = exec.Command(weirOf(w), "harmonizer", "--nats", w.url, "--cluster", convergeCluster, "--data", p.data,
		"--config", p.config, "--config-dir", filepath.Dir(p.config))
	p.cmd.Env = append(os.Environ(), asWeir+"=1")
	out, err := p.cmd.StderrPipe()
	if err == nil {
		err = offspring.Start(p.cmd)
	}
	if err != nil {
		w.Fatal(err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		cmd.Wait()
	}()
	w.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
}

// kill ends it as a power failure does.
func (p *convergeProcess) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// end sends SIGTERM, and checks that the process ended without an error.
func (p *convergeProcess) end() {
	p.world.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.world.Fatal("weir harmonizer does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.world.Errorf("weir harmonizer ended with exit code %d", code)
	}
}

// log returns its last lines, without those about single nodes.
func (p *convergeProcess) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := slices.DeleteFunc(slices.Clone(p.lines), func(l string) bool { return strings.Contains(l, "node_lost") })
	return strings.Join(lines[max(0, len(lines)-100):], "\n")
}

// status requests the sums of the harmonizer.
func (w *convergeWorld) status() (s api.HarmonizerStatus, err error) {
	m, err := w.nc.Request(message.StatusSubject(convergeCluster), []byte(`{"totals":true}`), 5*time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, &s)
	}
	if err == nil && s.Totals == nil {
		err = errors.New("a status without sums")
	}
	return s, err
}

// agrees returns an error unless the harmonizer reports the world as it is, with
// nothing left to do.
func (w *convergeWorld) agrees(served, standIns int) error {
	s, err := w.status()
	if err != nil {
		return err
	}
	all := s.Totals.All
	if !s.Complete || s.DisruptionLimit.State != "" || all.Running != served || all.Extra > standIns || s.Queue.Starts+s.Queue.Stops+s.Queue.Send > 0 {
		return fmt.Errorf("%d indices are served, %d copies may stand in; the harmonizer: complete %v %s, disruption limit %+v, queue %+v, %+v", served, standIns, s.Complete, s.Why, s.DisruptionLimit, s.Queue, all)
	}
	return nil
}

// repaired ends the fault of the API; it requires other credentials from now on.
func (w *convergeWorld) mended() {
	w.mu.Lock()
	w.password += "x"
	w.api.SetCredentials("bulk", w.password)
	w.mu.Unlock()
	w.api.ClearFault()
}

// suffered counts the requests that met that fault.
func (w *convergeWorld) suffered(f bulktest.Fault) (n int) {
	for _, r := range w.api.Requests() {
		if r.Fault == f {
			n++
		}
	}
	return n
}
