package state_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Since reads more records than one batch, with parts between them, and none that is written while it reads.
func TestSinceReadsInBatches(t *testing.T) {
	js := js(t)
	l := openLedger(t, js, "web")
	var want []string
	for n := range 150 {
		want = append(want, fmt.Sprintf("record %d", n))
	}
	want[70] = incompressible(3 << 20) // of several parts, longer than the bound of a batch with its neighbours
	appendRecords(t, l, want...)
	var got []string
	err := l.Since(t.Context(), time.Now().Add(-time.Hour), func(r []byte) error {
		got = append(got, string(r))
		return l.Append(t.Context(), []byte("later"))
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Since visits %d records, %v, want the %d that existed at the call", len(got), err, len(want))
	}
}

// A stream that an operator created without direct gets is an error with a remedy, not an empty ledger.
func TestSinceWithoutDirectGets(t *testing.T) {
	js := openEmpty(t, t.TempDir()).JetStream()
	for _, c := range (streams.Cluster{Name: "here", Pools: []streams.Pool{{Name: "web"}}}).Specs() {
		if c.Name != webLedger {
			continue
		}
		c.AllowDirect = false
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	l := openLedger(t, js, "web")
	appendRecords(t, l, "one")
	err := l.Since(t.Context(), time.Now().Add(-time.Hour), func([]byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "allows direct gets") {
		t.Errorf("Since = %v, want an error that names direct gets", err)
	}
}

// A replica lags behind the leader: at first it has no message, then not the newest. Since reads what the leader has, and
// takes an empty answer for the end only of a replica that has the newest message.
func TestSinceWaitsForAReplica(t *testing.T) {
	nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64 // direct gets
	replica := func() uint64 { return uint64(requests.Load() / 4) }
	answer := func(subject string, handle nats.MsgHandler) {
		if _, err := nc.Subscribe(subject, handle); err != nil {
			t.Fatal(err)
		}
	}
	const leader = 3 // message 2 is a part
	answer("$JS.API.STREAM.INFO.weir-summaries:here:web", func(m *nats.Msg) {
		respond(t, m, nil, fmt.Sprintf(`{"config":{"name":"weir-summaries:here:web"},"state":{"messages":3,"last_seq":%d},"cluster":{"leader":"n1","replicas":[{"name":"n2"},{"name":"n3"}]}}`, leader))
	})
	answer("$JS.API.DIRECT.GET.weir-summaries:here:web", func(m *nats.Msg) {
		var request struct {
			Sequence uint64 `json:"seq"`
			Subject  string `json:"next_by_subj"`
		}
		if err := json.Unmarshal(m.Data, &request); err != nil {
			t.Error(err)
		}
		requests.Add(1)
		for sequence := max(request.Sequence, 1); sequence <= min(replica(), leader); sequence++ {
			if request.Subject != ">" && sequence == 2 {
				continue
			}
			respond(t, m, nats.Header{
				"Nats-Stream": {"weir-summaries:here:web"}, "Nats-Subject": {"weir.here.summary.web"},
				"Nats-Sequence": {fmt.Sprint(sequence)}, "Nats-Time-Stamp": {time.Now().UTC().Format(time.RFC3339Nano)},
			}, fmt.Sprint(sequence))
		}
		respond(t, m, nats.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}}, "")
	})
	l, err := state.OpenSummaries(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = l.Since(t.Context(), time.Now().Add(-time.Hour), func(r []byte) error { got = append(got, string(r)); return nil })
	if want := []string{"1", "3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Since visits %q, %v, want %q", got, err, want)
	}
}

func respond(t *testing.T, m *nats.Msg, h nats.Header, data string) {
	t.Helper()
	if err := m.RespondMsg(&nats.Msg{Header: h, Data: []byte(data)}); err != nil {
		t.Error(err)
	}
}

// A server that does not know the stream yet answers that there is none, while the stream has a message. Since sends the request again.
func TestSinceChecksAnEmptyAnswer(t *testing.T) {
	nc := bustest.Connect(t, bustest.Serve(t, server.Options{}).ClientURL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	info := func(m *nats.Msg) {
		if requests.Add(1) < 4 {
			respond(t, m, nil, `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`)
			return
		}
		respond(t, m, nil, `{"config":{"name":"weir-summaries:here:web"},"state":{"messages":1,"last_seq":7}}`)
	}
	get := func(m *nats.Msg) {
		h := nats.Header{"Nats-Stream": {"weir-summaries:here:web"}, "Nats-Subject": {"weir.here.summary.web"}, "Nats-Sequence": {"7"}, "Nats-Time-Stamp": {time.Now().UTC().Format(time.RFC3339Nano)}}
		respond(t, m, h, "seven")
		if !strings.Contains(string(m.Data), "last_by_subj") {
			respond(t, m, nats.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}}, "")
		}
	}
	for subject, handle := range map[string]nats.MsgHandler{"$JS.API.STREAM.INFO.weir-summaries:here:web": info, "$JS.API.DIRECT.GET.weir-summaries:here:web": get} {
		if _, err := nc.Subscribe(subject, handle); err != nil {
			t.Fatal(err)
		}
	}
	l, err := state.OpenSummaries(t.Context(), js, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = l.Since(t.Context(), time.Now().Add(-time.Hour), func(r []byte) error { got = append(got, string(r)); return nil })
	if err != nil || !slices.Equal(got, []string{"seven"}) {
		t.Errorf("Since visits %q, %v, want the message", got, err)
	}
}
