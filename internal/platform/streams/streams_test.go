package streams_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

var prod = streams.Cluster{Name: "prod", Pools: []streams.Pool{{Name: "web"}, {Name: "batch", LedgerAge: time.Hour}}}

func serve(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(bustest.Connect(t, bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Each bucket and each stream of the table of roles has a specification, and no other exists. None lets a client remove or
// replace stored messages, and each is bounded.
func TestSpecsAreThoseOfTheRoles(t *testing.T) {
	var want, got []string
	for _, pool := range []string{"web", "batch"} {
		for _, k := range roles.Keys() {
			want = append(want, kvbucket.Stream(k.Bucket("prod", pool)))
		}
		for _, s := range roles.Streams() {
			want = append(want, s.Name("prod", pool))
		}
	}
	slices.Sort(want)
	for _, spec := range prod.Specs() {
		got = append(got, spec.Name)
		if spec.AllowRollup || !spec.DenyDelete || !spec.DenyPurge || spec.MaxBytes <= 0 || spec.Duplicates <= 0 || !spec.AllowDirect {
			t.Errorf("%+v: want no roll-up, deletion and purge, bytes, a window, and direct gets", spec)
		}
	}
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("specifications of %q, want %q", got, want)
	}
}

// Create makes the missing streams, and writes the schema of buckets. A second run changes nothing, and names the settings that differ.
func TestCreate(t *testing.T) {
	js := serve(t)
	specs := prod.Specs()
	first, err := streams.Create(t.Context(), js, specs)
	if err != nil || len(first) != len(specs) || slices.ContainsFunc(first, func(r streams.Result) bool { return !r.Made }) {
		t.Fatalf("Create = %+v, %v, want %d made", first, err, len(specs))
	}
	bucket := kvbucket.New(js, names.PoolBucket("prod", "web"))
	schema, err := bucket.Get(t.Context(), streams.SchemaKey)
	if err != nil || string(schema.Value) != `{"version":1}` || schema.Revision != 1 {
		t.Errorf("schema %s, revision %d, %v", schema.Value, schema.Revision, err)
	}
	if apps, err := kvbucket.New(js, names.AppsBucket("prod")).Get(t.Context(), streams.SchemaKey); err != nil || apps.Found {
		t.Errorf("the bucket of applications has a schema, %v: it would be an application", err)
	}
	if _, err := bucket.Put(t.Context(), "state", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	other := prod
	other.Pools = []streams.Pool{{Name: "web", LedgerBytes: 1 << 20}}
	again, err := streams.Create(t.Context(), js, other.Specs())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range again {
		var want []string
		if r.Name == names.LedgerStream("prod", "web") {
			want = []string{"max_bytes is 536870912, want 1048576"}
		}
		if r.Made || !slices.Equal(r.Differs, want) {
			t.Errorf("the second run: %+v, want %q", r, want)
		}
	}
	if e, err := bucket.Get(t.Context(), "state"); err != nil || string(e.Value) != "kept" {
		t.Errorf("after the second run the state is %q, %v", e.Value, err)
	}
}

// The streams of a pool that was taken away are removed, and no others.
func TestRemove(t *testing.T) {
	js := serve(t)
	c := streams.Cluster{Name: "prod", Pools: []streams.Pool{{Name: "batch"}, {Name: "web"}}}
	if _, err := streams.Create(t.Context(), js, c.Specs()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{5, 0} {
		if got, err := streams.Remove(t.Context(), js, "prod", c.Pools[0]); len(got) != want || err != nil {
			t.Errorf("Remove = %q, %v, want %d", got, err, want)
		}
	}
	var left []string
	for name := range js.StreamNames(t.Context()).Name() {
		left = append(left, name)
	}
	if want := len(c.Specs()) - 5; len(left) != want || strings.Contains(strings.Join(left, " "), "batch") {
		t.Errorf("%q are left, want %d without those of pool batch", left, want)
	}
}

// Servers or a data folder with the buckets of an earlier layout get no new ones beside them.
func TestEarlierLayoutIsNamed(t *testing.T) {
	js := serve(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_weir-state_prod", Subjects: []string{"$KV.weir-state_prod.>"}}); err != nil {
		t.Fatal(err)
	}
	_, err := streams.Create(t.Context(), js, prod.Specs())
	if err == nil || !strings.Contains(err.Error(), "KV_weir-state_prod") || !strings.Contains(err.Error(), "use an empty data folder") {
		t.Errorf("Create = %v, want an error that names the stream and what to do", err)
	}
}

// A bucket of the client library permits what a specification forbids.
func TestDifferencesAreNamed(t *testing.T) {
	js := serve(t)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: names.AppsBucket("prod"), History: 5}); err != nil {
		t.Fatal(err)
	}
	got, err := streams.Create(t.Context(), js, []jetstream.StreamConfig{prod.Apps()})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(got[0].Differs, "\n")
	for _, want := range []string{"allow_rollup_hdrs is true, want false", "deny_purge is false, want true", "max_msgs_per_subject is 5, want 1", "republish is nothing, want $KV.weir-apps_prod.>"} {
		if !strings.Contains(text, want) {
			t.Errorf("differences:\n%s\nwant %q", text, want)
		}
	}
}

// Of several admins that create the streams at once, all succeed.
func TestCreateConcurrently(t *testing.T) {
	js := serve(t)
	failed := make(chan error)
	for range 4 {
		go func() {
			_, err := streams.Create(t.Context(), js, streams.Cluster{Name: "prod"}.Specs())
			failed <- err
		}()
	}
	for range 4 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// What a stream stores arrives at its live subject: records, summaries and findings, and no parts.
func TestRepublished(t *testing.T) {
	js := serve(t)
	if _, err := streams.Create(t.Context(), js, prod.Specs()); err != nil {
		t.Fatal(err)
	}
	live, err := js.Conn().SubscribeSync("weir.prod.live.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"decision.web.part", "decision.web", "summary.web", "health.web.events", "harmonizer.events"} {
		if _, err := js.Publish(t.Context(), "weir.prod."+subject, []byte(subject)); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(subject, ".part") {
			continue
		}
		m, err := live.NextMsg(time.Minute)
		if err != nil || m.Subject != "weir.prod.live."+subject || string(m.Data) != subject {
			t.Errorf("live: %v, %v, want %s", m, err, subject)
		}
	}
}

// Batches have all messages in order, how many follow, and which of them another client made the server store.
func TestBatch(t *testing.T) {
	js := serve(t)
	stream := names.SummaryStream("prod", "web")
	if _, _, err := streams.Batch(t.Context(), js, stream, streams.Request{Sequence: 1, Subject: ">", Count: 2}); !errors.Is(err, kvbucket.ErrMissing) {
		t.Errorf("Batch of a missing stream = %v, want %v", err, kvbucket.ErrMissing)
	}
	if _, err := streams.Create(t.Context(), js, prod.Specs()); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		m := nats.NewMsg("weir.prod.summary.web")
		m.Data = fmt.Append(nil, n)
		if n == 3 {
			m.Header.Set("Nats-Sequence", "1")
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	next := uint64(1)
	for _, want := range []struct {
		texts   string
		pending uint64
		forged  int
	}{{"0 1", 3, 0}, {"2 3", 1, 1}, {"4", 0, 0}, {"", 0, 0}} {
		messages, pending, err := streams.Batch(t.Context(), js, stream, streams.Request{Sequence: next, Subject: ">", Count: 2})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		forged := 0
		for _, m := range messages {
			texts, next = append(texts, string(m.Data)), m.Sequence+1
			if m.Forged {
				forged++
			}
		}
		if strings.Join(texts, " ") != want.texts || pending != want.pending || forged != want.forged {
			t.Errorf("Batch = %q, %d pending, %d forged, want %+v", texts, pending, forged, want)
		}
	}
}

func TestCreateEndsWithItsContext(t *testing.T) {
	nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL()) // without JetStream
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if results, err := streams.Create(ctx, js, prod.Specs()); err == nil || len(results) != 0 {
		t.Errorf("Create without JetStream = %v, %v, want an error", results, err)
	}
}
