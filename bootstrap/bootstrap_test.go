package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// long is a timeout that no test reaches.
const long = time.Minute

func shipped(app, name string) bootstrap.SignalPlan {
	return bootstrap.SignalPlan{App: app, Name: name}
}

func decodeRevisions(t testing.TB, text string) (out []bootstrap.Directory) {
	t.Helper()
	for line := range strings.Lines(text) {
		var d bootstrap.Directory
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("the stream contains %q: %v", line, err)
		}
		out = append(out, d)
	}
	return out
}

func TestAutoscalerStartsWhenAllSignalsAnswer(t *testing.T) {
	g := newGate(t)
	p := start(t, planOf("order", shipped("web", gated), shipped("api", "rps")), noReleases{}, long)
	p.awaitProcess(t, sigproto.DefaultApp, "running", running)
	p.awaitProcess(t, "api", "running", running)
	p.awaitProcess(t, "web", "started", func(p api.Process) bool { return p.PID != 0 })
	if a := p.Status().Autoscaler; a.State != "stopped" || a.PID != 0 {
		t.Fatalf("while a signal is silent the autoscaler is %+v, want it not started", a)
	}
	g.open(t)
	a := p.arrivals.next(t)
	await.Value(t, "the first revision", a.reader.First())
	for _, e := range a.revisions(t)[0].Signals {
		if !up(e) {
			t.Errorf("the first revision has %+v, want every signal up", e)
		}
	}
	for _, s := range p.plan.Signals {
		if err := request(t, s.Address); err != nil {
			t.Errorf("signal of app %s: %v", s.App, err)
		}
		if e, now := a.reader.Entry(s.App), p.process(s.App); e.Address != s.Address || e.Group != now.PID {
			t.Errorf("the entry is %+v, want address %s and group %d", e, s.Address, now.PID)
		}
	}
	if e := a.reader.Entry("nobody"); e.Down != "bootstrap has no signal for it" {
		t.Errorf("the entry of an unknown app is %+v", e)
	}
}

func TestAutoscalerStartsWithoutASilentSignal(t *testing.T) {
	g := newGate(t)
	p := start(t, planOf("patience", shipped("web", neverListens), shipped("late", gated)), noReleases{}, 500*time.Millisecond)
	a := p.arrivals.next(t)
	a.awaitEntry(t, sigproto.DefaultApp, "up", up)
	for _, app := range []string{"web", "late"} {
		a.awaitEntry(t, app, "down while it is starting", func(e bootstrap.Entry) bool { return e.Down == "the signal is starting" && e.Group != 0 })
	}
	g.open(t)
	a.awaitEntry(t, "late", "up", up)
	if now := p.Status().Autoscaler; now.Restarts != 0 || now.PID != a.pid {
		t.Errorf("the autoscaler is %+v, want process %d that was never restarted", now, a.pid)
	}
}

func TestKilledSignalIsBack(t *testing.T) {
	g := newGate(t)
	p := start(t, planOf("kill", shipped("web", gated)), noReleases{}, long)
	g.open(t)
	a := p.arrivals.next(t)
	first := a.awaitEntry(t, "web", "up", up)
	kill(t, -first.Group)
	a.awaitEntry(t, "web", "down", down)
	g.open(t)
	second := a.awaitEntry(t, "web", "up again", up)
	if second.Group == first.Group || second.Address != first.Address {
		t.Errorf("the entry is %+v after %+v, want another group at the same address", second, first)
	}
	if now := p.process("web"); now.Restarts != 1 || now.PID != second.Group {
		t.Errorf("the signal is %+v, want its first restart, process %d", now, second.Group)
	}
	last := 0
	for _, d := range a.revisions(t) {
		if d.Revision <= last || len(d.Signals) != 2 {
			t.Errorf("revision %d with %d signals after revision %d, want it to grow, with 2 signals", d.Revision, len(d.Signals), last)
		}
		last = d.Revision
	}
}

func TestKilledAutoscalerIsBackWithAStreamOfItsOwn(t *testing.T) {
	p := start(t, planOf("again"), noReleases{}, long)
	first := p.arrivals.next(t)
	before := first.awaitEntry(t, sigproto.DefaultApp, "up", up)
	kill(t, first.pid)
	second := p.arrivals.next(t)
	first.awaitEnd(t)
	after := second.awaitEntry(t, sigproto.DefaultApp, "up", up)
	if first.pid == second.pid || before != after {
		t.Errorf("autoscaler %d with %+v after %d with %+v, want another process and the same signal", second.pid, after, first.pid, before)
	}
	if last, next := first.revisions(t), second.revisions(t); next[0].Revision <= last[len(last)-1].Revision {
		t.Errorf("the new stream begins with revision %d, want more than %d", next[0].Revision, last[len(last)-1].Revision)
	}
	if now := p.Status().Autoscaler; now.Restarts != 1 {
		t.Errorf("the autoscaler is %+v, want its first restart", now)
	}
}

func TestEndOfBootstrapEndsTheStream(t *testing.T) {
	p := start(t, planOf("end", shipped("web", neverListens)), noReleases{}, time.Millisecond)
	a := p.arrivals.next(t)
	a.awaitEntry(t, sigproto.DefaultApp, "up", up)
	if err := p.end(); err != nil {
		t.Errorf("bootstrap ended with %v, want nil", err)
	}
	a.awaitEnd(t)
	s := p.Status()
	for _, now := range append(s.Signals, s.Autoscaler) {
		if now.State != "stopped" || now.PID != 0 {
			t.Errorf("%s is %+v after the end, want it stopped", now.Title(), now)
		}
	}
}

func TestEndBeforeTheAutoscalerWasStarted(t *testing.T) {
	p := start(t, planOf("early", shipped("web", neverListens)), noReleases{}, long)
	p.awaitProcess(t, "web", "started", func(p api.Process) bool { return p.PID != 0 })
	if err := p.end(); err != nil {
		t.Errorf("bootstrap ended with %v, want nil", err)
	}
	if a := p.Status().Autoscaler; a.State != "stopped" || !a.Since.IsZero() {
		t.Errorf("the autoscaler is %+v, want it never started", a)
	}
}

func TestNothingSurvivesAKilledBootstrap(t *testing.T) {
	expectNothingLeft(t)
	arrivals := listenForArrivals(t)
	cmd := exec.Command(self, asBootstrap)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := arrivals.next(t)
	a.awaitEntry(t, sigproto.DefaultApp, "up", up)
	kill(t, cmd.Process.Pid)
	if err := cmd.Wait(); err == nil {
		t.Error("bootstrap ended well, want it killed")
	}
	a.awaitEnd(t)
}

func TestSocketHeldByForeignProcess(t *testing.T) {
	plan := planOf("stranger", shipped("web", "rps"))
	foreign, err := sigproto.Listen(plan.Signals[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	p := start(t, plan, noReleases{}, long)
	a := p.arrivals.next(t)
	another := sigproto.Address(plan.Signals[1].Namespace, "rps", "web~1")
	a.awaitEntry(t, "web", "up at another address", func(e bootstrap.Entry) bool { return up(e) && e.Address == another })
	p.awaitProcess(t, "web", "listed at the other address", func(p api.Process) bool { return p.Address == another })
}

func TestEveryAddressHeld(t *testing.T) {
	plan := planOf("crowd", shipped("web", "rps"))
	web := plan.Signals[1]
	addresses := []string{web.Address}
	for n := 1; n <= 99; n++ {
		addresses = append(addresses, sigproto.Address(web.Namespace, web.Name, fmt.Sprintf("web~%d", n)))
	}
	for _, address := range addresses {
		foreign, err := sigproto.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Close()
	}
	p := start(t, plan, noReleases{}, time.Millisecond)
	want := fmt.Sprintf("prepare start: socket @%s is held by process %d, and 99 alternative sockets are in use too", web.Address, os.Getpid())
	p.awaitProcess(t, "web", "held up", func(p api.Process) bool { return p.State == "backoff" && p.PID == 0 && p.Why == want })
	a := p.arrivals.next(t)
	a.awaitEntry(t, sigproto.DefaultApp, "up", up)
	a.awaitEntry(t, "web", "down, and why", func(e bootstrap.Entry) bool { return e.Down == "the signal is backoff: "+want })
}

func TestConfigProblems(t *testing.T) {
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{self, asKeeper}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	good := bootstrap.Config{
		Plan: planOf("config"), Launcher: launcher, Releases: noReleases{}, ReadyTimeout: time.Second, Log: slog.New(slog.DiscardHandler),
		Shipped: func(bootstrap.SignalPlan, string) []string { return nil }, Autoscaler: []string{self},
	}
	for _, c := range []struct {
		name   string
		change func(*bootstrap.Config)
		want   string
	}{
		{"good", func(*bootstrap.Config) {}, ""},
		{"nothing set", func(c *bootstrap.Config) { *c = bootstrap.Config{} }, "bootstrap: launcher, releases, shipped and log must be set\n" +
			"autoscaler has no command line\nready timeout 0s: want more than 0\nplan has no signal, not even the default one"},
		{"negative ready timeout", func(c *bootstrap.Config) { c.ReadyTimeout = -1 }, "bootstrap: ready timeout -1ns: want more than 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := good
			c.change(&config)
			_, err := bootstrap.New(config)
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("New = %v, want %s", err, c.want)
			}
		})
	}
}
