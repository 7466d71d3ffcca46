package backup

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	defaultTimeout = 30 * time.Second
	chunkSize      = 128 << 10
)

// Config describes the cluster.
type Config struct {
	JS      jetstream.JetStream
	Cluster string
	// Replicas of each restored stream.
	Replicas int
	// Replace: Restore deletes streams that exist.
	Replace bool
	// Timeout is the longest wait for one answer or one chunk. 0: 30 s.
	Timeout time.Duration
}

func (c Config) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
}

// ErrNothing: the cluster has no bucket and no stream.
var ErrNothing = errors.New("the cluster has no bucket and no stream")

// Streams returns the names of the cluster's buckets and streams, in order. Without one the error is ErrNothing.
func Streams(ctx context.Context, c Config) (all []string, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	list := c.JS.StreamNames(ctx)
	for name := range list.Name() {
		if belongs(name, c.Cluster) {
			all = append(all, name)
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the streams of cluster %s: %w", c.Cluster, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("back up cluster %s: %w", c.Cluster, ErrNothing)
	}
	slices.Sort(all)
	return all, nil
}

// Write writes these buckets and streams of the cluster to an archive. Each is consistent in itself. They are copied one
// after the other, so a later one may have newer data.
func Write(ctx context.Context, c Config, streams []string, out io.Writer) (Manifest, error) {
	m := Manifest{Version: version, Cluster: c.Cluster, At: time.Now().UTC()}
	w := writer{tar: tar.NewWriter(out), at: m.At}
	for _, name := range streams {
		s, err := c.snapshot(ctx, name, w)
		if err != nil {
			return m, fmt.Errorf("back up stream %s: %w", name, err)
		}
		m.Streams = append(m.Streams, s)
	}
	if _, err := w.json(manifestName, m); err != nil {
		return m, err
	}
	return m, w.tar.Close()
}

// snapshot writes one stream to the archive.
func (c Config) snapshot(ctx context.Context, name string, w writer) (Stream, error) {
	s := Stream{Name: name}
	chunks, err := bus.ReceiveChunks(c.JS.Conn(), name)
	if err != nil {
		return s, err
	}
	defer chunks.Close()
	var answer struct {
		settings
		Error *jetstream.APIError `json:"error"`
	}
	request := map[string]any{"deliver_subject": chunks.Subject(), "no_consumers": true, "chunk_size": chunkSize}
	if err := c.ask(ctx, "$JS.API.STREAM.SNAPSHOT."+name, request, &answer); err != nil {
		return s, err
	}
	if answer.Error != nil {
		return s, answer.Error
	}
	var state struct {
		Messages uint64 `json:"messages"`
		LastSeq  uint64 `json:"last_seq"`
	}
	if err := json.Unmarshal(answer.State, &state); err != nil {
		return s, fmt.Errorf("read the state of the stream: %w", err)
	}
	s.Messages, s.LastSequence = state.Messages, state.LastSeq
	sum := sha256.New()
	text, err := w.json(name+"/"+streamName, answer.settings)
	if err != nil {
		return s, err
	}
	sum.Write(text)
	for {
		data, err := c.next(ctx, chunks)
		if err != nil {
			return s, err
		}
		if data == nil {
			s.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return s, nil
		}
		sum.Write(data)
		if err := w.entry(chunkName(name, s.Chunks), data); err != nil {
			return s, err
		}
		s.Chunks, s.Bytes = s.Chunks+1, s.Bytes+int64(len(data))
	}
}

func (c Config) next(ctx context.Context, chunks *bus.Chunks) ([]byte, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return chunks.Next(ctx)
}

// ask sends a request to the servers, and decodes the answer.
func (c Config) ask(ctx context.Context, subject string, request, answer any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	reply, err := c.send(ctx, subject, data)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, answer)
}

// send sends a request, and returns the response. The subscription of a receiver of chunks reaches the other servers of
// a cluster a moment later than the response that names it. A request without a receiver has no effect, so send repeats it.
func (c Config) send(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for i := 1; ; i++ {
		reply, err := bus.Request(ctx, c.JS.Conn(), subject, data)
		if err == nil {
			return reply.Data, nil
		}
		if !errors.Is(err, nats.ErrNoResponders) || i == attempts || !retry.Pause(ctx, pauseBefore) {
			return nil, fmt.Errorf("request %.60s: %w", subject, err)
		}
	}
}
