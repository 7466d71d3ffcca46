package bustest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// The variables that make the test binary a server.
const (
	confEnv  = "WEIR_TEST_NATS_CONF"  // its configuration
	knownEnv = "WEIR_TEST_NATS_KNOWN" // servers that the leader must have found before it is ready
)

// The output of a server process.
const (
	readyLine    = "ready"
	reloadedLine = "reloaded" // it has read its configuration again, or has an error in its log
)

// RunServer runs a server if this process is one of a Processes, and reports whether it was. A package that uses
// StartProcesses calls it first in TestMain.
func RunServer() bool {
	conf := os.Getenv(confEnv)
	if conf == "" {
		return false
	}
	if err := serveProcess(conf); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// serveProcess runs a server until SIGTERM or the end of the parent, which closes the standard input.
func serveProcess(conf string) error {
	known, err := strconv.Atoi(os.Getenv(knownEnv))
	if err != nil {
		return err
	}
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		return err
	}
	options.NoSigs, options.LogFile = true, conf+".log"
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns when the parent has ended
		end <- syscall.SIGTERM
	}()
	s.ConfigureLogger()
	s.Start()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for said := false; ; {
		if !said && s.ReadyForConnections(pollEvery) && ready(s, known) {
			fmt.Println(readyLine)
			said = true
		}
		select {
		case <-again.C:
		case <-reload:
			if err := s.Reload(); err != nil {
				s.Errorf("reload: %v", err)
			}
			fmt.Println(reloadedLine)
		case <-end:
			s.Shutdown()
			s.WaitForShutdown()
			return nil
		}
	}
}

// Processes is a Cluster whose servers are processes, which a test kills and stops.
type Processes struct {
	*Cluster
	running []*process // nil: not running
}

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan error // one value: nil, or why the process ended before it was ready
	// reloaded has a value if a reload has ended since the last look. A server may also reload late, or for a signal of somebody else.
	reloaded chan struct{}
	ended    chan struct{}
}

// StartProcesses starts three servers, each a process. When it returns, a stream with three replicas can be created.
func StartProcesses(tb testing.TB, callout bool, clusters ...natsconf.Cluster) *Processes {
	tb.Helper()
	p := &Processes{Cluster: newCluster(tb, callout, loopback(), clusters, unedited), running: make([]*process, servers)}
	tb.Cleanup(func() {
		for i := range p.running {
			p.Kill(tb, i)
		}
	})
	p.start(tb, servers, 0, 1, 2)
	return p
}

// start starts servers and waits until all are ready.
func (p *Processes) start(tb testing.TB, known int, which ...int) {
	tb.Helper()
	for _, i := range which {
		if p.running[i] != nil {
			tb.Fatalf("server %d runs already", i)
		}
		started, err := startProcess(p.Command(tb, i, known))
		if err != nil {
			tb.Fatal(err)
		}
		p.running[i] = started
	}
	end := time.NewTimer(patience)
	defer end.Stop()
	for _, i := range which {
		select {
		case err := <-p.running[i].ready:
			if err != nil {
				tb.Fatalf("server %d: %v", i, err)
			}
		case <-end.C:
			tb.Fatalf("server %d is not ready within %v: do two of three servers run?", i, patience)
		}
	}
}

// Command returns the process of the i-th server. If it becomes the leader, it is ready when it has found that many servers.
// It ends when its standard input ends.
func (c *Cluster) Command(tb testing.TB, i, known int) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(testprograms.Plain("internal/platform/bus/bustest", self))
	cmd.Env = append(os.Environ(), confEnv+"="+c.conf(c.Site.Servers[i].Name), knownEnv+"="+strconv.Itoa(known))
	return cmd
}

func startProcess(cmd *exec.Cmd) (p *process, err error) {
	p = &process{cmd: cmd, ready: make(chan error, 1), reloaded: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		if lines.Scan() && lines.Text() == readyLine {
			p.ready <- nil
		} else {
			p.ready <- errors.New("it ended before it was ready: does TestMain call bustest.RunServer first?")
		}
		for lines.Scan() {
			select {
			case p.reloaded <- struct{}{}:
			default:
			}
		}
		_ = p.cmd.Wait() // a killed process is no error
	}()
	return p, nil
}

// signal sends a signal to a running server.
func (p *Processes) signal(tb testing.TB, i int, s syscall.Signal) {
	tb.Helper()
	if p.running[i] == nil {
		tb.Fatalf("server %d does not run", i)
	}
	if err := p.running[i].cmd.Process.Signal(s); err != nil {
		tb.Fatalf("send %v to server %d: %v", s, i, err)
	}
}

// Kill ends a server as kill -9 does, also a suspended one, and waits for its end. It does nothing if the server does
// not run.
func (p *Processes) Kill(tb testing.TB, i int) {
	tb.Helper()
	if p.running[i] == nil {
		return
	}
	p.signal(tb, i, syscall.SIGKILL)
	p.gone(i)
}

// Terminate ends a server in an orderly way and waits for its end.
func (p *Processes) Terminate(tb testing.TB, i int) {
	tb.Helper()
	p.signal(tb, i, syscall.SIGTERM)
	p.gone(i)
}

func (p *Processes) gone(i int) {
	<-p.running[i].ended
	p.running[i].stdin.Close()
	p.running[i] = nil
}

// PID returns the process of a running server.
func (p *Processes) PID(tb testing.TB, i int) int {
	tb.Helper()
	if p.running[i] == nil {
		tb.Fatalf("server %d does not run", i)
	}
	return p.running[i].cmd.Process.Pid
}

// Reload makes a server read its configuration again. When it returns, the server has done so: it has closed the connections
// that the configuration no longer permits.
func (p *Processes) Reload(tb testing.TB, i int) {
	tb.Helper()
	if p.running[i] != nil {
		select {
		case <-p.running[i].reloaded: // for another signal
		default:
		}
	}
	p.signal(tb, i, syscall.SIGHUP)
	select {
	case <-p.running[i].reloaded:
	case <-time.After(patience):
		tb.Fatalf("server %d has not read its configuration again within %v", i, patience)
	}
}

// Suspend makes a server hang. Its connections stay open.
func (p *Processes) Suspend(tb testing.TB, i int) {
	tb.Helper()
	if err := await.Halt(p.PID(tb, i)); err != nil {
		tb.Fatal(err)
	}
}

// Resume ends a suspension.
func (p *Processes) Resume(tb testing.TB, i int) { tb.Helper(); p.signal(tb, i, syscall.SIGCONT) }

// Restart starts servers on their former ports and stores. It returns when all are ready, which needs two of three
// running servers.
func (p *Processes) Restart(tb testing.TB, which ...int) { tb.Helper(); p.start(tb, 0, which...) }

// Empty removes the store of a server that does not run.
func (p *Processes) Empty(tb testing.TB, i int) {
	tb.Helper()
	if p.running[i] != nil {
		tb.Fatalf("server %d runs", i)
	}
	if err := os.RemoveAll(p.Site.Servers[i].Store); err != nil {
		tb.Fatal(err)
	}
}
