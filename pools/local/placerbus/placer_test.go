package placerbus_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/placer"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/resource"
)

const heartbeat = 200 * time.Millisecond

// lastSamples stores the latest samples of the placer.
type lastSamples struct {
	mu     sync.Mutex
	values map[string]float64 // by Key
}

func (l *lastSamples) Write(_ context.Context, samples []metrics.Sample) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range samples {
		l.values[metrics.Key(s.Name, s.Dimensions)] = s.Value
	}
	return nil
}

func (l *lastSamples) value(key string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[key]
}

// site is a running pool: machines of two cpus, and a placer.
type site struct {
	bus   localtest.Bus
	group *local.Group
	nodes *local.Nodes
	apps  jetstream.KeyValue
	sink  *lastSamples
	stop  func() // of the provider

	mu    sync.Mutex
	beats map[string][]api.Beat // by node
	gaps  []string              // slots that lost their first copy and had none for a time
	exits []api.Exited
	watch bool // record gaps
}

func newSite(t *testing.T, machines int) *site {
	bus := localtest.NewBus(t)
	s := &site{
		bus: bus, group: local.NewGroup(bus.Conn, "c", "p", "g"),
		nodes: local.NewNodes(bus.Conn, "c", "p", 3*heartbeat, localtest.Log(t)),
		sink:  &lastSamples{values: map[string]float64{}}, beats: map[string][]api.Beat{},
	}
	s.listen(t)
	connection := placerbus.New(placerbus.Config{Cluster: "c", Pool: "p"}, bus.Conn, localtest.Log(t))
	p, err := placer.New(placer.Config{Cluster: "c", Pool: "p", Heartbeat: heartbeat}, placer.Ports{Bus: connection, Reporter: connection, Sink: s.sink}, localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	launcher := localtest.NewLauncher(t)
	js, err := jetstream.New(bus.Conn)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "c", 1)
	if s.apps, err = js.KeyValue(t.Context(), message.AppsBucket("c")); err != nil {
		t.Fatal(err)
	}
	localtest.Run(t, s.nodes.Run)
	localtest.Run(t, p.Run)
	owner, err := local.NewProvider(local.Config{
		Cluster: "c", Pool: "p", Argv: localtest.MachineArgv(), Env: bus.Env(),
		Heartbeat: heartbeat, StopGrace: 300 * time.Millisecond, DataDir: t.TempDir(),
		Groups: []local.GroupConfig{{ID: "g", Max: 10, Target: machines, Resources: resource.Vector{2, 1000, 1000, 0}}},
	}, bus.Conn, launcher, localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	s.stop = localtest.Run(t, owner.Run)
	s.joined(t, machines)
	return s
}

func (s *site) joined(t *testing.T, n int) {
	t.Helper()
	localtest.Until(t, strconv.Itoa(n)+" nodes", func() bool { return len(s.nodes.Facts(time.Now())) == n })
}

// listen stores the latest heartbeat of each node, and all exits.
func (s *site) listen(t *testing.T) {
	subscribe := func(subject string, take func(data []byte) error) {
		if _, err := s.bus.Subscribe(subject, func(m *nats.Msg) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := take(m.Data); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(message.HeartbeatSubject("c", message.Node{Pool: "p", Name: "*"}), func(data []byte) error {
		h, err := message.DecodeHeartbeat(data)
		s.beats[h.Node] = h.Beats
		if s.watch {
			for index := range 4 {
				if len(s.upLocked(index)) == 0 {
					s.gaps = append(s.gaps, strconv.Itoa(index))
				}
			}
		}
		return err
	})
	subscribe(message.ExitedSubject("c", message.Node{Pool: "p", Name: "*"}), func(data []byte) error {
		e, err := message.DecodeExited(message.Node{Pool: "p", Name: "n"}, data)
		s.exits = append(s.exits, e)
		return err
	})
}

// upLocked returns the nodes with a running copy of the index.
func (s *site) upLocked(index int) []string {
	var out []string
	for node, beats := range s.beats {
		for _, b := range beats {
			if b.Index == index && b.State != api.CopyStarting {
				out = append(out, node)
			}
		}
	}
	return out
}

// up returns the nodes of the copies below index n, by index. It is "-" for zero or several copies.
func (s *site) up(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, n)
	for index := range out {
		out[index] = "-"
		if nodes := s.upLocked(index); len(nodes) == 1 {
			out[index] = nodes[0]
		}
	}
	return out
}

func (s *site) allUp(t *testing.T, n int) []string {
	t.Helper()
	localtest.Until(t, strconv.Itoa(n)+" copies up", func() bool { return !slices.Contains(s.up(n), "-") })
	return s.up(n)
}

// want writes the row of app web, and sends a nudge for the indices.
func (s *site) want(t *testing.T, instances int, nudge ...int) {
	t.Helper()
	row, err := json.Marshal(api.App{
		Name: "web", Pool: "p", Instances: instances, Version: "v1", Command: "exec sleep 86321", CPUs: 1, Mem: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.apps.Put(t.Context(), "web", row); err != nil {
		t.Fatal(err)
	}
	s.nudge(t, nudge...)
}

func (s *site) nudge(t *testing.T, indices ...int) {
	t.Helper()
	s.publish(t, message.SubjectStart, api.Start{App: "web", Version: "v1", Indices: indices})
}

func (s *site) publish(t *testing.T, subject string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.bus.Publish(subject, data); err != nil {
		t.Fatal(err)
	}
}

// processes returns the ids of the processes with that argument.
func processes(t *testing.T, arg string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil && slices.Contains(strings.Split(string(data), "\x00"), arg) { // on an error the process has ended
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestPendingAndRoom(t *testing.T) {
	s := newSite(t, 2)
	confirmed, err := s.bus.SubscribeSync(message.ConfirmedSubject("c", "p"))
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, 5, 0, 1, 2, 3, 4)
	localtest.Until(t, "one of five is pending", func() bool {
		p, err := placerbus.GetPending(t.Context(), s.bus.Conn, "c", "p")
		if err != nil {
			t.Fatal(err)
		}
		return p.Total == 1 && p.Resources == (resource.Vector{1, 10, 0, 0}) && len(p.Copies) == 1
	})
	localtest.Until(t, "it is reported as waiting", func() bool {
		m, err := confirmed.NextMsg(time.Second)
		if err != nil {
			return false
		}
		c, err := message.DecodeConfirmation(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		return len(c.Waiting) == 1 && c.Waiting[0].App == "web" && c.Waiting[0].Version == "v1" && len(c.Waiting[0].Indices) == 1
	})
	localtest.Until(t, "it is written", func() bool {
		return s.sink.value("cpus_pending|cluster=c,pool=p") == 1 && s.sink.value("mem_pending|cluster=c,pool=p") == 10
	})
	if err := s.group.SetTarget(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	s.allUp(t, 5)
	localtest.Until(t, "nothing is pending", func() bool { return s.sink.value("cpus_pending|cluster=c,pool=p") == 0 })
}

func TestStopNudge(t *testing.T) {
	for _, test := range []struct {
		name  string
		nudge func(instance string) (subject string, request any)
	}{
		{"health", func(instance string) (string, any) {
			return message.SubjectStop, api.Stop{App: "web", Version: "v1", Instances: map[string]string{instance: "v1"}}
		}},
		{"classic", func(instance string) (string, any) {
			return cloudfoundry.RequestsSubject(message.Partition), api.Stop{App: "web", Instances: map[string]string{instance: ""}}.Request()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, 1)
			s.want(t, 1)
			s.publish(t, cloudfoundry.RequestsSubject(message.Partition), api.Start{App: "web", Version: "v1", Indices: []int{0}}.Request())
			s.allUp(t, 1)
			s.mu.Lock()
			var instance string
			for _, beats := range s.beats {
				instance = beats[0].Instance
			}
			s.mu.Unlock()
			s.want(t, 0)
			subject, request := test.nudge(instance)
			s.publish(t, subject, request)
			localtest.Until(t, "it stops", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.exits) == 1 && s.exits[0].Instance == instance && s.exits[0].Reason == api.ExitStopped
			})
			s.stop()
			if left := processes(t, "86321"); left != nil {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

func TestDrainKeepsEveryCopyUp(t *testing.T) {
	s := newSite(t, 2)
	s.want(t, 4, 0, 1, 2, 3)
	before := s.allUp(t, 4)
	drained := before[0]
	s.mu.Lock()
	s.watch = true
	s.mu.Unlock()
	if err := s.nodes.Cordon(t.Context(), drained, true); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "two are pending, and still run", func() bool {
		p, err := placerbus.GetPending(t.Context(), s.bus.Conn, "c", "p")
		return err == nil && p.Total == 2 && len(processes(t, "86321")) == 4
	})
	if err := s.group.SetTarget(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "the node is empty, the copies run elsewhere", func() bool {
		return !slices.Contains(s.up(4), drained) && !slices.Contains(s.up(4), "-")
	})
	if err := s.group.Terminate(t.Context(), []string{drained}); err != nil {
		t.Fatal(err)
	}
	s.joined(t, 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaps != nil {
		t.Errorf("indices without a copy meanwhile: %v", s.gaps)
	}
	for _, e := range s.exits {
		if e.Reason != api.ExitStopped {
			t.Errorf("exit = %+v, want %s", e, api.ExitStopped)
		}
	}
}

func TestAgentKilled(t *testing.T) {
	s := newSite(t, 2)
	s.want(t, 4, 0, 1, 2, 3)
	before := s.allUp(t, 4)
	victim := before[0]
	for _, pid := range processes(t, "--id="+victim) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	localtest.Until(t, "what ran there is gone", func() bool { return len(processes(t, "86321")) == 2 })
	s.joined(t, 2)
	localtest.Until(t, "another machine", func() bool {
		f := s.nodes.Facts(time.Now())
		return len(f) == 2 && f[0].ID != victim && f[1].ID != victim
	})
	s.mu.Lock()
	delete(s.beats, victim)
	s.mu.Unlock()
	for index, node := range before {
		if node == victim {
			s.nudge(t, index)
		}
	}
	s.allUp(t, 4)
	s.stop()
	if left := processes(t, "86321"); left != nil {
		t.Errorf("processes are left: %v", left)
	}
}
