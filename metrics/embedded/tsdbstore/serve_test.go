package tsdbstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/metricstest"
	writers "github.com/weirkeeper/weirkeeper/metrics/store"
)

// connections returns two connections to a new bus.
func connections(t *testing.T) (owner, other *nats.Conn) {
	t.Helper()
	c := bus.Config{Data: t.TempDir(), Name: t.Name(), Log: discard(), Serve: natsserver.Serve}
	var both [2]*nats.Conn
	for i := range both {
		b, err := bus.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		both[i] = b.Conn()
	}
	return both[0], both[1]
}

// serve serves the store until the test ends. It returns when the store answers.
func serve(t *testing.T, nc *nats.Conn, store *tsdbstore.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	server := listen(t, nc)
	wg.Go(func() {
		if err := server.Serve(ctx, store); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func listen(t testing.TB, nc *nats.Conn) *embedded.Server {
	t.Helper()
	server, err := embedded.Listen(t.Context(), nc, "test", discard())
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func client(t *testing.T) (*embedded.Client, *tsdbstore.Store) {
	t.Helper()
	owner, other := connections(t)
	store := open(t, t.TempDir())
	serve(t, owner, store)
	return embedded.NewClient(other, "test", writers.OperatorWriter), store
}

func TestClientConforms(t *testing.T) {
	t.Parallel()
	metricstest.Run(t, func(t *testing.T) metrics.Store {
		c, _ := client(t)
		return c
	})
}

func TestClientRefuses(t *testing.T) {
	c, _ := client(t)
	testRefusals(t, c)
}

func TestClientFailsWithoutAStore(t *testing.T) {
	_, other := connections(t)
	c := embedded.NewClient(other, "test", writers.OperatorWriter)
	if got, err := c.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "m"}); !errors.Is(err, embedded.ErrNoStore) {
		t.Errorf("Window = %v, %v, want ErrNoStore", got, err)
	}
	if err := c.Write(t.Context(), []metrics.Sample{{Type: metrics.System, Name: "m", Time: time.Now()}}); !errors.Is(err, embedded.ErrNoStore) {
		t.Errorf("Write = %v, want ErrNoStore", err)
	}
}

// A writer writes its own series only: the subject names it, and the server refuses the whole write.
func TestClientWritesSeriesOfItsWriterOnly(t *testing.T) {
	owner, other := connections(t)
	store := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	server, served := listen(t, owner), make(chan error)
	go func() { served <- server.Serve(ctx, store) }()
	sample := func(pool string) metrics.Sample {
		return metrics.Sample{Type: metrics.System, Name: "cpus_allocated", Dimensions: metrics.Dimensions{"pool": pool}, Time: time.Now(), Value: 1}
	}
	web := embedded.NewClient(other, "test", writers.PoolWriter("web"))
	if err := web.Write(t.Context(), []metrics.Sample{sample("web")}); err != nil {
		t.Error(err)
	}
	if err := web.Write(t.Context(), []metrics.Sample{sample("web"), sample("batch")}); !errors.Is(err, writers.ErrForeign) {
		t.Errorf("a pool writes a series of another pool: %v, want ErrForeign", err)
	}
	if got := server.Foreign(); got != 1 {
		t.Errorf("%d refused writes are counted, want 1", got)
	}
	all, err := web.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "cpus_allocated", From: time.Now().Add(-time.Minute), To: time.Now()})
	if err != nil || len(all) != 1 || all[0].Dimensions["pool"] != "web" {
		t.Errorf("series %v, %v, want that of pool web", all, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestClientReportsAClosedStore(t *testing.T) {
	c, store := client(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := c.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "m"})
	remote, ok := errors.AsType[*embedded.RemoteError](err)
	if !ok || remote.Code != embedded.CodeClosed || !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("Window = %v, want a RemoteError that is ErrClosed", err)
	}
}

// TestSeriesOfOneKey: series whose dimensions contain commas can have the same Key. Pages keep them apart.
func TestSeriesOfOneKey(t *testing.T) {
	t.Parallel()
	c, store := client(t)
	base := time.Now().Truncate(time.Second).Add(-50 * time.Minute)
	twins := []metrics.Dimensions{{"a": "1", "b": "2"}, {"a": "1,b=2"}}
	if metrics.Key("m", twins[0]) != metrics.Key("m", twins[1]) {
		t.Fatal("the keys differ, the test shows nothing")
	}
	for i, d := range twins {
		samples := make([]metrics.Sample, 40_000)
		for j := range samples {
			samples[j] = metrics.Sample{Type: metrics.System, Name: "m", Dimensions: d, Time: base.Add(time.Duration(j) * 20 * time.Millisecond), Value: float64(i)}
		}
		if err := store.Write(t.Context(), samples); err != nil {
			t.Fatal(err)
		}
	}
	q := metrics.Query{Type: metrics.System, Name: "m", From: base, To: time.Now()}
	want, err := store.Window(t.Context(), q)
	if err != nil || len(want) != 2 || len(want[0].Times) != 40_000 || len(want[1].Times) != 40_000 {
		t.Fatalf("%d series, %v", len(want), err)
	}
	got, err := c.Window(t.Context(), q)
	if err != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("window: %v (-want +got):\n%.2000s", err, cmp.Diff(want, got))
	}
}

func TestServeRefusesBadRequests(t *testing.T) {
	owner, other := connections(t)
	serve(t, owner, open(t, t.TempDir()))
	tests := map[string]struct{ subject, data, want string }{
		"empty":             {"write.operator", ``, `"code":"malformed"`},
		"not json":          {"write.operator", `hello`, `"code":"malformed"`},
		"unknown key":       {"write.operator", `{"samples":[],"x":1}`, `"code":"malformed"`},
		"two requests":      {"write.operator", `{"samples":[]}{}`, `"code":"malformed"`},
		"NaN":               {"write.operator", `{"samples":[{"type":"metadata","name":"m","time_ms":1,"value":NaN}]}`, `"code":"malformed"`},
		"too large":         {"write.operator", `{"samples":[{"name":"` + strings.Repeat("n", 1<<20) + `"}]}`, `"code":"malformed"`},
		"no name":           {"write.operator", `{"samples":[{"type":"metadata","time_ms":1,"value":1}]}`, `"code":"malformed"`},
		"time overflows":    {"write.operator", `{"samples":[{"type":"metadata","name":"m","time_ms":9223372036854775807,"value":1}]}`, `"code":"future"`},
		"time underflows":   {"write.operator", `{"samples":[{"type":"metadata","name":"m","time_ms":-9223372036854775808,"value":1}]}`, `"code":"malformed"`},
		"nothing to write":  {"write.operator", `{}`, `{}`},
		"window of nothing": {"window", `{}`, `"code":"malformed"`},
		"bad pattern":       {"window", `{"type":"app_metrics","name":"(","regex":true}`, `"code":"pattern"`},
		"long prefix":       {"window", `{"type":"app_metrics","name":"m","regex":true,"prefix":"` + strings.Repeat("p", 1025) + `"}`, `"code":"malformed"`},
		"cursor overflows":  {"window", `{"type":"metadata","name":"m","after":{"second":9223372036854775807}}`, `"code":"malformed"`},
		"cursor nowhere":    {"window", `{"type":"metadata","name":"m","after":{"second":1,"dimensions":{"\u0000":"z"}}}`, "\x02\x00\x00"},
		"ends overflow":     {"window", `{"type":"metadata","name":"m","from":-9223372036854775808,"to":9223372036854775807}`, "\x02\x00\x00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			msg, err := other.Request("weir.test.metrics."+tt.subject, []byte(tt.data), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(msg.Data), tt.want) {
				t.Errorf("answer = %q, want %q", msg.Data, tt.want)
			}
		})
	}
}

func TestClientPut(t *testing.T) {
	owner, other := connections(t)
	serve(t, owner, open(t, t.TempDir()))
	testPut(t, embedded.NewClient(other, "test", writers.OperatorWriter))
}

// TestClientRefusesInvalidResponses: invalid responses of a store are errors, and the client always ends.
func TestClientRefusesInvalidResponses(t *testing.T) {
	_, other := connections(t)
	answers := map[string]string{
		"empty":             "",
		"wrong version":     "\x01\x00\x00",
		"page without end":  "\x02\x01\x01m\x00\x00\x00",
		"same page forever": "\x02\x01\x01m\x00\x02\x01\x01m\x00\x01\x02" + strings.Repeat("\x00", 8),
		"another name":      "\x02\x00\x01\x01n\x00\x01\x02" + strings.Repeat("\x00", 8),
		"too many series":   "\x02\x00\xff\xff\xff\xff\x0f",
		"an answer of JSON": "{}",
		"dropped before":    `{"dropped":-1}`,
		"broken JSON":       "{",
		"long JSON":         "{" + strings.Repeat(" ", 1<<20),
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			cluster := strings.ReplaceAll(name, " ", "-")
			bustest.Subscribe(t, other, "weir."+cluster+".metrics.>", func(m *nats.Msg) { _ = m.Respond([]byte(answer)) })
			c := embedded.NewClient(other, cluster, writers.OperatorWriter)
			if got, err := c.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "m"}); !errors.Is(err, embedded.ErrBadAnswer) {
				t.Errorf("Window = %v, %v, want ErrBadAnswer", got, err)
			}
			if answer == "{}" {
				return
			}
			sample := metrics.Sample{Type: metrics.System, Name: "m", Time: time.Now()}
			if err := c.Write(t.Context(), []metrics.Sample{sample}); !errors.Is(err, embedded.ErrBadAnswer) {
				t.Errorf("Write = %v, want ErrBadAnswer", err)
			}
		})
	}
}

// TestServeAnswersWaitingRequestsAtTheEnd: every write that reached the store is acknowledged, and every acknowledged
// write is stored.
func TestServeAnswersWaitingRequestsAtTheEnd(t *testing.T) {
	owner, other := connections(t)
	store := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, served := listen(t, owner), make(chan error, 1)
	go func() { served <- server.Serve(ctx, store) }()
	base := time.Now().Truncate(time.Second).Add(-30 * time.Minute)
	c := embedded.NewClient(other, "test", writers.OperatorWriter)
	kept := 0
	for i := range 10_000 {
		if i == 100 {
			cancel()
		}
		sample := metrics.Sample{Type: metrics.System, Name: "n", Dimensions: metrics.Dimensions{"i": fmt.Sprint(i % 7)}, Time: base.Add(time.Duration(i) * time.Millisecond)}
		err := c.Write(t.Context(), []metrics.Sample{sample})
		if errors.Is(err, embedded.ErrNoStore) {
			break
		}
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		kept++
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	series, err := store.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "n", From: base, To: time.Now()})
	points := 0
	for _, s := range series {
		points += len(s.Times)
	}
	if err != nil || points != kept || kept < 100 || kept == 10_000 {
		t.Errorf("kept %d points of %d acknowledged, %v", points, kept, err)
	}
}

func TestServeEndsWithItsConnection(t *testing.T) {
	owner, _ := connections(t)
	store := open(t, t.TempDir())
	server, served := listen(t, owner), make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), store) }()
	owner.Close()
	select {
	case err := <-served:
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Serve = %v, want ErrConnectionClosed", err)
		}
	case <-time.After(await.Patience):
		t.Error("Serve goes on")
	}
}
