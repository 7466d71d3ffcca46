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
	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools"
)

// pipeline is how many of the harmonizer's keys are written at the same time.
const pipeline = 32

// overhead is what a message has beside the body of a sealed value, in bytes, at most.
const overhead = maxHead + 1<<10

// AppMemory keeps what a harmonizer must not forget of applications and nodes:
// apps in 256 shards, and a census of nodes. Load takes over, Save writes what
// changed.
//
// A shard or census that does not fit a message of the bus is made smaller, for no
// nudge is sent before it is kept: of a shard the oldest crashes and nudges are
// forgotten, of the census the nodes with the fewest copies. The log tells.
type AppMemory struct {
	bucket *bucket
	lease  *Lease
	conn   *nats.Conn
	tell   *rate.Sometimes // that something was forgotten
	turn   turn
	term   term // that of the last Load
	// pages are what is kept, of each key, with what could not be written yet;
	// none before the first Load. They and term are owned by who has the turn.
	pages map[string]*page
}

var _ harmonizer.Memory = (*AppMemory)(nil)

// OpenAppMemory opens the memory of the harmonizer of a cluster. The lease says who
// may use it; it need not be held yet.
func OpenAppMemory(ctx context.Context, js jetstream.JetStream, lease *Lease, cluster string) (*AppMemory, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if !names.Valid(cluster) {
		return nil, fmt.Errorf("open memory of apps: cluster %q is no name of a cluster", cluster)
	}
	b, err := openBucket(ctx, js, cluster)
	if err != nil {
		return nil, err
	}
	return &AppMemory{
		bucket: b, lease: lease, conn: js.Conn(), turn: newTurn(),
		tell: &rate.Sometimes{Interval: time.Minute},
	}, nil
}

// Load implements harmonizer.Memory: it rewrites each key with the epoch of the
// term that the lease is in, so that a late Save of an earlier holder is refused,
// and returns what there is, apps in order of name. It may be repeated: what one
// that failed has done is no harm.
//
// A value that cannot be read is set aside, and a warning names it: to have
// forgotten the crashes of one app in 256 is better than no harmonizer.
func (m *AppMemory) Load(ctx context.Context) (harmonizer.Remembered, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := m.turn.take(ctx); err != nil {
		return harmonizer.Remembered{}, fmt.Errorf("load memory of apps: %w", err)
	}
	defer m.turn.give()
	m.pages = nil
	if err := m.takeOver(ctx); err != nil {
		m.pages = nil
		return harmonizer.Remembered{}, fmt.Errorf("load memory of apps: %w", err)
	}
	return m.remembered(), nil
}

// takeOver reads every page, and makes it ours.
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

// adopt fills a page with what its key has, which is rewritten.
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

// decode fills a page with a value. One that cannot be read is set aside, and the
// page is empty then. If its epoch is higher than ours, it is not ours to move.
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
	if _, failed := m.bucket.kv.Put(ctx, p.aside, e.value); failed != nil {
		return found{}, errors.Join(err, fmt.Errorf("set it aside as %s: %w", p.aside, failed))
	}
	m.lease.config.Log.Warn("what a harmonizer kept cannot be read, and is set aside: what it remembered is forgotten",
		"key", p.key, "aside", p.aside, "err", err)
	return found{revision: e.revision}, nil
}

// remembered returns what the pages said.
func (m *AppMemory) remembered() harmonizer.Remembered {
	all := harmonizer.Remembered{Nodes: map[string]int{}}
	for _, p := range m.pages {
		all.Apps = append(all.Apps, p.said.Apps...)
		maps.Copy(all.Nodes, p.said.Nodes)
		p.said = harmonizer.Remembered{}
	}
	slices.SortFunc(all.Apps, func(a, b apps.Memory) int { return cmp.Compare(a.App, b.App) })
	return all
}

// Save implements harmonizer.Memory: it writes the pages in which something
// changed, many at the same time. After an error that names keys, the others are
// written; what those should have had is written by the next Save that succeeds. It
// is pools.ErrNotHolder without a Load in this term of the lease. Its limits of time
// hold for the turn and for the bus, not for its own work on large pages.
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

// check reports whether the term of the last Load still lasts.
func (m *AppMemory) check() error {
	if m.pages == nil {
		return fmt.Errorf("%w: nothing was loaded in its term", pools.ErrNotHolder)
	}
	return m.term.check()
}

// flush writes the pages that have changed.
func (m *AppMemory) flush(ctx context.Context) error {
	var changed []*page
	for _, p := range m.pages {
		if p.changed {
			changed = append(changed, p)
		}
	}
	bodies := make([][]byte, len(changed))
	misfits := each(changed, func(i int, p *page) (err error) {
		if bodies[i], err = m.fit(p); err != nil {
			return fmt.Errorf("fit %s: %w", p.key, err)
		}
		return nil
	})
	ctx, cancel := bounded(ctx)
	defer cancel()
	return errors.Join(misfits, each(changed, func(i int, p *page) error {
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

// fit returns the body of a page, of which it forgets as much as it takes for a
// message to carry the rest.
func (m *AppMemory) fit(p *page) ([]byte, error) {
	limit := int(m.conn.MaxPayload()) - overhead
	all, dropped := len(p.entries), 0
	for {
		body := p.body()
		share := min(float64(limit)/float64(packedLen(body, limit)), float64(maxBody)/float64(len(body)))
		if share >= 1 || len(p.entries) == 0 {
			if dropped > 0 {
				m.tell.Do(func() {
					m.lease.config.Log.Error("what a harmonizer keeps is too large, the least of it is forgotten",
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

// packedLen returns how long a body is in a sealed value; of one that fits as it is,
// without packing it.
func packedLen(body []byte, limit int) int {
	if len(body) > limit {
		body, _ = pack(body)
	}
	return len(body)
}

// each calls do for every page, a number of them at the same time, and returns all
// errors.
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
