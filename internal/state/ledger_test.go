package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const (
	partSubject = "weir.here.decision.web.part"
	webLedger   = "weir-ledger:here:web"
	// ledgerSubject stores a record.
	ledgerSubject = "weir.here.decision.web"
)

func openLedger(t *testing.T, js jetstream.JetStream, pool string) *state.Ledger {
	t.Helper()
	l, err := state.OpenLedger(t.Context(), js, "here", pool)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendRecords(t *testing.T, l *state.Ledger, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := l.Append(t.Context(), []byte(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantLast checks the newest record; "" means no record.
func wantLast(t *testing.T, l *state.Ledger, want string) {
	t.Helper()
	got, err := l.Last(t.Context())
	if want == "" && errors.Is(err, state.ErrNoRecord) {
		return
	}
	if string(got) != want || err != nil {
		t.Errorf("Last = %.80q (%d bytes), %v, want %.80q", got, len(got), err, want)
	}
}

// recorded returns all records.
func recorded(t *testing.T, l *state.Ledger) (out []string) {
	t.Helper()
	err := l.Since(t.Context(), time.Now().Add(-time.Hour), func(r []byte) error { out = append(out, string(r)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantRecorded(t *testing.T, l *state.Ledger, want ...string) {
	t.Helper()
	got := recorded(t, l)
	if cmp.Equal(want, got) {
		return
	}
	shorten := func(all []string) (out []string) {
		for _, s := range all {
			out = append(out, fmt.Sprintf("%d bytes: %.40q", len(s), s))
		}
		return out
	}
	t.Errorf("records (-want +got):\n%s", cmp.Diff(shorten(want), shorten(got)))
}

// incompressible returns n bytes that gzip does not shorten.
func incompressible(n int) string {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = random.Read(data) // never fails
	return string(data)
}

func TestLedger(t *testing.T) {
	js := js(t, "other", "we")
	l := openLedger(t, js, "web")
	wantLast(t, l, "")
	wantRecorded(t, l)
	appendRecords(t, l, "one", "two")
	wantLast(t, l, "two")
	appendRecords(t, openLedger(t, js, "other"), "of another pool")
	appendRecords(t, openLedger(t, js, "we"), "of another pool")
	appendRecords(t, l, "three")
	wantLast(t, l, "three")
	wantRecorded(t, l, "one", "two", "three")
	if err := l.Since(t.Context(), time.Now().Add(time.Hour), func(r []byte) error {
		t.Errorf("record of the time to come: %q", r)
		return nil
	}); err != nil {
		t.Error(err)
	}
	stop := errors.New("enough")
	if err := l.Since(t.Context(), time.Now().Add(-time.Hour), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Since() = %v, want the error of visit", err)
	}
}

func TestLedgerSurvivesTheBus(t *testing.T) {
	data := t.TempDir()
	b := open(t, data)
	l := openLedger(t, b.JetStream(), "web")
	big := incompressible(1 << 20)
	appendRecords(t, l, "one", big)
	b.Close()
	if err := l.Append(t.Context(), []byte("lost")); err == nil {
		t.Error("Append on a closed bus = nil, want an error")
	}
	if _, err := l.Last(t.Context()); err == nil || errors.Is(err, state.ErrNoRecord) {
		t.Errorf("Last on a closed bus = %v, want an error that is not ErrNoRecord", err)
	}
	again := openLedger(t, open(t, data).JetStream(), "web")
	wantLast(t, again, big)
	appendRecords(t, again, "two")
	wantRecorded(t, again, "one", big, "two")
}

func TestRecordsOfAllSizes(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	var want []string
	for _, n := range []int{0, 10, 4 << 10, 4<<10 + 1, 512 << 10, 512<<10 + 1, 1 << 20, 5_000_000} {
		for _, r := range []string{incompressible(n), strings.Repeat("node ", n/5)} {
			appendRecords(t, l, r)
			wantLast(t, l, r)
			want = append(want, r)
		}
	}
	wantRecorded(t, l, want...)
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := uint64(1); sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
		if m, err := stream.GetMsg(t.Context(), sequence); err != nil || len(m.Data) > 512<<10 {
			t.Errorf("message %d: %v, %d bytes, want at most 512 KiB", sequence, err, len(m.Data))
		}
	}
	if err := l.Append(t.Context(), make([]byte, 32<<20+1)); err == nil {
		t.Error("Append of more than 32 MiB = nil, want an error")
	}
	wantLast(t, l, want[len(want)-1])
}

func TestIncompleteRecord(t *testing.T) {
	js := js(t)
	appendRecords(t, openLedger(t, js, "web"), "one")
	for dies := range 5 {
		n := 0
		l := openLedger(t, failing{JetStream: js, publish: func(string) error {
			if n++; n > dies {
				return errAway
			}
			return nil
		}}, "web")
		// Four parts, and the message that completes them.
		if err := l.Append(t.Context(), []byte(incompressible(2<<20+1))); !errors.Is(err, errAway) {
			t.Fatalf("Append = %v, want %v", err, errAway)
		}
	}
	l := openLedger(t, js, "web")
	wantLast(t, l, "one")
	big := incompressible(1 << 20)
	appendRecords(t, l, big, "two")
	wantRecorded(t, l, "one", big, "two")
}

func TestTwoWritersOfOneLedger(t *testing.T) {
	js := js(t)
	var wg sync.WaitGroup
	want := map[string]bool{}
	for w := range 2 {
		var records []string
		for i := range 5 {
			r := fmt.Sprintf("%d %d %s", w, i, incompressible((i%3)*700_000+w))
			records, want[r] = append(records, r), true
		}
		l := openLedger(t, js, "web")
		wg.Go(func() {
			for _, r := range records {
				if err := l.Append(t.Context(), []byte(r)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := recorded(t, openLedger(t, js, "web"))
	for _, r := range got {
		delete(want, r)
	}
	if len(got) != 10 || len(want) != 0 {
		t.Errorf("%d records, %d of 10 are missing or damaged", len(got), len(want))
	}
}

// Readers omit a record of which the age limit or the operator removed a part.
func TestRecordThatHasLostParts(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one", incompressible(2<<20), "two")
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	stream = deletable(t, js, stream)
	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, l, "one", "two")
	appendRecords(t, l, incompressible(1<<20))
	last, err := stream.GetLastMsgForSubject(t.Context(), partSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), last.Sequence); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Last(t.Context()); err == nil || errors.Is(err, state.ErrNoRecord) {
		t.Errorf("Last = %d bytes, %v, want an error", len(got), err)
	}
}

func TestHostileRecords(t *testing.T) {
	for name, header := range map[string][2]string{
		"parts that are no numbers": {"Weir-Parts", "1,x"},
		"parts that fall":           {"Weir-Parts", "2,1"},
		"no parts":                  {"Weir-Parts", ","},
		"too many parts":            {"Weir-Parts", strings.Repeat("1,", 1000) + "1"},
		"not packed":                {"Weir-Encoding", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			js := js(t)
			l := openLedger(t, js, "web")
			m := withHeader(ledgerSubject, header)
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if got, err := l.Last(t.Context()); err == nil {
				t.Errorf("Last = %q, want an error", got)
			}
			if got, err := l.Published(t.Context(), m); err == nil {
				t.Errorf("Published = %q, want an error", got)
			}
			appendRecords(t, l, "one")
			wantLast(t, l, "one")
		})
	}
	t.Run("a part of another pool", func(t *testing.T) {
		js := js(t, "other")
		appendRecords(t, openLedger(t, js, "other"), "secret")
		l := openLedger(t, js, "web")
		if _, err := js.PublishMsg(t.Context(), withHeader(ledgerSubject, [2]string{"Weir-Parts", "1"})); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Last(t.Context()); err == nil {
			t.Errorf("Last = %q, want an error", got)
		}
	})
}

func TestLedgerIsPublishedLive(t *testing.T) {
	b := open(t, t.TempDir())
	l := openLedger(t, b.JetStream(), "web")
	sub, err := b.Conn().SubscribeSync(state.LedgerSubject("here", "web"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"one", strings.Repeat("packed ", 10_000), incompressible(2 << 20)}
	appendRecords(t, l, want...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, w := range want {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.Published(ctx, m); err != nil || !bytes.Equal(got, []byte(w)) {
			t.Errorf("received %d bytes, %v, want %d", len(got), err, len(w))
		}
	}
}

// deletable replaces the stream by one that has the same messages and allows deletions.
func deletable(t *testing.T, js jetstream.JetStream, old jetstream.Stream) jetstream.Stream {
	t.Helper()
	var kept []*nats.Msg
	for sequence := uint64(1); sequence <= old.CachedInfo().State.LastSeq; sequence++ {
		m, err := old.GetMsg(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		header := nats.Header{}
		for name, values := range m.Header {
			if strings.HasPrefix(name, "Weir-") { // the others are the server's
				header[name] = values
			}
		}
		kept = append(kept, &nats.Msg{Subject: m.Subject, Header: header, Data: m.Data})
	}
	c := old.CachedInfo().Config
	beside(t, js)
	if err := js.DeleteStream(t.Context(), c.Name); err != nil {
		t.Fatal(err)
	}
	c.DenyDelete = false
	stream, err := js.CreateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range kept {
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// The oldest records of a pool give way, whole, to newer ones of the same pool only.
func TestLedgerBoundPerPool(t *testing.T) {
	js := openEmpty(t, t.TempDir()).JetStream()
	bustest.Streams(t, js, "here", 1, "quiet")
	quiet := openLedger(t, js, "quiet")
	appendRecords(t, quiet, "the only one")
	const most = 4 << 20
	var newest []string
	var busy *state.Ledger
	for i := range 60 {
		if i%20 == 0 { // a new writer replaces the old one
			c := streams.Cluster{Name: "here", Pools: []streams.Pool{{Name: "web", LedgerBytes: most}}}
			if _, err := streams.Create(t.Context(), js, c.Specs()); err != nil {
				t.Fatal(err)
			}
			busy = openLedger(t, js, "web")
		}
		r := fmt.Sprint(i, " ", incompressible([]int{40_000, 300_000, 1_200_000}[i%3]))
		newest = append(newest, r)
		appendRecords(t, busy, r)
		wantLast(t, busy, r)
	}
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	if used := stream.CachedInfo().State.Bytes; used > most || used < most-1_300_000 {
		t.Errorf("%d bytes are stored, want at most %d, less at most one record", used, most)
	}
	got := recorded(t, busy)
	if len(got) < 5 || len(got) > 12 || !cmp.Equal(got, newest[len(newest)-len(got):]) {
		t.Errorf("%d records are stored, want the newest 4 MiB of them", len(got))
	}
	wantRecorded(t, quiet, "the only one")
}

// A writer of one key cannot empty a ledger, and neither can the pool's writer.
func TestLedgerIsLocked(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one", "two")
	stream, err := js.Stream(t.Context(), webLedger)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if !c.AllowDirect || c.AllowRollup || c.Discard != jetstream.DiscardOld || c.MaxAge != streams.LedgerAge || c.MaxBytes != streams.LedgerBytes || c.Replicas != 1 {
		t.Errorf("the stream has %+v", c)
	}
	for name, act := range map[string]func() error{
		"purge":  func() error { return stream.Purge(t.Context()) },
		"delete": func() error { return stream.DeleteMsg(t.Context(), 1) },
		"rollup": func() error {
			_, err := js.PublishMsg(t.Context(), withHeader(ledgerSubject, [2]string{"Nats-Rollup", "all"}))
			return err
		},
	} {
		if err := act(); err == nil {
			t.Errorf("%s of the ledger is accepted", name)
		}
	}
	wantRecorded(t, l, "one", "two")
}

// No process creates a stream. A reader that was opened before the stream existed reads its records.
func TestNoProcessCreatesALedger(t *testing.T) {
	js := openEmpty(t, t.TempDir()).JetStream()
	reader, err := state.OpenLedger(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantLast(t, reader, "")
	wantRecorded(t, reader)
	for what, err := range map[string]error{"Append": reader.Append(t.Context(), []byte("one")), "Check": reader.Check(t.Context())} {
		if !errors.Is(err, kvbucket.ErrMissing) || !strings.Contains(err.Error(), "weir nats streams") {
			t.Errorf("%s = %v, want %v with a remedy", what, err, kvbucket.ErrMissing)
		}
	}
	if pools, err := state.Pools(t.Context(), js, "here"); err != nil || len(pools) != 0 {
		t.Errorf("Pools = %v, %v, want none", pools, err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s was created", name)
	}
	bustest.Streams(t, js, "here", 1, "web")
	appendRecords(t, openLedger(t, js, "web"), "one")
	wantLast(t, reader, "one")
	wantRecorded(t, reader, "one")
}

func TestPoolsHaveALedger(t *testing.T) {
	js := js(t, "batch")
	bustest.Streams(t, js, "here2", 1, "web")
	bustest.Streams(t, js, "he", 1, "re")
	// A stream of another owner may overlap no subject of ours, but its name may resemble ours.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "weir-ledger:here:alien", Subjects: []string{"alien"}}); err != nil {
		t.Fatal(err)
	}
	if pools, err := state.Pools(t.Context(), js, "here"); err != nil || !cmp.Equal(pools, []string{"batch", "web"}) {
		t.Errorf("Pools = %v, %v, want batch and web", pools, err)
	}
	if clusters, err := state.Clusters(t.Context(), js); err != nil || !cmp.Equal(clusters, []string{"he", "here", "here2"}) {
		t.Errorf("Clusters = %v, %v, want he, here and here2", clusters, err)
	}
}

// A writer goes on after the loss of the stream and its creation, with whole records.
func TestLostLedger(t *testing.T) {
	js := js(t)
	beside(t, js)
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one")
	lost := false
	writer, err := state.OpenLedger(t.Context(), failing{JetStream: js, publish: func(subject string) error {
		if subject != partSubject && !lost { // after the parts, before the record
			lost = true
			return js.DeleteStream(t.Context(), webLedger)
		}
		return nil
	}}, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Append(t.Context(), []byte(incompressible(2<<20))); !errors.Is(err, kvbucket.ErrMissing) {
		t.Errorf("Append = %v, want %v", err, kvbucket.ErrMissing)
	}
	bustest.Streams(t, js, "here", 1, "web")
	big := incompressible(2 << 20)
	appendRecords(t, writer, big)
	wantLast(t, l, big)
	wantRecorded(t, l, big)
}

func BenchmarkAppend(b *testing.B) {
	server := openBench(b)
	l, err := state.OpenLedger(b.Context(), server, "here", "web")
	if err != nil {
		b.Fatal(err)
	}
	node := `{"id":"i-0123456789abcde%02x","group":"blue","weight":%d,"tasks":%d,"uptime":"%dm","state":"joined","cpus":%d}`
	for _, nodes := range []int{20, 2000} {
		var record bytes.Buffer
		for i := range nodes {
			fmt.Fprintf(&record, node, i%256, i%7, i*31%97, i*i%10007, i%64)
		}
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			b.SetBytes(int64(record.Len()))
			for b.Loop() {
				if err := l.Append(b.Context(), record.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A record that another client made the server store is read by no one.
func TestForgedRecordIsOmitted(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one")
	m := withHeader(ledgerSubject, [2]string{"Nats-Sequence", "1"})
	m.Data = []byte("forged")
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Last(t.Context()); !errors.Is(err, kvbucket.ErrForged) {
		t.Errorf("Last = %q, %v, want %v", got, err, kvbucket.ErrForged)
	}
	appendRecords(t, l, "two")
	wantRecorded(t, l, "one", "two")
}
