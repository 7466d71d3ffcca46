package natsconf_test

import (
	"crypto/sha256"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

var update = flag.Bool("update", false, "rewrite deploy/nats and the tables of docs/bus.md and docs/security.md")

// example is the site of deploy/nats. Its public keys are hashes, so they have no private keys.
func example(t *testing.T) natsconf.Site {
	t.Helper()
	key := func(prefix nkeys.PrefixByte, of string) string {
		sum := sha256.Sum256([]byte("example of deploy/nats: " + of))
		public, err := nkeys.Encode(prefix, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(public)
	}
	s := natsconf.Site{
		Clusters: []natsconf.Cluster{{Name: "prod", Pools: []natsconf.Pool{{Name: "batch"}, {Name: "web"}}}},
		Keys:     map[string][]string{}, SystemKeys: []string{key(nkeys.PrefixByteUser, roles.AccountSystem)},
		Issuer: key(nkeys.PrefixByteAccount, "issuer"),
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Servers = append(s.Servers, natsconf.Server{
			Name: name, Folder: "/etc/nats", Store: "/var/lib/nats",
		})
	}
	for _, u := range s.Users() {
		s.Keys[u.Name()] = []string{key(nkeys.PrefixByteUser, u.Name())}
	}
	return s
}

// The files in deploy/nats are those that the table of roles generates. -update rewrites them.
func TestDeployedFilesAreGenerated(t *testing.T) {
	s := example(t)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join("..", "..", "..", "..", "deploy", "nats")
	daemons, err := s.Daemons()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{natsconf.AccountsFile: s.Accounts(), natsconf.DaemonsFile: string(daemons)}
	for _, server := range s.Servers {
		want[server.Name+".conf"] = s.Server(server.Name)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := want[filepath.Base(file)]; !ok {
			t.Errorf("%s is not generated: remove it", file)
		}
	}
	for name, text := range want {
		compare(t, filepath.Join(folder, name), text)
	}
	for _, server := range s.Servers {
		loads(t, filepath.Join(folder, server.Name+".conf"))
	}
}

// loads requires that a server accepts the file, but for the files of certificates that only a host has.
func loads(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	files := bareCertificates(t)
	files["nats.conf"] = []byte(strings.ReplaceAll(string(text), "/etc/nats", folder))
	if files[natsconf.AccountsFile], err = os.ReadFile(filepath.Join(filepath.Dir(path), natsconf.AccountsFile)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := server.ProcessConfigFile(filepath.Join(folder, "nats.conf"))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if options.AuthCallout == nil || len(options.AuthCallout.AuthUsers) != len(options.Nkeys) {
		t.Errorf("%s: the callout has to leave out all %d users of the file: %+v", path, len(options.Nkeys), options.AuthCallout)
	}
	if options.SyncInterval == 0 && !options.SyncAlways || options.Cluster.MaxPingsOut != 2 {
		t.Errorf("%s: sync always %v, at most %d pings of a route", path, options.SyncAlways, options.Cluster.MaxPingsOut)
	}
}

const (
	beginTables = "<!-- tables: generated from internal/platform/bus/roles -->\n"
	endTables   = "<!-- end of the tables -->\n"
)

// The tables of the documents are those of the code.
func TestDocumentHasTheTables(t *testing.T) {
	for name, table := range map[string]string{"bus.md": document(), "security.md": powers()} {
		path := filepath.Join("..", "..", "..", "..", "docs", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(text), beginTables)
		_, after, ended := strings.Cut(rest, endTables)
		if !ok || !ended {
			t.Fatalf("%s lacks the line %q or %q", path, beginTables, endTables)
		}
		compare(t, path, before+beginTables+"\n"+table+"\n"+endTables+after)
	}
}

func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table of roles generates: run go test ./internal/platform/bus/natsconf -run 'Deployed|Document' -update", path)
	}
}
