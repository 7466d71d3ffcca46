package migrate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/state/migrate"
)

const (
	// patience bounds the wait for an event.
	patience = await.Patience
	cluster  = "here"
	// childEnv makes the test binary a process that migrates the cluster on the server with that URL.
	childEnv = "MIGRATE_TEST_CHILD"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		if err := child(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = migrate.Run(context.Background(), migrate.Config{
		JS: js, Cluster: cluster, Holder: fmt.Sprint("child ", os.Getpid()), Exclusive: true, TTL: time.Minute,
	})
	return err
}

// world is a server with data of the old layout.
type world struct {
	*testing.T
	url string
	nc  *nats.Conn
	js  jetstream.JetStream
}

// fixtureLine is a line of testdata/old_layout.jsonl: a stream, or a message of the last stream. The version before ADR 34
// wrote the data: leases, state, health, drain records, orders, a trial, the harmonizer's memory, applications, records
// and evidence.
type fixtureLine struct {
	Config  *jetstream.StreamConfig `json:"config"`
	Subject string                  `json:"subject"`
	Header  nats.Header             `json:"header"`
	Data    []byte                  `json:"data"`
}

// firstSequence is above all epochs of the fixture, as in the buckets that it was read from.
const firstSequence = 1000

func newWorld(t *testing.T) *world {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	w := &world{T: t, url: s.ClientURL(), nc: bustest.Connect(t, s.ClientURL())}
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "old_layout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var l fixtureLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Config != nil {
			l.Config.FirstSeq = firstSequence
			_, err = w.js.CreateStream(w.ctx(), *l.Config)
		} else {
			w.publish(l.Subject, l.Header, l.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) publish(subject string, header nats.Header, data []byte) uint64 {
	w.Helper()
	ack, err := w.js.PublishMsg(w.ctx(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		w.Fatal(err)
	}
	return ack.Sequence
}

// longRecord adds a record of three messages, and one that has lost a part.
func (w *world) longRecord() {
	w.Helper()
	first := w.publish("weir.here.decision.web.part", nil, []byte("long "))
	second := w.publish("weir.here.decision.web.part", nil, []byte("record "))
	w.publish("weir.here.decision.web", nats.Header{"Weir-Parts": {fmt.Sprintf("%d,%d", first, second)}}, []byte("end"))
	w.publish("weir.here.decision.web", nats.Header{"Weir-Parts": {fmt.Sprintf("%d,%d", first, second+10_000)}}, []byte("lost"))
}

// claim writes a claim over a lease of the old bucket.
func (w *world) claim(lease, holder string, ttl time.Duration) {
	w.Helper()
	w.publish("$KV.weir_here.lease."+lease, nil, fmt.Appendf(nil, `{"holder":%q,"epoch":700,"ttl_ns":%d,"at":"2026-03-01T12:00:00Z"}`, holder, ttl))
}

func (w *world) config() migrate.Config {
	return migrate.Config{JS: w.js, Cluster: cluster, Holder: "test", TTL: time.Minute, Exclusive: true, Progress: func(line string) { w.Log(line) }}
}

func (w *world) run(c migrate.Config) migrate.Result {
	w.Helper()
	r, err := migrate.Run(w.ctx(), c)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// last returns the newest message of a subject.
func (w *world) last(stream, subject string) *jetstream.RawStreamMsg {
	w.Helper()
	s, err := w.js.Stream(w.ctx(), stream)
	if err != nil {
		w.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(w.ctx(), subject)
	if err != nil {
		w.Fatalf("%s of %s: %v", subject, stream, err)
	}
	return m
}

// keys returns the live keys of a bucket, without its schema. A lease has no epoch and no time: they differ between runs.
func (w *world) keys(bucket string) map[string]string {
	w.Helper()
	s, err := w.js.Stream(w.ctx(), "KV_"+bucket)
	if err != nil {
		w.Fatal(err)
	}
	info, err := s.Info(w.ctx(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		w.Fatal(err)
	}
	live := map[string]string{}
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, "$KV."+bucket+".")
		m := w.last("KV_"+bucket, subject)
		if key == "schema" || key == "lease.migrate" || m.Header.Get("KV-Operation") != "" {
			continue
		}
		live[key] = string(m.Data)
		if strings.HasPrefix(key, "lease.") {
			live[key] = fmt.Sprint("released: ", strings.Contains(live[key], `"released":true`))
		}
	}
	return live
}

// records returns all records of a pool in the new layout.
func (w *world) records(pool string) (all []string) {
	w.Helper()
	l, err := state.OpenLedger(w.ctx(), w.js, cluster, pool)
	if err != nil {
		w.Fatal(err)
	}
	err = l.Since(w.ctx(), time.Now().Add(-time.Hour), func(r []byte) error { all = append(all, string(r)); return nil })
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// evidence returns the evidence of a node with its names.
func (w *world) evidence(node string) (all []string) {
	w.Helper()
	e, err := state.NewEvidence(w.js, cluster, "web", 0)
	if err != nil {
		w.Fatal(err)
	}
	err = e.Load(w.ctx(), node, func(name string, data []byte) error { all = append(all, name+" "+string(data)); return nil })
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// contents is all migrated data.
func (w *world) contents() map[string]any {
	w.Helper()
	return map[string]any{
		"state": w.keys("weir-state_here"), "orders": w.keys("weir-orders_here"), "apps": w.keys("weir-apps_here"),
		"web": w.records("web"), "batch": w.records("batch"), "evidence": w.evidence("i-1"),
	}
}

// streams returns all streams with their last sequence numbers.
func (w *world) streams() (all []string) {
	w.Helper()
	for info := range w.js.ListStreams(w.ctx()).Info() {
		all = append(all, fmt.Sprint(info.Config.Name, " ", info.State.LastSeq, " ", info.Config.Subjects))
	}
	slices.Sort(all)
	return all
}
