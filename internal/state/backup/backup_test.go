package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state/backup"
)

const (
	patience = await.Patience
	cluster  = "prod"
	replicas = 3
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is three servers with the data of two clusters, and the connection of an admin of one of them.
type world struct {
	*testing.T
	ctx context.Context
	js  jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	servers := bustest.ServeCluster(t, false,
		natsconf.Cluster{Name: cluster, Pools: []natsconf.Pool{{Name: "web"}}}, natsconf.Cluster{Name: cluster + "-2"})
	js, err := jetstream.New(servers.Connect(t, roles.User{Role: roles.Admin, Cluster: cluster}))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, ctx, js}
	bustest.Streams(t, js, cluster, replicas, "web")
	bustest.Streams(t, js, cluster+"-2", replicas)
	for i := range 40 {
		w.put(names.AppsBucket(cluster), fmt.Sprintf("app-%d", i%5), fmt.Sprint(i))
		if _, err := js.Publish(ctx, "weir.prod.decision.web", bytes.Repeat([]byte{byte(i)}, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	w.put(names.AppsBucket(cluster+"-2"), "other", "before")
	return w
}

func (w *world) put(bucket, key, value string) {
	w.Helper()
	if _, err := kvbucket.New(w.js, bucket).Put(w.ctx, key, []byte(value)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(bucket, key string) string {
	w.Helper()
	e, err := kvbucket.New(w.js, bucket).Get(w.ctx, key)
	if err != nil {
		w.Fatal(err)
	}
	return string(e.Value)
}

// state returns messages, first and last sequence number and the newest time of a stream.
func (w *world) state(stream string) string {
	w.Helper()
	s, err := w.js.Stream(w.ctx, stream)
	if err != nil {
		w.Fatal(err)
	}
	i := s.CachedInfo()
	return fmt.Sprintf("%d messages, %d to %d, %v, %d replicas", i.State.Msgs, i.State.FirstSeq, i.State.LastSeq, i.State.LastTime, i.Config.Replicas)
}

func (w *world) config() backup.Config {
	return backup.Config{JS: w.js, Cluster: cluster, Replicas: replicas}
}

func (w *world) backup() []byte {
	w.Helper()
	var file bytes.Buffer
	streams, err := backup.Streams(w.ctx, w.config())
	if err == nil {
		_, err = backup.Write(w.ctx, w.config(), streams, &file)
	}
	if err != nil {
		w.Fatal(err)
	}
	return file.Bytes()
}

// A restore brings back each stream with its sequence numbers and times. It keeps the leases, and changes no other
// cluster.
func TestRestoreKeepsSequencesAndTimes(t *testing.T) {
	w := newWorld(t)
	apps, ledger := "KV_"+names.AppsBucket(cluster), names.LedgerStream(cluster, "web")
	before := []string{w.state(apps), w.state(ledger)}
	pool := names.PoolBucket(cluster, "web")
	w.put(pool, "lease", "epoch 1")
	w.put(pool, "state", "35")
	file := w.backup()
	w.put(pool, "lease", "epoch 2")
	w.put(pool, "state", "newer")
	w.put(names.AppsBucket(cluster), "app-0", "newer")
	w.put(names.AppsBucket(cluster+"-2"), "other", "newer")

	c := w.config()
	if _, err := backup.Restore(w.ctx, c, bytes.NewReader(file)); !errors.Is(err, backup.ErrExists) {
		t.Fatalf("a restore over streams: %v, want %v", err, backup.ErrExists)
	}
	c.Replace = true
	m, err := backup.Restore(w.ctx, c, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, s := range m.Streams {
		listed = append(listed, s.Name)
	}
	want := []string{
		apps, "KV_weir-auth:prod", "KV_weir-harmonizer:prod", "KV_weir-placer:prod:web", "KV_weir-pool:prod:web",
		"weir-evidence:prod:web", "weir-findings:prod", ledger, "weir-summaries:prod:web",
	}
	if !slices.Equal(listed, want) {
		t.Errorf("the backup has %v, want %v", listed, want)
	}
	if after := []string{w.state(apps), w.state(ledger)}; !slices.Equal(after, before) {
		t.Errorf("after the restore %v, want %v", after, before)
	}
	for _, one := range []struct{ bucket, key, want string }{
		{names.AppsBucket(cluster), "app-0", "35"}, {pool, "state", "35"}, {pool, "lease", "epoch 2"},
	} {
		if got := w.get(one.bucket, one.key); got != one.want {
			t.Errorf("%s is %s after the restore, want %s", one.key, got, one.want)
		}
	}
	if got := w.get(names.AppsBucket(cluster+"-2"), "other"); got != "newer" {
		t.Errorf("a key of the other cluster is %s after the restore, want newer", got)
	}
	w.put(names.AppsBucket(cluster), "app-0", "after") // the restored bucket accepts writes
}

// Another admin creates missing streams. A restore that deletes them first is complete in spite of that.
func TestRestoreWhileStreamsAreCreated(t *testing.T) {
	w := newWorld(t)
	apps, ledger := "KV_"+names.AppsBucket(cluster), names.LedgerStream(cluster, "web")
	before := []string{w.state(apps), w.state(ledger)}
	file := w.backup()
	ctx, end := context.WithCancel(w.ctx)
	var admins sync.WaitGroup
	specs := streams.Cluster{Name: cluster, Replicas: replicas, Pools: []streams.Pool{{Name: "web"}}}.Specs()
	for range 2 {
		admins.Go(func() {
			for ctx.Err() == nil {
				_, _ = streams.Create(ctx, w.js, specs)
			}
		})
	}
	c := w.config()
	c.Replace = true
	for i := range 3 {
		if _, err := backup.Restore(w.ctx, c, bytes.NewReader(file)); err != nil {
			t.Errorf("restore %d: %v", i, err)
		}
		if after := []string{w.state(apps), w.state(ledger)}; !slices.Equal(after, before) {
			t.Errorf("after restore %d %v, want %v", i, after, before)
		}
	}
	end()
	admins.Wait()
}

// A backup that is damaged, cut or of another cluster is rejected before a stream is deleted.
func TestDamagedBackupChangesNothing(t *testing.T) {
	w := newWorld(t)
	file := w.backup()
	apps := "KV_" + names.AppsBucket(cluster)
	before := w.state(apps)
	flipped := bytes.Clone(file)
	const block = 512 // of a tar file: a header, then the data
	flipped[bytes.Index(file, []byte("/0000000000"))/block*block+block+20] ^= 1
	for name, test := range map[string]struct {
		file    []byte
		cluster string
		want    string
	}{
		"flipped bit":     {flipped, cluster, "digest"},
		"no end":          {file[:len(file)/2], cluster, "incomplete"},
		"no manifest":     {file[:bytes.LastIndex(file, []byte("weir-backup.json"))/512*512-1024], cluster, "incomplete"},
		"empty":           {nil, cluster, "incomplete"},
		"text":            {bytes.Repeat([]byte("text\n"), 300), cluster, "not a backup of weir"},
		"another cluster": {file, "prod-2", "has cluster prod, not prod-2"},
	} {
		c := w.config()
		c.Cluster, c.Replace = test.cluster, true
		if _, err := backup.Restore(w.ctx, c, bytes.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.want)
		}
	}
	if after := w.state(apps); after != before {
		t.Errorf("the stream changed from %s to %s", before, after)
	}
}

func TestBackupOfNothing(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	c.Cluster = "none"
	if _, err := backup.Streams(w.ctx, c); !errors.Is(err, backup.ErrNothing) {
		t.Errorf("a backup of a cluster without data: %v, want %v", err, backup.ErrNothing)
	}
}

// FuzzVerify reads archives from outside.
func FuzzVerify(f *testing.F) {
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := backup.Verify(bytes.NewReader(data)); err == nil && m.Cluster == "" {
			t.Errorf("a backup without a cluster is valid: %+v", m)
		}
	})
}
