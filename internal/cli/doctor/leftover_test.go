package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// records is a bus with the buckets of the pools web and batch of cluster prod, an hour after its records were written.
type records struct {
	*testing.T
	js   jetstream.JetStream
	now  time.Time
	site Site
	exam *busExam
}

func newRecords(t *testing.T) *records {
	t.Helper()
	nc, err := nats.Connect(bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()}).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "prod", 1, "web", "batch")
	dir := t.TempDir()
	for _, pool := range []string{"web", "batch"} {
		path := filepath.Join(dir, "prod", pool+".yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := Bus{Cluster: "prod", Pool: "web", Timeout: patience}
	w := &records{T: t, js: js, now: time.Now().Add(time.Hour)}
	w.site = Site{Configs: dir, Bus: &b, Pool: config.Pool{Signals: []config.Signal{{App: "filed"}}}}
	w.exam = &busExam{Bus: b, role: roleFound{unlimited: true}}
	return w
}

// put writes keys of a bucket.
func (w *records) put(bucket string, keys ...string) {
	w.Helper()
	for _, key := range keys {
		if _, err := kvbucket.New(w.js, bucket).Put(w.Context(), key, []byte("{}")); err != nil {
			w.Fatal(err)
		}
	}
}

// tick records a tick of a pool with these nodes. The last of them leaves.
func (w *records) tick(pool string, change func(*api.TickRecord), nodes ...string) {
	w.Helper()
	r := api.TickRecord{Schema: resolve.Schema, At: w.now.Add(-time.Second), Every: 10 * time.Second, Cluster: "prod", Pool: pool, Case: &api.Case{}}
	r.Case.Input.Apps = []api.AppInput{{Name: "ticked"}}
	r.Snapshot.Groups = []api.GroupSnapshot{{ID: "a group", Instances: len(nodes)}}
	for i, id := range nodes {
		if i == len(nodes)-1 {
			r.Snapshot.Others = []string{id}
			break
		}
		r.Case.Nodes = append(r.Case.Nodes, api.Candidate{ID: id})
	}
	if change != nil {
		change(&r)
	}
	data, err := json.Marshal(r)
	if err != nil {
		w.Fatal(err)
	}
	ledger, err := state.OpenLedger(w.Context(), w.js, "prod", pool)
	if err == nil {
		err = ledger.Append(w.Context(), data)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// keys returns the keys of a bucket with a value, without those of the bucket itself.
func (w *records) keys(bucket string) []string {
	w.Helper()
	c, err := integrity.Read(w.Context(), w.js, bucket)
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, k := range c.Keys {
		if !k.Deleted && k.Name != "schema" {
			all = append(all, k.Name)
		}
	}
	slices.Sort(all)
	return all
}

// examine returns the findings, after a fix if fix is set.
func (w *records) examine(fix bool) []Finding {
	w.Helper()
	w.exam.Fix = fix
	all := newLeftOvers(w.now, &w.site, w.exam, w.js).examine(w.Context())
	for i, f := range all {
		all[i].Check = leftOverCheck
		if strings.ContainsFunc(f.Detail+f.Fix, func(r rune) bool { return r < ' ' || r > '~' }) {
			w.Errorf("finding %q has control characters", f.Detail)
		}
	}
	return all
}

const (
	poolKeys, placerKeys, authKeys = "weir-pool:prod:web", "weir-placer:prod:web", "weir-auth:prod"
	mark                           = "order.stale.=YSBncm91cA" // of "a group"
)

// fill writes records of parts that exist and of parts that are gone.
func (w *records) fill() {
	w.put(poolKeys, "state", "lease", "drain.i-1", "drain.gone-1", "drain.gone-2", "order.pause", "order.remove.i-2", "order.remove.gone-3", mark, "order.stale.gone-group",
		"trial.rows", "trial.filed", "trial.ticked", "trial.gone-app", "seen.x.y", "accept.damage")
	w.put(authKeys, "identity.i-1", "identity.i-2", "identity.b-1", "identity.gone-1", "identity.gone-2", "identity.gone-3", "identity.gone-4", "identity.gone-5")
	w.put(names.AppsBucket("prod"), "rows")
	w.tick("web", nil, "i-1", "i-2")
	w.tick("batch", nil, "b-1")
}

// Records of nodes, groups and apps that are gone by a complete answer are listed. --fix deletes them, and no other key.
func TestLeftOverRecordsAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.fill()
	before := [][]string{w.keys(poolKeys), w.keys(authKeys)}
	all := w.examine(false)
	want(t, all, leftOverCheck, Warned, "2 drain records of nodes that are gone: gone-1, gone-2 (keys drain.* of bucket weir-pool:prod:web, the oldest of 20", `"weir doctor --fix"`, "role admin")
	want(t, all, leftOverCheck, Warned, "1 orders to remove nodes that are gone: gone-3 (", "order.remove.*", "role operator or admin")
	want(t, all, leftOverCheck, Warned, "1 marks of groups that are gone: gone-group", "order.stale.*", "role operator or admin")
	want(t, all, leftOverCheck, Warned, "1 trials of apps that are gone: gone-app", "trial.*")
	want(t, all, leftOverCheck, Warned, "5 keys of machines that are gone: gone-1, gone-2, gone-3 and 2 more", "identity.* of bucket weir-auth:prod")
	if len(all) != 5 || !slices.EqualFunc(before, [][]string{w.keys(poolKeys), w.keys(authKeys)}, slices.Equal) {
		t.Errorf("%d findings, want 5, and no change:\n%s", len(all), table(all))
	}

	fixed := w.examine(true)
	want(t, fixed, leftOverCheck, Fixed, "deleted 2 drain records of nodes that are gone: gone-1, gone-2")
	want(t, fixed, leftOverCheck, Fixed, "deleted 5 keys of machines that are gone")
	if got := w.keys(poolKeys); !slices.Equal(got, []string{"accept.damage", "drain.i-1", "lease", "order.pause", "order.remove.i-2", mark, "seen.x.y", "state", "trial.filed", "trial.rows", "trial.ticked"}) {
		t.Errorf("the pool has the keys %q after the fix", got)
	}
	if got := w.keys(authKeys); !slices.Equal(got, []string{"identity.b-1", "identity.i-1", "identity.i-2"}) {
		t.Errorf("weir auth has the keys %q after the fix", got)
	}
	again := w.examine(true)
	want(t, again, leftOverCheck, OK, "no record")
	if len(again) != 1 {
		t.Errorf("findings after the fix:\n%s", table(again))
	}
}

// Without a complete and fresh answer nothing counts as gone, and --fix deletes nothing.
func TestLeftOverRecordsAreUnknownWithoutACompleteAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*api.TickRecord)
		why    string
	}{
		"old":              {func(r *api.TickRecord) { r.At = r.At.Add(-30 * time.Second) }, "no tick since"},
		"of the future":    {func(r *api.TickRecord) { r.At = r.At.Add(time.Hour) }, "in the future"},
		"failed":           {func(r *api.TickRecord) { r.Failed = "denied\x1b[31m" }, "ended early: denied"},
		"paused":           {func(r *api.TickRecord) { r.Paused = &api.Note{By: "me"} }, "the pool is paused"},
		"no decision":      {func(r *api.TickRecord) { r.Case = nil }, "no decision"},
		"groups missing":   {func(r *api.TickRecord) { r.Snapshot.Missing = "throttled" }, "groups may be missing: throttled"},
		"a group unknown":  {func(r *api.TickRecord) { r.Snapshot.Groups[0].Unknown = &api.Unknown{Why: "throttled"} }, "group a group could not be read: throttled"},
		"instances absent": {func(r *api.TickRecord) { r.Snapshot.Others = nil }, "names 1 of 2 instances"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecords(t)
			w.fill()
			w.tick("web", tc.change, "i-1", "i-2")
			before := [][]string{w.keys(poolKeys), w.keys(authKeys)}
			for _, fix := range []bool{false, true} {
				all := w.examine(fix)
				want(t, all, leftOverCheck, Unknown, "3 drain records, 2 orders to remove nodes, 2 marks of groups, 4 trials of apps, 8 keys of machines are not judged: pool web: ", tc.why)
				if len(all) != 1 || !slices.EqualFunc(before, [][]string{w.keys(poolKeys), w.keys(authKeys)}, slices.Equal) {
					t.Errorf("fix %t: %d findings, want 1, and no change:\n%s", fix, len(all), table(all))
				}
			}
		})
	}
}

// A machine of another pool has its key. Without a tick of that pool, and for a pool that only its file names, no key is judged.
func TestKeysOfMachinesNeedEachPool(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.put(authKeys, "identity.b-1", "identity.gone-1")
	w.tick("web", nil, "i-1")
	want(t, w.examine(true), leftOverCheck, Unknown, "2 keys of machines", "pool batch: no decision is recorded yet")
	w.tick("batch", nil, "b-1")
	if err := os.WriteFile(filepath.Join(w.site.Configs, "prod", "third.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, w.examine(true), leftOverCheck, Unknown, "2 keys of machines", "pool third: no decision is recorded yet")
	if got := w.keys(authKeys); len(got) != 2 {
		t.Errorf("keys %q, want both", got)
	}
}

// A record that is younger than the answer stays: its part may be newer. One that changes between the list and its deletion stays too.
func TestYoungAndChangedRecordsStay(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.now = time.Now().Add(settled - time.Minute)
	w.fill()
	want(t, w.examine(true), leftOverCheck, OK, "no record")

	w.now = time.Now().Add(time.Hour)
	w.tick("web", nil, "i-1", "i-2")
	w.tick("batch", nil, "b-1")
	exam := newLeftOvers(w.now, &w.site, w.exam, w.js)
	drains := exam.kinds()[0]
	found, err := exam.read(w.Context(), drains)
	if err != nil || len(found.left) != 2 {
		t.Fatalf("%+v, %v: want two records that are left over", found, err)
	}
	w.put(poolKeys, "drain.gone-1")
	w.exam.Fix = true
	f := exam.judged(w.Context(), drains, found.left)
	if f.Result != Fixed || !strings.Contains(f.Detail, "; 1 changed meanwhile") || !strings.HasPrefix(f.Detail, "deleted 1 drain records of nodes that are gone: gone-2 (") {
		t.Errorf("%+v, want one to be deleted, and the changed one to stay", f)
	}
	if got := w.keys(poolKeys); !slices.Contains(got, "drain.gone-1") || slices.Contains(got, "drain.gone-2") {
		t.Errorf("keys %q, want the changed record", got)
	}
}

// Values that were set aside are left over after two weeks, those of each owner.
func TestOldValuesThatWereSetAside(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.put(poolKeys, "aside.7.drain.i-1")
	w.put(placerKeys, "aside.1f")
	w.put(names.HarmonizerBucket("prod"), "aside.nodes")
	want(t, w.examine(true), leftOverCheck, OK, "no record")
	w.now = time.Now().Add(asideAge + time.Hour)
	all := w.examine(true)
	for bucket, key := range map[string]string{poolKeys: "7.drain.i-1", placerKeys: "1f", "weir-harmonizer:prod": "nodes"} {
		want(t, all, leftOverCheck, Fixed, "deleted 1 values that were set aside more than 14 days ago: "+key, bucket)
		if got := w.keys(bucket); len(got) != 0 {
			t.Errorf("bucket %s has the keys %q after the fix", bucket, got)
		}
	}
}

// Odd names and huge values are neither listed nor deleted, and break nothing.
func TestOddKeysAreNotLeftOver(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.tick("web", nil, "i-1")
	w.tick("batch", nil, "b-1")
	for _, key := range []string{"drain.\x1b[31m", "drain.a..b", "drain.\u00e4", "trial.a.b", "trial.-x", "order.remove." + strings.Repeat("x", 300), "order.other.x", "drainx", "xdrain.y"} {
		if _, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: "$KV." + poolKeys + "." + key, Data: []byte("x")}); err != nil {
			t.Logf("the server refuses key %q: %v", key, err)
		}
	}
	huge := make([]byte, 900<<10)
	if _, err := kvbucket.New(w.js, poolKeys).Put(t.Context(), "drain.gone-1", huge); err != nil {
		t.Fatal(err)
	}
	before := w.keys(poolKeys)
	all := w.examine(true)
	want(t, all, leftOverCheck, Fixed, "deleted 1 drain records of nodes that are gone: gone-1")
	after := w.keys(poolKeys)
	if before = slices.DeleteFunc(before, func(key string) bool { return key == "drain.gone-1" }); len(all) != 1 || !slices.Equal(before, after) {
		t.Errorf("keys %q, want %q:\n%s", after, before, table(all))
	}
}

// A role that may not delete a key lists it, and names the role that may. A role that may not read a bucket reports that.
func TestRolesOfLeftOverRecords(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.fill()
	as := func(r roles.Role) []Finding {
		u := user(r)
		w.exam.role = roleFound{user: &u}
		return w.examine(true)
	}
	viewer := as(roles.Viewer)
	want(t, viewer, leftOverCheck, Failed, "2 drain records of nodes that are gone", "role viewer may not delete them", "role admin")
	operator := as(roles.Operator)
	want(t, operator, leftOverCheck, Failed, "2 drain records of nodes that are gone", "role operator may not delete them", "role admin")
	want(t, operator, leftOverCheck, Fixed, "deleted 1 orders to remove nodes that are gone")
	want(t, operator, leftOverCheck, Failed, "5 keys of machines that are gone", "role operator may not delete them")
	pool := as(roles.Pool)
	want(t, pool, leftOverCheck, Unknown, "role pool may not read weir-placer:prod:web, weir-harmonizer:prod, weir-auth:prod", "viewer, operator or admin")
	want(t, pool, leftOverCheck, Unknown, "4 trials of apps are not judged: role pool may not read KV_weir-apps_prod")
	want(t, pool, leftOverCheck, Fixed, "deleted 2 drain records of nodes that are gone")
	auth := as(roles.Auth)
	want(t, auth, leftOverCheck, Unknown, "8 keys of machines are not judged: ", "may not")
}

// A pool without a file and without a tick for a day is named. --fix deletes no stream.
func TestPoolsWithoutAFile(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.tick("web", nil, "i-1")
	if err := os.Remove(filepath.Join(w.site.Configs, "prod", "batch.yaml")); err != nil {
		t.Fatal(err)
	}
	if all := w.examine(true); strings.Contains(table(all), "batch") {
		t.Errorf("a pool with young streams is left over:\n%s", table(all))
	}
	w.now = time.Now().Add(poolAge + time.Hour)
	all := w.examine(true)
	want(t, all, leftOverCheck, Warned, "1 pools with streams have no file in "+filepath.Join(w.site.Configs, "prod"), "no tick for a day: batch (", "nats stream rm", "KV_weir-pool:prod:POOL")
	if _, err := w.js.Stream(t.Context(), names.LedgerStream("prod", "batch")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(w.site.Configs, "prod")); err != nil {
		t.Fatal(err)
	}
	if all := w.examine(true); strings.Contains(table(all), "have no file") {
		t.Errorf("without the folder of the files, pools are left over:\n%s", table(all))
	}
}

// Very many keys are deleted within the time of a check, and the rest by the next fix.
func TestManyLeftOverRecords(t *testing.T) {
	t.Parallel()
	w := newRecords(t)
	w.tick("web", nil, "i-1")
	w.tick("batch", nil, "b-1")
	for i := range 3000 {
		w.put(authKeys, fmt.Sprintf("identity.gone-%d", i))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	exam := newLeftOvers(w.now, &w.site, w.exam, w.js)
	kinds := exam.kinds()
	keys := kinds[slices.IndexFunc(kinds, func(k recordKind) bool { return k.prefix == "identity." })]
	found, err := exam.read(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	w.exam.Fix = true
	if f := exam.judged(ended, keys, found.left); f.Result != Failed || !strings.Contains(f.Detail, "deleted 0 of 3000 keys of machines") || !strings.Contains(f.Fix, "again") {
		t.Errorf("%+v, want a failure that says how many are left", f)
	}
	want(t, w.examine(true), leftOverCheck, Fixed, "deleted 3000 keys of machines that are gone")
	if got := w.keys(authKeys); len(got) != 0 {
		t.Errorf("%d keys are left", len(got))
	}
}

// At the bus of a data folder, --fix deletes records as an admin. Without it the command stays an operator.
func TestFixOfADataFolderIsAnAdmin(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	open := func(r roles.Role) *bus.Bus {
		b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: t.Name(), User: roles.User{Role: r, Cluster: "prod"}, Log: slog.New(slog.DiscardHandler), Serve: natsserver.ServeRoles})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	bustest.Streams(t, open(roles.Admin).JetStream(), "prod", 1, "web")
	for _, fix := range []bool{false, true} {
		x := &busExam{progress: func(string) {}, report: func(Finding) {}, Bus: Bus{Cluster: "prod", Pool: "web", Timeout: patience, Fix: fix, Config: bus.Config{
			Data: data, Name: t.Name(), User: roles.User{Role: roles.Operator, Cluster: "prod"}, Log: slog.New(slog.DiscardHandler)}}}
		x.folder(t.Context())
		called := false
		fixer(x).withBus(t.Context(), func(ctx context.Context, b *bus.Bus) {
			called = true
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if _, err := kvbucket.New(b.JetStream(), poolKeys).Put(ctx, "trial.x", []byte("{}")); (err == nil) != fix {
				t.Errorf("fix %t: the write of a trial returned %v", fix, err)
			}
		})
		if may := fixer(x).role.may("$KV." + poolKeys + ".trial.x"); !called || may != fix {
			t.Errorf("fix %t: called %t, the role may write a trial: %t", fix, called, may)
		}
	}
}

// The table of roles permits what the texts of the findings name.
func TestRolesThatTheFindingsName(t *testing.T) {
	t.Parallel()
	exam := newLeftOvers(time.Now(), &Site{}, &busExam{Bus: Bus{Cluster: "prod", Pool: "web"}}, nil)
	for _, k := range exam.kinds() {
		may := map[string]bool{}
		for _, r := range []roles.Role{roles.Admin, roles.Operator, roles.Viewer} {
			may[string(r)] = user(r).Permissions().May(roles.Publish, "$KV."+k.bucket+"."+k.prefix+"x")
		}
		want := map[string]bool{"admin": true, "operator": strings.Contains(k.by, "operator"), "viewer": false}
		if !maps.Equal(may, want) {
			t.Errorf("%s: the roles may %v, the finding names %q", k.what, may, k.by)
		}
	}
}
