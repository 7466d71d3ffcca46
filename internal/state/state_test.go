package state_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open runs the bus of that folder until the test ends, or it is closed.
func open(t *testing.T, data string) *bus.Bus {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: t.Name(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func openLedger(t *testing.T, b *bus.Bus, cluster, pool string) *state.Ledger {
	t.Helper()
	l, err := state.OpenLedger(t.Context(), b.JetStream(), cluster, pool)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openDrains(t *testing.T, b *bus.Bus, cluster, pool string) *state.Drains {
	t.Helper()
	d, err := state.OpenDrains(t.Context(), b.JetStream(), cluster, pool)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func appendRecords(t *testing.T, l *state.Ledger, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := l.Append(t.Context(), []byte(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantLast checks the newest record; "" is none.
func wantLast(t *testing.T, l *state.Ledger, want string) {
	t.Helper()
	got, err := l.Last(t.Context())
	if want == "" && errors.Is(err, state.ErrNoRecord) {
		return
	}
	if string(got) != want || err != nil {
		t.Errorf("Last = %q, %v, want %q", got, err, want)
	}
}

func recordOf(node string) drain.Record {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return drain.Record{
		Node: node, Group: "blue", Weight: 1.5, State: drain.Draining, Reason: drain.ScaleIn,
		Since: at, Deadline: at.Add(time.Hour), Why: "waiting for its tasks",
	}
}

func put(t *testing.T, d *state.Drains, records ...drain.Record) {
	t.Helper()
	for _, r := range records {
		if err := d.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRecords(t *testing.T, d *state.Drains, want ...drain.Record) {
	t.Helper()
	got, err := d.Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	byNode := cmpopts.SortSlices(func(a, b drain.Record) bool { return a.Node < b.Node })
	if diff := cmp.Diff(want, got, byNode, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestLedger(t *testing.T) {
	b := open(t, t.TempDir())
	l := openLedger(t, b, "here", "default")
	wantLast(t, l, "")
	appendRecords(t, l, "one", "two")
	wantLast(t, l, "two")
}

func TestLedgerSurvivesTheBus(t *testing.T) {
	data := t.TempDir()
	b := open(t, data)
	l := openLedger(t, b, "here", "default")
	appendRecords(t, l, "one")
	b.Close()
	if err := l.Append(t.Context(), []byte("lost")); err == nil {
		t.Error("Append on a closed bus = nil, want an error")
	}
	if _, err := l.Last(t.Context()); err == nil || errors.Is(err, state.ErrNoRecord) {
		t.Errorf("Last on a closed bus = %v, want an error that is not ErrNoRecord", err)
	}

	again := openLedger(t, open(t, data), "here", "default")
	wantLast(t, again, "one")
	appendRecords(t, again, "two")
	wantLast(t, again, "two")
}

func TestLedgersDoNotMix(t *testing.T) {
	b := open(t, t.TempDir())
	names := [][2]string{{"here", "web"}, {"here", "web-2"}, {"here", "we"}, {"there", "web"}}
	var ledgers []*state.Ledger
	for _, n := range names {
		ledgers = append(ledgers, openLedger(t, b, n[0], n[1]))
	}
	appendRecords(t, ledgers[0], "web")
	for _, l := range ledgers[1:] {
		wantLast(t, l, "")
	}
	appendRecords(t, ledgers[1], "web-2")
	wantLast(t, ledgers[0], "web")
	wantLast(t, ledgers[1], "web-2")
}

func TestLedgerIsHeardLive(t *testing.T) {
	b := open(t, t.TempDir())
	l := openLedger(t, b, "here", "default")
	sub, err := b.Conn().SubscribeSync(state.LedgerSubject("here", "default"))
	if err != nil {
		t.Fatal(err)
	}
	appendRecords(t, l, "one")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if msg, err := sub.NextMsgWithContext(ctx); err != nil || string(msg.Data) != "one" {
		t.Errorf("heard %v, %v, want one", msg, err)
	}
}

func TestTooLargeRecordIsAnError(t *testing.T) {
	l := openLedger(t, open(t, t.TempDir()), "here", "default")
	appendRecords(t, l, "one")
	if err := l.Append(t.Context(), make([]byte, bus.MaxPayload+1)); err == nil {
		t.Error("Append = nil, want an error")
	}
	wantLast(t, l, "one")
}

func TestDrains(t *testing.T) {
	d := openDrains(t, open(t, t.TempDir()), "here", "default")
	wantRecords(t, d)
	one, two := recordOf("i-1"), recordOf("i-2")
	put(t, d, one, two)
	wantRecords(t, d, one, two)

	one.State, one.Asked = drain.Terminating, one.Since.Add(time.Minute)
	put(t, d, one)
	wantRecords(t, d, one, two)

	for range 2 { // the second time it is not there any more
		if err := d.Delete(t.Context(), "i-1"); err != nil {
			t.Fatal(err)
		}
	}
	wantRecords(t, d, two)
	put(t, d, one) // a node of that name again
	wantRecords(t, d, one, two)
}

func TestDrainsSurviveTheBus(t *testing.T) {
	data := t.TempDir()
	b := open(t, data)
	d := openDrains(t, b, "here", "default")
	put(t, d, recordOf("i-1"), recordOf("i-2"))
	if err := d.Delete(t.Context(), "i-2"); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if got, err := d.Load(t.Context()); err == nil {
		t.Errorf("Load on a closed bus = %v, nil, want an error", got)
	}
	wantRecords(t, openDrains(t, open(t, data), "here", "default"), recordOf("i-1"))
}

func TestDrainsDoNotMix(t *testing.T) {
	b := open(t, t.TempDir())
	names := [][2]string{{"here", "web"}, {"here", "web-2"}, {"here", "we"}, {"there", "web"}}
	var all []*state.Drains
	for _, n := range names {
		d := openDrains(t, b, n[0], n[1])
		put(t, d, recordOf("of-"+n[0]+"-"+n[1]), recordOf("shared"))
		all = append(all, d)
	}
	if err := all[0].Delete(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, all[0], recordOf("of-here-web"))
	for i, n := range names[1:] {
		wantRecords(t, all[i+1], recordOf("of-"+n[0]+"-"+n[1]), recordOf("shared"))
	}
}

func TestNodeNames(t *testing.T) {
	d := openDrains(t, open(t, t.TempDir()), "here", "default")
	dotted := recordOf("ip-10-0-0-1.ec2.internal")
	put(t, d, dotted)
	wantRecords(t, d, dotted)
	for _, node := range []string{"", "a b", "*", ">", "a.*", "ä", ".", "a."} {
		if err := d.Put(t.Context(), recordOf(node)); err == nil {
			t.Errorf("Put of node %q = nil, want an error", node)
		}
		if err := d.Delete(t.Context(), node); err == nil {
			t.Errorf("Delete of node %q = nil, want an error", node)
		}
	}
	wantRecords(t, d, dotted)
}

func TestManyDrains(t *testing.T) {
	d := openDrains(t, open(t, t.TempDir()), "here", "default")
	var want []drain.Record
	for i := range 600 { // more than the client buffers
		want = append(want, recordOf("i-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String()))
	}
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := part; i < len(want); i += 4 {
				if err := d.Put(t.Context(), want[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantRecords(t, d, want...)
}

func TestUnreadableDrainsAreNamed(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"no JSON", "\x00garbage", "drain.default.i-2: invalid character"},
		{"nothing", "", "drain.default.i-2: unexpected end"},
		{"another type", `{"node":"i-2","weight":"heavy"}`, "drain.default.i-2: json: cannot unmarshal string"},
		{"another node", `{"node":"i-9","group":"blue","weight":1,"state":"chosen"}`, `drain.default.i-2: it is of node "i-9"`},
		{"not a record", `[]`, "drain.default.i-2: json: cannot unmarshal array"},
	}
	b := open(t, t.TempDir())
	d := openDrains(t, b, "here", "default")
	kv, err := b.JetStream().KeyValue(t.Context(), "weir_here")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			put(t, d, recordOf("i-1"), recordOf("i-3"))
			for _, key := range []string{"drain.default.i-2", "drain.default.i-4"} {
				if _, err := kv.PutString(t.Context(), key, test.value); err != nil {
					t.Fatal(err)
				}
			}
			_, err := d.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "drain.default.i-4: ") {
				t.Errorf("Load = %v, want an error that has %q, and names i-4", err, test.want)
			}
			put(t, d, recordOf("i-2"), recordOf("i-4")) // repaired, nothing is lost
			wantRecords(t, d, recordOf("i-1"), recordOf("i-2"), recordOf("i-3"), recordOf("i-4"))
		})
	}
}

// A record in a state of a later version is its machine's to leave alone.
func TestUnknownStateIsLoaded(t *testing.T) {
	d := openDrains(t, open(t, t.TempDir()), "here", "default")
	later := recordOf("i-1")
	later.State = "migrating"
	put(t, d, later)
	wantRecords(t, d, later)
}

func TestLoadKnowsThatItWasCutShort(t *testing.T) {
	d := openDrains(t, open(t, t.TempDir()), "here", "default")
	put(t, d, recordOf("i-1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := d.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Load = %v, %v, want %v", got, err, context.Canceled)
	}
}

func TestBadNames(t *testing.T) {
	b := open(t, t.TempDir())
	for _, n := range [][2]string{{"", "web"}, {"here", ""}, {"here", "a.b"}, {"here", "*"}, {"a.b", "web"}, {"here", ">"}, {"a b", "web"}} {
		if _, err := state.OpenLedger(t.Context(), b.JetStream(), n[0], n[1]); err == nil {
			t.Errorf("OpenLedger(%q, %q) = nil, want an error", n[0], n[1])
		}
		if _, err := state.OpenDrains(t.Context(), b.JetStream(), n[0], n[1]); err == nil {
			t.Errorf("OpenDrains(%q, %q) = nil, want an error", n[0], n[1])
		}
	}
}

func TestSettingsOfTheOperatorStand(t *testing.T) {
	b := open(t, t.TempDir())
	openLedger(t, b, "here", "default")
	stream, err := b.JetStream().Stream(t.Context(), "WEIR_DECISIONS")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.MaxAge = time.Hour
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "weir_here", History: 5}); err != nil {
		t.Fatal(err)
	}
	wantLast(t, openLedger(t, b, "here", "default"), "")
	wantRecords(t, openDrains(t, b, "here", "default"))
	if stream, err = b.JetStream().Stream(t.Context(), "WEIR_DECISIONS"); err != nil || stream.CachedInfo().Config.MaxAge != time.Hour {
		t.Errorf("MaxAge of the stream = %v, %v, want an hour", stream.CachedInfo().Config.MaxAge, err)
	}
	kv, err := b.JetStream().KeyValue(t.Context(), "weir_here")
	if err != nil {
		t.Fatal(err)
	}
	if status, err := kv.Status(t.Context()); err != nil || status.History() != 5 {
		t.Errorf("history of the bucket = %v, %v, want 5", status, err)
	}
}

// Several processes of one installation start at the same time.
func TestOpenedAtTheSameTime(t *testing.T) {
	b := open(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := state.OpenLedger(t.Context(), b.JetStream(), "here", "default"); err != nil {
				t.Error(err)
			}
			if _, err := state.OpenDrains(t.Context(), b.JetStream(), "here", "default"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestLedgerSince(t *testing.T) {
	b := open(t, t.TempDir())
	l := openLedger(t, b, "here", "default")
	read := func(from time.Time) (out []string) {
		t.Helper()
		if err := l.Since(t.Context(), from, func(r []byte) error { out = append(out, string(r)); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := read(time.Now().Add(-time.Hour)); got != nil {
		t.Errorf("records of an empty ledger: %q", got)
	}
	appendRecords(t, l, "1", "2")
	appendRecords(t, openLedger(t, b, "here", "other"), "of another pool")
	appendRecords(t, l, "3")
	if diff := cmp.Diff([]string{"1", "2", "3"}, read(time.Now().Add(-time.Hour))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if got := read(time.Now().Add(time.Hour)); got != nil {
		t.Errorf("records of the time to come: %q", got)
	}
	stop := errors.New("enough")
	if err := l.Since(t.Context(), time.Now().Add(-time.Hour), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Since() = %v, want the error of visit", err)
	}
}
