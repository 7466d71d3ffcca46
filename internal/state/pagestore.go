package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/pools"
)

// pipeline is the number of harmonizer keys that are written at the same time.
const pipeline = 32

// overhead is the maximum size in bytes of a message beyond the body of its sealed value.
const overhead = maxHead + 1<<10

// asidePrefix begins the keys of unreadable values.
const asidePrefix = "aside."

// pageStore has the keys of one writer, each with one value for each of its entries. A value that does not fit one message
// of the bus is made smaller, and an error in the log reports it.
type pageStore struct {
	bucket *bucket
	lease  *Lease
	conn   *nats.Conn
	what   string          // that is stored, for the log
	report *rate.Sometimes // limits the log to one report of dropped entries a minute
	turn   turn
	term   term // of the last takeover
	// pages has each key's saved entries and its unsaved changes. It is nil before the first takeover. The caller that
	// has the turn owns pages and term.
	pages map[string]*page
}

func newPageStore(b *bucket, conn *nats.Conn, lease *Lease, what string) pageStore {
	return pageStore{bucket: b, lease: lease, conn: conn, what: what, turn: newTurn(), report: &rate.Sometimes{Interval: time.Minute}}
}

// takeOver fills the empty pages with the values of their keys, and rewrites each key with our epoch. The filters match
// all keys.
func (m *pageStore) takeOver(ctx context.Context, empty map[string]*page, filters ...string) error {
	m.term = term{m.bucket, m.lease, m.lease.Epoch()}
	if err := m.term.check(); err != nil {
		return err
	}
	all, err := m.term.survey(ctx, filters...)
	if err != nil {
		return err
	}
	m.pages = empty
	return each(slices.Collect(maps.Values(m.pages)), func(_ int, p *page) error { return m.adopt(ctx, p, all[p.key]) })
}

// adopt fills a page with the value of its key and rewrites the key.
func (m *pageStore) adopt(ctx context.Context, p *page, e entry) error {
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
func (m *pageStore) decode(ctx context.Context, p *page, e entry) (found, error) {
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
	m.lease.config.Log.Warn("unreadable state moved aside",
		"state", m.what, "key", p.key, "aside", p.asideKey, "err", err)
	return found{revision: e.revision}, nil
}

// check returns pools.ErrNotHolder if the term of the last Load has ended.
func (m *pageStore) check() error {
	if m.pages == nil {
		return fmt.Errorf("%w: Load was not called in this term", pools.ErrNotHolder)
	}
	return m.term.check()
}

func (m *pageStore) flush(ctx context.Context) error {
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
func (m *pageStore) fit(p *page) ([]byte, error) {
	limit := int(m.conn.MaxPayload()) - overhead
	all, dropped := len(p.entries), 0
	for {
		body := p.body()
		share := min(float64(limit)/float64(packedLen(body, limit)), float64(maxBody)/float64(len(body)))
		if share >= 1 || len(p.entries) == 0 {
			if dropped > 0 {
				m.report.Do(func() {
					m.lease.config.Log.Error("state too large, entries dropped",
						"state", m.what, "key", p.key, "dropped", dropped, "entries", all, "bytes", len(body))
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
