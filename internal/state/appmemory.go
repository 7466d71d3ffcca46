package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools"
)

// pipeline is the number of harmonizer keys that are written at the same time.
const pipeline = 32

// overhead is the maximum size in bytes of a message beyond the body of its sealed value.
const overhead = maxHead + 1<<10

// AppMemory stores the state of a harmonizer: apps in 256 shards, and a census of nodes. Load takes the keys over,
// and Save writes the keys that changed.
//
// No nudge is sent before its state is saved. So a shard or census that does not fit one message of the bus is made
// smaller. A shard drops its oldest crashes and nudges. The census drops the nodes with the fewest copies. An error
// in the log reports it.
type AppMemory struct {
	bucket *bucket
	lease  *Lease
	conn   *nats.Conn
	report *rate.Sometimes // limits the log to one report of dropped entries a minute
	turn   turn
	term   term // of the last Load
	// pages has each key's saved entries and its unsaved changes. It is nil before the first Load. The caller that
	// has the turn owns pages and term.
	pages map[string]*page
}

var _ harmonizer.Memory = (*AppMemory)(nil)

// OpenAppMemory opens the harmonizer state of a cluster. Only the holder of the lease may use it; the lease may be
// acquired later.
func OpenAppMemory(ctx context.Context, js jetstream.JetStream, lease *Lease, cluster string) (*AppMemory, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if !names.Valid(cluster) {
		return nil, fmt.Errorf("open memory of apps: cluster %q: invalid name", cluster)
	}
	b, err := openBucket(ctx, js, kvbucket.State(cluster, lease.config.Replicas))
	if err != nil {
		return nil, err
	}
	return &AppMemory{
		bucket: b, lease: lease, conn: js.Conn(), turn: newTurn(),
		report: &rate.Sometimes{Interval: time.Minute},
	}, nil
}

// Load implements harmonizer.Memory. It rewrites each key with the epoch of the current term, so a late Save of an
// earlier holder is refused. It returns all state, apps in order of name. After an error it can be repeated.
//
// Load moves an unreadable value to its aside key and logs a warning. The crashes of one app in 256 are worth less
// than a running harmonizer.
func (m *AppMemory) Load(ctx context.Context) (harmonizer.SavedState, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := m.turn.take(ctx); err != nil {
		return harmonizer.SavedState{}, fmt.Errorf("load memory of apps: %w", err)
	}
	defer m.turn.give()
	m.pages = nil
	if err := m.takeOver(ctx); err != nil {
		m.pages = nil
		return harmonizer.SavedState{}, fmt.Errorf("load memory of apps: %w", err)
	}
	return m.remembered(), nil
}

// takeOver reads every page and rewrites it with our epoch.
func (m *AppMemory) takeOver(ctx context.Context) error {
	m.term = term{m.bucket, m.lease, m.lease.Epoch()}
	if err := m.term.check(); err != nil {
		return err
	}
	all, err := m.term.survey(ctx, shardPrefix+">", nodesKey)
	if err != nil {
		return err
	}
	m.pages = newPages()
	return each(slices.Collect(maps.Values(m.pages)), func(_ int, p *page) error { return m.adopt(ctx, p, all[p.key]) })
}

// adopt fills a page with the value of its key and rewrites the key.
func (m *AppMemory) adopt(ctx context.Context, p *page, e entry) error {
	decode := func(e entry) (found, error) { return m.decode(ctx, p, e) }
	f, err := decode(e)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.key, err)
	}
	f, err = m.term.adopt(ctx, p.key, f, decode)
	p.revision = f.revision
	return err
}

// decode fills a page with a value. An unreadable value moves to the aside key, and the page stays empty. A value
// with an epoch above ours is left in place.
func (m *AppMemory) decode(ctx context.Context, p *page, e entry) (found, error) {
	var s sealed
	var err error
	p.empty()
	if e.found {
		s, err = decodeSealed(e.value)
	}
	if err == nil {
		err = p.read(s.body)
	}
	if err == nil || s.epoch > m.term.epoch {
		return found{sealed: s, revision: e.revision}, nil
	}
	if failed := m.bucket.put(ctx, p.asideKey, e.value); failed != nil {
		return found{}, errors.Join(err, fmt.Errorf("move it to %s: %w", p.asideKey, failed))
	}
	m.lease.config.Log.Warn("unreadable harmonizer state moved aside",
		"key", p.key, "aside", p.asideKey, "err", err)
	return found{revision: e.revision}, nil
}

// remembered returns the loaded state of all pages and releases it.
func (m *AppMemory) remembered() harmonizer.SavedState {
	all := harmonizer.SavedState{Nodes: map[string]int{}}
	for _, p := range m.pages {
		all.Apps = append(all.Apps, p.loaded.Apps...)
		maps.Copy(all.Nodes, p.loaded.Nodes)
		p.loaded = harmonizer.SavedState{}
	}
	slices.SortFunc(all.Apps, func(a, b apps.Memory) int { return cmp.Compare(a.App, b.App) })
	return all
}

// Save implements harmonizer.Memory. It writes the changed pages, up to 32 at the same time. An error names the keys
// that failed; the others are written, and the next Save retries the failed keys. Without a Load in this term, Save
// returns pools.ErrNotHolder. Its time limits cover the turn and the bus, not the work on large pages.
func (m *AppMemory) Save(ctx context.Context, changed []apps.Memory, nodes map[string]int) error {
	values, err := encodeMemories(changed)
	if err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	census, err := encodeCensus(nodes)
	if err != nil {
		return fmt.Errorf("save census of nodes: %w", err)
	}
	if err := m.turn.take(ctx); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	defer m.turn.give()
	if err := m.check(); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	for name, value := range values {
		m.pages[shardKey(name)].set(name, value)
	}
	if nodes != nil {
		m.pages[nodesKey].replace(census)
	}
	if err := m.flush(ctx); err != nil {
		return fmt.Errorf("save memory of apps: %w", err)
	}
	return nil
}

// check returns pools.ErrNotHolder if the term of the last Load has ended.
func (m *AppMemory) check() error {
	if m.pages == nil {
		return fmt.Errorf("%w: Load was not called in this term", pools.ErrNotHolder)
	}
	return m.term.check()
}

func (m *AppMemory) flush(ctx context.Context) error {
	var changed []*page
	for _, p := range m.pages {
		if p.changed {
			changed = append(changed, p)
		}
	}
	bodies := make([][]byte, len(changed))
	fitErrors := each(changed, func(i int, p *page) (err error) {
		if bodies[i], err = m.fit(p); err != nil {
			return fmt.Errorf("fit %s: %w", p.key, err)
		}
		return nil
	})
	ctx, cancel := bounded(ctx)
	defer cancel()
	return errors.Join(fitErrors, each(changed, func(i int, p *page) error {
		if bodies[i] == nil {
			return nil
		}
		revision, err := m.term.write(ctx, p.key, bodies[i], p.revision)
		if err != nil {
			return err
		}
		p.revision, p.changed = revision, false
		return nil
	}))
}

// fit returns the body of a page. It drops entries until the body fits one message.
func (m *AppMemory) fit(p *page) ([]byte, error) {
	limit := int(m.conn.MaxPayload()) - overhead
	all, dropped := len(p.entries), 0
	for {
		body := p.body()
		share := min(float64(limit)/float64(packedLen(body, limit)), float64(maxBody)/float64(len(body)))
		if share >= 1 || len(p.entries) == 0 {
			if dropped > 0 {
				m.report.Do(func() {
					m.lease.config.Log.Error("harmonizer state too large, entries dropped",
						"key", p.key, "dropped", dropped, "entries", all, "bytes", len(body))
				})
			}
			return body, nil
		}
		n, err := p.thin(p.entries, share*0.9)
		if err != nil {
			return nil, err
		}
		dropped += n
	}
}

// packedLen returns the length of a body in a sealed value. A body that fits as it is counts unpacked.
func packedLen(body []byte, limit int) int {
	if len(body) > limit {
		body, _ = pack(body)
	}
	return len(body)
}

// each calls do for every page, at most pipeline at the same time, and joins all errors.
func each(pages []*page, do func(i int, p *page) error) error {
	errs := make([]error, len(pages))
	slots := make(chan struct{}, pipeline)
	var wg sync.WaitGroup
	for i, p := range pages {
		slots <- struct{}{}
		wg.Go(func() {
			errs[i] = do(i, p)
			<-slots
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
