package apply

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Config configures a Writer.
type Config struct {
	Pool   string
	Tick   time.Duration
	DryRun bool // change nothing
	Drain  drain.Config
	Obey   bool     // a target that another party set changes the wanted weight
	Apps   []string // apps with a signal: values held for other apps are dropped
	// Parts are the named parts of the configuration, with their texts; nil: they are not compared. After one left or
	// changed, the pool does not shrink for Grace.
	Parts       map[string]string
	Grace       time.Duration
	Machines    map[string]resource.Vector // what one machine of a group offers, by group
	StepTimeout time.Duration              // of each step that waits
	CallTimeout time.Duration              // of each call that changes something
}

// Ports are the dependencies of a Writer.
type Ports struct {
	snapshot.Ports
	Memory  Memory
	Orders  pools.OrderStore
	Lease   pools.Lease     // nil in a dry run
	Records drain.Records   // of the drains
	Cordon  drain.Scheduler // keeps tasks off a node
	// Notices are the warnings of the provider; nil: no warnings.
	Notices <-chan pools.Notice
	// Drained receives the events of all drain records, in order; nil: no receiver. It does not
	// wait.
	Drained func([]drain.Event)
	// Workflow begins a workflow, or returns its outcome, as a [pools.Repairer] does. It does not
	// wait. nil: workflows are refused.
	Workflow func(pools.InPlaceRepair) (done bool, err error)
	// Alive is called before each call that may take long: a sign of life. It does not wait. nil:
	// no receiver.
	Alive   func()
	Now     func() time.Time
	Version string // of this build, saved with the state
	// Limit returns a context that ends after that time; nil: context.WithTimeout.
	Limit func(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc)
}

// Writer makes every change to one pool.
type Writer struct {
	config   Config
	ports    Ports
	log      *slog.Logger
	guard    *guard
	reader   *snapshot.Reader
	journal  *journal
	provider *provider
	drains   *drains
	orders   orders
	requests *requests
	paused   bool          // by the last orders
	found    resolve.Found // in the targets of the groups, and not yet in a record
	places   places
}

// New returns a Writer that has read and changed nothing.
func New(c Config, ports Ports, log *slog.Logger) *Writer {
	if ports.Limit == nil {
		ports.Limit = context.WithTimeout
	}
	guard := &guard{lease: ports.Lease, alive: ports.Alive, end: ports.Limit}
	provider := &provider{guard: guard, now: ports.Now, trace: ports.Trace, cordon: ports.Cordon, workflow: ports.Workflow, raised: map[string]bool{}}
	w := &Writer{
		ports: ports, log: log, guard: guard, provider: provider,
		reader:  snapshot.NewReader(ports.Ports),
		journal: &journal{memory: ports.Memory, version: ports.Version, guard: guard},
		drains: &drains{guard: guard, drained: ports.Drained, ports: drain.Ports{
			Records: ports.Records, Scheduler: provider, Groups: provider, Repairers: provider, Limit: ports.Limit,
		}},
		orders:   orders{ports.Orders, guard},
		requests: newRequests(),
	}
	w.Reconfigure(c)
	return w
}

// Reconfigure sets the configuration.
func (w *Writer) Reconfigure(c Config) {
	w.config = c
	w.guard.adopt(c.CallTimeout, c.DryRun)
	if c.Drain.CallTimeout == 0 || c.Drain.CallTimeout > c.CallTimeout {
		c.Drain.CallTimeout = c.CallTimeout
	}
	w.drains.adopt(c.Drain)
	w.reader.Reconfigure(c.Machines)
	w.journal.state.Held = slices.DeleteFunc(slices.Clone(w.journal.state.Held), func(h api.HeldRequest) bool {
		return !slices.Contains(c.Apps, h.App)
	})
}

// Open restores the state of the last process and the drain records, unless that is done.
func (w *Writer) Open(ctx context.Context) error {
	ctx, cancel := w.step(ctx)
	defer cancel()
	if !w.journal.loaded {
		had, err := w.journal.load(ctx, w.ports.Now(), w.config.Pool, w.log)
		if err != nil {
			return err
		}
		if had == nil {
			w.reader.Restore(api.PoolState{}, false)
		} else {
			w.reader.Restore(*had, true)
		}
	}
	return w.drains.open(ctx, w.config.DryRun)
}

// Close ends the waiting requests, and all later ones.
func (w *Writer) Close() { w.requests.close() }

// Check returns why nothing may change now, or nil.
func (w *Writer) Check() error { return w.guard.check() }

// Begin opens w, compares the configuration with the last one, and returns the operators' orders in force.
func (w *Writer) Begin(ctx context.Context, now time.Time) (api.Orders, error) {
	if err := w.Open(ctx); err != nil {
		return api.Orders{}, err
	}
	ctx, cancel := w.step(ctx)
	defer cancel()
	orders, err := w.orders.read(ctx, now)
	if change := w.journal.configured.follow(now, w.config.Parts, w.config.Grace); change != nil {
		w.log.Info("configuration changed", "pool", w.config.Pool, "change", change.String())
	}
	if orders.Accepted != nil {
		w.journal.configured.accept(orders.Accepted.Through)
	}
	return orders, err
}

// ConfigurationHold returns why the pool must not shrink after a change of its configuration; nil: it may.
func (w *Writer) ConfigurationHold() *api.ConfigurationHold { return w.journal.configured.hold() }

// ConfigurationChange returns what changed in the configuration since ConfigurationRecorded was called; nil: nothing.
func (w *Writer) ConfigurationChange() *api.ConfigurationChange {
	return w.journal.configured.Unrecorded
}

// ConfigurationRecorded reports that a record has the ConfigurationChange.
func (w *Writer) ConfigurationRecorded() { w.journal.configured.Unrecorded = nil }

// Pause sets whether the notices and the drains wait for the next tick.
func (w *Writer) Pause(on bool) { w.paused = on }

// Reading is one reading of the pool.
type Reading struct {
	*snapshot.Snapshot
	State   api.PoolState // after the snapshot
	Found   resolve.Found // in the targets of the groups, since the last Apply
	Records Records
}

// Account returns the account of the groups as they were read, by that state.
func (r Reading) Account(s api.PoolState) resolve.Account {
	return resolve.AccountOf(s, r.Records.groups(r.Snapshot, found))
}

// Read reads the pool, and changes nothing of w.
func (w *Writer) Read(ctx context.Context, now time.Time) (Reading, error) {
	ctx, cancel := w.step(ctx)
	defer cancel()
	r := Reading{Records: w.drains.records()}
	var err error
	if r.Snapshot, err = w.reader.Read(ctx, now, w.journal.targets(), r.Records.released()); err != nil {
		return r, err
	}
	groups, ended := r.Records.groups(r.Snapshot, found), r.Records.ended(r.Snapshot, w.journal.intent, w.journal.unfinished)
	for i := range groups {
		groups[i].Ended = ended[groups[i].ID]
	}
	r.State, r.Found = resolve.Reconcile(w.journal.state, now, groups, w.config.Obey)
	r.State.Removals = w.provider.removals(r.State)
	r.Found = w.found.And(r.Found)
	return r, nil
}

// Adopt makes a reading the basis of all changes.
func (w *Writer) Adopt(r Reading) {
	w.journal.state, w.found = r.State, r.Found
	w.reader.Adopt(r.Snapshot)
	w.provider.adopt(r.Snapshot, r.State)
}

// State returns the state for the next tick.
func (w *Writer) State() api.PoolState { return w.journal.state }

// Latest returns the snapshot that is the basis of all changes; nil before the first.
func (w *Writer) Latest() *snapshot.Snapshot { return w.provider.latest.Load() }

// Account returns the account of the pool after the changes since the snapshot.
func (w *Writer) Account() resolve.Account { return w.poolState(w.Latest()).account }

// Raised reports whether the group accepted a higher target, and may not have filled up yet.
func (w *Writer) Raised(group string) bool { return w.provider.raised[group] }

// Records returns the drain records, sorted by node. Before they are read, known is false. Any
// goroutine may call it.
func (w *Writer) Records() (records []api.Drain, known bool) {
	return w.drains.records(), w.drains.machine.Load() != nil
}

// Group implements pools.Writer.
func (w *Writer) Group(id string) (pools.Group, bool) { return w.provider.find(id) }

// Write implements pools.Writer. It makes no call if the lease may not outlast the call, if the
// orders cannot be read, or in a dry run. It does not wait for a tick.
func (w *Writer) Write(ctx context.Context, call func(context.Context) error) error {
	if err := w.guard.check(); err != nil {
		return err
	}
	ctx, cancel := w.guard.limit(ctx)
	defer cancel()
	orders, err := w.orders.read(ctx, w.ports.Now().UTC())
	if err == nil {
		err = pools.AllowOrders(orders, w.ports.Now())
	}
	if err != nil {
		return err
	}
	return w.guard.call(ctx, call)
}

// poolState returns the current pool of a snapshot.
func (w *Writer) poolState(s *snapshot.Snapshot) poolState {
	state, records := w.journal.state, w.drains.records()
	state.Removals = w.provider.removals(state)
	return poolState{Snapshot: s, state: state, account: resolve.AccountOf(state, records.groups(s, w.provider.targets.target)), records: records, places: w.places}
}

// step returns a context with the timeout of a step.
func (w *Writer) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return w.ports.Limit(ctx, w.config.StepTimeout)
}

// save saves a state and the intent before any change; nil: the intent was carried out.
func (w *Writer) save(ctx context.Context, s api.PoolState, i *Intent) error {
	return w.journal.save(ctx, w.reader.Save(s), i)
}
