package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/kubernetes/adapter"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/pools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// output is what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func newOutput() *output { return &output{grew: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.grew <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the first group of a pattern in the output.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	re, end := regexp.MustCompile(pattern), time.After(patience)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[1]
		}
		select {
		case <-o.grew:
		case <-end:
			t.Fatalf("no %q in %q", pattern, o.String())
		}
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlags(t *testing.T) {
	good := write(t, "k.yaml", "cluster: c\nnats: {servers: [\"nats://127.0.0.1:1\"]}\npools: {p: {default: true}}\n")
	for _, tt := range []struct {
		args []string
		code int
		want string // part of the output
	}{
		{nil, 2, `give --config FILE; "weir-kubernetes --help" has an example`},
		{[]string{"--help"}, 0, "A file:\n  cluster: prod"},
		{[]string{"--version"}, 0, "weir-kubernetes "},
		{[]string{"--config", good, "now"}, 2, `unexpected argument "now"`},
		{[]string{"--confg", good}, 2, "flag provided but not defined: -confg"},
		{[]string{"--config", filepath.Join(t.TempDir(), "missing.yaml")}, 2, "read the configuration"},
		{[]string{"--config", good, "--check"}, 0, "k.yaml: 1 pools, no mistakes"},
	} {
		out := newOutput()
		if code := Main(t.Context(), tt.args, out, out); code != tt.code || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v: %d %q, want %d %q", tt.args, code, out.String(), tt.code, tt.want)
		}
	}
}

// The file in the help is valid.
func TestHelpHasAValidFile(t *testing.T) {
	_, text, _ := strings.Cut(help, "A file:\n")
	text, _, _ = strings.Cut(text, "\nKeys with")
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	f, err := readFile(write(t, "k.yaml", b.String()))
	if err != nil {
		t.Fatal(err)
	}
	gpu := f.adapter().Pools[0]
	if want := (core.Shape{Sized: true, Labels: map[string]string{"gpu": "true"}, Taints: []core.Taint{{Key: "gpu", Effect: "NoSchedule"}}, Room: core.Vector{CPU: 8000, Mem: 32000 << 20, GPU: 1}}); gpu.Name != "gpu" || fmt.Sprint(gpu.Templates[0]) != fmt.Sprint(want) {
		t.Errorf("pool %+v, want %+v", gpu, want)
	}
}

func TestMistakesInTheFile(t *testing.T) {
	const good = "cluster: c\nnats: {servers: [\"nats://127.0.0.1:1\"]}\n"
	for text, want := range map[string]string{
		"cluster: c\npools: {p: {}}\n":       "nats.servers: want at least one URL",
		good:                                 "pools: has 0 pools, want 1 to 100",
		good + "pools: {p: {}}\npriod: 3s\n": `unknown field "priod"`,
		good + "pools: {a b: {}}\n":          `pools: "a b": want letters`,
		good + "pools: {p: {default: true}, q: {default: true}}\n":                "pools.q.default: pool p is the default already",
		good + "pools: {p: {selector: {a: b}}, q: {selector: {a: b}}}\n":          "pools.q.selector: pool p has the same",
		good + "pools: {p: {machines: [{cpus: 0, mem: 1}]}}\n":                    "pools.p.machines[0].cpus is 0: want at least 0.001",
		good + "pools: {p: {}}\nperiod: 1ms\n":                                    "period is 1ms",
		good + "pools: {p: {}}\nperiod: soon\n":                                   `period is "soon": want a time above 0, such as 10s`,
		good + "pools: {p: {}}\nmetrics: x\n":                                     `metrics is "x": want embedded or none`,
		good + "pools: {p: {}}\nstale: 10ms\n":                                    "stale is 10ms: want 1s to 1h",
		good + "pools: {p: {}}\nadmin: {addr: \"0.0.0.0:80\"}\n":                  "is not a loopback address: give admin.token_file",
		good + "pools: {p: {}}\nadmin: {addr: here}\n":                            `admin.addr "here": want HOST:PORT`,
		good + "pools: {p: {}}\nkubernetes: {ca_file: x}\n":                       "ca_file and token_file need server",
		good + "pools: {p: &a {}}\n":                                              "is an anchor, alias or tag",
		good + "pools: {p: {}}\nnats: {servers: [\"nats://127.0.0.1:1\"]}\n":      "nats",
		"cluster: a.b\nnats: {servers: [\"nats://127.0.0.1:1\"]}\npools: {p: {}}": `cluster "a.b": want letters`,
		"\xff": "UTF-8",
	} {
		out := newOutput()
		path := write(t, "k.yaml", text)
		if code := Main(t.Context(), []string{"--config", path, "--check"}, out, out); code != 2 || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), path) {
			t.Errorf("%q: %d %q, want %q", text, code, out.String(), want)
		}
	}
}

// No text of a file ends the program, and a file without mistakes has settings that the adapter accepts.
func FuzzFile(f *testing.F) {
	f.Add([]byte("cluster: c\nnats: {servers: [\"nats://127.0.0.1:1\"]}\npools: {p: {default: true, machines: [{cpus: 1, mem: 1, taints: [{key: k}]}]}}\nperiod: 3s\n"))
	f.Add([]byte("pools: {p: {selector: {a: 1e9}}}\nperiod: -1s\nadmin: 7\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		c.resolve("/")
		if c.validate() != nil {
			return
		}
		settings := c.adapter().WithDefaults()
		if err := settings.Validate(); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		for _, p := range settings.Pools {
			for _, s := range p.Templates {
				if s.Room.CPU <= 0 || s.Room.Mem <= 0 {
					t.Errorf("%q: template %+v", data, s)
				}
			}
		}
	})
}

// get returns the answer of the admin server.
func get(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// The program serves a pool, and ends with its context: what it cordoned stays cordoned.
func TestProgram(t *testing.T) {
	nats, api := bustest.Serve(t, natsserver.Options{JetStream: true, StoreDir: t.TempDir()}), kubetest.Serve(t)
	api.Put(kubetest.Node("a", "p"), kubetest.Pod("t", "a"), kubetest.Node("b", "p"))
	nc := bustest.Connect(t, nats.ClientURL())
	js, err := bus.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "c", 1, "p")
	facts := bustest.SubscribeSync(t, nc, message.FactsSubject("c", message.Node{Pool: "p", Name: "i-a"}))
	token := write(t, "token", "secret\n")
	path := write(t, "k.yaml", fmt.Sprintf("cluster: c\nnats: {servers: [%q]}\nkubernetes: {server: %q}\npools: {p: {default: true}}\nperiod: 200ms\nmetrics: none\nadmin: {addr: \"127.0.0.1:0\", token_file: %q}\n",
		nats.ClientURL(), api.URL, token))
	ctx, stop := context.WithCancel(t.Context())
	out, code := newOutput(), make(chan int)
	go func() { code <- Main(ctx, []string{"--config", path}, out, out) }()
	url := out.await(t, `admin server: (http://\S+)`)
	m, err := facts.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := wire.DecodeFacts(m.Data); err != nil || f.Tasks != 1 {
		t.Errorf("facts %+v, %v", f, err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/status": 401} {
		if status, body := get(t, url+path, ""); status != want {
			t.Errorf("%s without a token: %d %s, want %d", path, status, body, want)
		}
	}
	if _, body := get(t, url+"/metrics", "secret"); !strings.Contains(body, `weir_kubernetes_fresh{cluster="c"} 1`) {
		t.Errorf("metrics: %s", body)
	}
	var s adapter.Status
	if _, body := get(t, url+"/status", "secret"); json.Unmarshal([]byte(body), &s) != nil || !s.Fresh || s.Nodes != 2 || s.Pods != 1 || len(s.Leads) != 1 {
		t.Errorf("status: %s", body)
	}
	if err := wire.NewClient(nc, "c", "p").Cordon(t.Context(), "i-b", true, pools.Sequence{Epoch: 1, Number: 1}); err != nil {
		t.Error(err)
	}
	stop()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d: %s", c, out)
	}
	if !api.Node("b").Spec.Unschedulable {
		t.Error("node b is not cordoned any more")
	}
}

// While NATS is away, the program waits, and it ends at once.
func TestProgramWaitsForNATS(t *testing.T) {
	path := write(t, "k.yaml", "cluster: c\nnats: {servers: [\"nats://127.0.0.1:1\"]}\nkubernetes: {server: \"http://127.0.0.1:1\"}\npools: {p: {}}\nadmin: {addr: \"off\"}\n")
	ctx, stop := context.WithCancel(t.Context())
	out, code := newOutput(), make(chan int)
	go func() { code <- Main(ctx, []string{"--config", path}, out, out) }()
	out.await(t, `(connection refused)`)
	stop()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d: %s", c, out)
	}
}
