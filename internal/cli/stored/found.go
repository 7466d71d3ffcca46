package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// newest is how many messages of a stream are checked for headers of the server.
const newest = 1000

// found returns the problems that show without a reader, and that no alarm lists: such a value can prevent the start of its
// reader.
func (cli *commands) found(ctx context.Context, b *bus.Bus, pools []string, alarms []integrity.Alarm) (all []integrity.Problem, err error) {
	c := streams.Cluster{Name: cli.Cluster}
	for _, pool := range pools {
		c.Pools = append(c.Pools, streams.Pool{Name: pool})
	}
	for _, spec := range c.Specs() {
		problems, err := ofStream(ctx, b.JetStream(), cli.Cluster, spec)
		if err != nil {
			return nil, err
		}
		all = append(all, problems...)
	}
	return slices.DeleteFunc(all, func(p integrity.Problem) bool {
		return slices.ContainsFunc(alarms, func(a integrity.Alarm) bool {
			return slices.ContainsFunc(a.Problems, func(q integrity.Problem) bool { return q.Bucket == p.Bucket && q.Key == p.Key })
		})
	}), nil
}

// ofStream returns the problems of one stream or bucket.
func ofStream(ctx context.Context, js jetstream.JetStream, cluster string, spec jetstream.StreamConfig) (all []integrity.Problem, err error) {
	bucket, isBucket := strings.CutPrefix(spec.Name, kvbucket.Stream(""))
	what := "a stream"
	if isBucket {
		what = "a bucket"
	}
	stream, err := js.Stream(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return []integrity.Problem{{Bucket: bucket, Expected: what, Found: `nothing: "weir nats streams" creates it`}}, nil
	}
	var info *jetstream.StreamInfo
	if err == nil {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	}
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", spec.Name, err)
	}
	for subject, n := range info.State.Subjects {
		own := func(pattern string) bool { return roles.Includes(pattern, subject) }
		if !slices.ContainsFunc(spec.Subjects, own) {
			all = append(all, integrity.Problem{Bucket: bucket, Key: subject, Expected: "subjects of the stream", Found: fmt.Sprintf("%d messages with a foreign subject", n)})
		}
	}
	slices.SortFunc(all, func(a, b integrity.Problem) int { return strings.Compare(a.Key, b.Key) })
	if !isBucket {
		forged, err := forged(ctx, js, spec.Name, info.State.LastSeq)
		return append(all, forged...), err
	}
	c, err := integrity.Read(ctx, js, bucket)
	if err != nil {
		return nil, err
	}
	all = append(all, c.Unreadable(bucket)...)
	if strings.HasPrefix(bucket, names.PoolBucket(cluster, "")) {
		all = append(all, undecodable(bucket, c)...)
	}
	return all, nil
}

// undecodable returns the values of a pool's bucket that the store returns, but an autoscaler cannot decode.
func undecodable(bucket string, c integrity.Contents) (all []integrity.Problem) {
	for _, k := range c.Keys {
		if k.Deleted || k.Damaged || k.Forged {
			continue
		}
		if err := state.Undecodable(k.Name, k.Value); err != nil && !errors.Is(err, state.ErrNotAside) {
			all = append(all, integrity.Undecodable(bucket, k.Name, state.OfPool, err))
		}
	}
	return all
}

// forged returns the newest messages of a stream that another client made the server store.
func forged(ctx context.Context, js jetstream.JetStream, stream string, last uint64) (all []integrity.Problem, err error) {
	messages, _, err := streams.Batch(ctx, js, stream, streams.Request{Sequence: max(last, newest) - newest + 1, Subject: ">", Count: newest})
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.Forged {
			all = append(all, integrity.Problem{Bucket: stream, Key: fmt.Sprint("message ", m.Sequence), Expected: "a message of its owner", Found: "headers of the server: another client made the server store it"})
		}
	}
	return all, nil
}
