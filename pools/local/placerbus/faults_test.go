package placerbus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/placer"
)

// faultWorld is a placer behind the decoders of this package, under virtual time. Node n1 runs web/0 to web/2, and node n2 has
// room for all of them.
type faultWorld struct {
	*Bus
	t      *testing.T
	p      *placer.Placer
	events chan placer.Event

	mu     sync.Mutex // of what requests change
	ids    []string   // of web/0 to web/2
	starts []string
	stops  []string
	saved  map[string]placer.Assignments
	log    bytes.Buffer
}

func (w *faultWorld) Listen(ctx context.Context, _ uint64, enqueue func(context.Context, placer.Event) error) error {
	for {
		select {
		case e := <-w.events:
			if enqueue(ctx, e) != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *faultWorld) Start(_ context.Context, node string, s placer.Start) (placer.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.App == "web" {
		w.ids[s.Index] = s.Instance
	}
	w.starts = append(w.starts, fmt.Sprintf("%s/%d on %s", s.App, s.Index, node))
	return placer.Accepted, nil
}

func (w *faultWorld) Stop(_ context.Context, node, instance string, _ uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, instance+" on "+node)
	return false, nil
}

func (w *faultWorld) Confirm(uint64, []string) error { return nil }

// Load, Save and Restored make the world a placer.Memory.
func (w *faultWorld) Load(context.Context) (all []placer.Assignments, err error) {
	for _, a := range w.saved {
		all = append(all, a)
	}
	return all, nil
}

func (w *faultWorld) Save(_ context.Context, changed []placer.Assignments) error {
	for _, a := range changed {
		w.saved[a.App] = a
	}
	return nil
}

func (w *faultWorld) Restored(context.Context) (bool, error) { return false, nil }

// inWorld runs a test in a bubble of virtual time, once for each placer: the later ones have the records of the first.
func inWorld(t *testing.T, tests ...func(*faultWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &faultWorld{t: t, ids: make([]string, 3), saved: map[string]placer.Assignments{}, events: make(chan placer.Event)}
		for _, test := range tests {
			w.run(func() { test(w) })
		}
	})
}

// restarted runs a test with a placer that has the records of a steady world.
func restarted(t *testing.T, test func(*faultWorld)) {
	t.Helper()
	inWorld(t, (*faultWorld).steady, test)
}

// run runs a placer with the saved assignments, until do returns.
func (w *faultWorld) run(do func()) {
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.Bus = New(Config{Cluster: "c", Pool: "p"}, nil, log)
	p, err := placer.New(placer.Config{Cluster: "c", Pool: "p"}, placer.Ports{Bus: w, Memory: w}, log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.p = p
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	do()
	stop()
	if err := <-ended; err != nil {
		w.t.Error(err)
	}
}

func (w *faultWorld) enqueue(e placer.Event) {
	if e != nil {
		w.events <- e
		synctest.Wait()
	}
}

// pass waits, and then until the placer waits: so the test may read what requests have changed.
func (w *faultWorld) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// receive passes a message through the decoder. "i0" to "i2" in it are the ids of the copies.
func (w *faultWorld) receive(subject, data string) {
	for i, id := range w.ids {
		data = strings.ReplaceAll(data, fmt.Sprintf(`"i%d"`, i), fmt.Sprintf("%q", id))
	}
	w.enqueue(w.event(&nats.Msg{Subject: subject, Data: []byte(data)}))
}

func (w *faultWorld) rowOf(app, data string) {
	w.enqueue(row(integrity.Key{Name: app, Value: []byte(data)}))
}

func node(name string) message.Node { return message.Node{Pool: "p", Name: name} }

// period is a heartbeat period with these messages of n1 and valid ones of n2, and with repeated nudges.
func (w *faultWorld) period(facts, beat string) {
	w.receive(message.FactsSubject("c", node("n1")), facts)
	w.receive(message.HeartbeatSubject("c", node("n1")), beat)
	w.receive(message.FactsSubject("c", node("n2")), idle)
	w.receive(message.HeartbeatSubject("c", node("n2")), `{"dea":"n2","droplets":[]}`)
	w.receive(message.SubjectStart, `{"droplet":"web","version":"v1","indices":[0,1,2],"running":{},"last_updated":1}`)
	w.pass(10 * time.Second)
}

// placeAll lets the placer put web/0 to web/2 on n1, before n2 joins.
func (w *faultWorld) placeAll() {
	w.rowOf("web", webRow)
	w.rowOf("api", apiRow)
	w.enqueue(placer.RowsLoaded{})
	w.receive(message.FactsSubject("c", node("n1")), strings.Replace(idle, "n2", "n1", 1))
	w.receive(message.HeartbeatSubject("c", node("n1")), `{"dea":"n1","droplets":[]}`)
	w.receive(message.SubjectStart, `{"droplet":"web","version":"v1","indices":[0,1,2],"running":{},"last_updated":1}`)
	w.pass(time.Second)
	if len(w.starts) != 3 {
		w.t.Fatalf("starts %q, want three", w.starts)
	}
	w.starts = nil
}

// steady lets the copies run for a while.
func (w *faultWorld) steady() {
	w.placeAll()
	for range 4 {
		w.period(busy, webBeat)
	}
}

// state returns what a fault of n1 or of its copies must not change: where the copies are, and what they need if the nodes leave.
func (w *faultWorld) state() string {
	var placed api.PlacedAnswer
	copies := make([]api.PlacedCopy, 3)
	for i, id := range w.ids {
		copies[i] = api.PlacedCopy{Instance: id, Node: "n1", App: "web", Version: "v1", Index: i}
	}
	w.enqueue(placer.PlacedQuery{Copies: copies, Answer: func(a api.PlacedAnswer) { placed = a }})
	var places api.Places
	w.enqueue(placer.PlacesQuery{Question: api.PlacesQuestion{Gone: []string{"n1", "n2"}}, Text: time.Now().String(), Answer: func(p api.Places, err error) {
		if places = p; err != nil {
			w.t.Error(err)
		}
	}})
	text, err := json.Marshal(places)
	return fmt.Sprintf("%d of %d placed; places %s %v; starts %q; stops %q", len(placed.Placed), len(copies), text, err, w.starts, w.stops)
}

// named reports whether the log has the cause of a problem.
func (w *faultWorld) named() bool { return strings.Contains(w.log.String(), "err=") }

func beatOf(index int) string {
	return fmt.Sprintf(`{"cc_partition":"default","droplet":"web","version":"v1","instance":"i%d","index":%d,"state":"RUNNING","state_timestamp":1000.5}`, index, index)
}

var webBeat = `{"dea":"n1","droplets":[` + beatOf(0) + "," + beatOf(1) + "," + beatOf(2) + `]}`

const (
	webRow = `{"name":"web","pool":"p","instances":3,"version":"v1","command":"run","release":"shop/web@v1.0.0","cpus":1,"mem":64,"disk":10,"gpus":0,` +
		`"updated":"2026-03-01T12:00:00Z","state":"STARTED","package_state":"STAGED","labels":{"team":"shop","tier":"1"}}`
	apiRow  = `{"name":"api","pool":"p","instances":1,"version":"v7","command":"run","cpus":1,"mem":64,"disk":10,"gpus":0,"updated":"2026-03-01T12:00:00Z"}`
	webExit = `{"cc_partition":"default","droplet":"web","version":"v1","instance":"i1","index":1,"reason":"CRASHED","exit_status":3,"exit_description":"oom","crash_timestamp":1700000000}`

	idle = `{"id":"n2","pool":"p","boot_id":"b","resources":{"cpus":4,"mem":4096,"disk":1000,"gpus":1},"allocated":{"cpus":0,"mem":0,"disk":0,"gpus":0},"tasks":0}`
	busy = `{"id":"n1","pool":"p","group":"g","boot_id":"b","zone":"z","resources":{"cpus":4,"mem":4096,"disk":1000,"gpus":1},` +
		`"allocated":{"cpus":3,"mem":192,"disk":30,"gpus":0},"tasks":3,"batch_tasks":0,"draining":false,"safe_to_evict":true,"priority":2.5,` +
		`"conditions":[{"type":"DiskFull","failed":false,"unknown":false,"why":"a"}],"heartbeat":10000000000,"rival":"r","at":"2000-01-01T00:00:00Z","clock_ahead":0}`
)

// stateAfter returns the state of a steady world after six periods.
func stateAfter(t *testing.T, facts, beat string) (state string, named bool) {
	inWorld(t, func(w *faultWorld) {
		w.steady()
		for range 6 {
			w.period(facts, beat)
		}
		state, named = w.state(), w.named()
	})
	return state, named
}

// A fault in a heartbeat keeps the copies that it affects where they are, and each fault is named.
func TestFaultsOfHeartbeats(t *testing.T) {
	rules := jsonfault.Rules{Optional: "cc_partition state_timestamp", Free: "cc_partition"}
	good, named := stateAfter(t, busy, webBeat)
	if named {
		t.Error("a problem is named without a fault")
	}
	n := 0
	for _, c := range jsonfault.Cases(webBeat) {
		if strings.HasPrefix(c.Path, "droplets[0]") || strings.HasPrefix(c.Path, "droplets[2]") {
			continue
		}
		n++
		usable := rules.Usable("", c)
		if strings.HasPrefix(c.Path, "droplets[1]") {
			usable = rules.Usable("droplets[1]", c)
		}
		state, named := stateAfter(t, busy, c.Text)
		if state != good || named == usable {
			t.Errorf("%v: %s, named %v; want %s, named %v", c, state, named, good, !usable)
		}
		// The copies have started, and no readable heartbeat has listed them yet.
		inWorld(t, func(w *faultWorld) {
			w.placeAll()
			for range 6 {
				w.period(busy, c.Text)
			}
			w.period(busy, webBeat)
			if len(w.starts)+len(w.stops) > 0 {
				t.Errorf("%v: copies that have just started: starts %q, stops %q", c, w.starts, w.stops)
			}
		})
		// The placer has begun since, and has its records.
		restarted(t, func(w *faultWorld) {
			w.rowOf("web", webRow)
			w.rowOf("api", apiRow)
			w.enqueue(placer.RowsLoaded{})
			for range 6 {
				w.period(busy, c.Text)
			}
			if len(w.starts)+len(w.stops) > 0 {
				t.Errorf("%v: after a restart: starts %q, stops %q", c, w.starts, w.stops)
			}
		})
	}
	t.Logf("%d faulty heartbeats", n)
}

// A node whose facts and heartbeats are both unreadable still runs.
func TestUnreadableNodeKeepsItsCopies(t *testing.T) {
	good, _ := stateAfter(t, busy, webBeat)
	for _, text := range []string{"", "7", `{"dea":"n1"}`} {
		if state, named := stateAfter(t, text, text); state != good || !named {
			t.Errorf("%q: %s, named %v, want %s", text, state, named, good)
		}
	}
}

// A fault in the facts of a node leaves it with its last facts, and is named. A condition is not the placer's.
func TestFaultsOfFacts(t *testing.T) {
	rules := jsonfault.Rules{
		Optional: "group zone resources.gpus allocated.gpus batch_tasks draining safe_to_evict priority conditions heartbeat rival at clock_ahead",
		Except: []jsonfault.Except{
			{Field: "priority", Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "99999999999999999999 1e300 9000000000000000000", Usable: true, Why: "an order of the nodes only"},
			{Field: "heartbeat", Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "9000000000000000000", Usable: true, Why: "package liveness bounds it"},
			{Field: "clock_ahead", Faults: []jsonfault.Fault{jsonfault.Negative, jsonfault.Huge}, Values: "-1 9000000000000000000", Usable: true, Why: "what a node sends is replaced"},
		},
	}
	good, _ := stateAfter(t, busy, webBeat)
	cases := jsonfault.Cases(busy)
	for _, c := range cases {
		usable := rules.Usable("", c) || strings.HasPrefix(c.Path, "conditions[") && c.Fault != jsonfault.NotJSON
		if state, named := stateAfter(t, c.Text, webBeat); state != good || named == usable {
			t.Errorf("%v: %s, named %v, want %s, named %v", c, state, named, good, !usable)
		}
	}
	t.Logf("%d faulty facts", len(cases))
}

// An exit with a fault ends no copy.
func TestFaultsOfExits(t *testing.T) {
	rules := jsonfault.Rules{Optional: "cc_partition exit_status exit_description crash_timestamp", Free: "cc_partition exit_description",
		Except: []jsonfault.Except{{Field: "exit_status", Faults: []jsonfault.Fault{jsonfault.Negative}, Values: "-1", Usable: true, Why: "a process that a signal ended"}}}
	after := func(exit string) (state string) {
		inWorld(t, func(w *faultWorld) {
			w.steady()
			w.receive(message.ExitedSubject("c", node("n1")), exit)
			w.pass(time.Second)
			state = w.state()
		})
		return state
	}
	ended, none := after(webExit), after("")
	cases := jsonfault.Cases(webExit)
	for _, c := range cases {
		want := none
		if rules.Usable("", c) {
			want = ended
		}
		if got := after(c.Text); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	t.Logf("%d faulty exits", len(cases))
}

// A row with a fault starts and stops nothing: with its last row, and in a placer that has begun since, also while its node
// drains.
func TestFaultsOfRows(t *testing.T) {
	rules := jsonfault.Rules{Optional: "command release gpus updated state package_state labels labels.team labels.tier", Free: "command", Except: []jsonfault.Except{
		{Field: "labels", Faults: []jsonfault.Fault{jsonfault.Extra}, Why: "each key of labels is a label, and its value a text"},
		{Field: "labels.team", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a label without a text"},
		{Field: "labels.tier", Faults: []jsonfault.Fault{jsonfault.Null}, Why: "a label without a text"},
	}}
	draining := strings.Replace(busy, `"draining":false`, `"draining":true`, 1)
	cases := jsonfault.Cases(webRow)
	for _, c := range cases {
		inWorld(t, func(w *faultWorld) {
			w.steady()
			w.rowOf("web", c.Text)
			for range 6 {
				w.period(busy, webBeat)
			}
			if len(w.starts)+len(w.stops) > 0 || w.named() == rules.Usable("", c) {
				t.Errorf("%v: starts %q, stops %q, named %v", c, w.starts, w.stops, w.named())
			}
		})
		if rules.Usable("", c) {
			continue
		}
		restarted(t, func(w *faultWorld) {
			w.rowOf("web", c.Text)
			w.rowOf("api", apiRow)
			w.enqueue(placer.RowsLoaded{})
			w.period(busy, webBeat)
			for range 6 {
				w.period(draining, webBeat)
				w.receive(message.SubjectStop, `{"droplet":"web","version":"v1","instances":{"i1":"v1"},"running":{},"last_updated":1}`)
			}
			if len(w.starts)+len(w.stops) > 0 {
				t.Errorf("%v: without an earlier row: starts %q, stops %q", c, w.starts, w.stops)
			}
		})
	}
	t.Logf("%d faulty rows", len(cases))
}
