package kvbucket

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	checkTimeout = 2 * time.Second // of one request for a stream's info
	// shortestWindow is the shortest time that a server accepts in which it compares the ids of messages. Writes to a
	// bucket have no ids.
	shortestWindow = 100 * time.Millisecond
)

// Stream returns the name of the stream of a bucket.
func Stream(name string) string { return "KV_" + name }

// Check returns the stream of a bucket if it has a leader and a quorum. Otherwise the error is ErrMissing, ErrNoQuorum,
// ErrNoPermission or ErrNoAnswer. A leader without a quorum may count as one for 20 s.
func Check(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, Stream(name))
	if err != nil {
		return nil, Explain(js.Conn(), "$JS.API.STREAM.INFO."+Stream(name), err)
	}
	return stream, quorum(stream.CachedInfo().Cluster)
}

// quorum returns ErrNoQuorum if a cluster has no leader, or if half of its replicas are offline.
func quorum(c *jetstream.ClusterInfo) error {
	if c == nil { // a single server
		return nil
	}
	if c.Leader == "" {
		return fmt.Errorf("%w (the stream has no leader)", ErrNoQuorum)
	}
	up := 1
	for _, r := range c.Replicas {
		if !r.Offline {
			up++
		}
	}
	if all := len(c.Replicas) + 1; 2*up <= all {
		return fmt.Errorf("%w (%d of %d replicas are up)", ErrNoQuorum, up, all)
	}
	return nil
}

// Settings returns the stream of a new bucket: one message for each key, which no request but a write to the key replaces.
// Values that would exceed the bytes are refused. The client library reads and writes it as one of its own.
func Settings(name, description string, replicas int, bytes int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              Stream(name),
		Description:       description,
		Subjects:          []string{subject(name, ">")},
		MaxMsgsPerSubject: 1,
		MaxBytes:          bytes,
		Discard:           jetstream.DiscardNew,
		Duplicates:        shortestWindow,
		Replicas:          max(replicas, 1),
		AllowDirect:       true,
		AllowMsgTTL:       true,
		DenyDelete:        true,
		DenyPurge:         true,
	}
}
