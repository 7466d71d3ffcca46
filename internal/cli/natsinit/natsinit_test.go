package natsinit_test

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/cli/natsinit"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
)

func options(folder string) natsinit.Options {
	return natsinit.Options{Folder: folder, Servers: []string{"n1", "n2=10.0.0.2", "n3"}, Cluster: "prod", Pools: []string{"web"}, Now: time.Now()}
}

// run prepares and writes.
func run(t *testing.T, o natsinit.Options) *natsinit.Plan {
	t.Helper()
	p, err := natsinit.Prepare(o)
	if err == nil {
		err = p.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contents returns all files of a folder but the lock.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".lock" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o644)
		if strings.HasSuffix(path, ".key") || strings.Contains(path, ".nk") {
			want = 0o600
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, folder+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// changed returns the files that differ, in order.
func changed(before, after map[string]string) (names []string) {
	for name, text := range after {
		if before[name] != text {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// serverOptions returns the options of server n1 with the written files, below the folder.
func serverOptions(t *testing.T, folder string) *server.Options {
	t.Helper()
	installed := filepath.Join(folder, "servers", "n1")
	conf, err := os.ReadFile(filepath.Join(installed, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(natsinit.InstallFolder, installed, natsinit.StoreFolder, t.TempDir()).Replace(string(conf))
	path := filepath.Join(installed, "test.conf") // beside the file that it includes
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// alone returns options of a server without the two others.
func alone(o *server.Options) server.Options {
	o.Cluster, o.Routes, o.Host, o.Port, o.HTTPHost, o.HTTPPort = server.ClusterOpts{}, nil, "127.0.0.1", server.RANDOM_PORT, "", 0
	return *o
}

// accepts returns the error of a connection with a written key; nil if the server accepts it.
func accepts(t *testing.T, s *server.Server, folder, file string) error {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(authority)
	key, err := nats.NkeyOptionFromSeed(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.ClientURL(), key, nats.Timeout(time.Minute), nats.Secure(&tls.Config{RootCAs: ca, ServerName: "n1", MinVersion: tls.VersionTLS12}))
	if err != nil {
		return err
	}
	defer nc.Close()
	return nc.FlushTimeout(time.Minute)
}

// A server with the written files accepts each written key, and the certificate fits.
// A pool with a scheduler has the key of one in place of the keys of a placer and of agents. A pool may not have both.
func TestPoolWithAScheduler(t *testing.T) {
	o := natsinit.Options{Folder: filepath.Join(t.TempDir(), "weir-nats"), Servers: []string{"n1"}, Cluster: "prod", Pools: []string{"web"}, Schedulers: []string{"k8s"}, Now: time.Now()}
	plan, err := natsinit.Prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, f := range plan.Files {
		if strings.Contains(f.Path, ".k8s.") || strings.Contains(f.Path, ".placer.") {
			roles = append(roles, f.Path)
		}
	}
	if want := []string{"roles/prod.placer.web.nk", "roles/prod.pool.k8s.nk", "roles/prod.scheduler.k8s.nk"}; !slices.Equal(roles, want) {
		t.Errorf("keys %q, want %q", roles, want)
	}
	o.Agents = []string{"k8s/i-01"}
	if _, err := natsinit.Prepare(o); err == nil || !strings.Contains(err.Error(), "pool k8s of cluster prod has a scheduler") {
		t.Errorf("agents of a pool with a scheduler: %v, want an error", err)
	}
}

func TestServerAcceptsTheKeys(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "nats"))
	o.Agents, o.LegacyDEAs = []string{"web/i-01"}, []string{"dea-1"}
	p := run(t, o)
	opts := serverOptions(t, o.Folder)
	if len(opts.Routes) != 3 || opts.Routes[1].Host != "10.0.0.2:6222" {
		t.Errorf("routes %v, want three and the address of n2", opts.Routes)
	}
	s := bustest.Serve(t, alone(opts))
	keys := 0
	for _, f := range p.Files {
		if filepath.Dir(f.Path) != "roles" {
			continue
		}
		keys++
		if err := accepts(t, s, o.Folder, f.Path); err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	if want := len(p.Site.Users()) + 1; keys != want || p.Verified() {
		t.Errorf("%d keys, want %d and none of a service for agents (%v)", keys, want, p.Verified())
	}
}

func TestSecondRunAddsOnlyWhatIsMissing(t *testing.T) {
	o := options(t.TempDir())
	run(t, o)
	before := contents(t, o.Folder)
	again := o
	again.Now = o.Now.Add(24 * time.Hour)
	run(t, again)
	if names := changed(before, contents(t, o.Folder)); len(names) > 0 {
		t.Errorf("an equal run changed %v", names)
	}
	run(t, natsinit.Options{Folder: o.Folder, Now: o.Now})
	if names := changed(before, contents(t, o.Folder)); len(names) > 0 {
		t.Errorf("a run without options changed %v", names)
	}
	run(t, natsinit.Options{Folder: o.Folder, Cluster: "prod", Pools: []string{"batch"}, Now: o.Now})
	want := []string{
		"daemons.json", "roles/prod.placer.batch.nk", "roles/prod.pool.batch.nk",
		"servers/n1/accounts.conf", "servers/n2/accounts.conf", "servers/n3/accounts.conf", "site.json",
	}
	if names := changed(before, contents(t, o.Folder)); !slices.Equal(names, want) {
		t.Errorf("a new pool changed %v, want %v", names, want)
	}
}

// A folder with keys but without its list of users is not overwritten.
func TestKeysAreReplacedOnlyByForce(t *testing.T) {
	o := options(t.TempDir())
	run(t, o)
	before := contents(t, o.Folder)
	if err := os.Remove(filepath.Join(o.Folder, "site.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := natsinit.Prepare(o); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("Prepare = %v, want a refusal that names --force", err)
	}
	o.Force = true
	run(t, o)
	after := contents(t, o.Folder)
	for name, text := range before {
		isNew := after[name] != text
		if wantNew := name != "site.json" && !strings.HasSuffix(name, "nats.conf"); isNew != wantNew {
			t.Errorf("%s: replaced %v, want %v", name, isNew, wantNew)
		}
	}
}

// A running server with a service for agents takes over no changed list of keys: it needs a restart, as the documents describe.
// After the restart a removed key is refused, and a new one accepted.
func TestServersTakeOverKeysByARestart(t *testing.T) {
	o := options(t.TempDir())
	if !run(t, o).Verified() {
		t.Fatal("the site has no service for agents")
	}
	serve := func() *server.Server {
		return bustest.Serve(t, alone(serverOptions(t, o.Folder)))
	}
	s := serve()
	key := filepath.Join("roles", "prod.viewer.nk")
	const stolen = "stolen.nk"
	if err := accepts(t, s, o.Folder, key); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(o.Folder, key), filepath.Join(o.Folder, stolen)); err != nil {
		t.Fatal(err)
	}
	run(t, natsinit.Options{Folder: o.Folder, Now: o.Now})
	next := alone(serverOptions(t, o.Folder))
	next.Port = s.Addr().(*net.TCPAddr).Port
	if err := s.ReloadOptions(&next); err == nil || !strings.Contains(err.Error(), "not supported for AuthCallout") {
		t.Errorf("a reload with other keys = %v: correct the documents", err)
	}
	s.Shutdown()
	s = serve()
	if err := accepts(t, s, o.Folder, key); err != nil {
		t.Errorf("the new key after a restart: %v", err)
	}
	if err := accepts(t, s, o.Folder, stolen); err == nil {
		t.Error("the stolen key is accepted after a restart")
	}
}

// During a rotation the servers accept the old key too.
func TestRotation(t *testing.T) {
	o := options(t.TempDir())
	run(t, o)
	before := contents(t, o.Folder)
	key := filepath.Join(o.Folder, "roles", "prod.viewer.nk")
	if err := os.Rename(key, key+".old"); err != nil {
		t.Fatal(err)
	}
	p := run(t, natsinit.Options{Folder: o.Folder, Now: o.Now})
	after := contents(t, o.Folder)
	if len(p.Site.Keys["prod.viewer"]) != 2 || after["roles/prod.viewer.nk.old"] != before["roles/prod.viewer.nk"] || after["roles/prod.viewer.nk"] == before["roles/prod.viewer.nk"] {
		t.Errorf("keys of the viewer: %v", p.Site.Keys["prod.viewer"])
	}
	if n := strings.Count(after["servers/n1/accounts.conf"], "# prod.viewer\n"); n != 2 {
		t.Errorf("the viewer has %d entries, want 2", n)
	}
	forced := o
	forced.Force = true
	if _, err := natsinit.Prepare(forced); err == nil || !strings.Contains(err.Error(), "viewer.nk.old would stay valid") {
		t.Errorf("Prepare = %v, want a refusal of the former key", err)
	}
	if err := os.Remove(key + ".old"); err != nil {
		t.Fatal(err)
	}
	if p := run(t, natsinit.Options{Folder: o.Folder, Now: o.Now}); len(p.Site.Keys["prod.viewer"]) != 1 {
		t.Errorf("keys after the rotation: %v", p.Site.Keys["prod.viewer"])
	}
}

// A revoked key stays in the list of the users in the files of the servers, which a reload may not change, and is no user. The user has
// no key until the revoked one is removed.
func TestRevocation(t *testing.T) {
	o := options(t.TempDir())
	first := run(t, o)
	key := first.Site.Keys["prod.viewer"][0]
	again := natsinit.Options{Folder: o.Folder, Now: o.Now}
	revoke := again
	revoke.Revoke = []string{"prod.viewer"}
	for range 2 { // the second run has nothing to do
		p := run(t, revoke)
		list := func(p *natsinit.Plan) string { _, list, _ := strings.Cut(p.Site.Accounts(), "auth_users"); return list }
		if len(p.Site.Keys["prod.viewer"]) != 0 || strings.Contains(p.Site.Accounts(), "nkey: "+key) || list(p) != list(first) {
			t.Errorf("after the revocation the viewer has keys %v, and the list is\n%s, want\n%s", p.Site.Keys["prod.viewer"], list(p), list(first))
		}
		revoke = again
	}
	revoke.Revoke = []string{"prod.nobody"}
	if _, err := natsinit.Prepare(revoke); err == nil || !strings.Contains(err.Error(), "no such user") {
		t.Errorf("--revoke prod.nobody: %v, want an error", err)
	}
	revoke.Revoke = []string{"prod.viewer"} // as after a run that died
	if list := run(t, revoke).Site.Revoked["prod.viewer"]; !slices.Equal(list, []string{key}) {
		t.Errorf("a second revocation: %v, want the key again", list)
	}
	if err := os.Remove(filepath.Join(o.Folder, "roles", "prod.viewer.nk.revoked")); err != nil {
		t.Fatal(err)
	}
	if p := run(t, again); len(p.Site.Keys["prod.viewer"]) != 1 || p.Site.Keys["prod.viewer"][0] == key {
		t.Errorf("keys after the revoked one was removed: %v, want a new one", p.Site.Keys["prod.viewer"])
	}
}

// A revocation includes the key of before a rotation, and the administrator of the servers. A daemon of a pool has its new key at
// once, since no server has it in its files.
func TestRevocationOfOtherKeys(t *testing.T) {
	o := options(t.TempDir())
	first := run(t, o)
	path := filepath.Join(o.Folder, "roles", "prod.operator.nk")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	both := run(t, natsinit.Options{Folder: o.Folder, Now: o.Now}).Site.Keys["prod.operator"]
	p := run(t, natsinit.Options{Folder: o.Folder, Now: o.Now, Revoke: []string{"prod.operator", "sys", "prod.pool.web"}})
	for user, want := range map[string][]string{"prod.operator": both, "sys": first.Site.SystemKeys} {
		if !slices.Equal(p.Site.Revoked[user], want) || len(p.Site.Keys[user]) != 0 {
			t.Errorf("%s: revoked %v, keys %v, want %v and none", user, p.Site.Revoked[user], p.Site.Keys[user], want)
		}
		for _, key := range want {
			if text := p.Site.Accounts(); strings.Contains(text, "nkey: "+key) || !strings.Contains(text, key) {
				t.Errorf("%s: the key is a user, or is not in the list of users", user)
			}
		}
	}
	if len(p.Site.SystemKeys) != 0 {
		t.Errorf("the administrator has the keys %v, want none", p.Site.SystemKeys)
	}
	now := p.Site.Keys["prod.pool.web"]
	if len(now) != 1 || now[0] == first.Site.Keys["prod.pool.web"][0] || len(p.Site.Revoked["prod.pool.web"]) != 0 {
		t.Errorf("pool web has keys %v, revoked %v, want a new key", now, p.Site.Revoked["prod.pool.web"])
	}
	_, err := natsinit.Prepare(natsinit.Options{Folder: o.Folder, Now: o.Now, Revoke: []string{"prod.pool.web"}})
	if err == nil || !strings.Contains(err.Error(), "has a new key since") {
		t.Errorf("the same revocation again: %v, want an error: it would revoke the new key", err)
	}
}

// A run that dies after any file is completed by the next run.
func TestRunThatDiesIsCompleted(t *testing.T) {
	one := func() natsinit.Options {
		o := options(t.TempDir())
		o.Servers = []string{"n1"}
		return o
	}
	full, err := natsinit.Prepare(one())
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(full.Files) + 1 {
		if n > 2 && n < len(full.Files)-7 {
			continue // between two keys
		}
		o := one()
		p, err := natsinit.Prepare(o)
		if err != nil {
			t.Fatal(err)
		}
		p.Files = p.Files[:n]
		if err := p.Write(); err != nil {
			t.Fatal(err)
		}
		kept := contents(t, o.Folder)
		run(t, o)
		for _, name := range changed(kept, contents(t, o.Folder)) {
			if _, existed := kept[name]; existed && name != "ca.key" && name != "servers/n1/server.key" {
				t.Errorf("after %d files: the next run replaced %s", n, name)
			}
		}
		done := contents(t, o.Folder)
		if len(done) != len(full.Files) {
			t.Errorf("after %d files: the folder has %d files, want %d", n, len(done), len(full.Files))
		}
		if p, err = natsinit.Prepare(o); err != nil {
			t.Fatalf("after %d files: %v", n, err)
		}
		for _, f := range p.Files {
			if f.Action != natsinit.Keep {
				t.Errorf("after %d files: the third run would %s %s", n, f.Action, f.Path)
			}
		}
	}
}

// Certificates of another authority are copied, and checked before a server fails with them.
func TestGivenCertificates(t *testing.T) {
	certs, other := t.TempDir(), t.TempDir()
	now := time.Now()
	for _, folder := range []string{certs, other} {
		ca, err := natscert.NewCA("company", now)
		if err != nil {
			t.Fatal(err)
		}
		write := func(name string, text []byte) {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("ca.crt", ca.Cert)
		for _, s := range []string{"n1", "n2", "n3"} {
			cert, key, err := ca.Server(s, []string{s, "10.0.0.2"}, now)
			if err != nil {
				t.Fatal(err)
			}
			write(s+".crt", cert)
			write(s+".key", key)
		}
	}
	o := options(t.TempDir())
	o.CAFile, o.CertFolder = filepath.Join(certs, "ca.crt"), certs
	run(t, o)
	files := contents(t, o.Folder)
	if _, ok := files["ca.key"]; ok || files["servers/n1/ca.crt"] != files["ca.crt"] {
		t.Error("a run with given certificates made an authority")
	}
	later := natsinit.Options{Folder: o.Folder, Now: now}
	run(t, later)
	for name, c := range map[string]struct {
		change func(o *natsinit.Options)
		want   string
	}{
		"only an authority":  {func(o *natsinit.Options) { o.CertFolder = "" }, "belong together"},
		"other certificates": {func(o *natsinit.Options) { o.CertFolder = other }, "give a certificate of the authority"},
		"other authority":    {func(o *natsinit.Options) { o.CAFile = filepath.Join(other, "ca.crt") }, "differs from"},
		"expired":            {func(o *natsinit.Options) { o.Now = now.Add(5 * 365 * 24 * time.Hour) }, "expired"},
		"new server":         {func(o *natsinit.Options) { o.CAFile, o.CertFolder, o.Servers = "", "", []string{"n4"} }, "pass --ca and --certs"},
		"wrong host":         {func(o *natsinit.Options) { o.Servers = []string{"n1=nats.example.com"} }, "nats.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := o
			c.change(&wrong)
			if _, err := natsinit.Prepare(wrong); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prepare = %v, want %q", err, c.want)
			}
		})
	}
}

// The key of a pool may publish to the subjects of its workflows, and keeps that in a later run.
func TestPoolPublishesToItsWorkflows(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "nats"))
	o.Publish = []string{"web/repairs.web", "web/repairs.web"}
	run(t, o)
	o.Publish = nil
	run(t, o)
	if text := contents(t, o.Folder)["daemons.json"]; strings.Count(text, `"repairs.web"`) != 2 {
		t.Errorf("daemons.json has %d users with the subject, want the pool and its workflow:\n%s", strings.Count(text, `"repairs.web"`), text)
	}
}

// Each mistake is refused before a file is written.
func TestMistakesChangeNothing(t *testing.T) {
	o := options(t.TempDir())
	run(t, o)
	before := contents(t, o.Folder)
	for name, c := range map[string]struct {
		change func(o *natsinit.Options)
		want   string
	}{
		"no cluster":        {func(o *natsinit.Options) { o.Cluster = "" }, "--cluster"},
		"no server":         {func(o *natsinit.Options) { o.Folder, o.Servers = t.TempDir(), nil }, "--servers"},
		"no pool":           {func(o *natsinit.Options) { o.Folder, o.Pools = t.TempDir(), nil }, "--pool"},
		"name of a pool":    {func(o *natsinit.Options) { o.Pools = []string{"../../x"} }, `pool "../../x"`},
		"name of a cluster": {func(o *natsinit.Options) { o.Cluster = "../x" }, `cluster "../x"`},
		"name of a server":  {func(o *natsinit.Options) { o.Servers = []string{"../n1"} }, `server "../n1"`},
		"host of a server":  {func(o *natsinit.Options) { o.Servers = []string{"n1=a\"b"} }, "without quotes"},
		"agent":             {func(o *natsinit.Options) { o.Agents = []string{"i-01"} }, "want POOL/NODE"},
		"publish":           {func(o *natsinit.Options) { o.Publish = []string{"repairs"} }, "want POOL/SUBJECT"},
		"wildcard":          {func(o *natsinit.Options) { o.Publish = []string{"web/repairs.>"} }, `subject "repairs.>" of role pool`},
		"own subjects":      {func(o *natsinit.Options) { o.Publish = []string{"web/$KV.weir-apps_prod.x"} }, "begins with a letter"},
		"name of an agent":  {func(o *natsinit.Options) { o.Agents = []string{"web/a/b"} }, `node "a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := o
			c.change(&wrong)
			if _, err := natsinit.Prepare(wrong); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prepare = %v, want %q", err, c.want)
			}
		})
	}
	for name, text := range map[string]string{"site.json": "{", "roles/prod.viewer.nk": "no key", "ca.key": "x", "servers/n1/server.key": "x"} {
		t.Run("damaged "+name, func(t *testing.T) {
			path := filepath.Join(o.Folder, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := natsinit.Prepare(o); err == nil || !strings.Contains(err.Error(), filepath.Base(o.Folder)) {
				t.Errorf("Prepare = %v, want an error that names the file", err)
			}
			if err := os.WriteFile(path, []byte(before[name]), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if names := changed(before, contents(t, o.Folder)); len(names) > 0 {
		t.Errorf("mistakes changed %v", names)
	}
}
