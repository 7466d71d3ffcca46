package natsbus

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

// faultWorld is a harmonizer's machine behind the decoders of this package. Node n1 runs web/0 to web/2, and node n2 api/0.
type faultWorld struct {
	*testing.T
	bus  *Bus
	rows *Rows
	m    *apps.Machine
	now  time.Time

	nudges  []apps.Nudge
	refused []string
	placed  map[string]string // instance -> node
}

const period = 10 * time.Second

func newFaultWorld(t *testing.T) *faultWorld {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	bus, err := NewBus(nil, Config{Cluster: cluster}, log)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := integrity.Open(integrity.Config{Bucket: "b", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	cfg := apps.Config{DelayTimeNoise: new(time.Duration(0)), Places: true}.WithDefaults()
	return &faultWorld{
		T: t, bus: bus, rows: &Rows{guard: guard, log: log}, m: apps.NewMachine(cfg), now: time.Unix(1_700_000_000, 0),
		placed: map[string]string{"i0": "n1", "i1": "n1", "i2": "n1", "j0": "n2"},
	}
}

// steady is a world at rest, in which all copies have run for a while.
func steadyWorld(t *testing.T) *faultWorld {
	t.Helper()
	w := newFaultWorld(t)
	w.step(apps.BusUp{}, apps.Lead{})
	w.row("web", webRow)
	w.row("api", apiRow)
	w.step(apps.ExpectedComplete{})
	for range 3 {
		w.beat(webBeat)
	}
	return w
}

func (w *faultWorld) step(events ...apps.Event) {
	for _, ev := range events {
		nudges, found := w.m.Step(w.now, ev)
		w.nudges = append(w.nudges, nudges...)
		for _, f := range found {
			if f.Kind == api.AppFindingRefused {
				w.refused = append(w.refused, f.Detail)
			}
		}
	}
	for pool, copies := range w.m.TakeUnplaced() {
		ev := apps.Placed{Pool: pool}
		for _, c := range copies {
			if w.placed[c.Instance] == c.Node {
				ev.Placed = append(ev.Placed, c.Instance)
			} else {
				ev.NotPlaced = append(ev.NotPlaced, c.Instance)
			}
		}
		w.step(ev)
	}
}

// receive passes a message of a node through the decoder.
func (w *faultWorld) receive(subject, data string) {
	if ev := w.bus.event(&nats.Msg{Subject: subject, Data: []byte(data)}); ev != nil {
		w.step(ev)
	}
}

// beat is a heartbeat period, with this heartbeat of n1 and a valid one of n2.
func (w *faultWorld) beat(n1 string) {
	w.receive(message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), n1)
	w.receive(message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n2"}), apiBeat)
	for range 10 {
		w.now = w.now.Add(period / 10)
		w.step(apps.Tick{})
	}
}

// row passes a row through the decoder, as from the bucket.
func (w *faultWorld) row(name, data string) {
	row, ev := w.rows.read(integrity.Key{Name: name, Value: []byte(data)})
	if ev == nil {
		ev = apps.ExpectedRows{Rows: []api.App{row}}
	}
	w.step(ev)
}

// index returns how an index is seen, without times.
func (w *faultWorld) index(app string, index int) string {
	e, _ := w.m.View().Explain(w.now, app)
	var out []string
	for _, st := range e.Indices {
		if st.Index != index {
			continue
		}
		out = append(out, fmt.Sprintf("desired=%v missing=%v crashes=%d rule=%s", st.Desired, !st.Missing.IsZero(), st.Crashes, st.Rule))
		for _, i := range st.Instances {
			out = append(out, fmt.Sprintf("%s on %s version=%s %s since=%v absent=%v extra=%s stopped=%v", i.ID, i.Node, i.Version, i.State, i.Since, !i.Absent.IsZero(), i.Extra, i.Stopped))
		}
	}
	return strings.Join(out, "; ")
}

// others returns all that the faults of web/1 must not change.
func (w *faultWorld) others() []string {
	counts, err := json.Marshal(w.m.View().Counts(time.Time{}, "p"))
	return []string{w.index("web", 0), w.index("web", 2), w.index("api", 0), string(counts), fmt.Sprint(err, w.m.View().Silent())}
}

func beatOf(id string, index int) string {
	return fmt.Sprintf(`{"cc_partition":"default","droplet":"web","version":"v1","instance":%q,"index":%d,"state":"RUNNING","state_timestamp":1000.5,"unready":false}`, id, index)
}

var (
	webBeat = `{"dea":"n1","droplets":[` + beatOf("i0", 0) + "," + beatOf("i1", 1) + "," + beatOf("i2", 2) + `]}`
	apiBeat = `{"dea":"n2","droplets":[{"droplet":"api","version":"v7","instance":"j0","index":0,"state":"RUNNING","state_timestamp":1}]}`
)

const (
	webRow = `{"name":"web","pool":"p","instances":3,"version":"v1","command":"run","release":"shop/web@v1.0.0","cpus":0.5,"mem":64,"disk":10,"gpus":0,` +
		`"updated":"2026-03-01T12:00:00Z","state":"STARTED","package_state":"STAGED","labels":{"team":"shop","tier":"1"},` +
		`"ready":{"http":{"port":80,"path":"/ok","status":200},"tcp":null,"exec":null,"after":"1s","within":"1m0s","timeout":"1s","period":"5s","failures":3,"restart_unready":true},` +
		`"env":{"port":"1"},"ports":[{"name":"http","port":8080}],"spread":{"by":"zone","at_most_per_node":2},"one_shot":false,"retries":null,"update":{"max_surge":"25%","stop_after":2},"restarted":"2026-02-01T12:00:00Z",` +
		`"history":[{"version":"v0","command":"old","release":"shop/web@v0.9.0","cpus":0.5,"mem":64,"disk":10,"gpus":0,"ready":null,"env":{"port":"0"},"ports":[{"name":"http","port":"auto"}],"restarted":"2026-01-01T12:00:00Z","at":"2026-02-01T12:00:00Z"}]}`
	apiRow   = `{"name":"api","pool":"p","instances":1,"version":"v7","command":"run","cpus":1,"mem":64,"disk":10,"gpus":0,"updated":"2026-03-01T12:00:00Z"}`
	webExit1 = `{"cc_partition":"default","droplet":"web","version":"v1","instance":"i1","index":1,"reason":"CRASHED","exit_status":3,"exit_description":"oom","crash_timestamp":1700000000,"repeated":false}`
)

// A fault in one object of a heartbeat, or in its envelope, makes the copies unknown that it affects. They stay as they were,
// the others count as without it, and no copy is started or stopped.
func TestFaultsOfHeartbeats(t *testing.T) {
	if lacks := jsonfault.Lacks[api.Heartbeat](webBeat); lacks != nil {
		t.Errorf("the heartbeat lacks %q", lacks)
	}
	rules := jsonfault.Rules{Optional: "cc_partition state_timestamp unready", Except: []jsonfault.Except{
		{Field: "cc_partition", Faults: []jsonfault.Fault{jsonfault.Long}, Usable: true, Why: "only compared with that of the configuration"},
	}}
	good := steadyWorld(t)
	for range 6 {
		good.beat(webBeat)
	}
	cases := jsonfault.Cases(webBeat)
	entry, n := "droplets[1]", 0
	for _, c := range cases {
		if strings.HasPrefix(c.Path, "droplets[0]") || strings.HasPrefix(c.Path, "droplets[2]") {
			continue
		}
		n++
		w := steadyWorld(t)
		for range 6 {
			w.beat(c.Text)
		}
		usable := rules.Usable("", c)
		if strings.HasPrefix(c.Path, entry) {
			usable = rules.Usable(entry, c)
		}
		if got := w.others(); !slices.Equal(got, good.others()) {
			t.Errorf("%v: the others are %q, want %q", c, got, good.others())
		}
		if usable == (len(w.refused) > 0) {
			t.Errorf("%v: refused %q, want usable %v", c, slices.Compact(w.refused), usable)
		}
		if got, want := w.index("web", 1), good.index("web", 1); got != want && !(usable && strings.HasSuffix(c.Path, "state_timestamp")) {
			t.Errorf("%v: web/1 is %s, want %s", c, got, want)
		}
		for range 6 {
			w.beat(webBeat)
		}
		if len(w.nudges) > 0 {
			t.Errorf("%v: nudges %v", c, w.nudges)
		}
	}
	t.Logf("%d faulty heartbeats", n)
}

// A fault in an exit makes that exit unknown: the copy stays as its heartbeat has it.
func TestFaultsOfExits(t *testing.T) {
	if lacks := jsonfault.Lacks[api.Exited](webExit1); lacks != nil {
		t.Errorf("the exit lacks %q", lacks)
	}
	rules := jsonfault.Rules{
		Optional: "cc_partition exit_status exit_description crash_timestamp repeated", Free: "cc_partition exit_description", Except: []jsonfault.Except{
			{Field: "exit_status", Faults: []jsonfault.Fault{jsonfault.Negative}, Values: "-1", Usable: true, Why: "the status of a process that a signal ended"},
		}}
	run := func(text string, rest string) *faultWorld {
		w := steadyWorld(t)
		w.receive(message.ExitedSubject(cluster, message.Node{Pool: "p", Name: "n1"}), text)
		for range 2 {
			w.beat(rest)
		}
		return w
	}
	gone := `{"dea":"n1","droplets":[` + beatOf("i0", 0) + "," + beatOf("i2", 2) + `]}`
	good, none := run(webExit1, gone), run("", webBeat)
	cases := jsonfault.Cases(webExit1)
	for _, c := range cases {
		usable := rules.Usable("", c)
		want, rest := none, webBeat
		if usable {
			want, rest = good, gone
		}
		w := run(c.Text, rest)
		if got := w.others(); !slices.Equal(got, want.others()) {
			t.Errorf("%v: the others are %q, want %q", c, got, want.others())
		}
		if got, want := w.index("web", 1), want.index("web", 1); got != want {
			t.Errorf("%v: web/1 is %s, want %s", c, got, want)
		}
		if got, want := len(w.nudges), len(want.nudges); got != want {
			t.Errorf("%v: %d nudges, want %d", c, got, want)
		}
		named := slices.ContainsFunc(keysOf(w.bus.Counters()), func(k string) bool { return strings.HasPrefix(k, "bad_"+message.SubjectExited) })
		if named == usable {
			t.Errorf("%v: counters %v, want usable %v", c, w.bus.Counters(), usable)
		}
	}
	t.Logf("%d faulty exits", len(cases))
}

func keysOf(m map[string]uint64) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// A fault in a row makes that row unknown: its app keeps its last row, and is neither started nor stopped. The other
// rows count.
func TestFaultsOfRows(t *testing.T) {
	lacks := slices.DeleteFunc(jsonfault.Lacks[api.App](webRow), func(field string) bool { // a row has one check
		return strings.HasPrefix(field, "ready.tcp.") || strings.HasPrefix(field, "ready.exec.") || strings.HasPrefix(field, "history[0].ready.")
	})
	if len(lacks) > 0 {
		t.Errorf("the row lacks %q", lacks)
	}
	rules := jsonfault.Rules{
		Optional: "command release gpus updated state package_state labels labels.team labels.tier " +
			"ready ready.http.path ready.http.status ready.tcp ready.exec ready.after ready.within ready.timeout ready.period ready.failures " +
			"ready.restart_unready restarted history[0].restarted env env.port update update.max_surge update.stop_after history history[0].command history[0].release " +
			"ports one_shot retries spread spread.by spread.at_most_per_node history[0].ports history[0].cpus history[0].mem history[0].disk history[0].gpus history[0].ready history[0].env history[0].env.port history[0].at",
		Free: "command env.port history[0].command history[0].env.port", Except: []jsonfault.Except{
			{Field: "env", Faults: []jsonfault.Fault{jsonfault.Extra}, Why: "each key is a variable, and its value a text"},
			{Field: "history[0].env", Faults: []jsonfault.Fault{jsonfault.Extra}, Why: "each key is a variable, and its value a text"},
			{Field: "env.port", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a variable without a text"},
			{Field: "history[0].env.port", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a variable without a text"},
			{Field: "update.max_surge", Faults: []jsonfault.Fault{jsonfault.Type}, Values: "7", Usable: true, Why: "a number or a text"},
			{Field: "history[0].ports[0].port", Faults: []jsonfault.Fault{jsonfault.Type}, Values: "7", Usable: true, Why: "a number or auto"},
			{Field: "labels", Faults: []jsonfault.Fault{jsonfault.Extra}, Why: "each key of labels is a label, and its value a text"},
			{Field: "labels.team", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a label without a text"},
			{Field: "labels.tier", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a label without a text"},
		},
	}
	good := steadyWorld(t)
	good.beat(webBeat)
	cases := jsonfault.Cases(webRow)
	for _, c := range cases {
		usable := rules.Usable("", c)
		w := steadyWorld(t)
		w.row("web", c.Text)
		for range 6 {
			w.beat(webBeat)
		}
		if got := w.others(); !slices.Equal(got, good.others()) {
			t.Errorf("%v: the others are %q, want %q", c, got, good.others())
		}
		if problems := w.rows.guard.Problems(); (len(problems) == 0) != usable {
			t.Errorf("%v: problems %v, want usable %v", c, problems, usable)
		}
		if len(w.nudges) > 0 {
			t.Errorf("%v: nudges %v", c, w.nudges)
		}
		fresh := newFaultWorld(t) // it has no last row
		fresh.step(apps.BusUp{}, apps.Lead{})
		fresh.row("web", c.Text)
		fresh.row("api", apiRow)
		fresh.step(apps.ExpectedComplete{})
		for range 30 {
			fresh.beat(webBeat)
		}
		if got, want := fresh.index("api", 0), good.index("api", 0); got != want || len(fresh.nudges) > 0 {
			t.Errorf("%v: without an earlier row api/0 is %s, want %s; nudges %v", c, got, want, fresh.nudges)
		}
	}
	t.Logf("%d faulty rows", len(cases))
}
