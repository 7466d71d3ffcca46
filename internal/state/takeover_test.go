package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
)

// hold acquires the lease under that name and takes the pool over. A second process of the same name does so while
// the first still counts itself the holder. That is how these tests make an intruder.
func hold(t *testing.T, js jetstream.JetStream, name string) *state.Holder {
	t.Helper()
	h, err := state.OpenHolder(t.Context(), js, leased(t, js, name), nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func leased(t *testing.T, js jetstream.JetStream, name string) *state.Lease {
	t.Helper()
	l := newLease(t, js, name, long)
	acquired(t, l)
	return l
}

func recordOf(node string) api.Drain {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return api.Drain{
		Node: node, Group: "blue", Weight: 1.5, State: api.DrainDraining, Reason: api.DrainScaleIn,
		Since: at, Deadline: at.Add(time.Hour), Why: "waiting for its tasks",
	}
}

func put(t *testing.T, h *state.Holder, records ...api.Drain) {
	t.Helper()
	for _, r := range records {
		if err := h.Records().Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRecords(t *testing.T, h *state.Holder, want ...api.Drain) {
	t.Helper()
	got, err := h.Records().Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func save(t *testing.T, h *state.Holder, data string) {
	t.Helper()
	if err := h.Memory().Save(t.Context(), []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// wantSaved checks the last saved state; "" means nothing was saved.
func wantSaved(t *testing.T, h *state.Holder, want string) {
	t.Helper()
	got, ok, err := h.Memory().Load(t.Context())
	if string(got) != want || ok != (want != "") || err != nil {
		t.Errorf("Load = %.80q, %t, %v, want %.80q", got, ok, err, want)
	}
}

func TestTakeover(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	js := server.JetStream()
	a := hold(t, js, "a")
	wantSaved(t, a, "")
	wantRecords(t, a)
	save(t, a, `{"clock": "<now>"}`)
	put(t, a, recordOf("i-1"), recordOf("i-2"))
	wantSaved(t, a, `{"clock": "<now>"}`)
	wantRecords(t, a, recordOf("i-1"), recordOf("i-2"))
	server.Close()

	js = open(t, data).JetStream()
	b := hold(t, js, "a")
	wantSaved(t, b, `{"clock": "<now>"}`)
	wantRecords(t, b, recordOf("i-1"), recordOf("i-2"))
	for _, key := range []string{"state", "drain.i-1", "drain.i-2"} {
		if value, _ := raw(t, js, key); !strings.HasPrefix(value, `{"epoch":2}`+"\n{") {
			t.Errorf("%s is %q, want it with epoch 2", key, value)
		}
	}
}

func TestLateWritesAreRefused(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	save(t, a, "first")
	put(t, a, recordOf("i-1"), recordOf("i-2"))
	b := hold(t, js, "a") // a was halted and still counts itself the holder
	save(t, b, "second")
	if err := b.Records().Delete(t.Context(), "i-2"); err != nil {
		t.Fatal(err)
	}
	before := contents(t, js)

	late := recordOf("i-1")
	late.State = api.DrainTerminating
	wantNotHolder(t, "a's Save", a.Memory().Save(t.Context(), []byte("late")))
	wantNotHolder(t, "a's Put of one that there is", a.Records().Put(t.Context(), late))
	wantNotHolder(t, "a's Put of one that is gone", a.Records().Put(t.Context(), recordOf("i-2")))
	wantNotHolder(t, "a's Delete", a.Records().Delete(t.Context(), "i-1"))
	wantNotHolder(t, "a's Delete of one that is gone", a.Records().Delete(t.Context(), "i-2"))
	if diff := cmp.Diff(before, contents(t, js)); diff != "" {
		t.Errorf("the bucket has changed:\n%s", diff)
	}
	wantSaved(t, b, "second")
	wantRecords(t, b, recordOf("i-1"))
}

// Creating a missing key compares no epoch.
func TestLateNewRecordIsDiscarded(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	b := hold(t, js, "a")
	put(t, b, recordOf("i-1"))
	late, other := recordOf("i-2"), recordOf("i-3")
	late.Why = "late"
	other.Why = "late too"
	put(t, a, late, other)
	wantRecords(t, b, recordOf("i-1"))
	put(t, b, recordOf("i-3")) // b writes a record of the same node
	wantNotHolder(t, "a's next Put of it", a.Records().Put(t.Context(), other))

	var told bytes.Buffer
	l, err := state.NewLease(js, state.LeaseConfig{
		Bucket: poolBucket, Holder: "a", TTL: long, Log: slog.New(slog.NewTextHandler(&told, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	acquired(t, l)
	c, err := state.OpenHolder(t.Context(), js, l, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, c, recordOf("i-1"), recordOf("i-3"))
	if _, found := raw(t, js, "drain.i-2"); found {
		t.Error("the late record is still there")
	}
	if !strings.Contains(told.String(), "drain.i-2") || strings.Contains(told.String(), "drain.i-3") {
		t.Errorf("log: %s, want that of i-2 alone", told.String())
	}
}

// A write of the last holder before its key was rewritten counts: the holder may have acted on it.
func TestWritesDuringATakeoverCount(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	put(t, a, recordOf("i-1"), recordOf("i-2"), recordOf("i-3"))
	save(t, a, "first")
	l := leased(t, js, "a")
	changed := recordOf("i-1")
	changed.State = api.DrainTerminating
	b, err := state.OpenHolder(t.Context(), failing{JetStream: js, before: func(key string) error {
		switch key {
		case "drain.i-1":
			if value, _ := raw(t, js, key); !strings.Contains(value, "terminating") {
				put(t, a, changed)
				if err := a.Records().Delete(t.Context(), "i-2"); err != nil {
					t.Errorf("Delete = %v", err)
				}
			}
		case "state":
			if value, _ := raw(t, js, key); strings.Contains(value, "first") {
				save(t, a, "saved last")
			}
		}
		return nil
	}}, l, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantRecords(t, b, changed, recordOf("i-3"))
	wantSaved(t, b, "saved last")
}

func TestTakeoverThatDies(t *testing.T) {
	for dies := range 9 {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("at write %d, written %t", dies, written), func(t *testing.T) {
				js := js(t)
				a := hold(t, js, "a")
				want := []api.Drain{recordOf("i-1"), recordOf("i-2"), recordOf("i-3")}
				put(t, a, want...)
				save(t, a, "saved")
				n := 0
				die := func(string) error {
					if n++; n > dies {
						return errAway
					}
					return nil
				}
				f := failing{JetStream: js, before: die}
				if written {
					f = failing{JetStream: js, after: die}
				}
				if _, err := state.OpenHolder(t.Context(), f, leased(t, js, "a"), nil, "here", "web"); (err != nil) != (dies < 6) {
					t.Fatalf("OpenHolder = %v", err)
				}
				c := hold(t, js, "a")
				wantRecords(t, c, want...)
				wantSaved(t, c, "saved")
			})
		}
	}
}

// After a lost answer the current revision is unknown.
func TestLostAnswers(t *testing.T) {
	js := js(t)
	lost := false
	f := failing{JetStream: js, after: func(key string) error {
		if lost && !strings.HasPrefix(key, "lease.") {
			lost = false
			return errAway
		}
		return nil
	}}
	h, err := state.OpenHolder(t.Context(), f, leased(t, js, "a"), nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	save(t, h, "first")
	lost = true
	if err := h.Memory().Save(t.Context(), []byte("second")); !errors.Is(err, errAway) {
		t.Errorf("Save = %v, want %v", err, errAway)
	}
	wantSaved(t, h, "first") // the acknowledged value
	save(t, h, "third")
	lost = true
	if err := h.Records().Put(t.Context(), recordOf("i-1")); !errors.Is(err, errAway) {
		t.Errorf("Put = %v, want %v", err, errAway)
	}
	wantRecords(t, h)
	put(t, h, recordOf("i-1"))
	lost = true
	if err := h.Records().Put(t.Context(), recordOf("i-1")); !errors.Is(err, errAway) {
		t.Errorf("Put = %v, want %v", err, errAway)
	}
	if err := h.Records().Delete(t.Context(), "i-1"); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if _, found := raw(t, js, "drain.i-1"); found {
		t.Error("it is still there")
	}
	wantSaved(t, hold(t, js, "a"), "third")
}

func TestHigherEpochsAreNotOverwritten(t *testing.T) {
	for _, key := range []string{"state", "health", "drain.i-1"} {
		t.Run(key, func(t *testing.T) {
			js := js(t)
			a := hold(t, js, "a")
			put(t, a, recordOf("i-1"))
			save(t, a, "saved")
			value, _ := raw(t, js, key)
			putRaw(t, js, key, strings.Replace(value, `{"epoch":1}`, `{"epoch":99}`, 1))
			l := leased(t, js, "a")
			before := contents(t, js)[key]
			_, err := state.OpenHolder(t.Context(), js, l, nil, "here", "web")
			wantNotHolder(t, "OpenHolder", err)
			if diff := cmp.Diff(before, contents(t, js)[key]); diff != "" {
				t.Errorf("it has changed:\n%s", diff)
			}
		})
	}
}

func TestHolderWithoutALease(t *testing.T) {
	js := js(t)
	none := newLease(t, js, "a", long)
	_, err := state.OpenHolder(t.Context(), js, none, nil, "here", "web")
	wantNotHolder(t, "OpenHolder with a lease that was not acquired", err)

	l := newLease(t, js, "a", 10*short) // OpenHolder writes within it
	acquired(t, l)
	h, err := state.OpenHolder(t.Context(), js, l, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the lease runs out", func() bool { return l.Left() == 0 })
	before := contents(t, js)
	wantAllRefused(t, h)
	acquired(t, l) // another term
	wantAllRefused(t, h)
	delete(before, "lease")
	after := contents(t, js)
	delete(after, "lease")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the bucket has changed:\n%s", diff)
	}
}

func wantAllRefused(t *testing.T, h *state.Holder) {
	t.Helper()
	wantNotHolder(t, "Save", h.Memory().Save(t.Context(), []byte("late")))
	_, _, err := h.Memory().Load(t.Context())
	wantNotHolder(t, "Memory's Load", err)
	wantNotHolder(t, "Save of health", h.Health().Save(t.Context(), []byte("late")))
	_, _, err = h.Health().Load(t.Context())
	wantNotHolder(t, "Health's Load", err)
	_, err = h.Records().Load(t.Context())
	wantNotHolder(t, "Records' Load", err)
	wantNotHolder(t, "Put", h.Records().Put(t.Context(), recordOf("i-1")))
	wantNotHolder(t, "Delete", h.Records().Delete(t.Context(), "i-1"))
}

func TestUnreadableRecordsAreNamed(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"no JSON", "\x00garbage", "drain.i-2: its first line with the epoch is missing"},
		{"nothing", "", "drain.i-2: its first line with the epoch is missing"},
		{"no head", "{}}\n{}", "drain.i-2: its first line: want one JSON value"},
		{"an empty head", "{}\n{}", "drain.i-2: it belongs to node"},
		{"another head", `{"epoch":1,"zstd":true}` + "\n{}", "drain.i-2: its first line: json: unknown field"},
		{"an epoch out of range", `{"epoch":18446744073709551615}` + "\n{}", "drain.i-2: its first line: epoch"},
		{"not packed", `{"epoch":1,"gzip":true}` + "\n{}", "drain.i-2: unpack"},
		{"another type", `{"epoch":1}` + "\n" + `{"node":"i-2","weight":"heavy"}`, "drain.i-2: json: cannot unmarshal string"},
		{"another node", `{"epoch":1}` + "\n" + `{"node":"i-9"}`, `drain.i-2: it belongs to node "i-9"`},
	}
	js := js(t)
	put(t, hold(t, js, "a"), recordOf("i-1"))
	l := leased(t, js, "a")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			putRaw(t, js, "drain.i-2", test.value)
			putRaw(t, js, "drain.i-4", test.value)
			before := contents(t, js)
			_, err := state.OpenHolder(t.Context(), js, l, nil, "here", "web")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "drain.i-4: ") {
				t.Errorf("OpenHolder = %v, want an error that has %q, and names i-4", err, test.want)
			}
			if diff := cmp.Diff(before, contents(t, js)); diff != "" {
				t.Errorf("the bucket has changed:\n%s", diff)
			}
		})
	}
}

// A record in a state of a later version is loaded; its machine is left alone.
func TestUnknownStateIsLoaded(t *testing.T) {
	h := hold(t, js(t), "a")
	later := recordOf("i-1")
	later.State = "migrating"
	put(t, h, later)
	wantRecords(t, h, later)
}

func TestPoolsDoNotMix(t *testing.T) {
	js := js(t, "web-2", "we")
	var holders []*state.Holder
	pools := []string{"web", "web-2", "we"}
	for _, pool := range pools {
		l, err := state.NewLease(js, state.LeaseConfig{Bucket: names.PoolBucket("here", pool), Holder: "a", TTL: long, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		acquired(t, l)
		h, err := state.OpenHolder(t.Context(), js, l, nil, "here", pool)
		if err != nil {
			t.Fatal(err)
		}
		put(t, h, recordOf("of-"+pool), recordOf("shared"))
		save(t, h, pool)
		holders = append(holders, h)
	}
	if err := holders[0].Records().Delete(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, holders[0], recordOf("of-web"))
	for i, pool := range pools[1:] {
		wantRecords(t, holders[i+1], recordOf("of-"+pool), recordOf("shared"))
		wantSaved(t, holders[i+1], pool)
	}
}

func TestNodeNames(t *testing.T) {
	js := js(t)
	h := hold(t, js, "a")
	dotted := recordOf("ip-10-0-0-1.ec2.internal")
	put(t, h, dotted)
	for _, node := range []string{"", "a b", "*", ">", "a.*", "ä", ".", "a.", "a..b", strings.Repeat("x", 300)} {
		if err := h.Records().Put(t.Context(), recordOf(node)); err == nil {
			t.Errorf("Put of node %q = nil, want an error", node)
		}
		if err := h.Records().Delete(t.Context(), node); err == nil {
			t.Errorf("Delete of node %q = nil, want an error", node)
		}
	}
	wantRecords(t, hold(t, js, "a"), dotted)
}

func TestSizesOfState(t *testing.T) {
	js := js(t)
	h := hold(t, js, "a")
	large := strings.Repeat("i-0123456789abcdef0,", 200_000) // 4 MB
	save(t, h, large)
	for name, data := range map[string][]byte{"nothing": nil, "too much": make([]byte, 8<<20+1)} {
		if err := h.Memory().Save(t.Context(), data); err == nil {
			t.Errorf("Save of %s = nil, want an error", name)
		}
	}
	if value, _ := raw(t, js, "state"); len(value) > 256<<10 {
		t.Errorf("%d bytes in the bucket, want them packed", len(value))
	}
	wantSaved(t, hold(t, js, "a"), large)
	wordy := recordOf("i-1")
	wordy.Why = strings.Repeat("x", 1<<20)
	if err := h.Records().Put(t.Context(), wordy); err == nil {
		t.Error("Put of a megabyte = nil, want an error")
	}
}

// TestManyRecords also shows that a deleted record leaves a marker that ends.
func TestManyRecords(t *testing.T) {
	js := js(t)
	h := hold(t, js, "a")
	var want []api.Drain
	for i := range 600 { // more than the client buffers
		want = append(want, recordOf(fmt.Sprintf("i-%04d", i)))
	}
	done := make(chan error, 4)
	for part := range 4 {
		go func() {
			var errs []error
			for i := part; i < len(want); i += 4 {
				errs = append(errs, h.Records().Put(t.Context(), want[i]))
			}
			done <- errors.Join(errs...)
		}()
	}
	for range 4 {
		if err := result(t, "all are put", done); err != nil {
			t.Fatal(err)
		}
	}
	h = hold(t, js, "a")
	wantRecords(t, h, want...)
	for _, r := range want {
		for range 2 { // the second time it is missing
			if err := h.Records().Delete(t.Context(), r.Node); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantRecords(t, h)
	for key, m := range contents(t, js) {
		if strings.HasPrefix(key, "drain.") && len(m.Data) > 0 {
			t.Errorf("%s still has a value", key)
		}
	}
	stream, err := js.Stream(t.Context(), "KV_"+poolBucket)
	if err != nil {
		t.Fatal(err)
	}
	marker, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+poolBucket+".drain."+want[0].Node)
	if err != nil || marker.Header.Get("Nats-TTL") != "1h0m0s" {
		t.Errorf("the marker is %v, %v, want one that ends after an hour", marker, err)
	}
	put(t, h, want[0]) // a new node of that name
	wantRecords(t, h, want[0])
}

func TestHolderWithoutNATS(t *testing.T) {
	data := t.TempDir()
	server := open(t, data)
	p := newProxy(t, data)
	_, through := p.connect(t)
	h := hold(t, through, "a")
	save(t, h, "before")
	p.setCut(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{
		"Save": h.Memory().Save(ctx, []byte("in vain")),
		"Put":  h.Records().Put(ctx, recordOf("i-1")),
	} {
		if err == nil || errors.Is(err, pools.ErrNotHolder) {
			t.Errorf("%s = %v, want an error of the bus", name, err)
		}
	}
	p.setCut(false)
	save(t, h, "after")
	put(t, h, recordOf("i-1"))
	wantSaved(t, hold(t, server.JetStream(), "a"), "after")
}
