package integrity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	readers          = 32 // concurrent requests
	callTimeout      = 5 * time.Second
	many             = 1000        // up to so many keys are read one by one
	watchIdleTimeout = time.Second // of a watch; then the rest is read one by one
)

// Key is the newest entry of one key.
type Key struct {
	Name     string
	Revision uint64 // 0 if Damaged
	Deleted  bool   // by a delete marker
	Damaged  bool   // the store lists the key but cannot return its value
	Value    []byte
}

// Contents is one reading of a bucket.
type Contents struct {
	Created time.Time // of the bucket
	Last    uint64    // its last sequence before the keys were read
	Keys    []Key     // in order of revision, damaged keys first
}

// Next returns the sequence from which a watch receives every change that is not in the contents. It may repeat some,
// because the replica that was read may lag behind.
func (c Contents) Next() uint64 {
	if len(c.Keys) == 0 {
		return c.Last + 1
	}
	return min(c.Last, c.Keys[len(c.Keys)-1].Revision) + 1
}

// Unreadable returns a problem for each key with an unreadable value.
func (c Contents) Unreadable(bucket string) (all []Problem) {
	for _, k := range c.Keys {
		if k.Damaged {
			all = append(all, damaged(bucket, k.Name, "a value"))
		}
	}
	return all
}

// Read returns the entries of a bucket that match a filter, including delete markers; without a filter all entries. A
// watch would wait forever for an unreadable message; Read returns its key instead. Read requests from the leader of
// the stream, because a replica may lag behind.
func Read(ctx context.Context, js jetstream.JetStream, bucket string, filters ...string) (Contents, error) {
	return read(ctx, js, bucket, filters, nil)
}

// read implements Read. If least is set, many keys are read at once from any replica. Then the leader is asked only
// for missing keys and for keys below their least revision.
func read(ctx context.Context, js jetstream.JetStream, bucket string, filters []string, least func(key string) uint64) (Contents, error) {
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	r := reader{js: js, stream: stream, prefix: "$KV." + bucket + "."}
	info, err := stream.Info(ctx)
	if err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	c := Contents{Created: info.Created, Last: info.State.LastSeq}
	if len(filters) == 0 {
		filters = []string{">"}
	}
	var names []string
	for _, filter := range filters {
		listed, err := r.list(ctx, filter)
		if err != nil {
			return Contents{}, fmt.Errorf("list keys %s of bucket %s: %w", filter, bucket, err)
		}
		names = append(names, listed...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if least != nil && len(names) > many {
		if c.Keys, err = r.many(ctx, bucket, filters, least); err != nil {
			return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
		}
		names = without(names, c.Keys)
	}
	single, err := r.all(ctx, names)
	if err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	c.Keys = append(c.Keys, single...)
	slices.SortStableFunc(c.Keys, func(a, b Key) int { return cmp.Compare(a.Revision, b.Revision) })
	return c, nil
}

// without returns the names that are not among the keys.
func without(names []string, keys []Key) []string {
	existing := make(map[string]bool, len(keys))
	for _, k := range keys {
		existing[k.Name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return existing[name] })
}

type reader struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // of the subjects
}

// list returns the matching keys from the store's index.
func (r reader) list(ctx context.Context, filter string) ([]string, error) {
	info, err := r.stream.Info(ctx, jetstream.WithSubjectFilter(r.prefix+filter))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		names = append(names, strings.TrimPrefix(subject, r.prefix))
	}
	return names, nil
}

// many reads keys by a watch until it is complete or stops at an unreadable message. It omits keys below their least
// revision.
func (r reader) many(ctx context.Context, bucket string, filters []string, least func(key string) uint64) ([]Key, error) {
	kv, err := r.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := kv.WatchFiltered(ctx, slices.Clone(filters)) // the library modifies the slice
	if err != nil {
		return nil, err
	}
	defer drain(watcher)
	var keys []Key
	idle := time.NewTimer(watchIdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-idle.C:
			return keys, nil
		case e, open := <-watcher.Updates():
			if !open || e == nil {
				return keys, nil
			}
			idle.Reset(watchIdleTimeout)
			if e.Revision() >= least(e.Key()) {
				keys = append(keys, Key{Name: e.Key(), Revision: e.Revision(), Deleted: e.Operation() != jetstream.KeyValuePut, Value: e.Value()})
			}
		}
	}
}

// drain ends a watch and empties its channel. Otherwise its sender would block.
func drain(w jetstream.KeyWatcher) {
	_ = w.Stop() // fails only if the watch has already ended
	limit := time.NewTimer(callTimeout)
	defer limit.Stop()
	for {
		select {
		case _, open := <-w.Updates():
			if !open {
				return
			}
		case <-limit.C:
			return
		}
	}
}

// all reads the keys concurrently. It omits keys that have disappeared.
func (r reader) all(ctx context.Context, names []string) ([]Key, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys := make([]*Key, len(names))
	var wg sync.WaitGroup
	for worker := range min(readers, len(names)) {
		wg.Go(func() {
			for i := worker; i < len(names) && ctx.Err() == nil; i += readers {
				var err error
				if keys[i], err = r.key(ctx, names[i]); err != nil {
					cancel(fmt.Errorf("read key %s: %w", names[i], err))
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var out []Key
	for _, k := range keys {
		if k != nil {
			out = append(out, *k)
		}
	}
	return out, nil
}

// key reads one key; nil if it no longer exists.
func (r reader) key(ctx context.Context, name string) (*Key, error) {
	m, err := r.last(ctx, name)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return r.unread(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	deleted := m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
	return &Key{Name: name, Revision: m.Sequence, Deleted: deleted, Value: m.Data}, nil
}

// unread returns a listed key without a message. It is damaged if it is still listed, because the store finds
// readable messages only.
func (r reader) unread(ctx context.Context, name string) (*Key, error) {
	listed, err := r.list(ctx, name)
	if err != nil || len(listed) == 0 {
		return nil, err
	}
	return &Key{Name: name, Damaged: true}, nil
}

// stored is the response of a stream's leader.
type stored struct {
	Message *struct {
		Sequence uint64 `json:"seq"`
		Header   []byte `json:"hdrs"`
		Data     []byte `json:"data"`
	} `json:"message"`
	Error *jetstream.APIError `json:"error"`
}

// last requests the last message of a key from the leader. The client library would use any replica.
func (r reader) last(ctx context.Context, name string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := json.Marshal(map[string]string{"last_by_subj": r.prefix + name})
	if err != nil {
		return nil, err
	}
	answer, err := r.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+r.stream.CachedInfo().Config.Name, request)
	if err != nil {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(answer.Data, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Error != nil && s.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case s.Error != nil:
		return nil, s.Error
	case s.Message == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	}
	m := &jetstream.RawStreamMsg{Sequence: s.Message.Sequence, Data: s.Message.Data}
	if len(s.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(s.Message.Header); err != nil {
			return nil, err
		}
	}
	return m, nil
}
