package history

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// Feed compares each tick of the pools of a cluster with the one before, and makes events of ticks and findings: those of the
// past, and then the live ones. It has one owner.
//
//	feed := history.NewFeed(cluster)
//	in, err := bus.Receive(nc, bus.InboxConfig{Events: history.Subjects(cluster, "*"), ...}) // first: no tick is lost between
//	_, err = feed.Ticks(ctx, pool, from, time.Time{}, visit)
//	for m := range in.Messages() {
//		live, err := feed.Read(time.Now(), m)
//	}
type Feed struct {
	cluster string
	pools   map[string]*sequence
}

// maxPools bounds the pools of a feed whose last tick is stored.
const maxPools = 4096

// NewFeed returns a feed without a tick.
func NewFeed(cluster string) *Feed { return &Feed{cluster: cluster, pools: map[string]*sequence{}} }

// Subjects returns the subjects of live messages, to which streams republish what they have stored: of the ticks of a pool, of
// findings of its node health, and of findings of the harmonizer. The pool may be "*".
func Subjects(cluster, pool string) []string {
	all := []string{state.SummarySubject(cluster, pool)}
	for _, subject := range findingSubjects(cluster, pool) {
		all = append(all, names.LiveSubject(cluster, subject))
	}
	return all
}

// findingSubjects returns the subjects of the findings of a pool and of the harmonizer, as they are stored.
func findingSubjects(cluster, pool string) []string {
	return []string{events.EventsSubject(cluster, pool), message.EventsSubject(cluster)}
}

// PoolOf returns the pool of the subject of a tick; false: it is a subject of findings.
func (f *Feed) PoolOf(subject string) (pool string, tick bool) {
	if pool, tick = strings.CutPrefix(subject, state.SummarySubject(f.cluster, "")); !tick {
		pool = ""
	}
	return pool, tick
}

// Last returns when the last tick of a pool began; zero: it has had none. It reports whether the feed has read the pool.
func (f *Feed) Last(pool string) (at time.Time, read bool) {
	q, read := f.pools[pool]
	if read {
		at = q.at()
	}
	return at, read
}

// begin replaces the sequence of a pool.
func (f *Feed) begin(pool string) *sequence {
	if len(f.pools) >= maxPools {
		clear(f.pools)
	}
	q := &sequence{}
	f.pools[pool] = q
	return q
}

// Live is the content of one live message: a tick with its events, or findings.
type Live struct {
	Tick   *ComparedTick // nil: findings, or a dry run
	Events []api.Event
}

// Read decodes a message that arrived on one of Subjects. now is the time of a finding without a time.
func (f *Feed) Read(now time.Time, m *nats.Msg) (Live, error) {
	pool, tick := f.PoolOf(m.Subject)
	if !tick {
		events, err := FindingEvents(f.cluster, now, m.Header.Get(jetstream.SubjectHeader), m.Data)
		return Live{Events: events}, err
	}
	if !names.Valid(pool) {
		return Live{}, fmt.Errorf("pool %.64q: %s", pool, names.Rule)
	}
	data, err := state.PublishedSummary(m)
	if err != nil {
		return Live{}, err
	}
	s, err := readSummary(data)
	if err != nil || s.DryRun {
		return Live{}, err
	}
	s.Pool = pool // what the message states about itself does not count
	q := f.pools[pool]
	if q == nil {
		q = f.begin(pool)
	}
	t := q.next(s)
	return Live{Tick: &t, Events: t.Events()}, nil
}

// lead is the time before a range in which ticks are read, to compare the first tick of the range with the one before.
const lead = 10 * time.Minute

// Ticks is Pool.Summaries with the changes since the tick before. Read then compares with the last one.
func (f *Feed) Ticks(ctx context.Context, p Pool, from, to time.Time, visit func(ComparedTick) error) (unreadable int, err error) {
	unreadable, err = f.ticks(ctx, p, from, to, visit)
	return unreadable, unlessStopped(err)
}

func (f *Feed) ticks(ctx context.Context, p Pool, from, to time.Time, visit func(ComparedTick) error) (unreadable int, err error) {
	q := f.begin(p.Pool)
	return p.summaries(ctx, from.Add(-lead), to, func(s api.Summary) error {
		if t := q.next(s); !t.At.Before(from) {
			return visit(t)
		}
		return nil
	})
}

// Events calls visit with the events of each time from from until to, both included, oldest first: those of a tick, or the
// findings of one message. It returns how many summaries and messages this weir cannot read. If the findings cannot be read, it
// visits the other events, and then returns the error. Read then compares with the last tick.
func (f *Feed) Events(ctx context.Context, p Pool, from, to time.Time, visit func(at time.Time, events []api.Event) error) (unreadable int, err error) {
	var broken int
	var away error
	next, stop := iter.Pull2(func(yield func(time.Time, []api.Event) bool) {
		broken, away = p.findings(ctx, from, to, yield)
	})
	defer stop()
	at, found, more := next()
	until := func(t time.Time) error { // visits the findings before t
		for more && at.Before(t) {
			if err := visit(at, found); err != nil {
				return err
			}
			at, found, more = next()
		}
		return nil
	}
	unreadable, err = f.ticks(ctx, p, from, to, func(t ComparedTick) error {
		if err := until(t.At); err != nil {
			return err
		}
		return visit(t.At, t.Events())
	})
	if err == nil {
		err = until(to.Add(time.Nanosecond))
	}
	stop()
	if err == nil {
		err = away
	}
	return unreadable + broken, unlessStopped(err)
}
