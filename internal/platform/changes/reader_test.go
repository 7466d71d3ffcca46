package changes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/changes"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

var bucket = names.AppsBucket("here")

func serve(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(bustest.Connect(t, bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "here", 1)
	return js
}

func open(t *testing.T, js jetstream.JetStream, hints string, next uint64) *changes.Reader {
	t.Helper()
	r, err := changes.Open(t.Context(), changes.Config{JS: js, Bucket: bucket, Hints: hints}, next)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func put(t *testing.T, js jetstream.JetStream, key, value string) {
	t.Helper()
	if _, err := kvbucket.New(js, bucket).Put(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// want reads updates until the keys have these values, each at least once and in this order.
func want(t *testing.T, r *changes.Reader, values ...string) {
	t.Helper()
	late := time.NewTimer(await.Patience)
	defer late.Stop()
	var got []string
	for len(got) < len(values) {
		select {
		case u := <-r.Updates():
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			for _, k := range u.Keys {
				got = append(got, k.Name+"="+string(k.Value))
			}
		case <-late.C:
			t.Fatalf("read %q, want %q", got, values)
		}
	}
	if !slices.Equal(got, values) {
		t.Errorf("read %q, want %q", got, values)
	}
}

// Changes arrive in order, from the sequence after a reading on, with the hints and without them.
func TestChangesFollowAReading(t *testing.T) {
	for name, hints := range map[string]string{"with hints": names.ChangedSubject("here", bucket), "without hints": "nothing"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := serve(t)
			put(t, js, "web", "1")
			put(t, js, "db", "1")
			contents, err := integrity.Read(t.Context(), js, bucket)
			if err != nil || len(contents.Keys) != 2 {
				t.Fatalf("Read = %+v, %v", contents, err)
			}
			put(t, js, "web", "2")
			r := open(t, js, hints, contents.Next)
			want(t, r, "web=2")
			put(t, js, "mail", "1")
			want(t, r, "mail=1")
			e, err := kvbucket.New(js, bucket).Get(t.Context(), "db")
			if err == nil {
				_, err = kvbucket.New(js, bucket).Delete(t.Context(), "db", e.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
			want(t, r, "db=")
		})
	}
}

// More changes than one page has are read without a pause.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	js := serve(t)
	var values []string
	for n := range 1200 {
		put(t, js, fmt.Sprint("app-", n), "x")
		values = append(values, fmt.Sprintf("app-%d=x", n))
	}
	want(t, open(t, js, "nothing", 1), values...)
}

// A bucket that was created again has lower sequence numbers, so its reader ends.
func TestBucketThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	js := serve(t)
	for n := range 5 {
		put(t, js, "web", fmt.Sprint(n))
	}
	r := open(t, js, names.ChangedSubject("here", bucket), 1)
	want(t, r, "web=4")
	if err := js.DeleteStream(t.Context(), kvbucket.Stream(bucket)); err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "here", 1)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	for {
		select {
		case u, ok := <-r.Updates():
			if !ok {
				t.Fatal("the reader ended without a cause")
			}
			if errors.Is(u.Err, changes.ErrReread) {
				return
			}
		case <-ctx.Done():
			t.Fatal("the reader goes on")
		}
	}
}

func TestMissingBucket(t *testing.T) {
	js := serve(t)
	_, err := changes.Open(t.Context(), changes.Config{JS: js, Bucket: "none", Hints: "none"}, 1)
	if !errors.Is(err, kvbucket.ErrMissing) {
		t.Errorf("Open = %v, want %v", err, kvbucket.ErrMissing)
	}
}
