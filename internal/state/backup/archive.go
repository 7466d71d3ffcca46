package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	version      = 1
	manifestName = "weir-backup.json"
	streamName   = "stream.json"
	maxChunk     = 1 << 20  // bytes of a snapshot in one message
	maxText      = 16 << 20 // bytes of the manifest, or of a stream's settings
	maxStreams   = 10_000
)

// errIncomplete: the archive was not written to its end.
var errIncomplete = errors.New("the backup is incomplete")

// Manifest lists the content of an archive.
type Manifest struct {
	Version int       `json:"version"`
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"` // when the backup began
	Streams []Stream  `json:"streams"`
}

// Stream is one bucket or stream of an archive.
type Stream struct {
	Name         string `json:"name"`
	Messages     uint64 `json:"messages"`
	LastSequence uint64 `json:"last_sequence"`
	Chunks       int    `json:"chunks"`
	Bytes        int64  `json:"bytes"`  // of the chunks
	SHA256       string `json:"sha256"` // of the settings and the chunks
}

// settings are what a server needs to restore a stream, as it reported them.
type settings struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// belongs reports whether the stream has data of the cluster. The events for webhooks, and the positions in them, are not such
// data: after a restore, old events would be sent again.
func belongs(stream, cluster string) bool {
	whole := []string{
		kvbucket.Stream(names.HarmonizerBucket(cluster)), kvbucket.Stream(names.AuthBucket(cluster)), kvbucket.Stream(names.AppsBucket(cluster)),
		names.FindingsStream(cluster),
	}
	if slices.Contains(whole, stream) {
		return true
	}
	for _, prefix := range []string{
		kvbucket.Stream(names.PoolBucket(cluster, "")), kvbucket.Stream(names.PlacerBucket(cluster, "")),
		names.LedgerStream(cluster, ""), names.SummaryStream(cluster, ""), names.EvidenceStream(cluster, ""),
	} {
		if pool, ok := strings.CutPrefix(stream, prefix); ok {
			return names.Valid(pool)
		}
	}
	return false
}

// writer writes the entries of an archive.
type writer struct {
	tar *tar.Writer
	at  time.Time
}

func (w writer) entry(name string, data []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: w.at.Truncate(time.Second)})
	if err == nil {
		_, err = w.tar.Write(data)
	}
	return err
}

func (w writer) json(name string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = w.entry(name, data)
	}
	return data, err
}

func chunkName(stream string, i int) string { return fmt.Sprintf("%s/%010d", stream, i) }

// Verify reads an archive to its end, and returns its manifest if each chunk has its digest and the archive is complete.
func Verify(r io.Reader) (Manifest, error) {
	var m Manifest
	err := read(r, func(name string, data []byte) error {
		return decode(name, data, &m)
	}, func(settings) (func([]byte) error, error) {
		return func([]byte) error { return nil }, nil
	})
	return m, err
}

// read calls stream for the settings of each stream, and the returned function for each of its chunks and, with nil, at
// their end. It calls manifest last. It verifies the digests.
func read(r io.Reader, manifest func(name string, data []byte) error, stream func(settings) (chunk func([]byte) error, err error)) error {
	archive := tar.NewReader(r)
	var found []Stream
	chunk, sum := func([]byte) error { return nil }, sha256.New()
	end := func() error {
		if len(found) == 0 {
			return nil
		}
		found[len(found)-1].SHA256 = hex.EncodeToString(sum.Sum(nil))
		return chunk(nil)
	}
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: its last entry %s is missing", errIncomplete, manifestName)
		}
		if err != nil {
			return fmt.Errorf("not a backup of weir: %w", err)
		}
		data, err := readEntry(archive, head)
		if err != nil {
			return err
		}
		dir, base := path.Split(head.Name)
		switch {
		case head.Name == manifestName:
			if err := end(); err != nil {
				return err
			}
			return compare(data, found, manifest)
		case base == streamName:
			if err := end(); err != nil {
				return err
			}
			if len(found) == maxStreams {
				return fmt.Errorf("the backup has more than %d streams", maxStreams)
			}
			found, sum = append(found, Stream{Name: strings.TrimSuffix(dir, "/")}), sha256.New()
			var s settings
			if err := decode(head.Name, data, &s); err != nil {
				return err
			}
			if chunk, err = stream(s); err != nil {
				return err
			}
		case len(found) > 0 && head.Name == chunkName(found[len(found)-1].Name, found[len(found)-1].Chunks):
			last := &found[len(found)-1]
			last.Chunks, last.Bytes = last.Chunks+1, last.Bytes+int64(len(data))
			if err := chunk(data); err != nil {
				return err
			}
		default:
			return fmt.Errorf("not a backup of weir: unexpected entry %.80q", head.Name)
		}
		sum.Write(data)
	}
}

func readEntry(archive *tar.Reader, head *tar.Header) ([]byte, error) {
	limit := int64(maxChunk)
	if strings.HasSuffix(head.Name, ".json") {
		limit = maxText
	}
	if head.Typeflag != tar.TypeReg || head.Size < 1 || head.Size > limit {
		return nil, fmt.Errorf("not a backup of weir: entry %.80q has %d bytes, want a file of 1 to %d", head.Name, head.Size, limit)
	}
	data := make([]byte, head.Size)
	if _, err := io.ReadFull(archive, data); err != nil {
		return nil, fmt.Errorf("%w: read entry %s: %w", errIncomplete, head.Name, err)
	}
	return data, nil
}

// compare compares the streams that an archive has with those that its manifest lists.
func compare(data []byte, found []Stream, manifest func(name string, data []byte) error) error {
	var m Manifest
	if err := decode(manifestName, data, &m); err != nil {
		return err
	}
	if m.Version != version {
		return fmt.Errorf("the backup has version %d, this weir reads %d", m.Version, version)
	}
	if len(m.Streams) != len(found) {
		return fmt.Errorf("the backup has %d streams and lists %d", len(found), len(m.Streams))
	}
	for i, s := range m.Streams {
		if f := found[i]; s.Name != f.Name || s.Chunks != f.Chunks || s.Bytes != f.Bytes || s.SHA256 != f.SHA256 {
			return fmt.Errorf("stream %.80s of the backup is damaged: its digest is %s, want %s", f.Name, f.SHA256, s.SHA256)
		}
		if !belongs(s.Name, m.Cluster) {
			return fmt.Errorf("the backup of cluster %.80q has stream %.80q, which is not one of the cluster", m.Cluster, s.Name)
		}
	}
	return manifest(manifestName, data)
}

func decode(name string, data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a backup of weir: read entry %.80q: %w", name, err)
	}
	return nil
}
