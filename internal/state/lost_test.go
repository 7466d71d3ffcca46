package state_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// TestRunningProcessAfterAnEmptyStore deletes the bucket while a pool's process runs, as if the servers came back with empty
// disks. The term ends, and no process creates the bucket: each error names the command that does. Then the same process holds
// the next term without state, and every store works again.
func TestRunningProcessAfterAnEmptyStore(t *testing.T) {
	js := js(t)
	lease := newLease(t, js, "a", 10*time.Second) // renewed each 2 s
	acquired(t, lease)
	_, ended := run(t, lease)
	h, err := state.OpenHolder(t.Context(), js, lease, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	save(t, h, "before")
	put(t, h, recordOf("i-1"))
	orders := openOrders(t, js, "web")
	if err := orders.Pause(t.Context(), note(noon)); err != nil {
		t.Fatal(err)
	}
	trials, err := state.OpenTrials(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	lose(t, js, poolBucket)
	_, errList := orders.List(t.Context())
	_, errOpen := state.OpenOrders(t.Context(), js, "here", "web")
	for what, err := range map[string]error{
		"List": errList, "OpenOrders": errOpen, "Save of a trial": trials.Save(t.Context(), api.Trial{App: "shop"}), "Save of the state": h.Memory().Save(t.Context(), []byte("late")),
	} {
		if !errors.Is(err, kvbucket.ErrMissing) || !strings.Contains(err.Error(), "weir nats streams") || !strings.Contains(err.Error(), poolBucket) {
			t.Errorf("%s without a bucket = %v, want the bucket and the command that creates it", what, err)
		}
	}
	if got, err := state.ReadOrders(t.Context(), js, "here", "web"); err != nil || !got.Empty() {
		t.Errorf("ReadOrders = %+v, %v, want no orders", got, err)
	}
	for s := range js.ListStreams(t.Context()).Info() {
		if s.Config.Name == "KV_"+poolBucket {
			t.Error("a process created the bucket")
		}
	}
	bustest.Streams(t, js, "here", 1, "web")
	wantOrders(t, orders, noon, api.Orders{})
	wantNotHolder(t, "the term ends", result(t, "the term ends", ended))
	if err := h.Memory().Save(t.Context(), []byte("late")); err == nil {
		t.Error("the former holder still saves its state")
	}
	acquired(t, lease)
	run(t, lease)
	next, err := state.OpenHolder(t.Context(), js, lease, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantSaved(t, next, "")
	wantRecords(t, next)
	save(t, next, "after")
	put(t, next, recordOf("i-2"))
	if err := trials.Save(t.Context(), api.Trial{App: "shop"}); err != nil {
		t.Errorf("Save of a trial = %v", err)
	}
}

// A standby that has seen a holder waits for the holder's TTL, also if the whole bucket is lost: the holder has no record of
// it before its next renewal.
func TestStandbyWaitsForAHolderWhoseLeaseIsLost(t *testing.T) {
	t.Parallel()
	js := js(t)
	a, b := newLease(t, js, "a", 2*time.Second), newLease(t, js, "b", 2*time.Second)
	acquired(t, a)
	taken := acquire(t, b)
	await.True(t, "b has seen a", func() bool { holder, _ := b.Standby(); return holder == "a" })
	lose(t, js, poolBucket)
	bustest.Streams(t, js, "here", 1, "web")
	if err := result(t, "b has the lease", taken); err != nil {
		t.Fatal(err)
	}
	if left := a.Left(); left != 0 {
		t.Errorf("b took over while a had %v left", left)
	}
}

// Without records of seen revisions, the orders still show when the bucket was created.
func TestNewStateShowsWithoutSeenRevisions(t *testing.T) {
	js := js(t)
	before := hold(t, js, "a")
	save(t, before, "before")
	stream, err := kvbucket.Check(t.Context(), js, poolBucket)
	if err != nil {
		t.Fatal(err)
	}
	was := stream.CachedInfo().Created
	lose(t, js, poolBucket)
	bustest.Streams(t, js, "here", 1, "web")
	hold(t, js, "a")
	orders := openOrders(t, js, "web")
	g, err := state.OpenGuard(js, "here", "web", t.TempDir(), "test", testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if _, err := g.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := orders.Guarded(g).Read(t.Context(), noon)
	if err != nil || !got.StateCreated.After(was) || got.LossSuspected != "" {
		t.Errorf("orders %+v, %v, want a bucket that was created after %v", got, err, was)
	}
}

// With the permissions of one pool's bucket, a pool takes over its state.
func TestTakeoverWithPermissionsOfOnePool(t *testing.T) {
	allow := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	publish := []string{
		"$KV." + poolBucket + ".>", "$JS.API.STREAM.INFO.KV_" + poolBucket,
		"$JS.API.DIRECT.GET.KV_" + poolBucket, "$JS.API.DIRECT.GET.KV_" + poolBucket + ".$KV." + poolBucket + ".>",
	}
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "all", Password: "all", Permissions: &server.Permissions{Publish: allow(">"), Subscribe: allow(">")}},
		{Username: "web", Password: "web", Permissions: &server.Permissions{Publish: allow(publish...), Subscribe: allow("_INBOX.>")}},
	}})
	var all [2]jetstream.JetStream
	for i, user := range []string{"all", "web"} {
		nc := bustest.Connect(t, s.ClientURL(), nats.UserInfo(user, user), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if user == "web" {
				t.Errorf("refused: %v", err)
			}
		}))
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = js
	}
	bustest.Streams(t, all[0], "here", 1, "web")
	put(t, hold(t, all[0], "a"), recordOf("i-1"), recordOf("i-2"))
	openOrders(t, all[0], "web")
	h := hold(t, all[1], "a")
	wantRecords(t, h, recordOf("i-1"), recordOf("i-2"))
	save(t, h, "state")
	if err := h.Records().Delete(t.Context(), "i-1"); err != nil {
		t.Error(err)
	}
	orders := openOrders(t, all[1], "web")
	if err := orders.Remove(t.Context(), api.Removal{Note: note(noon), Node: "i-2"}); err != nil {
		t.Error(err)
	}
	if err := orders.Removed(t.Context(), "i-2"); err != nil {
		t.Error(err)
	}
	wantOrders(t, orders, noon, api.Orders{})
}
