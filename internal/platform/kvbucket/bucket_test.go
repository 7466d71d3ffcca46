package kvbucket_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

const patience = await.Patience

// single returns the streams of one server.
func single(t *testing.T) jetstream.JetStream {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	return streams(t, bustest.Connect(t, s.ClientURL()))
}

func streams(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// within returns a context that bounds one test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// name is a bucket's name that the client library accepts too.
const name = "weir-apps_here"

// create creates the bucket. It repeats what a cluster refuses that has just started.
func create(t *testing.T, js jetstream.JetStream, replicas int) *kvbucket.Bucket {
	t.Helper()
	await.True(t, "the bucket is created", func() bool {
		_, err := js.CreateOrUpdateStream(within(t), kvbucket.Settings(name, "", replicas, 1<<20))
		return err == nil
	})
	return kvbucket.New(js, name)
}

func put(t *testing.T, b *kvbucket.Bucket, key, value string) uint64 {
	t.Helper()
	revision, err := b.Put(within(t), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func wantEntry(t *testing.T, b *kvbucket.Bucket, key string, want kvbucket.Entry) {
	t.Helper()
	got, err := b.Get(within(t), key)
	if err != nil || got.Revision != want.Revision || got.Found != want.Found || string(got.Value) != string(want.Value) {
		t.Errorf("Get(%s) = %+v, %v, want %+v", key, got, err, want)
	}
}

// A client with permission for one key has one way each to remove other keys. The server refuses all three.
func TestNoRequestEmptiesABucket(t *testing.T) {
	js := single(t)
	b := create(t, js, 1)
	first, second := put(t, b, "lease.a", "1"), put(t, b, "lease.b", "2")
	stream, err := js.Stream(within(t), kvbucket.Stream(b.Name()))
	if err != nil {
		t.Fatal(err)
	}
	for _, rollup := range []string{"all", "sub"} {
		m := nats.NewMsg("$KV." + b.Name() + ".lease.a")
		m.Header.Set("Nats-Rollup", rollup)
		if _, err := js.PublishMsg(within(t), m); err == nil || !strings.Contains(err.Error(), "rollup not permitted") {
			t.Errorf("write with Nats-Rollup: %s = %v, want a refusal", rollup, err)
		}
	}
	for what, err := range map[string]error{
		"purge":             stream.Purge(within(t)),
		"purge of a key":    stream.Purge(within(t), jetstream.WithPurgeSubject("$KV."+b.Name()+".lease.b")),
		"deletion":          stream.DeleteMsg(within(t), first),
		"erasing deletion":  stream.SecureDeleteMsg(within(t), second),
		"other client":      purgeByClient(t, js, b.Name()),
		"purge by revision": stream.Purge(within(t), jetstream.WithPurgeSequence(second)),
	} {
		if err == nil {
			t.Errorf("%s: nil, want a refusal", what)
		}
	}
	wantEntry(t, b, "lease.a", kvbucket.Entry{Revision: first, Value: []byte("1"), Found: true})
	wantEntry(t, b, "lease.b", kvbucket.Entry{Revision: second, Value: []byte("2"), Found: true})
}

func purgeByClient(t *testing.T, js jetstream.JetStream, name string) error {
	t.Helper()
	kv, err := js.KeyValue(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return kv.Purge(within(t), "lease.b")
}

func TestCompareAndSet(t *testing.T) {
	b := create(t, single(t), 1)
	ctx := within(t)
	wantEntry(t, b, "k", kvbucket.Entry{})
	first, err := b.Update(ctx, "k", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(revision uint64) (uint64, error){
		"Update": func(r uint64) (uint64, error) { return b.Update(ctx, "k", []byte("x"), r) },
		"Erase":  func(r uint64) (uint64, error) { return b.Erase(ctx, "k", r) },
		"Delete": func(r uint64) (uint64, error) { return b.Delete(ctx, "k", r) },
	} {
		for _, revision := range []uint64{0, first + 1, first + 100} {
			if _, err := write(revision); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
				t.Errorf("%s over revision %d = %v, want %v", name, revision, err, jetstream.ErrKeyRevisionMismatch)
			}
		}
	}
	wantEntry(t, b, "k", kvbucket.Entry{Revision: first, Value: []byte("1"), Found: true})
	second, err := b.Update(ctx, "k", []byte("2"), first)
	if err != nil {
		t.Fatal(err)
	}
	wantEntry(t, b, "k", kvbucket.Entry{Revision: second, Value: []byte("2"), Found: true})
}

// An erased key has a marker with an end. A deleted key has one without. The key can be created again over both.
func TestMarkers(t *testing.T) {
	js := single(t)
	b := create(t, js, 1)
	ctx := within(t)
	kv, err := js.KeyValue(ctx, b.Name())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, kvbucket.Stream(b.Name()))
	if err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]struct {
		remove func(context.Context, string, uint64) (uint64, error)
		ttl    string
	}{"erased": {b.Erase, "1h0m0s"}, "deleted": {b.Delete, ""}} {
		marker, err := c.remove(ctx, key, put(t, b, key, "1"))
		if err != nil {
			t.Fatal(err)
		}
		wantEntry(t, b, key, kvbucket.Entry{Revision: marker})
		m, err := stream.GetLastMsgForSubject(ctx, "$KV."+b.Name()+"."+key)
		if err != nil || m.Header.Get("Nats-TTL") != c.ttl {
			t.Errorf("the marker of %s has the TTL %q, %v, want %q", key, m.Header.Get("Nats-TTL"), err, c.ttl)
		}
		if _, err := kv.Create(ctx, key, []byte("2")); err != nil {
			t.Errorf("Create of %s by another client = %v", key, err)
		}
	}
}

// A marker that the server dropped leaves a key that was never written.
func TestMarkerEnds(t *testing.T) {
	js := single(t)
	b := create(t, js, 1)
	ctx := within(t)
	m := nats.NewMsg("$KV." + b.Name() + ".k")
	m.Header.Set("KV-Operation", "DEL")
	ack, err := js.PublishMsg(ctx, m, jetstream.WithMsgTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the marker ends", func() bool {
		e, err := b.Get(ctx, "k")
		return err == nil && e.Revision == 0
	})
	if _, err := b.Update(ctx, "k", []byte("1"), ack.Sequence); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Errorf("Update over the marker = %v, want %v", err, jetstream.ErrKeyRevisionMismatch)
	}
	if _, err := b.Update(ctx, "k", []byte("1"), 0); err != nil {
		t.Errorf("Update of a new key = %v", err)
	}
}

func TestMissingBucket(t *testing.T) {
	js := single(t)
	ctx := within(t)
	b := kvbucket.New(js, name)
	_, errGet := b.Get(ctx, "k")
	_, errUpdate := b.Update(ctx, "k", nil, 0)
	_, errCheck := kvbucket.Check(ctx, js, b.Name())
	for name, err := range map[string]error{"Get": errGet, "Update": errUpdate, "Check": errCheck} {
		if !errors.Is(err, kvbucket.ErrMissing) {
			t.Errorf("%s = %v, want %v", name, err, kvbucket.ErrMissing)
		}
	}
	create(t, js, 1)
	put(t, b, "k", "the bucket that was opened before it existed")
}

func TestNoPermission(t *testing.T) {
	everything := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}}}
	little := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.KV_other"}}}
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "all", Password: "all", Permissions: everything}, {Username: "little", Password: "little", Permissions: little},
	}})
	create(t, streams(t, bustest.Connect(t, s.ClientURL(), nats.UserInfo("all", "all"))), 1)
	js := streams(t, bustest.Connect(t, s.ClientURL(), nats.UserInfo("little", "little"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := kvbucket.Check(ctx, js, name)
	if !errors.Is(err, kvbucket.ErrNoPermission) || !strings.Contains(err.Error(), "STREAM.INFO.KV_weir-apps_here") {
		t.Errorf("Check = %v, want %v that names the request", err, kvbucket.ErrNoPermission)
	}
}

// A write whose answer is lost may be applied later.
func TestWriteWithoutAnAnswer(t *testing.T) {
	nc := bustest.Connect(t, bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL())
	js := streams(t, nc)
	b := create(t, js, 1)
	silent, err := nc.SubscribeSync("$KV.silent.k") // accepts the write and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe() //nolint:errcheck // the connection ends with the test
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := kvbucket.New(js, "silent").Update(ctx, "k", nil, 0); !errors.Is(err, kvbucket.ErrUnknown) {
		t.Errorf("Update = %v, want %v", err, kvbucket.ErrUnknown)
	}
	_, err = b.Update(within(t), "k", nil, 7)
	if errors.Is(err, kvbucket.ErrUnknown) {
		t.Errorf("Update that the server refuses = %v, which is known", err)
	}
}

// A value that another client made the server store has a header of the server twice. Its reader gets the server's revision
// with the error, and may replace it.
func TestForgedValue(t *testing.T) {
	js := single(t)
	b := create(t, js, 1)
	for header, value := range map[string]string{
		"Nats-Sequence": "7", "Nats-Stream": "KV_other", "Nats-Subject": "$KV.other.k", "Nats-Time-Stamp": "2026-03-01T12:00:00Z", "Status": "404",
	} {
		m := nats.NewMsg("$KV." + b.Name() + ".k")
		m.Header.Set(header, value)
		m.Data = []byte("forged")
		ack, err := js.PublishMsg(within(t), m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(within(t), "k"); !errors.Is(err, kvbucket.ErrForged) || got.Revision != ack.Sequence {
			t.Errorf("Get of a value with the header %s = %+v, %v, want revision %d and %v", header, got, err, ack.Sequence, kvbucket.ErrForged)
		}
		if _, err := b.Update(within(t), "k", []byte("true"), ack.Sequence); err != nil {
			t.Errorf("Update over a value with the header %s = %v", header, err)
		}
	}
}
