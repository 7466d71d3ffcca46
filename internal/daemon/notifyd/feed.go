package notifyd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

const (
	checkEvery  = 5 * time.Second // between two checks for a reconnection
	saveEvery   = time.Minute     // between two writes of the cursor without an event
	readTimeout = time.Minute     // for the missed ticks of one pool
	maxPending  = 4096            // messages that wait
	maxBytes    = 64 << 20        // of them
)

// feed turns what the bus reports into events for the targets. Only run changes it.
type feed struct {
	bus     *bus.Bus
	cluster string
	file    string // of the cursor
	targets senders
	log     *slog.Logger

	streams map[string]*history.Stream // by pool
	cursor  map[string]time.Time       // last tick of each pool whose events are stored
	saved   time.Time                  // of the cursor
	behind  map[string]bool            // pools whose missed ticks are still to be read
	found   findings

	mu    sync.Mutex
	pulse time.Time // of the loop
	err   error     // why events are missing now; nil: they are not
}

func newFeed(b *bus.Bus, cluster, file string, targets senders, log *slog.Logger) (*feed, error) {
	f := &feed{
		bus: b, cluster: cluster, file: file, targets: targets, log: log,
		streams: map[string]*history.Stream{}, cursor: map[string]time.Time{}, behind: map[string]bool{}, pulse: time.Now(),
		found: findings{file: filepath.Join(filepath.Dir(file), "findings.json")},
	}
	if err := f.found.load(log); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &f.cursor)
		if err != nil {
			aside, errAside := wholefile.SetAside(file, time.Now())
			log.Warn("cursor is damaged, set aside", "file", aside, "err", errors.Join(err, errAside))
			f.cursor, err = map[string]time.Time{}, errAside
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the cursor of events: %w", err)
	}
	return f, nil
}

// run passes events on until ctx ends. It subscribes first, so that no tick is lost between the past and the present.
func (f *feed) run(ctx context.Context) error {
	in, err := bus.Receive(f.bus.Conn(), bus.InboxConfig{
		Events: []string{
			state.SummarySubject(f.cluster, "*"), events.EventsSubject(f.cluster, "*"), message.EventsSubject(f.cluster),
		},
		Messages: maxPending, Bytes: maxBytes, Log: f.log,
	})
	if err != nil {
		return err
	}
	defer in.Close()
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	connects := f.bus.Conn().Stats().Reconnects
	missed := true // all pools may have ticked before the start
	for {
		if f.found.due {
			if err := f.readFindings(ctx); err != nil {
				f.report(fmt.Errorf("findings: %w", err))
			} else if !missed && len(f.behind) == 0 {
				f.report(nil)
			}
		}
		if missed {
			missed = f.list(ctx) != nil
		}
		f.catchUp(ctx)
		f.beat()
		select {
		case <-ctx.Done():
			f.save(time.Now())
			return nil
		case m, ok := <-in.Messages():
			if !ok {
				return errors.New("the subscription ended")
			}
			f.receive(ctx, m)
		case <-ticker.C:
			f.found.due = true // a replica may have answered before it had the newest one
			if now := f.bus.Conn().Stats().Reconnects; now != connects {
				connects, missed = now, true
			}
		}
	}
}

// list marks all pools of the cluster as behind.
func (f *feed) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pools, err := state.Pools(ctx, f.bus.JetStream(), f.cluster)
	f.report(err)
	for _, pool := range pools {
		f.behind[pool] = true
	}
	return err
}

// catchUp reads the missed ticks of the pools that are behind.
func (f *feed) catchUp(ctx context.Context) {
	for pool := range f.behind {
		if err := f.read(ctx, pool); err != nil {
			f.report(fmt.Errorf("pool %s: %w", pool, err))
			return // the next message or check tries again
		}
		delete(f.behind, pool)
		f.report(nil)
	}
}

// read passes on the events of a pool since its cursor. At the first start the present is the beginning.
func (f *feed) read(ctx context.Context, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if f.cursor[pool].IsZero() {
		f.cursor[pool] = time.Now()
	}
	from := f.cursor[pool]
	p := history.Pool{JS: f.bus.JetStream(), Cluster: f.cluster, Pool: pool}
	stream, err := p.Events(ctx)
	if err != nil {
		return err
	}
	_, err = p.Since(ctx, from.Add(-time.Hour), func(s api.Summary) error { // an earlier tick to compare with
		list := stream.Add(s)
		if !s.At.After(from) {
			return nil
		}
		return f.deliver(pool, s.At, list)
	})
	f.streams[pool] = stream
	return err
}

// receive passes on the events of a message.
func (f *feed) receive(ctx context.Context, m *nats.Msg) {
	pool, tick := f.poolOf(m.Subject)
	if !tick {
		if f.found.stored {
			f.found.due = true // it is read from the stream, once
			return
		}
		list, err := history.FindingEvents(f.cluster, time.Now(), m)
		f.drop(m, errors.Join(err, f.deliver("", time.Time{}, list)))
		return
	}
	stream := f.streams[pool]
	if stream == nil || f.behind[pool] { // a new pool, whose ticks are read from the stream
		f.behind[pool] = true
		return
	}
	list, err := stream.Decode(ctx, time.Now(), m)
	if err != nil {
		f.drop(m, err)
		return
	}
	if err := f.deliver(pool, stream.Last(), list); err != nil {
		f.behind[pool] = true
		f.report(err)
	}
}

// poolOf returns the pool of the subject of a summary; false: the subject is one of findings.
func (f *feed) poolOf(subject string) (pool string, tick bool) {
	before, _, _ := strings.Cut(state.SummarySubject(f.cluster, "*"), "*")
	return strings.CutPrefix(subject, before)
}

// drop logs a message whose events are lost.
func (f *feed) drop(m *nats.Msg, err error) {
	if err != nil {
		f.log.Warn("events of a message are lost", "subject", m.Subject, "err", err)
	}
}

// deliver stores events for all targets, and then the cursor of the pool. at is the time of the tick; zero: a finding.
func (f *feed) deliver(pool string, at time.Time, list []api.Event) error {
	for _, e := range list {
		one, err := f.event(e)
		if err != nil {
			return err
		}
		for _, s := range f.targets {
			if err := s.Add(one); err != nil {
				return err
			}
		}
	}
	if !at.IsZero() && at.After(f.cursor[pool]) {
		f.cursor[pool] = at
	}
	if now := time.Now(); len(list) > 0 || now.Sub(f.saved) >= saveEvery {
		return f.save(now)
	}
	return nil
}

func (f *feed) event(e api.Event) (notify.Event, error) {
	out := notify.Event{
		At: e.At, Cluster: f.cluster, Pool: e.Pool, Kind: string(e.Kind), Name: e.Name, Severity: notify.Severity(e.Severity), Text: e.Text,
	}
	if e.Data == nil {
		return out, nil
	}
	data, err := seconds.Of(e.Data)
	out.Data = data
	return out, err
}

func (f *feed) save(now time.Time) error {
	data, err := json.Marshal(f.cursor)
	if err == nil {
		err = wholefile.Write(f.file, data)
	}
	if err != nil {
		return fmt.Errorf("store the cursor of events: %w", err)
	}
	f.saved = now
	return nil
}

// report stores why events are missing, and logs it when that begins.
func (f *feed) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.err == nil {
		f.log.Warn("events not read, trying again", "err", err)
	}
	f.err = err
}

func (f *feed) beat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulse = time.Now()
}

// check returns whether the events are passed on.
func (f *feed) check(ctx context.Context) admin.Result {
	if err := f.alive(ctx); err != nil {
		return admin.Result{State: admin.Failed, Dead: true, Detail: err.Error(), Remedy: "see the log, and restart it if this lasts"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return admin.Result{State: admin.Degraded, Detail: "events are not read: " + f.err.Error(), Remedy: `check NATS with "weir doctor"`}
	}
	return admin.Result{State: admin.OK, Detail: "events are passed on"}
}

// alive returns an error if the loop does not advance.
func (f *feed) alive(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := time.Since(f.pulse); age > 2*readTimeout {
		return fmt.Errorf("the loop does not advance for %v", age.Round(time.Second))
	}
	return nil
}
