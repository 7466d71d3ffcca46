package notifyd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

const (
	callTimeout = 10 * time.Second
	lookBack    = 24 * time.Hour // for missed events; older ones are not sent
)

// Keys of positions in the bucket of a cluster's targets of events: of each target in the stream of events, of the findings in
// theirs, and of the ticks of each pool.
const (
	targetPrefix     = "position.target."
	findingsPosition = "position.findings"
	ticksPrefix      = "position.ticks."
)

// notices is the stream of the events of a cluster. The stream stores each event once, by its id. Calls may run concurrently.
type notices struct {
	js      jetstream.JetStream
	cluster string
	log     *slog.Logger
	started time.Time       // of the process: a new target receives the events from then on
	news    []chan struct{} // of the targets; each has room for one value
}

func (n *notices) positions() *kvbucket.Bucket {
	return kvbucket.New(n.js, names.NotifyBucket(n.cluster))
}

// subject returns the subject of the decisions and orders of a pool as events. With an empty pool it is that of the findings of
// all pools and of the harmonizer.
func (n *notices) subject(pool string) string {
	if pool == "" {
		return names.Subject(n.cluster, "notice")
	}
	return names.Subject(n.cluster, "notice", pool)
}

// queue returns the reader of the events of a target.
func (n *notices) queue(target string) *notify.Reader {
	news := make(chan struct{}, 1)
	n.news = append(n.news, news)
	return notify.NewReader(notify.ReaderConfig{
		JS: n.js, Stream: names.NoticesStream(n.cluster), Positions: names.NotifyBucket(n.cluster), Key: targetPrefix + target,
		Start: n.started, News: news,
	})
}

// ticked is the value of a position of ticks.
type ticked struct {
	At time.Time `json:"at"` // of the last tick whose events are stored
}

// begin returns the last tick of a pool whose events are stored. Without a position, or after a day, it stores and returns the
// time from which the events are sent.
func (n *notices) begin(ctx context.Context, pool string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := n.positions().Get(ctx, ticksPrefix+pool)
	if err != nil {
		return time.Time{}, err
	}
	was := ticked{n.started}
	if e.Found {
		_ = json.Unmarshal(e.Value, &was) // an unreadable position begins at the start
	}
	if back := time.Now().Add(-lookBack); back.After(was.At) {
		was.At = back
	}
	return was.At, n.reached(ctx, pool, was.At)
}

// reached stores the position of the ticks of a pool.
func (n *notices) reached(ctx context.Context, pool string, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := json.Marshal(ticked{at})
	if err == nil {
		_, err = n.positions().Put(ctx, ticksPrefix+pool, data)
	}
	return err
}

// publish stores events. It returns nil after the stream has all of them.
func (n *notices) publish(ctx context.Context, pool string, list []api.Event) error {
	for _, e := range list {
		one, err := n.event(e)
		var id string
		var data []byte
		if err == nil {
			id, data, err = one.Encode()
		}
		if err != nil { // it would fail for ever, and the events behind it would wait
			n.log.Warn("an event is lost", "pool", pool, "err", err)
			continue
		}
		if err := n.store(ctx, &nats.Msg{Subject: n.subject(pool), Data: data}, id); err != nil {
			return fmt.Errorf("store event %s: %w", one.Name, err)
		}
	}
	if len(list) > 0 {
		for _, news := range n.news {
			select {
			case news <- struct{}{}:
			default: // one waits already
			}
		}
	}
	return nil
}

func (n *notices) store(ctx context.Context, m *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := n.js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		if _, why := n.js.Stream(ctx, names.NoticesStream(n.cluster)); why != nil {
			err = kvbucket.Explain(n.js.Conn(), "", why)
		}
	}
	return err
}

func (n *notices) event(e api.Event) (notify.Event, error) {
	out := notify.Event{
		At: e.At, Cluster: n.cluster, Pool: e.Pool, Kind: string(e.Kind), Name: e.Name, Severity: e.Severity, Text: e.Text,
	}
	if e.Data == nil {
		return out, nil
	}
	data, err := seconds.Of(e.Data)
	out.Data = data
	return out, err
}

// clean removes the positions of targets that are no longer configured, and those of pools that are not in a complete list and
// whose position is older than what is read again: without it, the events would begin at the same time.
func (n *notices) clean(ctx context.Context, configured func(target string) bool, pools []string) error {
	err := n.erase(ctx, targetPrefix, func(target string, _ []byte) bool { return configured(target) })
	return errors.Join(err, n.erase(ctx, ticksPrefix, func(pool string, value []byte) bool {
		var at ticked
		err := json.Unmarshal(value, &at)
		return err != nil || time.Since(at.At) < lookBack || slices.Contains(pools, pool)
	}))
}

// erase removes the positions with that prefix that keep does not keep. name is the rest of the key.
func (n *notices) erase(ctx context.Context, prefix string, keep func(name string, value []byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := integrity.Read(ctx, n.js, n.positions().Name(), prefix+">")
	if err != nil {
		return fmt.Errorf("list the positions %s*: %w", prefix, err)
	}
	for _, k := range found.Keys {
		name := strings.TrimPrefix(k.Name, prefix)
		if k.Deleted || k.Damaged || keep(name, k.Value) {
			continue
		}
		if _, err := n.positions().Erase(ctx, k.Name, k.Revision); err != nil {
			return fmt.Errorf("delete position %s, which is not needed any more: %w", k.Name, err)
		}
		n.log.Info("position removed", "key", k.Name)
	}
	return nil
}
