package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	// Another admin may create a missing stream, so it may be there before the restore of it. A server may not answer while the
	// stream has no leader. A request may have no receiver for a moment.
	attempts                        = 100
	pauseBefore                     = 100 * time.Millisecond
	answerWait                      = 5 * time.Second // before a request for a deletion or a restore is repeated
	codeExists  jetstream.ErrorCode = 10130           // restore: the stream exists
	codeInUse   jetstream.ErrorCode = 10058
	codeFailed  jetstream.ErrorCode = 10062 // restore: the description has the cause
	codeNoPeers jetstream.ErrorCode = 10005 // a server is offline for a moment
)

// ErrExists: a stream of the backup exists in the cluster, and Config.Replace is not set.
var ErrExists = errors.New("a stream of the backup exists")

// Restore verifies an archive, and then restores each of its streams. If it fails, some streams may be restored, and one
// may be missing: call it again.
//
// With Replace the leases keep their present values. Otherwise the next holder would have an epoch that the nodes have
// seen before, and they would reject its requests.
func Restore(ctx context.Context, c Config, in io.ReadSeeker) (Manifest, error) {
	m, err := Verify(in)
	if err != nil {
		return m, err
	}
	if m.Cluster != c.Cluster {
		return m, fmt.Errorf("the backup has cluster %s, not %s", m.Cluster, c.Cluster)
	}
	if !c.Replace {
		if err := c.absent(ctx, m); err != nil {
			return m, err
		}
	}
	leases := c.leases(ctx, m)
	for restored, tries := 0, 1; ; tries++ {
		n, err := c.restoreFrom(ctx, in, m, restored)
		if err == nil {
			return m, errors.Join(c.putLeases(ctx, leases), c.mark(ctx, m))
		}
		if n > restored {
			restored, tries = n, 1
		}
		if !c.again(ctx, err) || tries >= attempts || !retry.Pause(ctx, pauseBefore) {
			return m, err
		}
	}
}

// again reports whether the restore of a stream may succeed if it is repeated: another client created the stream, or no
// server answered.
func (c Config) again(ctx context.Context, err error) bool {
	if !c.Replace || ctx.Err() != nil {
		return false
	}
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		return slices.Contains([]jetstream.ErrorCode{codeExists, codeInUse, codeNoPeers}, answer.ErrorCode) ||
			answer.ErrorCode == codeFailed && strings.Contains(answer.Description, fmt.Sprint(codeExists))
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
}

// restoreFrom restores the streams of an archive from the given one on. It returns the number of restored streams.
func (c Config) restoreFrom(ctx context.Context, in io.ReadSeeker, m Manifest, from int) (int, error) {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return from, err
	}
	restored := 0
	err := read(in, func(string, []byte) error { return nil }, func(s settings) (func([]byte) error, error) {
		if restored == len(m.Streams) {
			return nil, errors.New("the backup changed while it was read")
		}
		name, chunk := m.Streams[restored].Name, func([]byte) error { return nil }
		if restored >= from {
			var err error
			if chunk, err = c.begin(ctx, name, s); err != nil {
				return nil, fmt.Errorf("restore stream %s: %w", name, err)
			}
		}
		return func(data []byte) error {
			if err := chunk(data); err != nil {
				return fmt.Errorf("restore stream %s: %w", name, err)
			}
			if data == nil { // the end of this stream
				restored++
			}
			return nil
		}, nil
	})
	return max(restored, from), err
}

// lease is the lease of a bucket.
type lease struct {
	bucket *kvbucket.Bucket
	value  []byte
}

// leaseKey is that of package state.
const leaseKey = "lease"

// leases returns the leases of the buckets of a backup. It omits those that are missing or cannot be read: the restore may be
// the repair of that.
func (c Config) leases(ctx context.Context, m Manifest) (all []lease) {
	for _, s := range m.Streams {
		name, isBucket := strings.CutPrefix(s.Name, kvbucket.Stream(""))
		if !isBucket || name == names.AppsBucket(c.Cluster) {
			continue
		}
		ctx, cancel := c.bound(ctx)
		b := kvbucket.New(c.JS, name)
		e, err := b.Get(ctx, leaseKey)
		cancel()
		if err == nil && e.Found {
			all = append(all, lease{b, e.Value})
		}
	}
	return all
}

// putLeases writes the leases to the restored buckets.
func (c Config) putLeases(ctx context.Context, leases []lease) error {
	for _, l := range leases {
		ctx, cancel := c.bound(ctx)
		_, err := l.bucket.Put(ctx, leaseKey, l.value)
		cancel()
		if err != nil {
			return fmt.Errorf("keep the lease of bucket %s: %w", l.bucket.Name(), err)
		}
	}
	return nil
}

// restoredKey is that of package state.
const restoredKey = "restored"

// mark lets the placers read that the nodes may run more than their restored assignments have.
func (c Config) mark(ctx context.Context, m Manifest) error {
	placers := kvbucket.Stream(names.PlacerBucket(c.Cluster, ""))
	for _, s := range m.Streams {
		if !strings.HasPrefix(s.Name, placers) {
			continue
		}
		ctx, cancel := c.bound(ctx)
		_, err := kvbucket.New(c.JS, strings.TrimPrefix(s.Name, kvbucket.Stream(""))).Put(ctx, restoredKey, []byte("{}"))
		cancel()
		if err != nil {
			return fmt.Errorf("mark stream %s as restored: %w", s.Name, err)
		}
	}
	return nil
}

// absent returns ErrExists if one of the streams exists.
func (c Config) absent(ctx context.Context, m Manifest) error {
	for _, s := range m.Streams {
		ctx, cancel := c.bound(ctx)
		_, err := c.JS.Stream(ctx, s.Name)
		cancel()
		if err == nil {
			return fmt.Errorf("%w: %s", ErrExists, s.Name)
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("check stream %s: %w", s.Name, err)
		}
	}
	return nil
}

// begin starts the restore of a stream, and returns the function that sends a chunk, or with nil ends the restore.
func (c Config) begin(ctx context.Context, name string, s settings) (func([]byte) error, error) {
	config, err := withReplicas(s.Config, name, c.Replicas)
	if err != nil {
		return nil, err
	}
	deliver, err := c.deliverTo(ctx, name, settings{config, s.State})
	if err != nil {
		return nil, err
	}
	return func(data []byte) error {
		reply, err := c.send(ctx, deliver, data)
		if err != nil || len(reply) == 0 {
			return err
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(reply, &answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return answer.Error
		}
		return nil
	}, nil
}

// deliverTo requests the restore of a stream, and returns the subject of its chunks. With Replace it requests its deletion
// first. It sends both requests at once: a server processes them in order, and no other request comes between.
func (c Config) deliverTo(ctx context.Context, name string, s settings) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(answerWait, cmp.Or(c.Timeout, defaultTimeout)))
	defer cancel()
	if c.Replace {
		if err := c.JS.Conn().Publish("$JS.API.STREAM.DELETE."+name, nil); err != nil {
			return "", fmt.Errorf("delete it: %w", err)
		}
	}
	var answer struct {
		Deliver string              `json:"deliver_subject"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := c.ask(ctx, "$JS.API.STREAM.RESTORE."+name, s, &answer); err != nil {
		return "", err
	}
	if answer.Error != nil {
		return "", answer.Error
	}
	return answer.Deliver, nil
}

// withReplicas returns the configuration of a stream with another number of replicas.
func withReplicas(config json.RawMessage, name string, replicas int) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(config, &all); err != nil {
		return nil, fmt.Errorf("read the configuration of the stream: %w", err)
	}
	var own string
	if err := json.Unmarshal(all["name"], &own); err != nil || own != name {
		return nil, fmt.Errorf("the configuration is that of stream %.80q", own)
	}
	all["num_replicas"] = json.RawMessage(fmt.Sprint(max(replicas, 1)))
	return json.Marshal(all)
}
