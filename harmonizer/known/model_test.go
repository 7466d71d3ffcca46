package known

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// model is a store without any shortcut.
type model struct {
	cfg         Config
	connectedAt time.Time
	nodes       map[string]*modelNode
	copies      map[string]*modelCopy
	want        map[string]int
	changes     []string
}

// uncovered returns how many wanted indices have no copy that is listed and not CRASHED.
func (m *model) uncovered(app string) int {
	covered := map[int]bool{}
	for _, c := range m.copies {
		if c.App == app && c.Index < m.want[app] && c.absent.IsZero() && c.State != api.CopyCrashed {
			covered[c.Index] = true
		}
	}
	return m.want[app] - len(covered)
}

type modelNode struct {
	last  time.Time
	beats uint32
}

type modelCopy struct {
	api.Beat
	node       string
	absent     time.Time
	seen, born uint32
}

func (m *model) heartbeat(now time.Time, hb api.Heartbeat) {
	n := m.nodes[hb.Node]
	if n == nil {
		n = &modelNode{}
		m.nodes[hb.Node] = n
		m.changes = append(m.changes, "node_heard "+hb.Node)
	}
	n.last = now
	n.beats++
	for _, b := range hb.Beats {
		if m.cfg.Partition == "" || b.Partition == m.cfg.Partition {
			m.beat(hb.Node, n, b)
		}
	}
	for _, c := range m.copies {
		switch {
		case c.node != hb.Node || c.seen == n.beats:
		case m.cfg.Partial(hb.Node):
			c.born++
		case c.absent.IsZero():
			c.absent = now
		}
	}
}

func (m *model) beat(node string, n *modelNode, b api.Beat) {
	c := m.copies[b.Instance]
	if c != nil && c.node == node && c.seen == n.beats {
		return
	}
	if c != nil && (c.App != b.App || c.Index != b.Index || c.Version != b.Version) {
		m.lose(c, "moved")
		c = nil
	}
	if c == nil {
		c = &modelCopy{Beat: b, node: node, born: n.beats - 1}
		m.copies[b.Instance] = c
		m.changes = append(m.changes, c.line("appeared"))
	}
	if c.node != node || !c.absent.IsZero() || c.State != api.CopyRunning && c.State != api.CopyStarting {
		c.born = n.beats - 1
	}
	if c.State != b.State {
		was := c.State
		c.State = b.State
		m.changes = append(m.changes, c.line("became_state")+" was "+string(was))
	}
	c.node, c.seen, c.absent, c.Since = node, n.beats, time.Time{}, b.Since
}

func (c *modelCopy) line(kind string) string {
	return fmt.Sprintf("%s %s/%d %s %s", kind, c.App, c.Index, c.Instance, c.Version)
}

func (m *model) lose(c *modelCopy, why string) {
	m.changes = append(m.changes, fmt.Sprintf("%s was %s %s on %s", c.line("lost"), c.State, why, c.node))
	delete(m.copies, c.Instance)
}

func (m *model) exit(e api.Exited) bool {
	c := m.copies[e.Instance]
	if c == nil || c.App != e.App {
		return false
	}
	m.lose(c, "exited")
	return true
}

func (m *model) tick(now time.Time) {
	for _, c := range m.copies {
		if !c.absent.IsZero() && m.over(now, c.absent) {
			m.lose(c, "not_listed")
		}
	}
	for name, n := range m.nodes {
		if !m.over(now, n.last) {
			continue
		}
		delete(m.nodes, name)
		m.changes = append(m.changes, "node_lost "+name)
		for _, c := range m.copies {
			if c.node == name {
				m.lose(c, "silent")
			}
		}
	}
}

func (m *model) over(now, since time.Time) bool {
	if since.Before(m.connectedAt) {
		since = m.connectedAt
	}
	return now.Sub(since) > m.cfg.DropletLost
}

// world returns the known state as sorted lines, one for each fact.
func (m *model) world() []string {
	lines := []string{fmt.Sprint("copies ", len(m.copies))}
	for name := range m.nodes {
		n := 0
		for _, c := range m.copies {
			if c.node == name {
				n++
			}
		}
		lines = append(lines, fmt.Sprint("node ", name, n))
	}
	running := map[string]map[string]int{}
	for _, c := range m.copies {
		beats := uint32(0)
		if c.absent.IsZero() && (c.State == api.CopyRunning || c.State == api.CopyStarting) {
			beats = m.nodes[c.node].beats - c.born
		}
		lines = append(lines, fmt.Sprintf("%s %s on %s since %v absent %v beats %d",
			c.line("copy"), c.State, c.node, c.Since, c.absent.UnixNano(), beats))
		if running[c.App] == nil {
			running[c.App] = map[string]int{}
		}
		if c.State == api.CopyRunning {
			running[c.App][c.Version]++
		}
	}
	for app, versions := range running {
		lines = append(lines, fmt.Sprint("running ", app, versions))
	}
	for app := range m.want {
		lines = append(lines, fmt.Sprint("uncovered ", app, m.uncovered(app)))
	}
	slices.Sort(lines)
	return lines
}

func (s *Store) world() []string {
	lines := []string{fmt.Sprint("copies ", s.Len())}
	for name, n := range s.Nodes() {
		lines = append(lines, fmt.Sprint("node ", name.Name, n))
	}
	for a := range s.apps.items {
		if s.apps.items[a].want > 0 {
			lines = append(lines, fmt.Sprint("uncovered ", s.Name(AppID(a)), s.Uncovered(AppID(a))))
		}
		if s.apps.items[a].removed || s.apps.items[a].copies == 0 {
			continue
		}
		last := -1
		for index := range s.Indices(AppID(a)) {
			if index <= last {
				lines = append(lines, fmt.Sprintf("index %d after %d", index, last))
			}
			last = index
			for c := range s.Copies(AppID(a), index) {
				lines = append(lines, c.world(index))
			}
		}
		lines = append(lines, fmt.Sprint("running ", s.Name(AppID(a)), s.Running(AppID(a))))
	}
	slices.Sort(lines)
	return lines
}

func (c Copy) world(index int) string {
	absent, is := c.Absent()
	line := fmt.Sprintf("%s %s on %s since %v absent %v beats %d", c.line("copy"), c.State(), c.Node(), c.Since(), absent.UnixNano(), c.Beats())
	if found, ok := c.s.Find(c.ID()); !ok || found != c || c.Index() != index || !c.OfVersion(c.Version()) || is == absent.IsZero() {
		line += fmt.Sprintf(", found as %v at %d", found, c.Index())
	}
	if a, ok := c.s.Lookup(c.s.Name(c.App())); !ok || a != c.App() {
		line += fmt.Sprintf(", of app %d", a)
	}
	return line
}

func (c Copy) line(kind string) string {
	return fmt.Sprintf("%s %s/%d %s %s", kind, c.s.Name(c.App()), c.Index(), c.ID(), c.Version())
}

func lines(changes []Change) []string {
	var out []string
	for _, c := range changes {
		switch c.Kind {
		case NodeAppeared, NodeLost:
			out = append(out, c.Kind.String()+" "+c.Node.String())
		case Lost:
			out = append(out, fmt.Sprintf("%s was %s %v on %s", c.Copy.line("lost"), c.Was, c.Why, c.Node))
		case BecameState:
			out = append(out, c.Copy.line("became_state")+" was "+string(c.Was))
		default:
			out = append(out, c.Copy.line(c.Kind.String()))
		}
	}
	return out
}

var start = time.Unix(1_400_000_000, 0).UTC()

// names returns names of every form: short, packed, and neither.
func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		switch i % 5 {
		case 0:
			out = append(out, fmt.Sprintf("%s%d", prefix, i))
		case 1:
			out = append(out, fmt.Sprintf("%08x-d9cb-469f-a165-%012x", len(prefix), i))
		case 2:
			out = append(out, fmt.Sprintf("%032x", i))
		case 3:
			out = append(out, fmt.Sprintf("%032X", 0xABC0+i))
		default:
			out = append(out, fmt.Sprintf("%s-of-more-than-sixteen-bytes-%d", prefix, i))
		}
	}
	return out
}

// TestStoreIsTheModel passes the same input to a store and a model, and compares their states.
// Most messages repeat a part or all of the node's last one, and there are few names. So every
// shortcut is used and every collision happens.
func TestStoreIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{DropletLost: 30 * time.Second, Partial: func(node string) bool { return node == "node2" }}
		cfg.Partition = rapid.SampledFrom([]string{"", "default"}).Draw(t, "partition")
		s, m := New(cfg), &model{cfg: cfg, nodes: map[string]*modelNode{}, copies: map[string]*modelCopy{}, want: map[string]int{}}
		w := &comparison{t: t, now: start, s: s, m: m, withSum: map[string][]api.Beat{}}
		t.Repeat(map[string]func(*rapid.T){
			"heartbeat": w.heartbeat,
			"again":     w.heartbeat,
			"exit":      w.exit,
			"want":      w.want,
			"tick": func(t *rapid.T) {
				w.pass(t)
				s.Tick(w.now)
				m.tick(w.now)
			},
			"hearing": func(t *rapid.T) {
				w.pass(t)
				s.Connected(w.now)
				m.connectedAt = w.now
			},
			"": w.check,
		})
	})
}

// comparison is one run of TestStoreIsTheModel.
type comparison struct {
	t       *rapid.T
	now     time.Time
	s       *Store
	m       *model
	withSum map[string][]api.Beat // by node
}

func (w *comparison) pass(t *rapid.T) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, 100 * time.Millisecond, time.Second,
		9 * time.Second, 29 * time.Second, 30 * time.Second, 30*time.Second + 1, time.Hour}).Draw(t, "step"))
}

func (w *comparison) heartbeat(t *rapid.T) {
	w.pass(t)
	node := fmt.Sprintf("node%d", rapid.IntRange(0, 3).Draw(t, "node"))
	beats := slices.Clone(w.withSum[node])
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		i := rapid.IntRange(0, len(beats)).Draw(t, "at")
		switch edit := rapid.IntRange(0, 5).Draw(t, "edit"); {
		case edit < 2 || i == len(beats):
			beats = slices.Insert(beats, i, drawBeat(t))
		case edit == 2:
			beats = slices.Delete(beats, i, i+1)
		case edit == 3:
			beats[i] = drawBeat(t)
		default:
			beats[i].State = drawState(t)
		}
	}
	w.withSum[node] = beats
	hb := api.Heartbeat{Node: node, Beats: append([]api.Beat{}, beats...)}
	data, err := json.Marshal(hb)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 9).Draw(t, "form") == 0 {
		data = []byte(strings.ReplaceAll(string(data), ",", ", "))
	}
	if err := w.s.Heartbeat(w.now, message.Node{}, data); err != nil {
		t.Fatal(err)
	}
	if got := w.s.Sender(); got.Name != node {
		t.Fatalf("Speaker = %q, want %q", got, node)
	}
	w.m.heartbeat(w.now, hb)
}

func drawBeat(t *rapid.T) api.Beat {
	return api.Beat{
		Partition: rapid.SampledFrom([]string{"default", "default", "default", "other"}).Draw(t, "partition"),
		App:       rapid.SampledFrom(names("app", 5)[3:]).Draw(t, "app"),
		Version:   rapid.SampledFrom(names("version", 5)[2:4]).Draw(t, "version"),
		Instance:  rapid.SampledFrom(names("instance", 25)).Draw(t, "instance"),
		Index:     rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99_999}).Draw(t, "index"),
		State:     drawState(t),
		Since:     rapid.SampledFrom([]float64{1, 1.5}).Draw(t, "since"),
	}
}

// want sets the number of wanted indices of an app. The app is held, as by its row.
func (w *comparison) want(t *rapid.T) {
	app := rapid.SampledFrom(names("app", 5)[3:]).Draw(t, "app")
	n := rapid.IntRange(1, 9).Draw(t, "wanted")
	id := w.s.App(app)
	if w.m.want[app] == 0 {
		w.s.Hold(id)
	}
	w.s.Want(id, n)
	w.m.want[app] = n
}

func drawState(t *rapid.T) api.CopyState {
	return rapid.SampledFrom([]api.CopyState{api.CopyRunning, api.CopyRunning, api.CopyStarting, api.CopyCrashed,
		api.CopyEvacuating, "RESUMING", "PAUSED-FOR-LONGER-THAN-USUAL"}).Draw(t, "state")
}

func (w *comparison) exit(t *rapid.T) {
	w.pass(t)
	b := drawBeat(t)
	e := api.Exited{App: b.App, Instance: b.Instance}
	c, ok := w.s.Exit(w.now, e)
	if want := w.m.exit(e); ok != want || ok && c.ID() != e.Instance {
		t.Fatalf("Exit(%v) = %v, want %v", e, ok, want)
	}
}

func (w *comparison) check(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "take") > 0 {
		got, want := lines(w.s.Changes()), w.m.changes
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("changes (-want +got)\n%s", diff)
		}
		w.m.changes = nil
	}
	if diff := cmp.Diff(w.m.world(), w.s.world()); diff != "" {
		t.Fatalf("world (-want +got)\n%s", diff)
	}
}
