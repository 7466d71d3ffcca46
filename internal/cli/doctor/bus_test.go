package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const patience = await.Patience

// world is a cluster of three server processes.
type world struct{ *bustest.Processes }

func prod() natsconf.Cluster {
	return natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "batch"}, {Name: "web"}}}
}

func user(r roles.Role) roles.User {
	u := roles.User{Role: r, Cluster: "prod", Pools: []string{"batch", "web"}}
	if r == roles.Pool || r == roles.Placer {
		u.Pool = "web"
	}
	return u
}

// config returns the configuration of a process with the key of a user, for these servers.
func (w world) config(t *testing.T, u roles.User, servers ...string) bus.Config {
	t.Helper()
	seed, err := w.Seed(t, u.Name()).Seed()
	if err != nil {
		t.Fatal(err)
	}
	return bus.Config{Name: "test", Log: slog.New(slog.DiscardHandler), NATS: bus.NATS{
		Servers: servers, NKeyFile: file(t, "user.nk", string(seed)), TLS: bus.TLS{CAFile: w.CAFile()},
	}}
}

func (w world) all() []string { return strings.Split(w.URLs(), ",") }

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// examineBus returns the findings about the bus.
func examineBus(t *testing.T, c bus.Config, fix bool) (all []Finding) {
	t.Helper()
	return examineWithin(t, c, 20*time.Second, fix)
}

// examineWithin is examineBus with another deadline of each check.
func examineWithin(t *testing.T, c bus.Config, timeout time.Duration, fix bool) (all []Finding) {
	t.Helper()
	b := Bus{Config: c, Cluster: "prod", Pool: "web", Timeout: timeout, Fix: fix}
	b.examine(t.Context(), func(f Finding) { all = append(all, f) }, func(string) {})
	return all
}

// want requires exactly one finding of the check with these texts in it.
func want(t *testing.T, all []Finding, check string, r Result, texts ...string) {
	t.Helper()
	matches := slices.DeleteFunc(found(all, check), func(f Finding) bool {
		return f.Result != r || slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(f.Detail+"\n"+f.Fix, text) })
	})
	if len(matches) != 1 || strings.Contains(matches[0].Detail, "\n") || (matches[0].Fix == "") != (r == OK || r == Fixed) {
		t.Errorf("%d findings of check %s with result %s and %q, want one line with a fix for a failure, in\n%s", len(matches), check, r, texts, table(all))
	}
}

func table(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%-7s  %s: %s\n         %s\n", f.Result, f.Check, f.Detail, f.Fix)
	}
	return b.String()
}

// A production cluster goes through the life of its operator.
func TestProductionCluster(t *testing.T) {
	w := world{bustest.StartProcesses(t, false, prod())}
	t.Run("permissions are tested without effect", w.permissionsWithoutEffect)
	t.Run("nothing is written without fix", w.nothingWritten)
	t.Run("an earlier layout", w.earlierLayout)
	t.Run("fix creates and raises", w.fixes)
	t.Run("a pool without its account", w.newPool)
	t.Run("one server lacks an import", w.oneLacksAnImport)
	t.Run("one server lacks the user", w.oneRefuses)
	t.Run("one server hangs", w.oneHangs)
	t.Run("too few servers", w.tooFew)
}

// Each role is found by its permissions, while no receiver gets a message.
func (w world) permissionsWithoutEffect(t *testing.T) {
	var received atomic.Int64
	for _, u := range w.Site.Users() {
		if u.Pool == "batch" {
			continue
		}
		nc := w.Connect(t, u)
		for _, subject := range u.Permissions().Subscribe {
			if strings.HasPrefix(subject, "_INBOX") {
				continue // a client subscribes to a random subject below it
			}
			if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
				received.Add(1)
				t.Errorf("%s received %s %q %v", u.Name(), m.Subject, m.Data, m.Header)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
		if err := nc.LastError(); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range w.Site.Users() {
		if u.Pool == "batch" {
			continue
		}
		x := &busExam{Bus: Bus{Config: w.config(t, u, w.all()...), Cluster: "prod", Pool: "web", Timeout: patience}, progress: func(string) {}}
		var all []Finding
		x.report = func(f Finding) { all = append(all, f) }
		x.permissions(t.Context())
		want(t, all, "role", OK, u.Name()+" (role "+string(u.Role)+")", "permissions of its role")
	}
	if n := received.Load(); n != 0 {
		t.Errorf("%d messages were delivered by the tests of permissions", n)
	}
}

func (w world) streams(t *testing.T) (all []string) {
	t.Helper()
	js, err := jetstream.New(w.Connect(t, user(roles.Admin)))
	if err != nil {
		t.Fatal(err)
	}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		all = append(all, fmt.Sprintf("%s with %d replicas, sequence %d", info.Config.Name, info.Config.Replicas, info.State.LastSeq))
	}
	if list.Err() != nil {
		t.Fatal(list.Err())
	}
	slices.Sort(all)
	return all
}

func (w world) nothingWritten(t *testing.T) {
	for _, u := range w.Site.Users() {
		if u.Pool == "batch" {
			continue
		}
		all := examineBus(t, w.config(t, u, w.all()...), false)
		if Healthy(all) && u.Role != roles.Metrics && u.Role != roles.Auth {
			t.Errorf("%s: the missing buckets are not reported:\n%s", u.Name(), table(all))
		}
	}
	if now := w.streams(t); len(now) != 0 {
		t.Errorf("doctor without --fix wrote %q", now)
	}
	all := examineBus(t, w.config(t, user(roles.Viewer), w.all()...), false)
	for i := range 3 {
		want(t, all, "nats server", OK, w.URL(i), fmt.Sprintf("n%d, NATS 2.", i+1), "cluster weir with 3 known servers", "certificate for 127.0.0.1 ends in 730 days", "JetStream")
		want(t, all, "clock", OK, w.URL(i), "is that of this host")
	}
	want(t, all, "nats files", OK, "nats.tls.ca_file "+w.CAFile(), "days")
	want(t, all, "role", OK, "role viewer")
	want(t, all, "streams", Failed, "bucket weir-pool:prod:web: is missing", "weir nats streams", "role admin")
	want(t, all, "streams", Failed, names.EvidenceStream("prod", "web"), "is missing", "weir nats streams")
}

// Servers with the buckets of an earlier layout are named to each role that may list streams.
func (w world) earlierLayout(t *testing.T) {
	js, err := jetstream.New(w.Connect(t, user(roles.Admin)))
	if err != nil {
		t.Fatal(err)
	}
	const old = "KV_weir-state_prod"
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: old, Subjects: []string{"$KV.weir-state_prod.>"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []roles.Role{roles.Viewer, roles.Operator, roles.Admin} {
		want(t, examineBus(t, w.config(t, user(r), w.all()...), false), "streams", Failed,
			"bucket weir-harmonizer:prod: is missing, and stream "+old+" has an earlier layout", "use an empty data folder or empty servers")
	}
	if err := js.DeleteStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
}

func (w world) fixes(t *testing.T) {
	js, err := jetstream.New(w.Connect(t, user(roles.Admin)))
	if err != nil {
		t.Fatal(err)
	}
	open := kvbucket.Settings(names.PlacerBucket("prod", "web"), "", 1, 128<<20)
	open.AllowRollup, open.DenyPurge, open.DenyDelete, open.MaxMsgsPerSubject = true, false, false, 5
	few := kvbucket.Settings(names.PoolBucket("prod", "web"), "", 1, 256<<20)
	var batch jetstream.StreamConfig
	for _, c := range (streams.Cluster{Name: "prod", Replicas: 3, Pools: []streams.Pool{{Name: "batch"}}}).Specs() {
		if c.Name == names.LedgerStream("prod", "batch") {
			batch = c
		}
	}
	batch.DenyDelete = false
	for _, c := range []jetstream.StreamConfig{few, open, batch} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	others := streams.Cluster{Name: "prod", Replicas: 3, Pools: []streams.Pool{{Name: "batch"}}}.Specs()
	if _, err := streams.Create(t.Context(), js, others[len(streams.Cluster{Name: "prod"}.Specs()):]); err != nil {
		t.Fatal(err)
	}
	viewer := w.config(t, user(roles.Viewer), w.all()...)
	seen := examineBus(t, viewer, false)
	want(t, seen, "streams", Failed, "bucket weir-pool:prod:web: has 1 of 3 replicas", "weir doctor --fix")
	want(t, seen, "streams", Failed, "bucket weir-placer:prod:web: allow_rollup_hdrs is true, deny_purge is false, deny_delete is false, max_msgs_per_subject is 5, want 1", "weir doctor --fix")
	want(t, seen, "streams", Failed, "stream "+names.LedgerStream("prod", "batch")+": deny_delete is false", "weir doctor --fix")
	refused := examineBus(t, viewer, true)
	want(t, refused, "streams", Failed, "weir-pool:prod:web: has 1 of 3 replicas", "role viewer may not raise the number", "role admin")
	want(t, refused, "streams", Failed, "weir-apps_prod: is missing", "role viewer may not create it", "role admin")
	fixed := examineBus(t, w.config(t, user(roles.Admin), w.all()...), true)
	want(t, fixed, "streams", Fixed, "bucket weir-pool:prod:web: raised from 1 to 3 replicas")
	want(t, fixed, "streams", Fixed, "bucket weir-placer:prod:web: corrected: allow_rollup_hdrs is true", "it has 3 replicas")
	want(t, fixed, "streams", Fixed, "stream "+names.LedgerStream("prod", "batch")+": corrected")
	want(t, fixed, "streams", Fixed, "bucket weir-apps_prod: was missing; created with 3 replicas")
	want(t, fixed, "streams", Fixed, "stream "+names.LedgerStream("prod", "web")+": was missing")
	want(t, fixed, "streams", Fixed, "stream "+names.SummaryStream("prod", "web")+": was missing")
	if !Healthy(fixed) {
		t.Errorf("after the fix:\n%s", table(fixed))
	}
	before := w.streams(t)
	again := examineBus(t, w.config(t, user(roles.Operator), w.all()...), true)
	want(t, again, "streams", OK, "bucket weir-apps_prod: 3 replicas, leader n", "lag 0")
	want(t, again, "streams", OK, names.LedgerStream("prod", "web"), "of 512.0 MiB, kept for 336 h")
	want(t, again, "streams", OK, names.SummaryStream("prod", "web"), "of 2.5 GiB, kept for 2160 h")
	want(t, again, "storage", OK, "8.3 GiB")
	if now := w.streams(t); !slices.Equal(before, now) {
		t.Errorf("a second fix changed %q to %q", before, now)
	}
}

// A pool whose account the servers lack, or have added by one reload only, is named, with the remedy.
func (w world) newPool(t *testing.T) {
	w.Change(t, func(site *natsconf.Site) {
		site.Clusters[0].Pools = append(slices.Clone(site.Clusters[0].Pools), natsconf.Pool{Name: "night"})
	})
	u := roles.User{Role: roles.Pool, Cluster: "prod", Pool: "night"}
	c := w.config(t, u, w.all()...)
	b := Bus{Config: c, Cluster: "prod", Pool: u.Pool, Timeout: 20 * time.Second}
	examine := func() (all []Finding) {
		b.examine(t.Context(), func(f Finding) { all = append(all, f) }, func(string) {})
		return all
	}
	all := examine()
	for i := range w.Site.Servers {
		want(t, all, "nats server", Failed, w.URL(i), "Authorization Violation", "nats.nkey_file "+c.NATS.NKeyFile, "accounts.conf")
		w.Reload(t, i)
	}
	all = examine()
	for i := range w.Site.Servers {
		want(t, all, "borders", Failed, w.URL(i), `account "POOL:prod:night" reaches no other account`, "needs a second reload", "reload it twice")
		w.Reload(t, i)
	}
	all = examine()
	for i := range w.Site.Servers {
		want(t, all, "borders", OK, w.URL(i), `account "POOL:prod:night"`)
	}
}

// A server whose accounts are older than those of the others is named, with the line that its file lacks.
func (w world) oneLacksAnImport(t *testing.T) {
	pool := user(roles.Pool)
	line := `      { service: { account: "METRICS:prod", subject: "weir.prod.metrics.window" } }` + "\n"
	path := filepath.Join(w.Site.Servers[1].Folder, natsconf.AccountsFile)
	before, own, after := w.accountOf(t, pool.Account())
	if !strings.Contains(own, line) {
		t.Fatalf("account %s has no line %s", pool.Account(), line)
	}
	if err := os.WriteFile(path, []byte(before+strings.Replace(own, line, "", 1)+after), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Terminate(t, 1)
	w.Restart(t, 1)
	all := examineBus(t, w.config(t, pool, w.all()...), false)
	want(t, all, "borders", Failed, w.URL(1), strings.TrimSpace(line), "weir nats init", "copy accounts.conf to this server")
	for _, i := range []int{0, 2} {
		want(t, all, "borders", OK, w.URL(i), `account "POOL:prod:web"`)
	}
}

// accountOf returns the file of the accounts in three parts, the second one from the name of an account to the next account.
func (w world) accountOf(t *testing.T, account string) (before, own, after string) {
	t.Helper()
	name := fmt.Sprintf("  %q {\n", account)
	before, rest, ok := strings.Cut(w.Site.Accounts(), name)
	end := strings.Index(rest, "\n  }\n")
	if !ok || end < 0 {
		t.Fatalf("the file has no account %s", account)
	}
	return before, name + rest[:end], rest[end:]
}

// A server that lacks the user is named, although a client of it would continue at the servers that it reports.
func (w world) oneRefuses(t *testing.T) {
	metrics, other := user(roles.Metrics), w.Site
	other.Keys = maps.Clone(other.Keys)
	delete(other.Keys, metrics.Name())
	if err := os.WriteFile(filepath.Join(w.Site.Servers[1].Folder, natsconf.AccountsFile), []byte(other.Accounts()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Terminate(t, 1)
	w.Restart(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for known := 0; known < 3; <-again.C { // until it reports the other servers
		g, err := bus.Greet(ctx, w.URL(1))
		if err != nil {
			t.Fatal(err)
		}
		known = len(g.Peers)
	}
	c := w.config(t, metrics, w.all()...)
	all := examineBus(t, c, false)
	want(t, all, "nats server", OK, w.URL(0))
	want(t, all, "nats server", Failed, w.URL(1), "Authorization Violation", "nats.nkey_file "+c.NATS.NKeyFile, "add the user to the servers")
	want(t, all, "nats server", OK, w.URL(2))
}

// A server that hangs costs its own line only, and its share of the time.
func (w world) oneHangs(t *testing.T) {
	w.Suspend(t, 1)
	defer w.Resume(t, 1)
	all := examineWithin(t, w.config(t, user(roles.Viewer), w.all()...), 2*time.Second, false)
	want(t, all, "nats server", Failed, w.URL(1), "does not answer")
	for _, i := range []int{0, 2} {
		want(t, all, "nats server", OK, w.URL(i))
		want(t, all, "clock", OK, w.URL(i))
	}
	want(t, all, "role", OK, "role viewer")
	if n := len(found(all, "nats server")); n != 3 {
		t.Errorf("%d findings about three servers:\n%s", n, table(all))
	}
}

// One server of three cannot create a stream with three replicas.
func (w world) tooFew(t *testing.T) {
	w.Kill(t, 1)
	w.Kill(t, 2)
	all := examineWithin(t, w.config(t, user(roles.Admin), w.all()...), 2*time.Second, false)
	want(t, all, "nats server", Failed, w.URL(1), "connection refused", "start NATS there")
	want(t, all, "nats server", Failed, w.URL(2), "connection refused", "nats.servers of weir.yaml")
	want(t, all, "nats server", OK, w.URL(0))
	if Healthy(all) {
		t.Errorf("one server of three is healthy:\n%s", table(all))
	}
}
