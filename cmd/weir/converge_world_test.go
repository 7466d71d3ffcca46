package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// convergeWorld is a cloud: rows behind a bulk API, nodes that run copies of
// them, and a controller that does whatever it is nudged to, and keeps the books
// of the harmonizer's mistakes.
type convergeWorld struct {
	*testing.T
	api *bulktest.API
	bus *convergeBus
	url string     // of it
	nc  *nats.Conn // the controller's
	ctx context.Context
	wg  sync.WaitGroup // nodes, until ctx ends

	mu       sync.Mutex
	password string // that the API requires
	rng      *rand.Rand
	apps     []*convergeApp
	named    map[string]*convergeApp
	nodes    []*convergeNode
	byID     map[string]*convergeCopy
	last     int // of the numbers in ids
	tally    convergeTally
}

// convergeApp is an application, as in its row, and its copies on all nodes.
type convergeApp struct {
	row    bulktest.Row
	absent bool // it has no row
	copies []*convergeCopy
	died   []*convergeCopy // with their nodes
}

// convergeCopy is one running copy.
type convergeCopy struct {
	app     *convergeApp
	node    *convergeNode
	id      string
	version string
	index   int
	state   api.CopyState
	since   time.Time      // of the state
	until   time.Time      // the state or, if it is leaving, the copy ends then
	leaving api.ExitReason // why; "": it is not
	head    string         // of its beat, up to the state
	text    []byte         // its beat
}

// convergeTally is what the harmonizer requested, in all.
type convergeTally struct {
	starts, stops int // indices, and instances
	lastNudge     time.Time

	wrongStops  int // of a copy that should run
	earlyStops  int // of another version's, before one of the live version runs
	wrongStarts int // of copies without a row
	needless    int // starts of what runs
	examples    []string
}

func (t *convergeTally) mistake(n *int, format string, args ...any) {
	*n++
	if len(t.examples) < 20 {
		t.examples = append(t.examples, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
	}
}

// mistakes are those that must never be made.
func (t convergeTally) mistakes() int { return t.wrongStops + t.earlyStops + t.wrongStarts }

func (t convergeTally) String() string {
	return fmt.Sprintf("%d starts, %d stops; wrong stops %d, early stops %d, wrong starts %d, needless starts %d",
		t.starts, t.stops, t.wrongStops, t.earlyStops, t.wrongStarts, t.needless)
}

func (a *convergeApp) started() bool { return !a.absent && cmp.Or(a.row.State, "STARTED") == "STARTED" }
func (a *convergeApp) staged() bool  { return cmp.Or(a.row.Package, "STAGED") == "STAGED" }

// wants reports whether a copy of that version should run on the index.
func (a *convergeApp) wants(index int, version string) bool {
	return a.started() && index < a.row.Instances && version == a.row.Version
}

// running returns a copy of the live version that is RUNNING on the index, where
// it can be reached, and that is not leaving; nil if there is no other than except.
func (a *convergeApp) running(index int, except *convergeCopy) *convergeCopy {
	for _, c := range a.copies {
		if c != except && c.index == index && c.version == a.row.Version && c.state == api.CopyRunning &&
			c.leaving == "" && c.node.reachable {
			return c
		}
	}
	return nil
}

// confirmed reports whether the harmonizer may still count on another copy of the live version on the index: its node was lost
// less than 1.5 heartbeats ago.
func (a *convergeApp) confirmed(index int, except *convergeCopy) bool {
	return slices.ContainsFunc(slices.Concat(a.copies, a.died), func(c *convergeCopy) bool {
		return c != except && c.index == index && c.version == a.row.Version && c.state == api.CopyRunning &&
			!c.node.reachable && time.Since(c.node.lost) <= convergeBeat*3/2
	})
}

// setRow changes an app's row, here and behind the API.
func (w *convergeWorld) setRow(a *convergeApp, change func(*bulktest.Row)) bulktest.Row {
	change(&a.row)
	a.row.Updated = time.Now()
	return a.row
}

func (w *convergeWorld) newApp(instances int) *convergeApp {
	name := fmt.Sprintf("app-%05d", len(w.apps))
	a := &convergeApp{row: bulktest.Row{ID: name, Instances: instances, Version: "v1", Updated: time.Now()}}
	w.apps = append(w.apps, a)
	w.named[name] = a
	return a
}

// run puts a copy on a node, RUNNING after a while; 0 is at once.
func (w *convergeWorld) run(n *convergeNode, a *convergeApp, index int, version string, after time.Duration) *convergeCopy {
	w.last++
	c := &convergeCopy{
		app: a, node: n, id: fmt.Sprintf("%032x", w.last), version: version, index: index, until: time.Now().Add(after),
	}
	c.head = fmt.Sprintf(`{"cc_partition":"default","droplet":%q,"version":%q,"instance":%q,"index":%d,"state":"`, a.row.ID, version, c.id, index)
	if after == 0 {
		c.become(api.CopyRunning, time.Now())
	} else {
		c.become(api.CopyStarting, time.Now())
	}
	a.copies = append(a.copies, c)
	n.copies = append(n.copies, c)
	n.restless = n.restless || after > 0
	n.beat = nil
	w.byID[c.id] = c
	return c
}

// end has a copy leave its node.
func (c *convergeCopy) end(why api.ExitReason, after time.Duration) {
	if c.leaving == "" {
		c.leaving, c.until = why, time.Now().Add(after)
		c.node.restless = true
	}
}

// forget removes a copy from all tables except its node's.
func (w *convergeWorld) forget(c *convergeCopy) {
	c.app.copies = slices.DeleteFunc(c.app.copies, func(x *convergeCopy) bool { return x == c })
	delete(w.byID, c.id)
}

// start does what a start requests, without a question: an index that runs gets a
// second copy.
func (w *convergeWorld) start(m *nats.Msg) {
	s, err := message.DecodeStart(m.Data)
	if err != nil {
		w.Errorf("start: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.lastNudge = time.Now()
	a := w.named[s.App]
	for _, index := range s.Indices {
		w.tally.starts++
		if a == nil || !a.staged() || !a.wants(index, s.Version) {
			w.tally.mistake(&w.tally.wrongStarts, "start of %s/%d %s, whose row is %+v", s.App, index, s.Version, a)
			continue
		}
		if c := a.running(index, nil); c != nil {
			w.tally.mistake(&w.tally.needless, "start of %s/%d, which runs on %s since %s", s.App, index, c.node.id, c.since.Format("05.000"))
		}
		if n := w.room(); n != nil {
			w.run(n, a, index, s.Version, time.Millisecond+time.Duration(w.rng.Int64N(int64(convergeDelay))))
		}
	}
}

// room returns the emptier of two nodes that can be reached, taken by chance.
func (w *convergeWorld) room() *convergeNode {
	var best *convergeNode
	for range 2 {
		for range 100 {
			n := w.nodes[w.rng.IntN(len(w.nodes))]
			if n.reachable && len(n.copies) < convergeRoom {
				if best == nil || len(n.copies) < len(best.copies) {
					best = n
				}
				break
			}
		}
	}
	return best
}

// stop does what a stop requests, and judges it.
func (w *convergeWorld) stop(m *nats.Msg) {
	s, err := message.DecodeStop(m.Data)
	if err != nil {
		w.Errorf("stop: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.lastNudge = time.Now()
	for id := range s.Instances {
		w.tally.stops++
		c := w.byID[id]
		if c == nil {
			continue // it has ended
		}
		a := c.app
		switch other := a.running(c.index, c); {
		case other != nil || a.confirmed(c.index, c):
		case a.wants(c.index, c.version):
			w.tally.mistake(&w.tally.wrongStops, "stop of %s/%d %s, the only copy, %s on %s", a.row.ID, c.index, id, c.state, c.node.id)
		case a.started() && c.index < a.row.Instances:
			w.tally.mistake(&w.tally.earlyStops, "stop of %s/%d %s of version %s before one of %s runs", a.row.ID, c.index, id, c.version, a.row.Version)
		}
		if c.node.reachable {
			c.end(api.ExitStopped, time.Duration(w.rng.Int64N(int64(convergeDelay))))
		}
	}
}

// census compares the world with its rows: each index that is wanted has one
// RUNNING copy, and nothing else runs where it can be reached. It returns how many
// indices are served.
func (w *convergeWorld) census() (served, standIns int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing, surplus int
	var example string
	for _, a := range w.apps {
		want := 0
		if a.started() && a.staged() {
			want = a.row.Instances
		}
		standIns += a.standIns()
		running, reachable := 0, 0
		for _, c := range a.copies {
			if !c.node.reachable || !a.staged() && !a.absent && a.started() {
				continue // the one is unknown; the other is untouched
			}
			reachable++
			if c.state == api.CopyRunning && c.leaving == "" && c.index < want && a.running(c.index, c) == nil && c.version == a.row.Version {
				running++
			}
		}
		served += running
		missing += want - running
		surplus += reachable - running
		if (running != want || reachable != running) && example == "" {
			example = fmt.Sprintf("%s: want %d, %d of %d copies are right", a.row.ID, want, running, reachable)
		}
	}
	if missing > 0 || surplus > 0 {
		err = fmt.Errorf("%d indices are not served by one copy, %d copies are surplus, such as %s", missing, surplus, example)
	}
	return served, standIns, err
}

// standIns returns how many copies beyond the instances the harmonizer may keep: those of
// an app with a desired index that stays empty, as its package cannot be started. That
// nothing runs on a desired index implies it.
func (a *convergeApp) standIns() (beyond int) {
	if a.absent || !a.started() || a.staged() {
		return 0
	}
	with := map[int]bool{}
	for _, c := range a.copies {
		if c.node.reachable && c.index < a.row.Instances {
			with[c.index] = true
		} else {
			beyond++
		}
	}
	if len(with) == a.row.Instances {
		return 0
	}
	return beyond
}

// pick takes n apps by chance that suit, and are not taken in this round.
func (w *convergeWorld) pick(n int, taken map[*convergeApp]bool, suits func(*convergeApp) bool) []*convergeApp {
	var found []*convergeApp
	for _, i := range w.rng.Perm(len(w.apps)) {
		if a := w.apps[i]; len(found) < n && !taken[a] && !a.absent && suits(a) {
			taken[a] = true
			found = append(found, a)
		}
	}
	if len(found) < n {
		w.Fatalf("%d of %d apps suit", len(found), n)
	}
	return found
}

// announce publishes that a row changed.
func (w *convergeWorld) announce(a *convergeApp) {
	data, err := json.Marshal(message.Updated{Partition: message.Partition, App: a.row.ID})
	if err == nil {
		err = w.nc.Publish(message.SubjectUpdated, data)
	}
	if err != nil {
		w.Error(err)
	}
}

// become is a new state.
func (c *convergeCopy) become(s api.CopyState, now time.Time) {
	c.state, c.since = s, now
	to := append(append(make([]byte, 0, 256), c.head...), s...)
	to = append(to, `","state_timestamp":`...)
	to = strconv.AppendFloat(to, float64(now.UnixMilli())/1000, 'f', 3, 64)
	c.text = append(to, '}')
}
