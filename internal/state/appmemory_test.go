package state_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

var crashedAt = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func crashed(app string, crashes int) apps.Memory {
	return apps.Memory{App: app, Version: "v1", Indices: []apps.IndexMemory{
		{Index: 0, Crashes: crashes, CrashedAt: crashedAt, Restart: crashedAt.Add(time.Minute)},
		{Index: 7, Crashes: 5, CrashedAt: crashedAt, GivenUp: true, Pending: crashedAt.Add(time.Second),
			Ended: &api.AppCrash{Instance: "i7", Index: 7, Version: "v1", At: crashedAt, Reason: api.ExitCrashed, Status: new(1), Description: "exit status 1"}},
	}, Stops: []apps.StopMemory{{Instance: "i9", Index: 9, Pending: crashedAt}}}
}

func forgotten(app string) apps.Memory { return apps.Memory{App: app} }

// harmonizerLease returns a lease that is held under that name.
func harmonizerLease(t testing.TB, js jetstream.JetStream, holder string, ttl time.Duration, log *slog.Logger) *state.Lease {
	t.Helper()
	l, err := state.NewLease(js, state.LeaseConfig{Bucket: harmonizerBucket, Holder: holder, TTL: ttl, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := l.Acquire(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

func openMemory(t testing.TB, js jetstream.JetStream, l *state.Lease) *state.AppMemory {
	t.Helper()
	m, err := state.OpenAppMemory(t.Context(), js, l, "here")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// acquireAndLoad acquires the lease under that name and loads the memory. As with hold, a second process of the same name is an
// intruder.
func acquireAndLoad(t *testing.T, js jetstream.JetStream, name string) (*state.AppMemory, harmonizer.SavedState) {
	t.Helper()
	m := openMemory(t, js, harmonizerLease(t, js, name, long, testLog(t)))
	r, err := m.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func saveApps(t testing.TB, m *state.AppMemory, nodes map[message.Node]int, changed ...apps.Memory) {
	t.Helper()
	if err := m.Save(t.Context(), changed, nodes); err != nil {
		t.Fatal(err)
	}
}

func wantRemembered(t *testing.T, got harmonizer.SavedState, nodes map[message.Node]int, want ...apps.Memory) {
	t.Helper()
	if diff := cmp.Diff(harmonizer.SavedState{Apps: want, Nodes: nodes}, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
}

// writes counts writes to the bucket and can make them fail.
type writes struct {
	mu    sync.Mutex
	keys  []string
	allow int // how many writes succeed; below 0: all
}

func (w *writes) before(key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.allow >= 0 && len(w.keys) >= w.allow {
		return errAway
	}
	w.keys = append(w.keys, key)
	return nil
}

// begin resets the counters and sets how many writes succeed from now on.
func (w *writes) begin(allow int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.allow = nil, allow
}

func (w *writes) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys
}

func TestAppMemory(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	js := server.JetStream()
	a, r := acquireAndLoad(t, js, "a")
	wantRemembered(t, r, nil)
	saveApps(t, a, map[message.Node]int{{Name: "n1"}: 3, {Name: "node two.example"}: 0}, crashed("web", 1), crashed("db", 2), crashed("old", 3))
	saveApps(t, a, nil, crashed("web", 4), forgotten("old"), forgotten("never-there"))
	server.Close()

	js = open(t, data).JetStream()
	b, r := acquireAndLoad(t, js, "a")
	wantRemembered(t, r, map[message.Node]int{{Name: "n1"}: 3, {Name: "node two.example"}: 0}, crashed("db", 2), crashed("web", 4))
	all := contentsOf(t, js, harmonizerBucket)
	for key, m := range all {
		if strings.HasPrefix(key, "memory.") && !bytes.HasPrefix(m.Data, []byte(`{"epoch":2}`+"\n")) {
			t.Errorf("%s is %q, want it with epoch 2", key, m.Data)
		}
	}
	if want := 256 + 1 + 2; len(all) != want || all["lease"].Sequence == 0 {
		t.Errorf("%d keys, want %d: shards, nodes, lease and schema", len(all), want)
	}
	saveApps(t, b, map[message.Node]int{{Name: "n2"}: 1}, forgotten("db"), forgotten("web"))
	_, r = acquireAndLoad(t, js, "a")
	wantRemembered(t, r, map[message.Node]int{{Name: "n2"}: 1})
}

func TestOnlyWhatChangedIsWritten(t *testing.T) {
	js := js(t)
	w := &writes{allow: -1}
	m := openMemory(t, failing{JetStream: js, before: w.before}, harmonizerLease(t, js, "a", long, testLog(t)))
	if _, err := m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes := map[message.Node]int{{Name: "n1"}: 1, {Name: "n2"}: 2}
	for _, test := range []struct {
		name    string
		changed []apps.Memory
		nodes   map[message.Node]int
		want    int
	}{
		{"two apps and the nodes", []apps.Memory{crashed("web", 1), crashed("db", 1)}, nodes, 3},
		{"the same again", []apps.Memory{crashed("web", 1), crashed("db", 1)}, nodes, 0},
		{"one of two", []apps.Memory{crashed("web", 2), crashed("db", 1)}, nil, 1},
		{"nothing", nil, nil, 0},
		{"one to forget", []apps.Memory{forgotten("web")}, nodes, 1},
		{"one that is forgotten", []apps.Memory{forgotten("web")}, nodes, 0},
		{"a node less", nil, map[message.Node]int{{Name: "n1"}: 1}, 1},
		{"no node", nil, map[message.Node]int{}, 1},
	} {
		w.begin(-1)
		saveApps(t, m, test.nodes, test.changed...)
		if got := w.written(); len(got) != test.want {
			t.Errorf("%s: wrote %v, want %d keys", test.name, got, test.want)
		}
	}
}

func TestLateSavesAreRefused(t *testing.T) {
	js := js(t)
	a, _ := acquireAndLoad(t, js, "a")
	saveApps(t, a, map[message.Node]int{{Name: "n1"}: 1}, crashed("web", 1))
	b, r := acquireAndLoad(t, js, "a") // a was halted and still counts itself the holder
	wantRemembered(t, r, map[message.Node]int{{Name: "n1"}: 1}, crashed("web", 1))
	saveApps(t, b, nil, crashed("web", 2))
	before := contentsOf(t, js, harmonizerBucket)
	wantNotHolder(t, "a's Save of an app", a.Save(t.Context(), []apps.Memory{crashed("web", 9)}, nil))
	wantNotHolder(t, "a's Save of a new app", a.Save(t.Context(), []apps.Memory{crashed("db", 9)}, nil))
	wantNotHolder(t, "a's Save of nodes", a.Save(t.Context(), nil, map[message.Node]int{}))
	if diff := cmp.Diff(before, contentsOf(t, js, harmonizerBucket)); diff != "" {
		t.Errorf("the bucket has changed:\n%s", diff)
	}
}

func TestAppMemoryWithoutALease(t *testing.T) {
	js := js(t)
	none, err := state.NewLease(js, state.LeaseConfig{Bucket: harmonizerBucket, Holder: "a", Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	m := openMemory(t, js, none)
	_, err = m.Load(t.Context())
	wantNotHolder(t, "Load with a lease that was not acquired", err)

	l := harmonizerLease(t, js, "a", 10*short, testLog(t)) // Load must do its 256 writes within it
	m = openMemory(t, js, l)
	wantNotHolder(t, "Save without a Load", m.Save(t.Context(), nil, nil))
	if _, err := m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the lease runs out", func() bool { return l.Left() == 0 })
	wantNotHolder(t, "Save", m.Save(t.Context(), []apps.Memory{crashed("web", 1)}, nil))
	_, err = m.Load(t.Context())
	wantNotHolder(t, "Load", err)
	acquired(t, l) // another term
	wantNotHolder(t, "Save in a term without a Load", m.Save(t.Context(), []apps.Memory{crashed("web", 1)}, nil))
	if r, err := m.Load(t.Context()); err != nil || len(r.Apps) != 0 {
		t.Errorf("Load = %v, %v, want nothing", r, err)
	}
	saveApps(t, m, nil, crashed("web", 1))
}

func TestLoadThatDies(t *testing.T) {
	for _, dies := range []int{0, 100, 256} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("at write %d, written %t", dies, written), func(t *testing.T) {
				js := js(t)
				a, _ := acquireAndLoad(t, js, "a")
				want := []apps.Memory{crashed("db", 1), crashed("mail", 2), crashed("web", 3)}
				saveApps(t, a, map[message.Node]int{{Name: "n1"}: 1}, want...)
				w := &writes{allow: dies}
				f := failing{JetStream: js, before: w.before}
				if written {
					f = failing{JetStream: js, after: w.before}
				}
				m := openMemory(t, f, harmonizerLease(t, js, "a", long, testLog(t)))
				if _, err := m.Load(t.Context()); !errors.Is(err, errAway) {
					t.Fatalf("Load = %v, want %v", err, errAway)
				}
				wantNotHolder(t, "Save after that", m.Save(t.Context(), want, nil))
				w.begin(-1)
				r, err := m.Load(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantRemembered(t, r, map[message.Node]int{{Name: "n1"}: 1}, want...)
				_, r = acquireAndLoad(t, js, "a")
				wantRemembered(t, r, map[message.Node]int{{Name: "n1"}: 1}, want...)
			})
		}
	}
}

// manyApps returns n apps over many shards, each with that many crashes.
func manyApps(n, crashes int) []apps.Memory {
	var all []apps.Memory
	for i := range n {
		all = append(all, crashed(fmt.Sprintf("app-%06d", i), crashes))
	}
	return all
}

// A Save that fails half way is completed by the next one.
func TestSaveThatDiesBetweenShards(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %t", written), func(t *testing.T) {
			js := js(t)
			w := &writes{allow: -1}
			f := failing{JetStream: js, before: w.before}
			if written {
				f = failing{JetStream: js, after: w.before}
			}
			m := openMemory(t, f, harmonizerLease(t, js, "a", long, testLog(t)))
			if _, err := m.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			saveApps(t, m, nil, manyApps(50, 1)...)
			w.begin(10)
			err := m.Save(t.Context(), manyApps(50, 2), map[message.Node]int{{Name: "n1"}: 1})
			if !errors.Is(err, errAway) {
				t.Fatalf("Save = %v, want %v", err, errAway)
			}
			w.begin(-1)
			saveApps(t, m, nil, crashed("last", 1))
			_, r := acquireAndLoad(t, js, "a")
			wantRemembered(t, r, map[message.Node]int{{Name: "n1"}: 1}, append(manyApps(50, 2), crashed("last", 1))...)
		})
	}
}

// A write of the last holder before its key was rewritten counts: the holder may have acted on it.
func TestSavesDuringATakeoverCount(t *testing.T) {
	js := js(t)
	a, _ := acquireAndLoad(t, js, "a")
	saveApps(t, a, nil, crashed("web", 1))
	l := harmonizerLease(t, js, "a", long, testLog(t))
	var once sync.Once
	late := make(chan error, 1)
	b := openMemory(t, failing{JetStream: js, before: func(string) error {
		once.Do(func() { late <- a.Save(t.Context(), []apps.Memory{crashed("web", 2)}, nil) })
		return nil
	}}, l)
	r, err := b.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Either a's write came before the takeover of this key, or it was refused.
	if err := result(t, "a's Save returns", late); err != nil {
		wantNotHolder(t, "a's Save", err)
		wantRemembered(t, r, nil, crashed("web", 1))
	} else {
		wantRemembered(t, r, nil, crashed("web", 2))
	}
	saveApps(t, b, nil, crashed("web", 3))
}

func TestUnreadableMemoryMovesAside(t *testing.T) {
	for name, value := range map[string]string{
		"no JSON":          "\x00garbage",
		"no head":          "head\n{}",
		"not packed":       `{"epoch":1,"gzip":true}` + "\n{}",
		"another head":     `{"epoch":1,"zstd":true}` + "\n{}",
		"null":             `{"epoch":1}` + "\nnull",
		"a list":           `{"epoch":1}` + "\n[]",
		"another shard's":  `{"epoch":1}` + "\n" + `{"elsewhere":{"app":"elsewhere"}}`,
		"another app's":    `{"epoch":1}` + "\n" + `{"web":{"app":"db"}}`,
		"a negative index": `{"epoch":1}` + "\n" + `{"web":{"app":"web","indices":[{"index":-1}]}}`,
		"a negative count": `{"epoch":1}` + "\n" + `{"n1":-1}`,
		"another type":     `{"epoch":1}` + "\n" + `{"web":7, "n1":"many"}`,
	} {
		t.Run(name, func(t *testing.T) {
			js := js(t)
			a, _ := acquireAndLoad(t, js, "a")
			saveApps(t, a, map[message.Node]int{{Name: "n1"}: 1}, crashed("web", 1), crashed("db", 1))
			shard := state.ShardKey("web")
			putRawOf(t, js, harmonizerBucket, shard, value)
			putRawOf(t, js, harmonizerBucket, "memory.nodes", value)
			var told bytes.Buffer
			b := openMemory(t, js, harmonizerLease(t, js, "a", long, slog.New(slog.NewTextHandler(&lockedWriter{w: &told}, nil))))
			r, err := b.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantRemembered(t, r, nil, crashed("db", 1))
			for _, key := range []string{shard, "memory.nodes"} {
				asideKey := "aside." + key[strings.LastIndexByte(key, '.')+1:]
				if got, found := rawOf(t, js, harmonizerBucket, asideKey); got != value || !found {
					t.Errorf("%s is %q, want %q", asideKey, got, value)
				}
				if !strings.Contains(told.String(), "key="+key+" aside="+asideKey) {
					t.Errorf("log: %s, want that of %s", told.String(), key)
				}
			}
			saveApps(t, b, map[message.Node]int{{Name: "n2"}: 1}, crashed("web", 2))
			_, r = acquireAndLoad(t, js, "a")
			wantRemembered(t, r, map[message.Node]int{{Name: "n2"}: 1}, crashed("db", 1), crashed("web", 2))
		})
	}
}

// lockedWriter is safe for concurrent use by loggers.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestHigherEpochsOfMemoryAreNotOverwritten(t *testing.T) {
	js := js(t)
	a, _ := acquireAndLoad(t, js, "a")
	saveApps(t, a, nil, crashed("web", 1))
	for name, body := range map[string]string{"readable": "{}", "unreadable": "[]"} {
		t.Run(name, func(t *testing.T) {
			shard := state.ShardKey("web")
			putRawOf(t, js, harmonizerBucket, shard, `{"epoch":99}`+"\n"+body)
			m := openMemory(t, js, harmonizerLease(t, js, "a", long, testLog(t)))
			before := contentsOf(t, js, harmonizerBucket)[shard]
			_, err := m.Load(t.Context())
			wantNotHolder(t, "Load", err)
			if diff := cmp.Diff(before, contentsOf(t, js, harmonizerBucket)[shard]); diff != "" {
				t.Errorf("it has changed:\n%s", diff)
			}
		})
	}
}

func TestBadMemories(t *testing.T) {
	js := js(t)
	m, _ := acquireAndLoad(t, js, "a")
	before := contentsOf(t, js, harmonizerBucket)
	tooLong := strings.Repeat("x", 300)
	for name, bad := range map[string]struct {
		app   apps.Memory
		nodes map[message.Node]int
	}{
		"no name":              {app: crashed("", 1)},
		"long name":            {app: crashed(tooLong, 1)},
		"name that is no text": {app: crashed("a\xff", 1)},
		"long version":         {app: apps.Memory{App: "web", Version: tooLong}},
		"negative crashes":     {app: crashed("web", -1)},
		"index beyond":         {app: apps.Memory{App: "web", Indices: []apps.IndexMemory{{Index: 100_000}}}},
		"stop of nothing":      {app: apps.Memory{App: "web", Stops: []apps.StopMemory{{}}}},
		"stop beyond":          {app: apps.Memory{App: "web", Stops: []apps.StopMemory{{Instance: "i", Index: 100_000}}}},
		"many stops":           {app: apps.Memory{App: "web", Stops: make([]apps.StopMemory, apps.MaxStops+1)}},
		"node without name":    {app: crashed("web", 1), nodes: map[message.Node]int{{Name: ""}: 1}},
		"negative copies":      {app: crashed("web", 1), nodes: map[message.Node]int{{Name: "n"}: -1}},
	} {
		if err := m.Save(t.Context(), []apps.Memory{bad.app}, bad.nodes); err == nil {
			t.Errorf("%s: saved", name)
		}
	}
	if diff := cmp.Diff(before, contentsOf(t, js, harmonizerBucket)); diff != "" {
		t.Errorf("the bucket has changed:\n%s", diff)
	}
}

// Entries that do not fit are dropped, the oldest first. The log reports it, and Save still succeeds.
func TestShardThatIsTooLarge(t *testing.T) {
	if testprograms.WithoutRace(t, "internal/state") {
		return
	}
	many := apps.Memory{App: "web", Version: "v1"}
	for i := range 100_000 {
		at := crashedAt.Add(time.Duration(i%1000) * time.Second)
		many.Indices = append(many.Indices, apps.IndexMemory{Index: i, Crashes: 1, CrashedAt: at, Restart: crashedAt})
	}
	stops := apps.Memory{App: "web"} // gzip does not make these short enough
	random := rand.New(rand.NewPCG(1, 2))
	for i := range apps.MaxStops {
		stops.Stops = append(stops.Stops, apps.StopMemory{Instance: guid(random), Index: i, Pending: crashedAt.Add(time.Duration(i) * time.Second)})
	}
	for name, test := range map[string]struct {
		payload int32 // of the bus
		huge    apps.Memory
		first   func(apps.Memory) int // index of the remaining entry
	}{
		"indices, longer than a value": {8 << 20, many, func(m apps.Memory) int { return m.Indices[0].Index }},
		"stops, longer than a message": {128 << 10, stops, func(m apps.Memory) int { return m.Stops[0].Index }},
	} {
		t.Run(name, func(t *testing.T) {
			js := narrow(t, test.payload)
			var told bytes.Buffer
			m := openMemory(t, js, harmonizerLease(t, js, "a", long, slog.New(slog.NewTextHandler(&lockedWriter{w: &told}, nil))))
			if _, err := m.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n := range 2 {
				saveApps(t, m, nil, test.huge, crashed("db", n))
			}
			if !strings.Contains(told.String(), "level=ERROR") || !strings.Contains(told.String(), "key="+state.ShardKey("web")+" dropped=") {
				t.Errorf("log: %s", told.String())
			}
			_, r := acquireAndLoad(t, js, "a")
			if len(r.Apps) != 2 || r.Apps[1].App != "web" {
				t.Fatalf("%d apps are remembered, want db and web", len(r.Apps))
			}
			if diff := cmp.Diff(crashed("db", 1), r.Apps[0]); diff != "" {
				t.Errorf("db is remembered otherwise:\n%s", diff)
			}
			if n, first := len(r.Apps[1].Indices)+len(r.Apps[1].Stops), test.first(r.Apps[1]); n < 3000 || first < 100 {
				t.Errorf("of web %d are left from index %d on, want thousands, and the oldest gone", n, first)
			}
		})
	}
}

func guid(r *rand.Rand) string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }

// narrow returns the JetStream of a bus with that message limit in bytes.
func narrow(t *testing.T, payload int32) jetstream.JetStream {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: payload})
	js, err := jetstream.New(bustest.Connect(t, s.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "here", 1)
	return js
}

func TestCensusThatIsTooLarge(t *testing.T) {
	js := narrow(t, 256<<10)
	m, _ := acquireAndLoad(t, js, "a")
	random := rand.New(rand.NewPCG(1, 2))
	nodes := map[message.Node]int{}
	for i := range 20_000 {
		nodes[message.Node{Pool: "p", Name: guid(random)}] = i
	}
	saveApps(t, m, nodes, crashed("web", 1))
	_, r := acquireAndLoad(t, js, "a")
	if n := len(r.Nodes); n < 4000 || n == len(nodes) || len(r.Apps) != 1 {
		t.Errorf("%d nodes and %d apps are remembered", n, len(r.Apps))
	}
	for node, copies := range r.Nodes {
		if copies < len(nodes)-len(r.Nodes) {
			t.Fatalf("%s with %d copies is remembered of %d nodes, of 0 to %d copies", node, copies, len(r.Nodes), len(nodes)-1)
		}
	}
}

func TestAppMemoryWithoutNATS(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	m := openMemory(t, through, harmonizerLease(t, through, "a", long, testLog(t)))
	if _, err := m.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.setCut(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.Save(ctx, manyApps(40, 1), nil); err == nil {
		t.Error("Save while the bus is away = nil, want an error")
	}
	p.setCut(false)
	saveApps(t, m, nil, crashed("web", 1))
	_, r := acquireAndLoad(t, server.JetStream(), "a")
	wantRemembered(t, r, nil, append(manyApps(40, 1), crashed("web", 1))...)
}

// saveWithoutEnd saves one more crash of each app in each round, until it is killed.
func saveWithoutEnd(data string) error {
	ctx := context.Background()
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Open(ctx, bus.Config{Data: data, Name: "child", Log: log, Serve: natsserver.Serve})
	if err != nil {
		return err
	}
	if _, err := streams.Create(ctx, b.JetStream(), streams.Cluster{Name: "here"}.Specs()); err != nil {
		return err
	}
	l, err := state.NewLease(b.JetStream(), state.LeaseConfig{Bucket: harmonizerBucket, Holder: "a", TTL: long, Log: log})
	if err != nil {
		return err
	}
	if err := l.Acquire(ctx); err != nil {
		return err
	}
	m, err := state.OpenAppMemory(ctx, b.JetStream(), l, "here")
	if err != nil {
		return err
	}
	if _, err := m.Load(ctx); err != nil {
		return err
	}
	for n := 1; ; n++ {
		if err := m.Save(ctx, manyApps(30, n), map[message.Node]int{{Name: "n1"}: n}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func TestNothingAcknowledgedIsLostWhenKilled(t *testing.T) {
	data := t.TempDir()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), executable)
	child.Env = append(os.Environ(), childEnv+"="+data)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("child printed %q", lines.Text())
		}
		acknowledged = n
		if n == 20 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // the error reports the kill
	_, r := acquireAndLoad(t, open(t, data).JetStream(), "a")
	if acknowledged < 20 || len(r.Apps) != 30 || r.Nodes[message.Node{Name: "n1"}] < acknowledged {
		t.Errorf("%d saves acknowledged, %d apps remembered, of save %d", acknowledged, len(r.Apps), r.Nodes[message.Node{Name: "n1"}])
	}
	for _, app := range r.Apps {
		if n := app.Indices[0].Crashes; n < acknowledged || n > acknowledged+1 {
			t.Errorf("%s has %d crashes, want those of save %d or of one that was begun after", app.App, n, acknowledged)
		}
	}
}

// BenchmarkAppMemory saves and loads 100 000 crashed apps.
func BenchmarkAppMemory(b *testing.B) {
	js := openBench(b)
	log := slog.New(slog.DiscardHandler)
	m := openMemory(b, js, harmonizerLease(b, js, "a", long, log))
	if _, err := m.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	const n = 100_000
	b.Run("save all", func(b *testing.B) {
		for crashes := 1; b.Loop(); crashes++ {
			saveApps(b, m, nil, manyApps(n, crashes)...)
		}
	})
	b.Run("save 40 of them", func(b *testing.B) {
		for crashes := 1_000_000; b.Loop(); crashes++ {
			saveApps(b, m, nil, manyApps(40, crashes)...)
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if r, err := m.Load(b.Context()); err != nil || len(r.Apps) != n {
				b.Fatalf("%d apps, %v", len(r.Apps), err)
			}
		}
		stream, err := js.Stream(b.Context(), "KV_"+harmonizerBucket)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(stream.CachedInfo().State.Bytes), "bytes-kept")
	})
}
