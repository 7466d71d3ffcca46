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
	readers     = 32 // requests at the same time
	callTimeout = 5 * time.Second
)

// Key is what a bucket has under one key.
type Key struct {
	Name     string
	Revision uint64 // 0 if Damaged
	Deleted  bool   // by a delete marker
	Damaged  bool   // the store lists the key, and cannot return its value
	Value    []byte
}

// Contents is a bucket as it was read.
type Contents struct {
	Created time.Time // of the bucket
	Last    uint64    // its last sequence, before the keys were read
	Keys    []Key     // in order of revision, the damaged ones first
}

// Read returns what a bucket has under each key that a filter matches, delete markers
// included; without a filter under all keys. In contrast to a watch, which waits without end for
// a message that the store cannot read, it names the key of such a message. The leader of the
// stream answers: a replica may lag behind.
func Read(ctx context.Context, js jetstream.JetStream, bucket string, filters ...string) (Contents, error) {
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
	if c.Keys, err = r.all(ctx, slices.Compact(names)); err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	slices.SortStableFunc(c.Keys, func(a, b Key) int { return cmp.Compare(a.Revision, b.Revision) })
	return c, nil
}

type reader struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // of the subjects
}

// list returns the keys that a filter matches, as the index of the store has them.
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

// all reads the keys, a number of them at the same time. One that vanished is left out.
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

// key reads one key; nil: it is not there any more.
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

// unread returns what a key is that was listed and is not found: damaged if it is listed
// still, for the store finds only what it can read.
func (r reader) unread(ctx context.Context, name string) (*Key, error) {
	listed, err := r.list(ctx, name)
	if err != nil || len(listed) == 0 {
		return nil, err
	}
	return &Key{Name: name, Damaged: true}, nil
}

// stored is the answer of the leader of a stream.
type stored struct {
	Message *struct {
		Sequence uint64 `json:"seq"`
		Header   []byte `json:"hdrs"`
		Data     []byte `json:"data"`
	} `json:"message"`
	Error *jetstream.APIError `json:"error"`
}

// last requests the last message of a key from the leader. The client library would request it
// from any replica.
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
