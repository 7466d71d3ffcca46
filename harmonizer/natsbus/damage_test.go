package natsbus

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
)

// store is the folder of a server. A test damages its files between two runs.
type store struct {
	dir string
	old string // a copy of the folder, from before the last writes
}

func (s store) stream() string {
	return filepath.Join(s.dir, "jetstream", "$G", "streams", "KV_"+message.AppsBucket(cluster))
}

func (s store) block() string { return filepath.Join(s.stream(), "msgs", "1.blk") }

func (s store) removeIndex(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.stream(), "msgs", "index.db")); err != nil {
		t.Fatal(err)
	}
}

// edit changes the bytes of a file.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func noise(n int) []byte {
	random := rand.NewChaCha8([32]byte{1})
	data := make([]byte, n)
	_, _ = random.Read(data) // never returns an error
	return data
}

// flip inverts four bytes after the last text in the block.
func flip(t *testing.T, text string) func([]byte) []byte {
	return func(data []byte) []byte {
		at := bytes.LastIndex(data, []byte(text))
		if at < 0 {
			t.Fatalf("the block has no %q", text)
		}
		for i := range 4 {
			data[at+len(text)+i] ^= 0xff
		}
		return data
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// damages are changes of the files. Each loses or resets at least one key.
func damages() map[string]func(t *testing.T, s store) {
	return map[string]func(t *testing.T, s store){
		"random bytes in front, no index": func(t *testing.T, s store) {
			edit(t, s.block(), func(data []byte) []byte { copy(data, noise(200)); return data })
			s.removeIndex(t)
		},
		"a flipped row, no index": func(t *testing.T, s store) {
			edit(t, s.block(), flip(t, `"name":"web","pool":"default","instances":`))
			s.removeIndex(t)
		},
		"a flipped row": func(t *testing.T, s store) {
			edit(t, s.block(), flip(t, `"name":"web","pool":"default","instances":`))
		},
		"a flipped delete marker, no index": func(t *testing.T, s store) {
			edit(t, s.block(), flip(t, "KV-Operation"))
			s.removeIndex(t)
		},
		"a block that is cut short, no index": func(t *testing.T, s store) {
			edit(t, s.block(), func(data []byte) []byte { return data[:len(data)/2] })
			s.removeIndex(t)
		},
		"an older copy of the stream": func(t *testing.T, s store) {
			copyFolder(t, store{dir: s.old}.stream(), s.stream())
		},
		"an older copy of the store": func(t *testing.T, s store) { copyFolder(t, s.old, s.dir) },
		"a missing stream": func(t *testing.T, s store) {
			if err := os.RemoveAll(s.stream()); err != nil {
				t.Fatal(err)
			}
		},
		"a missing block": func(t *testing.T, s store) {
			if err := os.Remove(s.block()); err != nil {
				t.Fatal(err)
			}
			s.removeIndex(t)
		},
	}
}

// stopServer ends a run of a server, and waits until its client is disconnected.
func stopServer(t *testing.T, ns *server.Server, nc *nats.Conn) {
	t.Helper()
	ns.Shutdown()
	ns.WaitForShutdown()
	await.True(t, "the client is disconnected", func() bool { return !nc.IsConnected() })
}

// damaged returns a server on a damaged store with the rows web=5, api=2, job=3 and a deleted
// one. The folder has the state of the rows from before the damage.
func damaged(t *testing.T, damage func(t *testing.T, s store)) (nc *nats.Conn, folder string) {
	t.Helper()
	s, folder := store{dir: t.TempDir(), old: filepath.Join(t.TempDir(), "old")}, t.TempDir()
	ns := startServer(t, s.dir, -1)
	port := portOf(ns)
	nc = connect(t, ns.ClientURL())
	stateBucket(t, nc)
	kv := bucket(t, nc)
	for _, app := range []string{"job", "web", "gone"} {
		set(t, kv, app, 3)
	}
	stopServer(t, ns, nc)
	copyFolder(t, s.dir, s.old)
	ns = startServer(t, s.dir, port)
	await.True(t, "the server is back", nc.IsConnected)
	set(t, kv, "api", 2)
	set(t, kv, "web", 5)
	if err := kv.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	events, end := watchFolder(t, nc, folder)
	seen := rowsOf(t, events)
	if want := map[string]string{"job": "3", "api": "2", "web": "5", "gone": "gone"}; !maps.Equal(seen, want) {
		t.Fatalf("reported %v before the damage, want %v", seen, want)
	}
	end()
	stopServer(t, ns, nc)
	damage(t, s)
	startServer(t, s.dir, port)
	await.True(t, "the server is back", nc.IsConnected)
	stateBucket(t, nc) // an admin creates a missing bucket again
	return nc, folder
}

func stateBucket(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, cluster, 1)
	return js
}

// watchFolder collects what a source with that folder reports, until end.
func watchFolder(t *testing.T, nc *nats.Conn, folder string) (events <-chan apps.Event, end func()) {
	t.Helper()
	rows, err := NewRows(nc, RowsConfig{Cluster: cluster, Folder: folder, By: "test"}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan apps.Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- rows.Watch(ctx, func(_ context.Context, ev apps.Event) error { all <- ev; return nil })
	}()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	}
	t.Cleanup(end)
	return all, end
}

// rowsOf returns what a source reports of each app until it is complete.
func rowsOf(t *testing.T, events <-chan apps.Event) map[string]string {
	t.Helper()
	rows := map[string]string{}
	late := time.After(deadline)
	for {
		select {
		case <-late:
			t.Fatalf("the source is not complete; it reported %v", rows)
		case ev := <-events:
			switch ev := ev.(type) {
			case apps.ExpectedRows:
				for _, row := range ev.Rows {
					rows[row.Name] = fmt.Sprint(row.Instances)
				}
			case apps.ExpectedUnreadable:
				rows[ev.Name] = "unknown"
			case apps.ExpectedGone:
				rows[ev.Name] = "gone"
			case apps.ExpectedLost:
				clear(rows)
			case apps.ExpectedComplete:
				return rows
			}
		}
	}
}

func alarms(t *testing.T, js jetstream.JetStream) []integrity.Alarm {
	t.Helper()
	all, err := integrity.Alarms(t.Context(), js, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDamagedRowsAreUnknown damages the store between two runs of the server. Each row is
// reported as before or as unknown, and a deleted app gets no row. An alarm names the damage
// until an operator accepts it.
func TestDamagedRowsAreUnknown(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, folder := damaged(t, damage)
			js := stateBucket(t, nc)
			for _, run := range []string{"first", "second"} {
				events, end := watchFolder(t, nc, folder)
				rows := rowsOf(t, events)
				unknown := 0
				for app, want := range map[string]string{"job": "3", "api": "2", "web": "5", "gone": "gone"} {
					switch got, ok := rows[app]; {
					case got == "unknown":
						unknown++
					case app == "gone" && !ok:
					case got != want:
						t.Errorf("%s reading: reported %s of %s, want %s or unknown", run, got, app, want)
					}
				}
				all := alarms(t, js)
				if unknown == 0 || len(all) != 1 || all[0].Count < unknown || all[0].Reader != "apps" {
					t.Fatalf("%s reading: reported %v with the alarms %+v, want at least one unknown row, and an alarm that names all", run, rows, all)
				}
				for _, p := range all[0].Problems {
					if p.Bucket != message.AppsBucket(cluster) || p.Expected == "" || p.Found == "" {
						t.Errorf("%s reading: problem %+v, want bucket, expected and found", run, p)
					}
				}
				end()
			}
			accept(t, nc, js, folder)
		})
	}
}

// accept makes an operator accept the rows. A watch then reports them again, without the lost
// ones.
func accept(t *testing.T, nc *nats.Conn, js jetstream.JetStream, folder string) {
	t.Helper()
	events, end := watchFolder(t, nc, folder)
	defer end()
	rowsOf(t, events)
	all := alarms(t, js)
	if len(all) != 1 {
		t.Fatalf("alarms %+v, want one", all)
	}
	alarm := all[0]
	if alarm.Digest == "" { // only an unreadable value
		return
	}
	if err := integrity.AppsReader(cluster).Accept(t.Context(), js, alarm, integrity.Acceptance{By: "ann", Reason: "restored", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, events)
	await.True(t, "the alarm is gone", func() bool {
		for _, a := range alarms(t, js) {
			if slices.ContainsFunc(a.Problems, func(p integrity.Problem) bool { return !p.Unreadable }) {
				return false
			}
		}
		return true
	})
	for app, what := range rows {
		if what == "unknown" && !slices.ContainsFunc(alarm.Problems, func(p integrity.Problem) bool { return p.Unreadable && p.Key == app }) {
			t.Errorf("%s is unknown after an operator accepted the rows", app)
		}
	}
}

// TestDamagedRowAmongManyIsNamed has more rows than one batch. A batch ends at the damaged row, and all others are
// reported.
func TestDamagedRowAmongManyIsNamed(t *testing.T) {
	s, folder := store{dir: t.TempDir()}, t.TempDir()
	ns := startServer(t, s.dir, -1)
	port := portOf(ns)
	nc := connect(t, ns.ClientURL())
	js := stateBucket(t, nc)
	kv := bucket(t, nc)
	const others = 1500
	for i := range others {
		set(t, kv, fmt.Sprintf("app-%d", i), 1)
		if i == others/2 {
			set(t, kv, "web", 3)
		}
	}
	stopServer(t, ns, nc)
	edit(t, s.block(), flip(t, `"name":"web","pool":"default","instances":`))
	startServer(t, s.dir, port)
	await.True(t, "the server is back", nc.IsConnected)
	events, _ := watchFolder(t, nc, folder)
	rows := rowsOf(t, events)
	if len(rows) != others+1 || rows["web"] != "unknown" || rows["app-0"] != "1" || rows[fmt.Sprintf("app-%d", others-1)] != "1" {
		t.Errorf("reported %d apps, web is %q, want %d, and unknown", len(rows), rows["web"], others+1)
	}
	if all := alarms(t, js); len(all) != 1 || all[0].Count != 1 || all[0].Problems[0].Key != "web" {
		t.Errorf("alarms %+v, want web alone", all)
	}
	set(t, kv, "api", 7)
	if got := next(t, events); got != "rows api=7" {
		t.Errorf("reported %q of a row that is set later", got)
	}
}

// TestRowWrittenAgainIsKnown sets a lost row while the source watches. The row counts at once,
// and after a restart.
func TestRowWrittenAgainIsKnown(t *testing.T) {
	nc, folder := damaged(t, damages()["a missing stream"])
	events, end := watchFolder(t, nc, folder)
	rowsOf(t, events)
	kv := bucket(t, nc)
	for _, app := range []string{"web", "job", "api"} {
		set(t, kv, app, 7)
		if got := next(t, events); got != "rows "+app+"=7" {
			t.Errorf("reported %q of a row that is set again", got)
		}
	}
	js := stateBucket(t, nc)
	await.True(t, "the alarm is gone", func() bool { return len(alarms(t, js)) == 0 })
	end()
	events, _ = watchFolder(t, nc, folder)
	if rows := rowsOf(t, events); rows["web"] != "7" || rows["job"] != "7" || rows["api"] != "7" {
		t.Errorf("reported %v after a restart, want 7 of each", rows)
	}
}

// TestDamagedRowAffectsOnlyItsApp has one unreadable row. The harmonizer runs all other apps,
// and stops no instance of the damaged one, until the row is dropped.
func TestDamagedRowAffectsOnlyItsApp(t *testing.T) {
	s := store{dir: t.TempDir()}
	ns := startServer(t, s.dir, -1)
	url, port := ns.ClientURL(), portOf(ns)
	nc := connect(t, url)
	kv := bucket(t, nc)
	set(t, kv, "web", 3)
	set(t, kv, "api", 2)
	a := startAgent(t, connect(t, url), 200*time.Millisecond)
	h, stop := runHarmonizer(t, connect(t, url))
	await.True(t, "web runs", runs(h, t, "web", 3))
	await.True(t, "api runs", runs(h, t, "api", 2))
	stop()
	a.run(api.Beat{App: "stray", Version: "v1", Instance: "stray", State: api.CopyRunning})
	stopServer(t, ns, nc)
	edit(t, s.block(), flip(t, `"name":"web","pool":"default","instances":`))
	startServer(t, s.dir, port)
	await.True(t, "the server is back", nc.IsConnected)

	h = startHarmonizer(t, connect(t, url)) // a new harmonizer without earlier state
	await.True(t, "web has no readable row", func() bool {
		status, err := h.Status(t.Context(), api.HarmonizerQuery{App: "web"})
		return err == nil && status.App != nil && status.App.Problem != ""
	})
	set(t, kv, "api", 4)
	await.True(t, "api runs with four instances", func() bool {
		c, err := h.Counts(t.Context(), "default")
		return err == nil && c.Apps["api"].Running == 4
	})
	await.True(t, "what has no row is stopped", func() bool { return slices.Contains(a.stopped(), "stray") })
	for _, id := range a.stopped() {
		if id != "stray" {
			t.Errorf("instance %s was stopped", id)
		}
	}

	js := stateBucket(t, nc)
	if err := DropDamaged(t.Context(), js, cluster, 1, "web"); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the deleted app is stopped", func() bool {
		n := 0
		for _, id := range a.stopped() {
			if strings.HasPrefix(id, "api") {
				t.Fatalf("instance %s was stopped", id)
			}
			if strings.HasPrefix(id, "web") {
				n++
			}
		}
		return n == 3
	})
	set(t, bucket(t, nc), "api", 5) // the bucket accepts writes again
	await.True(t, "api runs with five instances", runs(h, t, "api", 5))
}

func (a *agent) run(b api.Beat) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[b.Instance] = b
}

func (a *agent) stopped() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.stops)
}
