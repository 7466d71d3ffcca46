package bootstrapd

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
)

func usersIn(dir string, first, last int) *users {
	return &users{path: filepath.Join(dir, "locks", "users.json"), first: first, last: last, log: slog.New(slog.DiscardHandler)}
}

// Several bootstraps of a folder assign the same user id to an address.
func TestUsersOfAFolder(t *testing.T) {
	dir := t.TempDir()
	const addresses, bootstraps = 20, 4
	got := make([][addresses]int, bootstraps)
	var running sync.WaitGroup
	for b := range bootstraps {
		running.Go(func() {
			u := usersIn(dir, 70000, 70029)
			for i := range addresses {
				id, err := u.Of(fmt.Sprint("signal", i))
				if err != nil {
					t.Error(err)
				}
				got[b][i] = id
			}
		})
	}
	running.Wait()
	owner := map[int]int{}
	for i, id := range got[0] {
		other, taken := owner[id]
		if taken || id < 70000 || id > 70029 {
			t.Errorf("signal%d has user %d, signal%d has it, too, or it is outside of the range", i, id, other)
		}
		owner[id] = i
	}
	for b := range bootstraps {
		if got[b] != got[0] {
			t.Errorf("bootstrap %d gives %v, the first one %v", b, got[b], got[0])
		}
	}
}

func TestAllUserIDsTaken(t *testing.T) {
	u := usersIn(t.TempDir(), 70000, 70001)
	for i := range 2 {
		if _, err := u.Of(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := u.Of("one more"); err == nil || !strings.Contains(err.Error(), "set a larger range in weir.yaml (signal_users)") {
		t.Errorf("Of = %v, want it refused", err)
	}
	u.last = 70002
	if id, err := u.Of("one more"); id != 70002 || err != nil {
		t.Errorf("Of with a larger range = %d, %v", id, err)
	}
	// With another range each address gets an id of that range.
	u.first, u.last = 80000, 80009
	if id, err := u.Of("0"); id < 80000 || err != nil {
		t.Errorf("Of with another range = %d, %v", id, err)
	}
}

// An assigned id is not the id of an account of the host.
func TestUserIDsAreNotAccounts(t *testing.T) {
	u := usersIn(t.TempDir(), 0, 1) // root, and daemon or bin
	if id, err := u.Of("x"); err == nil && isAccount(id) {
		t.Errorf("Of = %d, which is an account", id)
	}
}

func TestDamagedUsers(t *testing.T) {
	for _, text := range []string{"", "{", "[1]", `{"a": "b"}`, "\x00\xff"} {
		u := usersIn(t.TempDir(), 70000, 70009)
		if err := os.MkdirAll(filepath.Dir(u.path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(u.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := u.Of("x")
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if kept, err := os.ReadFile(u.path + ".damaged"); err != nil || string(kept) != text {
			t.Errorf("%q: set aside is %q, %v", text, kept, err)
		}
		if again, err := u.Of("x"); again != first || err != nil {
			t.Errorf("%q: user %d, then %d, %v", text, first, again, err)
		}
	}
}

func TestNoUsers(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if why := NoUsers(0, 0); !strings.Contains(why, `has "signal_users: none"`) {
		t.Errorf("without a range: %q", why)
	}
	if why := NoUsers(60706, 61183); (why == "") != (len(missing) == 0) {
		t.Errorf("without %v: %q", missing, why)
	}
	for uid, want := range map[int]string{
		0:    "user 0 cannot start processes of other users without CAP_KILL, CAP_SETUID: add them to the capabilities of its container, ",
		1000: "user 1000 cannot start processes of other users without CAP_KILL, CAP_SETUID: run bootstrap as root, or give its unit AmbientCapabilities=CAP_CHOWN ",
	} {
		if why := withoutRights(uid, []string{"CAP_KILL", "CAP_SETUID"}); !strings.HasPrefix(why, want) {
			t.Errorf("user %d: %q, want %q", uid, why, want)
		}
	}
}

func TestMapped(t *testing.T) {
	for _, test := range []struct {
		ids         string
		first, last int
		want        bool
	}{
		{"         0          0 4294967295\n", 60706, 61183, true},
		{"0 1000 1\n1 100000 65536\n", 60706, 61183, true},
		{"0 1000 1\n1 100000 65536\n", 65000, 65537, false},
		{"0 1000 1\n", 60706, 61183, false}, {"", 1, 1, false}, {"x\n", 1, 1, false},
	} {
		if got := mapped(test.ids, test.first, test.last); got != test.want {
			t.Errorf("mapped(%q, %d, %d) = %v", test.ids, test.first, test.last, got)
		}
	}
}

// Below a data folder, users of signals can access only releases and their sockets.
func TestFoldersOfUsers(t *testing.T) {
	parent, err := os.MkdirTemp("/tmp", "weir-data-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(parent, "data")
	for _, dir := range []string{"", "releases", "nats"} {
		if err := os.Mkdir(filepath.Join(data, dir), map[string]os.FileMode{"releases": 0o755}[dir]|0o700); err != nil {
			t.Fatal(err)
		}
	}
	plan := bootstrap.Plan{Cluster: "c", Pool: "p"}
	t.Setenv("TMPDIR", filepath.Join(data, "nats"))
	if folder, err := socketFolderOfUsers(data, plan); folder != "/tmp" || err != nil {
		t.Errorf("sockets are in %s, %v; want the folder that users can reach", folder, err)
	}
	if err := openToUsers(data); err != nil {
		t.Fatal(err)
	}
	folder, err := socketFolderOfUsers(data, plan)
	if err != nil || !strings.HasPrefix(folder, data) {
		t.Errorf("sockets are in %s, %v; want it below the data folder", folder, err)
	}
	for path, want := range map[string]bool{folder: true, filepath.Join(data, "releases"): true, filepath.Join(data, "nats"): false} {
		if err := supervise.ReachableByOthers(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o701 {
		t.Errorf("the data folder has mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(socketFolder(data, plan)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("without users the folder of the sockets has mode %v, %v", info.Mode(), err)
	}
	if u, why := openUsers(config.Service{SignalUsers: "none"}, data, nil); u != nil || why == "" {
		t.Errorf("openUsers = %v, %q", u, why)
	}
}
