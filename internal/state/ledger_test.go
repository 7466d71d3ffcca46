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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

const partSubject = "weir.here.decision.web.part"

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
	js := js(t)
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
	stream, err := js.Stream(t.Context(), "WEIR_DECISIONS")
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
	stream, err := js.Stream(t.Context(), "WEIR_DECISIONS")
	if err != nil {
		t.Fatal(err)
	}
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
			m := message(state.LedgerSubject("here", "web"), header)
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if got, err := l.Last(t.Context()); err == nil {
				t.Errorf("Last = %q, want an error", got)
			}
			if got, err := l.Heard(t.Context(), m); err == nil {
				t.Errorf("Heard = %q, want an error", got)
			}
			appendRecords(t, l, "one")
			wantLast(t, l, "one")
		})
	}
	t.Run("a part of another pool", func(t *testing.T) {
		js := js(t)
		appendRecords(t, openLedger(t, js, "other"), "secret")
		l := openLedger(t, js, "web")
		if _, err := js.PublishMsg(t.Context(), message(state.LedgerSubject("here", "web"), [2]string{"Weir-Parts", "1"})); err != nil {
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
		if got, err := l.Heard(ctx, m); err != nil || !bytes.Equal(got, []byte(w)) {
			t.Errorf("received %d bytes, %v, want %d", len(got), err, len(w))
		}
	}
}

// A pool with many records does not displace the records of other pools.
func TestRetentionPerPool(t *testing.T) {
	js := js(t)
	quiet, busy := openLedger(t, js, "quiet"), openLedger(t, js, "web")
	appendRecords(t, quiet, "the only one")
	const budget = 4 << 20
	state.SetBudget(busy, budget)
	var newest []string
	for i := range 60 {
		n := []int{40_000, 300_000, 1_200_000}[i%3]
		r := fmt.Sprint(i, " ", incompressible(n))
		newest = append(newest, r)
		if i%20 == 19 { // a new writer replaces the old one
			busy = openLedger(t, js, "web")
			state.SetBudget(busy, budget)
		}
		appendRecords(t, busy, r)
		wantLast(t, busy, r)
		if i%7 != 0 {
			continue
		}
		if used := bytesOf(t, js, state.LedgerSubject("here", "web"), partSubject); used > budget+1_300_000 {
			t.Fatalf("after record %d: %d bytes are kept, want about %d", i, used, budget)
		}
	}
	got := recorded(t, busy)
	if len(got) < 5 || len(got) > 12 || !cmp.Equal(got, newest[len(newest)-len(got):]) {
		t.Errorf("%d records are kept, want the newest 4 MiB of them", len(got))
	}
	wantRecorded(t, quiet, "the only one")
}

// bytesOf returns the message bytes of a stream on these subjects.
func bytesOf(t *testing.T, js jetstream.JetStream, subjects ...string) (sum int) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "WEIR_DECISIONS")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects {
		for sequence := uint64(1); ; {
			m, err := stream.GetMsg(t.Context(), sequence, jetstream.WithGetMsgSubject(s))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sum += len(m.Data)
			sequence = m.Sequence + 1
		}
	}
	return sum
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
