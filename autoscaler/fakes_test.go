package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
)

// group is an in-memory group that records its calls.
type group struct {
	*cloud.Group
	tamper func(*pools.GroupSnapshot) // if set: changes a snapshot before it is returned
	raise  func(context.Context)      // if set: runs before a new target
	unread error                      // of each reading

	mu    sync.Mutex
	calls []string

	answerLost error // error of a termination that succeeded
}

func (g *group) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
}

func (g *group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	if g.unread != nil {
		return pools.GroupSnapshot{}, g.unread
	}
	s, err := g.Group.Snapshot(ctx)
	if g.tamper != nil {
		g.tamper(&s)
	}
	return s, err
}

func (g *group) SetTarget(ctx context.Context, target int) error {
	g.note("set target %s %d", g.ID(), target)
	if g.raise != nil {
		g.raise(ctx)
	}
	return g.Group.SetTarget(ctx, target)
}

func (g *group) Terminate(ctx context.Context, ids []string) error {
	g.note("terminate %v", ids)
	return errors.Join(g.Group.Terminate(ctx, ids), g.answerLost)
}

// nodes is the scheduler. Each instance that runs and has booted has a node, which has joined and
// reports unless it is mute.
type nodes struct {
	groups []*group

	mu       sync.Mutex
	tasks    map[string]int
	cordoned map[string]bool
	mute     map[string]bool
	unsafe   map[string]bool // not safe to evict
	batch    map[string]int  // the part of tasks that ends by itself
	// perWeight makes a node offer cpusPerNode for each unit of its weight.
	perWeight bool
	tamper    func(*api.NodeFacts)
	log       []string // of Cordon
}

func (n *nodes) Facts(now time.Time) []api.NodeFacts {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []api.NodeFacts
	for _, g := range n.groups {
		s, err := g.Other().Snapshot(context.Background())
		if err != nil {
			continue
		}
		for _, i := range s.Instances {
			if boot := g.Boot(i.ID); boot != "" && !n.mute[i.ID] {
				f := n.factsLocked(now, i)
				f.BootID = boot
				out = append(out, f)
			}
		}
	}
	return out
}

func (n *nodes) factsLocked(now time.Time, i pools.Instance) api.NodeFacts {
	f := api.NodeFacts{
		ID: i.ID, Pool: "default", Group: i.Group, At: now,
		Resources: resource.Vector{resource.CPUs: cpusPerNode, resource.Mem: 1000},
		Allocated: resource.Vector{resource.CPUs: float64(n.tasks[i.ID])},
		Tasks:     n.tasks[i.ID], Draining: n.cordoned[i.ID], SafeToEvict: !n.unsafe[i.ID],
		BatchTasks: min(n.batch[i.ID], n.tasks[i.ID]),
	}
	if n.perWeight {
		f.Resources[resource.CPUs] *= i.Weight
	}
	if n.tamper != nil {
		n.tamper(&f)
	}
	return f
}

func (n *nodes) Cordon(_ context.Context, node string, on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cordoned[node] = on
	n.log = append(n.log, fmt.Sprintf("%s %t", node, on))
	return nil
}

// change changes the nodes.
func (n *nodes) change(do func(*nodes)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do(n)
}

// directory lists the signals. Each change is a revision.
type directory struct {
	mu         sync.Mutex
	revision   int
	changed    chan struct{} // nil until the first change or listing
	endpoints  map[string]ask.Endpoint
	candidates map[string]ask.Candidate
	reports    []ask.Report
	reported   chan struct{} // closed at the next report; nil until a test waits
}

func (d *directory) change(do func(endpoints map[string]ask.Endpoint, candidates map[string]ask.Candidate)) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endpoints, d.candidates = maps.Clone(d.endpoints), maps.Clone(d.candidates)
	if d.changed == nil {
		d.changed, d.endpoints, d.candidates = make(chan struct{}), map[string]ask.Endpoint{}, map[string]ask.Candidate{}
	}
	do(d.endpoints, d.candidates)
	d.revision++
	close(d.changed)
	d.changed = make(chan struct{})
	return d.revision
}

func (d *directory) set(app string, e ask.Endpoint) int {
	return d.change(func(endpoints map[string]ask.Endpoint, _ map[string]ask.Candidate) { endpoints[app] = e })
}

func (d *directory) setCandidate(app string, c ask.Candidate) int {
	return d.change(func(_ map[string]ask.Endpoint, candidates map[string]ask.Candidate) { candidates[app] = c })
}

// promote lists the candidate of an app in place of its signal.
func (d *directory) promote(app string) int {
	return d.change(func(endpoints map[string]ask.Endpoint, candidates map[string]ask.Candidate) {
		endpoints[app] = candidates[app].Endpoint
		delete(candidates, app)
	})
}

// freeze makes the directory one that never changes.
func (d *directory) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = nil
}

func (d *directory) Endpoint(app string) ask.Endpoint { return d.Listing().Endpoints[app] }

func (d *directory) Listing() ask.Listing {
	d.mu.Lock()
	defer d.mu.Unlock()
	return ask.Listing{Revision: d.revision, Changed: d.changed, Endpoints: d.endpoints, Candidates: d.candidates}
}

func (d *directory) Report(r ask.Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, r)
	if d.reported != nil {
		close(d.reported)
		d.reported = nil
	}
}

func (d *directory) Alive() {}

// awaitReport returns the first report, from the given one on, for which ok is true, and the number
// of the next one.
func (d *directory) awaitReport(t *testing.T, from int, what string, ok func(ask.Report) bool) (ask.Report, int) {
	t.Helper()
	for {
		d.mu.Lock()
		for ; from < len(d.reports); from++ {
			if r := d.reports[from]; ok(r) {
				d.mu.Unlock()
				return r, from + 1
			}
		}
		if d.reported == nil {
			d.reported = make(chan struct{})
		}
		next := d.reported
		d.mu.Unlock()
		await.Value(t, "a report of "+what, next)
	}
}

// followed waits until the loop follows a revision.
func (d *directory) followed(t *testing.T, revision int) {
	t.Helper()
	d.awaitReport(t, 0, fmt.Sprintf("revision %d", revision), func(r ask.Report) bool { return r.Revision >= revision })
}

// answers returns all results about an app from the given report on, as "v1 failed".
func (d *directory) answers(from int, app string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, r := range d.reports[from:] {
		for _, a := range r.Results {
			if a.App == app {
				out = append(out, a.Version+" "+string(a.Verdict))
			}
		}
	}
	return out
}

// lastReport returns the newest report.
func (d *directory) lastReport(t *testing.T) ask.Report {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.reports) == 0 {
		t.Fatal("nothing was reported")
	}
	return d.reports[len(d.reports)-1]
}

// store is a real store that can fail for one name, and counts the queries.
type store struct {
	*tsdbstore.Store
	before func() // if set: runs before each window

	mu    sync.Mutex
	fail  map[string]error
	asked []string // names, in order
}

func (s *store) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q.Name)
	err := s.fail[q.Name]
	s.mu.Unlock()
	if s.before != nil {
		s.before()
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Window(ctx, q)
}

// count returns how often that name was queried.
func (s *store) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, asked := range s.asked {
		if asked == name {
			n++
		}
	}
	return n
}

// values returns the stored values of a system metric or of metadata.
func (s *store) values(t *testing.T, kind metrics.Type, name string, w *world) []float64 {
	t.Helper()
	series, err := s.Store.Window(t.Context(), metrics.Query{
		Type: kind, Name: name, Dimensions: metrics.Dimensions{"cluster": "here", "pool": "default"},
		From: w.now.Add(-time.Hour), To: w.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for _, one := range series {
		out = append(out, one.Values...)
	}
	return out
}

// ledger keeps records in memory.
type ledger struct {
	appended chan struct{} // has room for one: a record was added
	before   func()        // if set: runs before each record

	mu      sync.Mutex
	records [][]byte
	fail    error
}

func (l *ledger) Append(_ context.Context, record []byte) error {
	if l.before != nil {
		l.before()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.records = append(l.records, slices.Clone(record))
	select {
	case l.appended <- struct{}{}:
	default:
	}
	return nil
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

// last returns the newest record, decoded strictly.
func (l *ledger) last(t *testing.T) api.TickRecord {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) == 0 {
		t.Fatal("there is no record")
	}
	return readRecord(t, l.records[len(l.records)-1])
}

// all returns all records.
func (l *ledger) all(t *testing.T) []api.TickRecord {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]api.TickRecord, len(l.records))
	for i, data := range l.records {
		out[i] = readRecord(t, data)
	}
	return out
}

func readRecord(t *testing.T, data []byte) api.TickRecord {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var r api.TickRecord
	if err := d.Decode(&r); err != nil {
		t.Fatalf("the record cannot be read: %v\n%s", err, data)
	}
	return r
}

// records keeps drain records in memory, as JSON.
type records struct {
	mu     sync.Mutex
	stored map[string][]byte
	fail   error // of each write
}

func (r *records) Load(context.Context) ([]api.Drain, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return nil, r.fail
	}
	var out []api.Drain
	for _, node := range slices.Sorted(maps.Keys(r.stored)) {
		var one api.Drain
		if err := json.Unmarshal(r.stored[node], &one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (r *records) Put(_ context.Context, one api.Drain) error {
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		r.stored[one.Node] = data
	}
	return r.fail
}

func (r *records) Delete(_ context.Context, node string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail == nil {
		delete(r.stored, node)
	}
	return r.fail
}
