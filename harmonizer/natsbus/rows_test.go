package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

func bucket(t *testing.T, nc *nats.Conn) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	bustest.Streams(t, js, cluster, 1)
	kv, err := js.KeyValue(ctx, message.AppsBucket(cluster))
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func set(t *testing.T, kv jetstream.KeyValue, app string, instances int) {
	t.Helper()
	data, err := json.Marshal(api.App{Name: app, Pool: "default", Instances: instances, Version: "v1", Command: "run", CPUs: 0.5, Mem: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), app, data); err != nil {
		t.Fatal(err)
	}
}

// watchRows collects what the source reports.
func watchRows(t *testing.T, nc *nats.Conn) <-chan apps.Event {
	t.Helper()
	return watchRowsAs(t, nc, RowsConfig{Cluster: cluster, Folder: t.TempDir()})
}

// watchRowsAs is watchRows with that configuration.
func watchRowsAs(t *testing.T, nc *nats.Conn, c RowsConfig) <-chan apps.Event {
	t.Helper()
	rows, err := NewRows(nc, c, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan apps.Event, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- rows.Watch(ctx, func(ctx context.Context, ev apps.Event) error { events <- ev; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return events
}

func next(t *testing.T, events <-chan apps.Event) string {
	t.Helper()
	select {
	case ev := <-events:
		switch ev := ev.(type) {
		case apps.ExpectedRows:
			var parts []string
			for _, row := range ev.Rows {
				parts = append(parts, fmt.Sprintf("%s=%d", row.Name, row.Instances))
			}
			return "rows " + strings.Join(parts, " ")
		case apps.ExpectedLost:
			return "lost"
		default:
			return strings.TrimPrefix(fmt.Sprintf("%T %v", ev, ev), "apps.Expected")
		}
	case <-time.After(deadline):
		t.Fatal("the source tells nothing")
	}
	return ""
}

func TestRows(t *testing.T) {
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	kv := bucket(t, nc)
	set(t, kv, "api", 1)
	set(t, kv, "web", 2)
	for key, value := range map[string]string{"bad": `{"name":"bad","pool":"p","instances":-4}`, "other": `{"name":"web","pool":"p"}`} {
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	set(t, kv, "job", 3)
	events := watchRows(t, nc)
	expect := func(want string) {
		t.Helper()
		if got := next(t, events); got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
	expect("rows api=1 web=2")
	got := map[string]bool{next(t, events): true, next(t, events): true}
	if want := map[string]bool{"Unreadable {bad}": true, "Unreadable {other}": true}; !cmp.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
	expect("rows job=3")
	expect("Complete {0s}")
	set(t, kv, "web", 5)
	expect("rows web=5")
	if err := kv.Delete(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	expect("Gone {web}")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), message.AppsBucket(cluster)); err != nil {
		t.Fatal(err)
	}
	expect("lost") // the bucket is missing: not the same as no apps
	bucket(t, nc)
	first := next(t, events)
	for first == "lost" { // again, before the bucket was there
		first = next(t, events)
	}
	if first != "Unreadable {api}" {
		t.Errorf("reported %q, want that api is unreadable", first)
	}
	for _, app := range []string{"bad", "job", "other"} {
		expect("Unreadable {" + app + "}")
	}
	expect("Complete {0s}")
}

func TestRowsAreReportedInSlices(t *testing.T) {
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	kv := bucket(t, nc)
	for i := range 2*slice + 1 {
		set(t, kv, fmt.Sprintf("app-%d", i), 1)
	}
	events := watchRows(t, nc)
	for _, want := range []int{slice, slice, 1} {
		if rows, ok := (<-events).(apps.ExpectedRows); !ok || len(rows.Rows) != want {
			t.Fatalf("reported %d rows, want %d", len(rows.Rows), want)
		}
	}
	if got := next(t, events); got != "Complete {0s}" {
		t.Errorf("reported %q at the end", got)
	}
}

// Rows whose check is switched off by an empty field are refused.
func TestRowsConfig(t *testing.T) {
	for _, c := range []struct {
		config RowsConfig
		want   string // of the error; empty: none
	}{
		{RowsConfig{Folder: "seen"}, ""},
		{RowsConfig{Forget: true}, ""},
		{RowsConfig{}, "RowsConfig.Folder is empty"},
		{RowsConfig{Folder: "seen", Forget: true}, "give one of them"},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

// A source creates no bucket: it waits.
func TestRowsCreateNoBucket(t *testing.T) {
	nc := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	events := watchRowsAs(t, nc, RowsConfig{Cluster: cluster, Forget: true})
	if got := next(t, events); got != "lost" {
		t.Errorf("reported %q without a bucket, want lost", got)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.KeyValue(t.Context(), message.AppsBucket(cluster)); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the bucket: %v, want that it is missing", err)
	}
	bucket(t, nc)
	for got := next(t, events); got != "Complete {0s}"; got = next(t, events) {
		if got != "lost" {
			t.Fatalf("reported %q, want Complete after the bucket is created", got)
		}
	}
}
