package bootstrap_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// environOf returns the environment of a process.
func environOf(t *testing.T, pid int) (entries []string) {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for entry := range bytes.SplitSeq(bytes.TrimRight(environ, "\x00"), []byte{0}) {
		entries = append(entries, string(entry))
	}
	return entries
}

// A signal gets the common variables and those that the plan names, and no others.
func TestSignalGetsNoOtherVariables(t *testing.T) {
	plan := planOf("allowed", shipped("web", "rps"))
	plan.Signals[1].Environment = "SHOP_TOKEN SHOP_MISSING"
	p := startWith(t, plan, noReleases{}, func(c *bootstrap.Config) {
		c.Environ = append(slices.Clone(c.Environ), "LANG=C", "SHOP_TOKEN=for web", "DATABASE_URL=secret", "NATS_URL=secret", "GITHUB_PAT=secret",
			"INFLUX_APIKEY=secret", "SSH_AUTH_SOCK=secret", "AWS_SESSION_TOKEN=secret", "SHOP_PASSWORD=secret")
	})
	for _, test := range []struct {
		app  string
		want string // the value of SHOP_TOKEN
	}{{"web", "SHOP_TOKEN=for web"}, {"__default__", ""}} {
		now := p.awaitProcess(t, test.app, "running", running)
		var given string
		for _, entry := range environOf(t, now.PID) {
			name, value, _ := strings.Cut(entry, "=")
			allowed := slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", supervise.TagVariable}, name) ||
				strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "CMAN_") || strings.HasPrefix(name, "GO") ||
				strings.HasPrefix(name, "WEIR_TEST_") // named by the plans of the tests
			switch {
			case name == "SHOP_TOKEN":
				given = entry
			case !allowed || value == "secret":
				t.Errorf("signal of %s has the variable %s", test.app, name)
			}
		}
		if given != test.want {
			t.Errorf("signal of %s has %q, want %q", test.app, given, test.want)
		}
	}
}

// counted assigns users in the order of the requests.
type counted struct{ addresses []string }

const firstCounted = 60990

func (c *counted) Of(address string) (int, error) {
	i := slices.Index(c.addresses, address)
	if i < 0 {
		i = len(c.addresses)
		c.addresses = append(c.addresses, address)
	}
	return firstCounted + i, nil
}

type oneAtATime struct {
	free chan struct{}
	*counted
}

func (o oneAtATime) Of(address string) (int, error) {
	o.free <- struct{}{}
	defer func() { <-o.free }()
	return o.counted.Of(address)
}

func newUsers() bootstrap.Users { return oneAtATime{make(chan struct{}, 1), &counted{}} }

func userOf(t *testing.T, pid int) (uid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nUid:")
	if _, err := fmt.Sscan(rest, &uid); err != nil {
		t.Fatal(err)
	}
	return uid
}

// openFolder returns a folder that all users can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "weir-users-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	return folder
}

// If bootstrap may switch users, each signal runs as its own user and answers, and a plugin has its control connection.
// Otherwise the signal's status contains the error.
func TestSignalsOfTheirOwnUsers(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	plan := planOf("users", shipped("web", "rps"), shipped("api", plugged))
	plan.Signals[2].Kind = api.KindPlugin
	folder := openFolder(t)
	p := startWith(t, plan, noReleases{}, func(c *bootstrap.Config) { c.Users, c.Folder = newUsers(), folder })
	if len(missing) > 0 {
		now := p.awaitProcess(t, "web", "refused", func(p api.Process) bool { return p.Why != "" })
		if !strings.Contains(now.Why, "operation not permitted") {
			t.Errorf("the signal does not start because %q, want it not permitted", now.Why)
		}
		return
	}
	users := map[int]string{os.Getuid(): "bootstrap"}
	for _, s := range plan.Signals {
		now := p.awaitProcess(t, s.App, "running", running)
		uid := userOf(t, now.PID)
		if other, taken := users[uid]; taken || now.User != uid || now.SameUser != "" {
			t.Errorf("signal of %s runs as user %d, its status has %d (%q), which is that of %q", s.App, uid, now.User, now.SameUser, other)
		}
		users[uid] = s.App
		if err := request(t, s.Address); err != nil {
			t.Error(err)
		}
		if env := environOf(t, now.PID); !slices.Contains(env, "HOME=/") || slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") }) {
			t.Errorf("signal of %s has the environment %q, want folders of its own user", s.App, env)
		}
	}
	socket := onlySocket(t, folder)
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil {
		t.Fatal(err)
	}
	if api := p.process("api"); !api.Columnar || int(info.Sys().(*syscall.Stat_t).Uid) != api.User {
		t.Errorf("the plugin is %+v, the folder of its socket belongs to %d", api, info.Sys().(*syscall.Stat_t).Uid)
	}
	// It keeps its user.
	before := p.process("web")
	kill(t, -before.PID)
	again := p.awaitProcess(t, "web", "running again", func(p api.Process) bool { return running(p) && p.PID != before.PID })
	if again.User != before.User {
		t.Errorf("started again, the signal runs as user %d, before as %d", again.User, before.User)
	}
}

// A release of one file runs as a user that cannot reach the cache.
func TestReleaseOfItsOwnUser(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		return // TestSignalsOfTheirOwnUsers covers this case
	}
	plan := released("userrelease")
	s := newStore(t, plan)
	plan = pinned(plan, "v7")
	s.publish(t, plan.Signals[1].Ref(), "#!/bin/sh\nexec sleep 1000\n")
	p := startWith(t, plan, s, func(c *bootstrap.Config) { c.Users = newUsers() })
	now := p.awaitProcess(t, "web", "executed", func(p api.Process) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // empty: not yet executed
		return strings.HasPrefix(string(line), "sleep\x00")
	})
	if uid := userOf(t, now.PID); uid != now.User || uid < firstCounted {
		t.Errorf("the release runs as user %d, its status has %d", uid, now.User)
	}
}

// A release of two files runs as its own user if that user can reach the cache. Otherwise it runs as bootstrap's user.
func TestReleaseOfTwoFilesReadsTheOther(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		return // TestSignalsOfTheirOwnUsers covers this case
	}
	for name, own := range map[string]bool{"reachable": true, "unreachable": false} {
		plan := released("two" + name)
		s := newStore(t, plan)
		plan = pinned(plan, "v7")
		if own {
			if s.cache, err = release.OpenCache(t.Context(), release.Config{Dir: filepath.Join(openFolder(t), "releases")}); err != nil {
				t.Fatal(err)
			}
		}
		folder := t.TempDir()
		for file, text := range map[string]string{"run": "#!/bin/sh\n. \"$(dirname \"$(readlink \"$0\")\")/other\"\n", "other": "exec sleep 1000\n"} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		source := release.Source{Path: folder, Entry: "run", Created: time.Unix(1_700_000_000, 0)}
		if _, err := release.Publish(t.Context(), s.bucket, plan.Signals[1].Ref(), release.Host(), source); err != nil {
			t.Fatal(err)
		}
		p := startWith(t, plan, s, func(c *bootstrap.Config) { c.Users = newUsers() })
		now := p.awaitProcess(t, "web", "the other file read", func(p api.Process) bool {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // empty: not yet executed
			return strings.HasPrefix(string(line), "sleep\x00")
		})
		if uid := userOf(t, now.PID); (uid >= firstCounted) != own || strings.Contains(now.SameUser, "could not execute it") == own {
			t.Errorf("%s: the release runs as user %d, its status has the reason %q", name, uid, now.SameUser)
		}
	}
}

// listener is a Clusterman signal: it listens, and ignores users.
const listener = `import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind("\0" + "-".join(sys.argv[1:4]) + "-socket")
s.listen()
time.sleep(1000)
`

// tarballs fetches virtual environments in the layout of Clusterman's bucket.
type tarballs struct{ *store }

func (s tarballs) Fetch(ctx context.Context, ref release.Ref) (release.Installed, error) {
	return s.cache.FetchClusterman(ctx, s.bucket, "jammy", ref)
}

// publishVenv publishes a virtual environment with this system's python.
func (s tarballs) publishVenv(t *testing.T, ref release.Ref) {
	t.Helper()
	const python = "/usr/bin/python3"
	var archive bytes.Buffer
	gz := gzip.NewWriter(&archive)
	w := tar.NewWriter(gz)
	for _, h := range []struct{ name, link, body string }{
		{"prodenv/bin/python", python, ""}, {"prodenv/pyvenv.cfg", "", "home = " + filepath.Dir(python) + "\n"},
		{"clusterman_signals/__init__.py", "", "# " + ref.Version + "\n"}, {"clusterman_signals/run.py", "", listener},
	} {
		header := &tar.Header{Name: h.name, Typeflag: tar.TypeReg, Linkname: h.link, Mode: 0o644, Size: int64(len(h.body))}
		if h.link != "" {
			header.Typeflag = tar.TypeSymlink
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(h.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	key := "jammy/clusterman_signals_" + ref.Version + ".tar.gz"
	if err := s.bucket.Put(t.Context(), key, bytes.NewReader(archive.Bytes()), int64(archive.Len())); err != nil {
		t.Fatal(err)
	}
}

// An interpreter with its libraries runs as its own user if that user can reach the cache. Otherwise it runs as
// bootstrap's user, with the reason.
func TestVirtualEnvironmentOfItsOwnUser(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("cache open %v", open), func(t *testing.T) {
			plan := released(fmt.Sprintf("venv%v", open))
			s := tarballs{newStore(t, plan)}
			s.publishVenv(t, plan.Signals[1].Ref())
			folder := openFolder(t)
			mode := os.FileMode(0o711)
			if !open {
				mode = 0o700
			}
			if err := os.Chmod(folder, mode); err != nil {
				t.Fatal(err)
			}
			if s.cache, err = release.OpenCache(t.Context(), release.Config{Dir: filepath.Join(folder, "releases")}); err != nil {
				t.Fatal(err)
			}
			p := startWith(t, plan, s, func(c *bootstrap.Config) { c.Users = newUsers() })
			if open && len(missing) > 0 {
				p.awaitProcess(t, "web", "refused", func(p api.Process) bool { return strings.Contains(p.Why, "operation not permitted") })
				return
			}
			now := p.awaitProcess(t, "web", "running", running)
			uid := userOf(t, now.PID)
			if open && (uid != now.User || uid < firstCounted || now.SameUser != "") {
				t.Errorf("it runs as user %d, its status is %+v; want a user of its own", uid, now)
			}
			if want := folder + " has mode 0700"; !open && (uid != os.Getuid() || !strings.Contains(now.SameUser, want)) {
				t.Errorf("it runs as user %d because %q; want bootstrap's user because %q", uid, now.SameUser, want)
			}
		})
	}
}

// The user of a signal can read the release of that signal and no other one, although the cache is shared.
func TestUserReadsOnlyItsOwnRelease(t *testing.T) {
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		return // TestVirtualEnvironmentOfItsOwnUser covers this case
	}
	plan := planOf("readers",
		bootstrap.SignalPlan{App: "web", Name: "rps", Version: "v1"}, bootstrap.SignalPlan{App: "api", Name: "rps", Version: "v1"},
		bootstrap.SignalPlan{App: "cron", Name: "rps", Version: "v2"})
	s := tarballs{newStore(t, plan)}
	if s.cache, err = release.OpenCache(t.Context(), release.Config{Dir: filepath.Join(openFolder(t), "releases")}); err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{} // by version: a file of the release
	for _, version := range []string{"v1", "v2"} {
		ref := plan.Signals[1].Ref()
		ref.Version = version
		s.publishVenv(t, ref)
		in, err := s.Fetch(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		modules[version] = filepath.Join(in.Dir, "clusterman_signals", "run.py")
		if err := os.Chown(in.Dir, firstCounted-1, -1); err != nil { // as if another user had fetched it
			t.Fatal(err)
		}
	}
	p := startWith(t, plan, s, func(c *bootstrap.Config) { c.Users = newUsers() })
	for _, signal := range plan.Signals[1:] {
		now := p.awaitProcess(t, signal.App, "running", running)
		for version, module := range modules {
			if got := canRead(t, now.User, module); got != (version == signal.Version) {
				t.Errorf("user of %s, which runs %s, can read %s: %t", signal.App, signal.Version, version, got)
			}
		}
	}
	if canRead(t, firstCounted-1, modules["v1"]) {
		t.Error("a user without a signal can read a release")
	}
}

func canRead(t *testing.T, user int, path string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat", path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Permission denied") {
		t.Fatalf("%v: %s", err, out)
	}
	return err == nil
}

// If signals run as bootstrap's user, their status contains the reason.
func TestSignalsOfTheSameUser(t *testing.T) {
	for _, why := range []string{"", "bootstrap lacks a right"} {
		p := startWith(t, planOf("same", shipped("web", "rps")), noReleases{}, func(c *bootstrap.Config) { c.SameUser = why })
		now := p.awaitProcess(t, "web", "running", running)
		if uid := userOf(t, now.PID); uid != os.Getuid() || now.User != 0 || now.SameUser == "" || why != "" && now.SameUser != why {
			t.Errorf("the signal runs as user %d, its status has %d because %q; want %q", uid, now.User, now.SameUser, why)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
}

// refusing assigns no users.
type refusing struct{}

func (refusing) Of(string) (int, error) { return 0, errors.New("all user ids are taken") }

// If no user is available, the signal does not run as bootstrap's user.
func TestSignalWithoutAUserDoesNotRun(t *testing.T) {
	p := startWith(t, planOf("nouser", shipped("web", "rps")), noReleases{}, func(c *bootstrap.Config) { c.Users = refusing{} })
	now := p.awaitProcess(t, "web", "without a user", func(p api.Process) bool { return p.Why != "" })
	if !strings.Contains(now.Why, "all user ids are taken") || now.PID != 0 {
		t.Errorf("the signal is %+v", now)
	}
}

func TestReachableByOthers(t *testing.T) {
	folder := openFolder(t)
	closed, program := filepath.Join(folder, "closed"), filepath.Join(folder, "closed", "program")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range []string{"/", folder, closed, program, "/proc/self/exe", filepath.Join(folder, "missing")} {
		err := supervise.ReachableByOthers(path)
		got = append(got, strings.ReplaceAll(fmt.Sprint(err), folder, "F"))
	}
	refused := "F/closed has mode 0700, and other users need execute permission on it"
	want := []string{"<nil>", "<nil>", refused, refused, "<nil>", "stat F/missing: no such file or directory"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ForOthers (-want +got):\n%s", diff)
	}
}
