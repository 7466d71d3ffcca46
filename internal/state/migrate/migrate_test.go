package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/state/migrate"
)

func TestMigration(t *testing.T) {
	w := newWorld(t)
	w.longRecord()
	before := w.keys("weir_here")
	apps := w.keys("weir_here_apps")
	r := w.run(w.config())

	if r.State+r.Orders != len(before) || r.Orders != 2 || r.Apps != 2 || !r.Old || len(r.Digest) != 64 {
		t.Errorf("result %+v, want %d keys, 2 of them orders, and 2 applications", r, len(before))
	}
	if diff := cmp.Diff([]migrate.PoolResult{{Pool: "batch", Records: 1}, {Pool: "web", Records: 42, Evidence: 3}}, r.Pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	now := w.keys("weir-state_here")
	maps.Copy(now, w.keys("weir-orders_here"))
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("keys (-old +new):\n%s", diff)
	}
	if diff := cmp.Diff(apps, w.keys("weir-apps_here")); diff != "" {
		t.Errorf("applications (-old +new):\n%s", diff)
	}
	records := w.records("web")
	if len(records) != 41 || records[0] != `{"tick":0}` || records[38] != `{"tick":19}` || records[40] != "long record end" {
		t.Errorf("%d records, the last is %.40q, want 41 in order", len(records), records[len(records)-1])
	}
	if diff := cmp.Diff([]string{`i-1/1000 {"n":0}`, `i-1/1001 {"n":1}`, `i-1/1002 {"n":2}`}, w.evidence("i-1")); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}

	var old, copied struct{ Epoch uint64 }
	if err := errors.Join(
		json.Unmarshal(w.last("KV_weir_here", "$KV.weir_here.lease.pool.web").Data, &old),
		json.Unmarshal(w.last("KV_weir-state_here", "$KV.weir-state_here.lease.pool.web").Data, &copied),
	); err != nil || old.Epoch != 4 || copied.Epoch != 4 {
		t.Errorf("epochs %d and %d, %v, want 4: one more than the last holder's", old.Epoch, copied.Epoch, err)
	}
	for _, bucket := range []string{"weir-state_here", "weir-orders_here"} {
		m := w.last("KV_"+bucket, "$KV."+bucket+".schema")
		if m.Sequence < 1<<32 || !strings.Contains(string(m.Data), `{"version":1,"migrated":{"from":"weir_here"`) || !strings.Contains(string(m.Data), r.Digest) {
			t.Errorf("schema %s with revision %d, want version 1 and the digest, far above the old revisions", m.Data, m.Sequence)
		}
	}
	if got := string(w.last("KV_weir_here", "$KV.weir_here.schema").Data); got != `{"version":2,"moved_to":"weir-state_here"}` {
		t.Errorf("schema of the old bucket %s, want version 2", got)
	}
	for _, subject := range []string{"$KV.weir_here.lease.pool.web", "$KV.weir_here_apps.web"} {
		if _, err := w.js.Publish(w.ctx(), subject, []byte("x")); err == nil {
			t.Errorf("an old daemon can still write %s", subject)
		}
	}

	// A second run changes nothing. The cluster and the other cluster record ticks.
	done := w.streams()
	if r := w.run(w.config()); r.Old {
		t.Errorf("the second run has the result %+v, want no old data", r)
	}
	if diff := cmp.Diff(done, w.streams()); diff != "" {
		t.Errorf("streams after the second run (-before +after):\n%s", diff)
	}
	l, err := state.CreateLedger(w.ctx(), w.js, state.LedgerConfig{Cluster: cluster, Pool: "web"})
	if err == nil {
		err = l.Append(w.ctx(), []byte("new"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := w.records("web"); len(got) != 42 || got[41] != "new" {
		t.Errorf("%d records after a new one, want 42", len(got))
	}
	w.publish("weir.there.decision.web", nil, []byte("of another cluster"))
	if got := w.last("WEIR_DECISIONS", "weir.there.decision.web"); string(got.Data) != "of another cluster" {
		t.Errorf("the other cluster's last record is %s", got.Data)
	}
}

// Records keep their times, so the age of a question applies to them.
func TestMigratedRecordsKeepTheirTimes(t *testing.T) {
	w := newWorld(t)
	w.run(w.config())
	l, err := state.OpenLedger(w.ctx(), w.js, cluster, "web")
	if err != nil {
		t.Fatal(err)
	}
	oldest := w.last("WEIR_DECISIONS", "weir.here.decision.web").Time
	n := 0
	if err := l.Since(w.ctx(), oldest, func([]byte) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d records since the last old one, %v, want 1", n, err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.streams()
	c := w.config()
	c.DryRun = true
	r := w.run(c)
	if diff := cmp.Diff(before, w.streams()); diff != "" {
		t.Errorf("streams (-before +after):\n%s", diff)
	}
	did := w.run(w.config())
	if did.Digest, did.DryRun = "", true; !cmp.Equal(r, did) {
		t.Errorf("the dry run has %+v, the migration %+v", r, did)
	}
}

func TestNothingToMigrate(t *testing.T) {
	w := newWorld(t)
	before := w.streams()
	c := w.config()
	c.Cluster = "elsewhere"
	if r, err := migrate.Run(w.ctx(), c); err != nil || r.Old {
		t.Errorf("Run = %+v, %v, want no old data", r, err)
	}
	for _, s := range before {
		if strings.HasPrefix(s, "KV_") && !strings.Contains(fmt.Sprint(w.streams()), s) {
			t.Errorf("%s has changed", s)
		}
	}
	if all := fmt.Sprint(w.streams()); strings.Contains(all, "weir-state") {
		t.Errorf("streams %s, want no new bucket", all)
	}
}

// Daemons that renew their leases keep the data. The error names the leases and their holders.
func TestRefusedWhileALeaseIsHeld(t *testing.T) {
	w := newWorld(t)
	const ttl = 5 * time.Second
	renew := func() {
		w.claim("pool.web", "host-z 17", ttl)
		w.claim("harmonizer", "host-h", ttl)
	}
	renew()
	before := w.streams()
	c := w.config()
	c.Exclusive, c.TTL = false, ttl
	var once sync.Once
	c.Progress = func(string) { once.Do(renew) }
	_, err := migrate.Run(w.ctx(), c)
	if err == nil || !strings.Contains(err.Error(), "(harmonizer by host-h, pool.web by host-z 17): stop them") {
		t.Errorf("Run = %v, want an error that names both leases and their holders", err)
	}
	if len(before) != len(w.streams()) {
		t.Errorf("streams %v, want those before", w.streams())
	}
}

// The lease of a dead process ends with its TTL.
func TestLeaseOfADeadProcess(t *testing.T) {
	w := newWorld(t)
	w.claim("pool.web", "dead", 100*time.Millisecond)
	c := w.config()
	c.Exclusive, c.TTL, c.DryRun = false, 100*time.Millisecond, true
	waits := 0
	c.Progress = func(line string) {
		if strings.Contains(line, "wait") {
			waits++
		}
	}
	w.run(c)
	if waits != 1 {
		t.Errorf("%d lines about waiting, want 1", waits)
	}
}

func TestAlarmsAreSettledFirst(t *testing.T) {
	w := newWorld(t)
	w.publish("$KV.weir_here.alarm.apps", nil, []byte(`{"reader":"apps"}`))
	if _, err := migrate.Run(w.ctx(), w.config()); err == nil || !strings.Contains(err.Error(), "(apps)") || !strings.Contains(err.Error(), "--ignore-alarms") {
		t.Errorf("Run = %v, want an error that names the reader", err)
	}
	c := w.config()
	c.IgnoreAlarms = true
	w.run(c)
	if _, has := w.keys("weir-state_here")["alarm.apps"]; has {
		t.Error("the alarm about the old bucket is in the new one")
	}
}

// A bucket that daemons of the new version use is not overwritten.
func TestBucketInUse(t *testing.T) {
	w := newWorld(t)
	if _, err := w.js.CreateStream(w.ctx(), jetstream.StreamConfig{Name: "KV_weir-state_here", Subjects: []string{"$KV.weir-state_here.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	w.publish("$KV.weir-state_here.schema", nil, []byte(`{"version":1}`))
	before := w.streams()
	if _, err := migrate.Run(w.ctx(), w.config()); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("Run = %v, want an error", err)
	}
	if diff := cmp.Diff(before, w.streams()); diff != "" {
		t.Errorf("streams (-before +after):\n%s", diff)
	}
}

// An interrupt at any line of progress releases the leases, and the next run completes the migration.
func TestInterrupt(t *testing.T) {
	whole := newWorld(t)
	lines := 0
	c := whole.config()
	c.Progress = func(string) { lines++ }
	whole.run(c)
	want := whole.contents()
	w := newWorld(t)
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(w.ctx())
		n := 0
		c := w.config()
		c.Progress = func(string) {
			if n++; n == stop {
				cancel()
			}
		}
		_, err := migrate.Run(ctx, c)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupt at line %d: %v", stop, err)
		}
		m := w.last("KV_weir_here", "$KV.weir_here.lease.pool.web")
		sealed := strings.Contains(string(w.last("KV_weir_here", "$KV.weir_here.schema").Data), `"version":2`)
		if !sealed && !strings.Contains(string(m.Data), `"released":true`) {
			t.Errorf("interrupt at line %d: the lease is %s, want a released one", stop, m.Data)
		}
		if stop > lines+5 {
			t.Fatalf("no run ends by itself after %d interrupts", stop)
		}
	}
	if diff := cmp.Diff(want, w.contents()); diff != "" {
		t.Errorf("after interrupts (-uninterrupted +got):\n%s", diff)
	}
}

// A process that is killed after any number of writes leaves data that the next run completes, with the same result. An
// old daemon that acts between two runs loses nothing.
func TestKilledAtAnyPoint(t *testing.T) {
	whole := newWorld(t)
	whole.longRecord()
	whole.run(whole.config())
	want := whole.contents()
	for world := range 2 {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.longRecord()
			kills := 0
			for range 5 {
				after := 1 + rand.IntN(250)
				killed := w.killAfter(after)
				t.Logf("kill after %d messages: %t", after, killed)
				if !killed {
					break
				}
				kills++
			}
			w.run(w.config())
			if diff := cmp.Diff(want, w.contents()); diff != "" {
				t.Errorf("after %d kills (-uninterrupted +got):\n%s", kills, diff)
			}
		})
	}
}

// killAfter runs a migration in a process, and kills it after that many of its messages. It returns false if the process
// ended before.
func (w *world) killAfter(messages int) bool {
	w.Helper()
	seen := make(chan *nats.Msg, 100_000)
	var subs []*nats.Subscription
	for _, subject := range []string{"$KV.>", "weir.>", "$JS.API.STREAM.>"} {
		sub, err := w.nc.ChanSubscribe(subject, seen)
		if err != nil {
			w.Fatal(err)
		}
		subs = append(subs, sub)
	}
	if err := w.nc.FlushWithContext(w.ctx()); err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+w.url)
	var output strings.Builder
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	killed := false
	for n := 0; ; {
		select {
		case <-seen:
			if n++; n == messages {
				killed = true
				if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
					w.Fatal(err)
				}
			}
			continue
		case err := <-ended:
			if !killed && err != nil {
				w.Errorf("the process: %v: %s", err, output.String())
			}
		case <-time.After(patience):
			w.Fatal("the process does not end")
		}
		break
	}
	for _, sub := range subs {
		if err := sub.Unsubscribe(); err != nil {
			w.Fatal(err)
		}
	}
	return killed
}
