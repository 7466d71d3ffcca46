package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// observer receives what a node publishes, in the order in which the node publishes it: the facts before the heartbeat.
type observer struct {
	mu    sync.Mutex
	facts []api.NodeFacts
	beats []api.Heartbeat
	exits []api.Exited
}

func observe(t *testing.T, nc *nats.Conn) *observer {
	e, node := &observer{}, message.Node{Pool: "p", Name: "n1"}
	take := func(subject string, data []byte) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch subject {
		case message.FactsSubject("c", node):
			e.facts = append(e.facts, api.NodeFacts{})
			return json.Unmarshal(data, &e.facts[len(e.facts)-1])
		case message.HeartbeatSubject("c", node):
			e.beats = append(e.beats, api.Heartbeat{})
			return json.Unmarshal(data, &e.beats[len(e.beats)-1])
		case message.ExitedSubject("c", node):
			e.exits = append(e.exits, api.Exited{})
			return json.Unmarshal(data, &e.exits[len(e.exits)-1])
		}
		return nil
	}
	bustest.Subscribe(t, nc, "weir.c.*.p.n1", func(m *nats.Msg) { // several subscriptions would have no common order
		if err := take(m.Subject, m.Data); err != nil {
			t.Errorf("%s: %v", m.Subject, err)
		}
	})
	return e
}

// states returns the last heartbeat as a list of instance=STATE.
func (e *observer) states() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.beats) == 0 {
		return "silence"
	}
	var out []string
	for _, b := range e.beats[len(e.beats)-1].Beats {
		out = append(out, b.Instance+"="+string(b.State))
	}
	return strings.Join(out, " ")
}

func (e *observer) lastFacts() api.NodeFacts {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.facts) == 0 {
		return api.NodeFacts{}
	}
	return e.facts[len(e.facts)-1]
}

func (e *observer) exit(instance string) (api.Exited, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.exits, func(x api.Exited) bool { return x.Instance == instance })
	if i < 0 {
		return api.Exited{}, false
	}
	return e.exits[i], true
}

func (e *observer) awaitExit(t *testing.T, instance string) api.Exited {
	t.Helper()
	var got api.Exited
	localtest.Until(t, "exit of "+instance, func() (ok bool) { got, ok = e.exit(instance); return ok })
	return got
}

type rig struct {
	*observer
	*wire.Client
	dir  string
	stop func()
}

func newRig(t *testing.T) rig { return newRigIn(t, t.TempDir()) }

// newRigIn starts an agent with that folder.
func newRigIn(t *testing.T, dir string) rig {
	bus := localtest.NewBus(t)
	r := rig{observer: observe(t, bus.Conn), Client: wire.NewClient(bus.Conn, "c", "p"), dir: dir}
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{2, 1000, 1000, 0},
		Heartbeat: 200 * time.Millisecond, StopGrace: 500 * time.Millisecond, DataDir: r.dir, Env: []string{"EXTRA=yes"},
	}, bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	r.stop = localtest.Run(t, a.Run)
	localtest.Until(t, "first facts", func() bool { return r.lastFacts().ID == "n1" && r.states() == "" })
	return r
}

// start starts the copy instance of app web, index 0.
func (r rig) start(t *testing.T, instance, command string) {
	t.Helper()
	if err := r.Start(t.Context(), "n1", request(instance, command)); err != nil {
		t.Fatal(err)
	}
}

func request(instance, command string) wire.StartRequest {
	return wire.StartRequest{
		App: "web", Version: "v1", Instance: instance, Command: command, Footprint: resource.Vector{1, 100, 10, 0},
	}
}

func (r rig) until(t *testing.T, states string) {
	t.Helper()
	localtest.Until(t, states, func() bool { return r.states() == states })
}

func (r rig) lines(t *testing.T, request wire.LogsRequest) []string {
	t.Helper()
	reply, err := r.Logs(t.Context(), "n1", request)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range reply.Copies {
		out = append(out, c.Lines...)
	}
	return out
}

func TestLife(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", `echo $WEIR_APP $WEIR_INDEX $WEIR_INSTANCE $WEIR_NODE $EXTRA; echo oops >&2; pwd; exec cat /dev/zero >/dev/null`)
	r.until(t, "a=RUNNING")
	f := r.lastFacts()
	if f.Tasks != 1 || f.Allocated != (resource.Vector{1, 100, 10, 0}) || f.Draining || !f.SafeToEvict || f.BootID == "" || f.Priority != 2.1 {
		t.Errorf("facts = %+v", f)
	}
	localtest.Until(t, "three lines", func() bool { return len(r.lines(t, wire.LogsRequest{App: "web"})) == 3 })
	got := r.lines(t, wire.LogsRequest{App: "web", Index: new(0)})
	slices.Sort(got)
	if diff := cmp.Diff([]string{r.dir + "/a", "oops", "web 0 a n1 yes"}, got); diff != "" {
		t.Errorf("output, -want +got:\n%s", diff)
	}
	if got := r.lines(t, wire.LogsRequest{App: "web", Lines: 1}); len(got) != 1 {
		t.Errorf("requested one line: %q", got)
	}
	if got := r.lines(t, wire.LogsRequest{App: "web", Index: new(1)}); got != nil {
		t.Errorf("lines of an index that is not there: %q", got)
	}

	if err := r.Stop(t.Context(), "n1", "a"); err != nil {
		t.Fatal(err)
	}
	e := r.awaitExit(t, "a")
	if e.Reason != api.ExitStopped || e.App != "web" || e.Version != "v1" || e.Description != "killed by SIGTERM" {
		t.Errorf("exit = %+v", e)
	}
	r.until(t, "")
	if got := r.lines(t, wire.LogsRequest{App: "web"}); len(got) != 4 || got[3] != "[ended: killed by SIGTERM]" {
		t.Errorf("output after the end: %q, want three lines and how it ended", got)
	}
	if got := r.lines(t, wire.LogsRequest{App: "web", Lines: 1}); len(got) != 2 || got[0] == "" || got[1] != "[ended: killed by SIGTERM]" {
		t.Errorf("requested one line after the end: %q, want the last one, and how it ended", got)
	}
	left, err := os.ReadDir(r.dir)
	if left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == ".instances" }); err != nil || len(left) != 0 {
		t.Errorf("left in the data directory: %v, %v", left, err)
	}
}

func TestCrash(t *testing.T) {
	r := newRig(t)
	began := time.Now()
	r.start(t, "a", "exit 3")
	e := r.awaitExit(t, "a")
	lived := time.Since(began) // an upper bound: a shell is slow on a busy machine
	if e.Reason != api.ExitCrashed || e.Status == nil || *e.Status != 3 || e.CrashedAt == 0 || e.Description != "exit status 3" {
		t.Errorf("exit = %+v", e)
	}
	r.until(t, "")
	r.mu.Lock()
	beats := slices.Clone(r.beats)
	r.mu.Unlock()
	for _, b := range beats {
		if lived < 100*time.Millisecond && len(b.Beats) > 0 && b.Beats[0].State == api.CopyRunning {
			t.Errorf("a copy that crashed within %v was reported as running", lived)
		}
	}
	for instance, test := range map[string]struct{ command, want string }{
		"signal":  {"kill -KILL $$", "killed by SIGKILL"},
		"within":  {"sh -c 'kill -KILL $$'; exit $?", "exit status 137 (killed by SIGKILL)"},
		"unknown": {"no-such-command", "exit status 127 (the command is not found)"},
	} {
		r.start(t, instance, test.command)
		if e := r.awaitExit(t, instance); e.Description != test.want || e.Reason != api.ExitCrashed {
			t.Errorf("exit of %q = %+v, want %s", test.command, e, test.want)
		}
	}
	r.until(t, "")
	r.start(t, "a", "exit 3") // the same request again
	if r.states() != "" {
		t.Errorf("started a second time: %s", r.states())
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", "exec sleep 60")
	r.start(t, "a", "exec sleep 60") // changes nothing
	big := request("big", "true")
	big.Footprint[resource.CPUs] = 1.5
	bad := request("bad.id", "true")
	for _, test := range []struct {
		name string
		err  error
		want error
	}{
		{"no room", r.Start(t.Context(), "n1", big), wire.ErrNoRoom},
		{"invalid", r.Start(t.Context(), "n1", bad), wire.ErrInvalid},
		{"unknown instance", r.Stop(t.Context(), "n1", "b"), wire.ErrUnknownInstance},
		{"no agent", r.Stop(t.Context(), "n2", "b"), wire.ErrNoAgent},
		{"no node", r.Stop(t.Context(), "n.2", "b"), wire.ErrInvalid},
		{"cordon", r.Cordon(t.Context(), "n1", true, pools.Sequence{}), nil},
		{"cordoned", r.Start(t.Context(), "n1", request("b", "true")), wire.ErrCordoned},
		{"the same one, cordoned", r.Start(t.Context(), "n1", request("a", "true")), nil},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.err, test.want)
		}
	}
	r.until(t, "a=EVACUATING")
	if f := r.lastFacts(); !f.Draining || f.Tasks != 1 {
		t.Errorf("cordoned: facts = %+v", f)
	}
	if err := r.Cordon(t.Context(), "n1", false, pools.Sequence{}); err != nil {
		t.Fatal(err)
	}
	r.until(t, "a=RUNNING")
}

func TestLeave(t *testing.T) {
	for _, test := range []struct {
		name   string
		cordon bool
		want   api.ExitReason
	}{
		{"shutdown", false, api.ExitShutdown},
		{"evacuation", true, api.ExitEvacuation},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			r.start(t, "polite", "echo $$; exec sleep 60")
			r.start(t, "deaf", "trap '' TERM; echo $$; while :; do sleep 60; done")
			var pids []string
			localtest.Until(t, "two process ids", func() bool {
				pids = r.lines(t, wire.LogsRequest{App: "web"})
				return len(pids) == 2
			})
			if err := r.Cordon(t.Context(), "n1", test.cordon, pools.Sequence{}); err != nil {
				t.Fatal(err)
			}
			r.stop()
			for _, instance := range []string{"polite", "deaf"} {
				if e := r.awaitExit(t, instance); e.Reason != test.want {
					t.Errorf("%s: reason %s, want %s", instance, e.Reason, test.want)
				}
			}
			r.until(t, "")
			for _, s := range pids {
				var pid int
				if _, err := fmt.Sscan(s, &pid); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process %d is left: %v", pid, err)
				}
			}
		})
	}
}

func TestAnnounce(t *testing.T) {
	bus := localtest.NewBus(t)
	e := observe(t, bus.Conn)
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: liveness.MaxPeriod, DataDir: t.TempDir(),
	}, bus.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	count := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.beats) }
	localtest.Until(t, "joined", func() bool { return count() == 1 })
	if err := bus.Publish(message.AnnounceSubject("c"), nil); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "announced", func() bool { return count() == 2 })
}

// An agent that has lost its server sends a heartbeat as soon as it reaches another, whatever its period is.
func TestHeartbeatAfterAReconnect(t *testing.T) {
	url := bustest.Serve(t, server.Options{}).ClientURL()
	e, own := observe(t, bustest.Connect(t, url)), bustest.Connect(t, url)
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: liveness.MaxPeriod, DataDir: t.TempDir(),
	}, own, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	count := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.beats) }
	localtest.Until(t, "joined", func() bool { return count() == 1 })
	if err := own.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "a heartbeat after the reconnect", func() bool { return count() == 2 })
}

// An agent without a connection logs the loss with what to do.
func TestUnpublishedMessageNamesTheLoss(t *testing.T) {
	address := newServer(t)
	path := bustest.NewWire(t, address)
	e, own := observe(t, dial(t, "nats://"+address)), dial(t, "nats://"+path.Address())
	var log lines
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: 50 * time.Millisecond, DataDir: t.TempDir(),
	}, own, localtest.NewLauncher(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, a.Run)
	localtest.Until(t, "joined", func() bool { return e.lastFacts().ID == "n1" })
	path.Shut()
	localtest.Until(t, "a lost message", func() bool { return strings.Contains(log.String(), "message not published") })
	path.Mend()
	localtest.Until(t, "the connection is back", own.IsConnected)
	if text := log.String(); strings.Contains(text, "outbound buffer") || !strings.Contains(text, "the connection to NATS is lost: check NATS and the network") {
		t.Errorf("logged %s, want the loss and what to do", text)
	}
}

// A client that may not send commands has the server send a stored message to the agent, or sends a command without a
// reply subject. The agent does nothing, and counts the messages.
func TestAgentRefusesServerMadeCommands(t *testing.T) {
	bus := localtest.NewBus(t)
	e := observe(t, bus.Conn)
	var log lines
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Heartbeat: liveness.MaxPeriod, DataDir: t.TempDir(),
	}, bus.Conn, localtest.NewLauncher(t), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stop := localtest.Run(t, a.Run)
	count := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.beats) }
	localtest.Until(t, "joined", func() bool { return count() == 1 })
	js, err := jetstream.New(bus.Conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte(`{"on":true}`)); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"weir.c.agent.p.n1.fence", "weir.c.agent.p.n1.cordon", message.AnnounceSubject("c")} {
		for _, request := range []string{"$JS.API.DIRECT.GET.S.s", "$JS.API.STREAM.INFO.S"} {
			if err := bus.PublishRequest(request, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	localtest.Until(t, "the first refusal", func() bool { return strings.Contains(log.String(), `msg="message refused"`) })
	if err := bus.Publish("weir.c.agent.p.n1.fence", []byte(`{"on":true}`)); err != nil {
		t.Fatal(err)
	}
	// The agent serves in the order of arrival. So the earlier messages had no effect if the node still accepts copies.
	client := wire.NewClient(bus.Conn, "c", "p")
	if err := client.Start(t.Context(), "n1", wire.StartRequest{App: "web", Instance: "x", Command: "exec sleep 60"}); err != nil {
		t.Errorf("start after refused commands: %v", err)
	}
	stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.facts {
		if f.Draining || len(f.Conditions) > 0 && f.Conditions[0].Type == "Fenced" {
			t.Errorf("the node is draining or fenced: %+v", f)
		}
	}
	if n := strings.Count(log.String(), "message refused"); n != 1 {
		t.Errorf("%d lines about refused messages within a minute, want 1:\n%s", n, log.String())
	}
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The end of work with exit code 0 comes again with each heartbeat.
func TestEndOfWorkIsRepeated(t *testing.T) {
	r := newRig(t)
	work := request("a", "exit 0")
	work.OneShot = true
	if err := r.Start(t.Context(), "n1", work); err != nil {
		t.Fatal(err)
	}
	if e := r.awaitExit(t, "a"); e.Repeated || e.Status == nil || *e.Status != 0 {
		t.Errorf("exit = %+v, want the first one of status 0", e)
	}
	localtest.Until(t, "a repetition", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.exits) > 1 && r.exits[1].Repeated && r.exits[1].Instance == "a"
	})
}

// The folder of a running agent is removed. The copy that runs stays, the next one starts in a folder made again, and both can be stopped.
func TestFolderRemovedUnderTheAgent(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", "exec sleep 1000")
	r.until(t, "a=RUNNING")
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.start(t, "b", "pwd; exec sleep 1000")
	r.until(t, "a=RUNNING b=RUNNING")
	localtest.Until(t, "a line of b", func() bool { return slices.Contains(r.lines(t, wire.LogsRequest{App: "web"}), r.dir+"/b") })
	for _, one := range []string{"a", "b"} {
		if err := r.Stop(t.Context(), "n1", one); err != nil {
			t.Fatal(err)
		}
		if e := r.awaitExit(t, one); e.Reason != api.ExitStopped {
			t.Errorf("%s ended by %s, want %s", one, e.Reason, api.ExitStopped)
		}
	}
	r.until(t, "")
}
