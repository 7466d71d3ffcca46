package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	checkTimeout = 2 * time.Second        // of one request for a stream's info
	retryPause   = 250 * time.Millisecond // before a bucket is created again, or checked again
)

// Config describes a bucket.
type Config struct {
	Name        string
	Description string
	Replicas    int    // of a new bucket; 0: a missing bucket is not created
	Cluster     string // whose state of the old layout prevents a new bucket; empty: no check
}

// State returns the bucket of a cluster's leases and unfinished work.
func State(cluster string, replicas int) Config {
	return Config{names.StateBucket(cluster), "state of weir in cluster " + cluster, replicas, cluster}
}

// Orders returns the bucket of a cluster's orders.
func Orders(cluster string, replicas int) Config {
	return Config{names.OrdersBucket(cluster), "orders of operators in cluster " + cluster, replicas, cluster}
}

// Apps returns the bucket of a cluster's expected applications.
func Apps(cluster string, replicas int) Config {
	return Config{names.AppsBucket(cluster), "expected state of applications in cluster " + cluster, replicas, cluster}
}

// Stream returns the name of the stream of a bucket.
func Stream(name string) string { return "KV_" + name }

// Check returns the stream of a bucket if it has a leader and a quorum. Otherwise the error is ErrMissing, ErrNoQuorum,
// ErrNoPermission or ErrNoAnswer. A leader without a quorum may count as one for 20 s.
func Check(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, Stream(name))
	if err != nil {
		return nil, explain(js.Conn(), "$JS.API.STREAM.INFO."+Stream(name), err)
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

// Ensure creates a missing bucket, and reports whether it did. An existing bucket keeps its settings. Without replicas a
// missing bucket is the error ErrMissing. Ensure repeats what a new NATS cluster refuses or does not answer, until ctx ends.
func Ensure(ctx context.Context, js jetstream.JetStream, c Config) (created bool, err error) {
	for {
		if _, err = Check(ctx, js, c.Name); errors.Is(err, ErrMissing) && c.Replicas > 0 {
			if err = create(ctx, js, c); err == nil {
				return true, nil
			}
		}
		if err == nil {
			return false, nil
		}
		if !again(err) || !pause(ctx, retryPause) {
			return false, fmt.Errorf("open bucket %s: %w", c.Name, err)
		}
	}
}

// again reports whether the same request may succeed within seconds.
func again(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, ErrNoPeers)
}

func create(ctx context.Context, js jetstream.JetStream, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, 2*checkTimeout)
	defer cancel()
	_, err := js.CreateStream(ctx, c.Settings())
	return explain(js.Conn(), "$JS.API.STREAM.CREATE."+Stream(c.Name), err)
}

// Settings returns the stream of a new bucket. The client library reads and writes it as one of its own.
func (c Config) Settings() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              Stream(c.Name),
		Description:       c.Description,
		Subjects:          []string{subject(c.Name, ">")},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Replicas:          c.Replicas,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		DenyDelete:        true,
		DenyPurge:         true,
	}
}

// pause waits. It returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
