package harmonizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// world is what several harmonizers share: a bus with one node that obeys nudges, rows, a
// lease, and a memory. The node sends a heartbeat every 10 s and after each change.
type world struct {
	mu            sync.Mutex
	alive         bool
	ignoresNudges bool   // the node ignores nudges
	scheduler     string // the pool whose scheduler confirms each nudge; empty: no scheduler
	runs          map[string]api.Beat
	rows          map[string]api.App
	members       map[*member]bool

	starts   []sentStart
	stops    int
	counts   []api.InstanceCounts
	findings []api.AppFinding

	holder string
	until  time.Time // end of the lease
	epoch  uint64

	apps  map[string]apps.Memory
	nodes map[message.Node]int
	saves int
}

// sentStart is one index of a start that reached the bus.
type sentStart struct {
	at    time.Time
	by    string
	app   string
	index int
}

const leaseTTL = 3 * time.Second

func newWorld() *world {
	return &world{
		alive: true, runs: map[string]api.Beat{}, rows: map[string]api.App{},
		members: map[*member]bool{}, apps: map[string]apps.Memory{}, nodes: map[message.Node]int{},
	}
}

// member is the ports of one harmonizer. After a kill, its calls have no effect.
type member struct {
	w        *world
	name     string
	silent   *testing.T // fails the test on any write
	killAt   int        // the write, from 1, at which it is killed; 0: never
	after    bool       // killed after the write took effect, not before
	saveFail int        // this many saves fail first
	busFail  int        // this many nudges fail first

	// Guarded by w.mu.
	writes    int
	dead      bool
	busEvents []apps.Event
	wake      chan struct{}
	refreshed int
	probes    int
}

func (w *world) join(name string) *member {
	return &member{w: w, name: name, wake: make(chan struct{}, 1)}
}

func (m *member) alarm() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// write runs f, unless the harmonizer is dead or is killed at this write.
func (m *member) write(f func() error) error {
	if m.silent != nil {
		m.silent.Errorf("%s wrote something", m.name)
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.dead {
		return errAway
	}
	m.writes++
	if m.writes == m.killAt && !m.after {
		m.dead = true
		return errAway
	}
	err := f()
	if m.writes == m.killAt {
		m.dead = true
		return errAway
	}
	return err
}

func (m *member) kill() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.dead = true
}

func (m *member) isDead() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.dead
}

// Listen implements Bus.
func (m *member) Listen(ctx context.Context, handler Handler) error {
	w := m.w
	w.mu.Lock()
	w.members[m] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.members, m)
		w.mu.Unlock()
	}()
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	err := handler.Enqueue(ctx, apps.BusUp{})
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			w.mu.Lock()
			if hb, ok := w.heartbeatLocked(); ok {
				m.busEvents = append(m.busEvents, hb)
			}
			w.mu.Unlock()
		case <-m.wake:
		}
		w.mu.Lock()
		busEvents := m.busEvents
		m.busEvents = nil
		w.mu.Unlock()
		for _, ev := range busEvents {
			if err == nil {
				err = handler.Enqueue(ctx, ev)
			}
		}
	}
	return nil
}

func (w *world) heartbeatLocked() (apps.Heartbeat, bool) {
	beats := slices.SortedFunc(maps.Values(w.runs), func(a, b api.Beat) int { return a.Index - b.Index })
	data, err := json.Marshal(api.Heartbeat{Node: "n1", Beats: append([]api.Beat{}, beats...)})
	if err != nil {
		panic(err)
	}
	return apps.Heartbeat{Data: data}, w.alive
}

// broadcastLocked sends an event to all members but one.
func (w *world) broadcastLocked(ev apps.Event, not *member) {
	for m := range w.members {
		if m != not {
			m.busEvents = append(m.busEvents, ev)
			m.alarm()
		}
	}
}

// Nudge implements Bus. The node obeys the nudge.
func (m *member) Nudge(n apps.Nudge) error {
	return m.write(func() error {
		w := m.w
		if m.busFail > 0 {
			m.busFail--
			return errAway
		}
		w.broadcastLocked(apps.Nudged{Nudge: n}, m)
		if w.scheduler != "" {
			w.broadcastLocked(apps.Confirmed{Pool: w.scheduler, Nudges: []string{n.ID}}, nil)
		}
		if n.Start != nil {
			for _, i := range n.Start.Indices {
				w.starts = append(w.starts, sentStart{time.Now(), m.name, n.Start.App, i})
				if !w.ignoresNudges {
					id := fmt.Sprintf("%s-%d-%d", n.Start.App, i, len(w.starts))
					w.runs[id] = api.Beat{App: n.Start.App, Version: n.Start.Version, Instance: id, Index: i,
						State: api.CopyRunning, Since: float64(time.Now().Unix())}
				}
			}
		} else {
			w.stops += len(n.Stop.Instances)
			for id := range n.Stop.Instances {
				if !w.ignoresNudges {
					delete(w.runs, id)
				}
			}
		}
		if hb, ok := w.heartbeatLocked(); ok {
			w.broadcastLocked(hb, nil)
		}
		return nil
	})
}

// PublishCounts implements Bus.
func (m *member) PublishCounts(c api.InstanceCounts) error {
	if m.silent != nil {
		m.silent.Errorf("%s published counts", m.name)
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.counts = append(m.w.counts, c)
	return nil
}

// PublishFindings implements Bus.
func (m *member) PublishFindings(batch []api.AppFinding) error {
	if m.silent != nil {
		m.silent.Errorf("%s published findings", m.name)
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.findings = append(m.w.findings, batch...)
	return nil
}

// Probe implements Bus. The probe returns at once.
func (m *member) Probe() error {
	if m.silent != nil {
		m.silent.Errorf("%s sent a probe", m.name)
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.probes++
	m.busEvents = append(m.busEvents, apps.LoopbackProbe{})
	m.alarm()
	return nil
}

// rowSource is the Source of a member.
type rowSource struct {
	m      *member
	events chan apps.Event
}

// Watch implements Source.
func (s *rowSource) Watch(ctx context.Context, enqueue Enqueue) error {
	s.m.w.mu.Lock()
	rows := slices.SortedFunc(maps.Values(s.m.w.rows), func(a, b api.App) int { return len(a.Name) - len(b.Name) })
	s.m.w.mu.Unlock()
	var err error
	if len(rows) > 0 {
		err = errors.Join(enqueue(ctx, apps.ExpectedRows{Rows: rows}), enqueue(ctx, apps.ExpectedComplete{}))
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-s.events:
			err = enqueue(ctx, ev)
		}
	}
	return nil
}

// Refresh implements Source.
func (s *rowSource) Refresh() {
	s.m.w.mu.Lock()
	defer s.m.w.mu.Unlock()
	s.m.refreshed++
}

// sharedLease is the Lease of a member.
type sharedLease struct{ m *member }

func (l sharedLease) Acquire(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		w := l.m.w
		w.mu.Lock()
		now := time.Now()
		ours := !l.m.dead && !now.Before(w.until)
		if ours {
			w.holder, w.until = l.m.name, now.Add(leaseTTL)
			w.epoch++
		}
		w.mu.Unlock()
		if ours {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (l sharedLease) Run(ctx context.Context) error {
	tick := time.NewTicker(leaseTTL / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.m.w.mu.Lock()
			if l.m.w.holder == l.m.name && !l.m.dead {
				l.m.w.until = time.Time{}
			}
			l.m.w.mu.Unlock()
			return nil
		case <-tick.C:
		}
		w := l.m.w
		w.mu.Lock()
		lost := !l.m.dead && w.holder != l.m.name
		if !l.m.dead && !lost {
			w.until = time.Now().Add(leaseTTL)
		}
		w.mu.Unlock()
		if lost {
			return errAway
		}
	}
}

func (l sharedLease) Left() time.Duration {
	l.m.w.mu.Lock()
	defer l.m.w.mu.Unlock()
	if l.m.w.holder != l.m.name {
		return 0
	}
	return max(0, time.Until(l.m.w.until))
}

func (l sharedLease) Epoch() uint64 {
	l.m.w.mu.Lock()
	defer l.m.w.mu.Unlock()
	return l.m.w.epoch
}

func (l sharedLease) Standby() (string, bool) {
	l.m.w.mu.Lock()
	defer l.m.w.mu.Unlock()
	return l.m.w.holder, l.m.w.holder != l.m.name
}

// sharedMemory is the Memory of a member.
type sharedMemory struct{ m *member }

func (s sharedMemory) Load(context.Context) (SavedState, error) {
	w := s.m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.m.dead {
		return SavedState{}, errAway
	}
	return SavedState{Apps: slices.Collect(maps.Values(w.apps)), Nodes: maps.Clone(w.nodes)}, nil
}

func (s sharedMemory) Save(_ context.Context, changed []apps.Memory, nodes map[message.Node]int) error {
	return s.m.write(func() error {
		w := s.m.w
		if s.m.saveFail > 0 {
			s.m.saveFail--
			return errAway
		}
		if w.holder != s.m.name && w.holder != "" {
			return errAway
		}
		w.saves++
		for _, a := range changed {
			if a.Empty() {
				delete(w.apps, a.App)
			} else {
				w.apps[a.App] = a
			}
		}
		if nodes != nil {
			w.nodes = nodes
		}
		return nil
	})
}

// store stores samples, or rejects them while broken.
type store struct {
	mu      sync.Mutex
	broken  bool
	samples []metrics.Sample
}

func (s *store) Write(_ context.Context, samples []metrics.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("store is broken")
	}
	s.samples = append(s.samples, samples...)
	return nil
}

func (s *store) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// values returns the written values of one series.
func (s *store) values(name, app string) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []float64
	for _, x := range s.samples {
		if got, ok := x.Dimensions["app"]; x.Name == name && got == app && ok == (app != "") {
			out = append(out, x.Value)
		}
	}
	return out
}

func web(n int) api.App {
	return api.App{Name: "web", Pool: "default", Version: "v1", Instances: n, Command: "run", CPUs: 0.5, Mem: 10}
}

func rows(n int) apps.ExpectedRows { return apps.ExpectedRows{Rows: []api.App{web(n)}} }

// pass advances virtual time by d.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// running is a harmonizer whose Run is active.
type running struct {
	*Harmonizer
	m      *member
	events chan apps.Event // from its source
	store  *store
	cancel context.CancelFunc
	done   chan error
}

func settings() Config {
	return Config{Cluster: "c", Pools: []string{"idle"}, Apps: apps.Config{Starter: apps.StarterSelf}}
}

// start runs a harmonizer over the ports of m. With shared, these include the shared lease and
// memory.
func (m *member) start(t *testing.T, cfg Config, shared bool, more ...func(*Ports)) *running {
	t.Helper()
	r := &running{m: m, events: make(chan apps.Event, 16), store: &store{}, done: make(chan error, 1)}
	ports := Ports{Bus: m, Source: &rowSource{m: m, events: r.events}, Metrics: r.store}
	if shared {
		ports.Lease, ports.Memory = sharedLease{m}, sharedMemory{m}
	}
	for _, f := range more {
		f(&ports)
	}
	h, err := New(cfg, ports, discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Harmonizer, r.cancel = h, cancel
	go func() { r.done <- h.Run(ctx) }()
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// alone runs one harmonizer without a lease until the test ends.
func alone(t *testing.T, body func(t *testing.T, w *world, r *running)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.join("a").start(t, settings(), false)
		body(t, w, r)
		r.stop(t)
	})
}

func (w *world) started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.starts)
}

func (w *world) stopped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stops
}

// last returns the newest published counts of the pool.
func (w *world) last(pool string) api.InstanceCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range slices.Backward(w.counts) {
		if c.Pool == pool {
			return c
		}
	}
	return api.InstanceCounts{}
}

// crash ends every copy of web as crashed.
func (w *world) crash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, b := range w.runs {
		delete(w.runs, id)
		w.broadcastLocked(apps.Exit{Exited: api.Exited{App: b.App, Version: b.Version, Instance: id, Index: b.Index,
			Reason: api.ExitCrashed, CrashedAt: time.Now().Unix()}}, nil)
	}
	if hb, ok := w.heartbeatLocked(); ok {
		w.broadcastLocked(hb, nil)
	}
}

var discard = slog.New(slog.DiscardHandler)

// discardStore is a store that drops all samples.
type discardStore struct{}

func (discardStore) Write(context.Context, []metrics.Sample) error { return nil }
