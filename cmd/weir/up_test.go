package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

const webCommand = "while :; do echo hello; sleep 1; done"

func sized(n float64) func(api.PoolStatus) error {
	return func(s api.PoolStatus) error {
		now := s.LastTick.Snapshot
		if now.Target != n || now.Fulfilled != n || now.Joined != n || len(s.LastTick.Drains) > 0 {
			return fmt.Errorf("target %v, fulfilled %v, joined %v, %d drains: want %v of each", now.Target, now.Fulfilled, now.Joined, len(s.LastTick.Drains), n)
		}
		return nil
	}
}

func TestUpFollowsAnApp(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
	u.waitRunning(t, "web", 2)
	u.pool(t, "a pool of 2", sized(2))

	u.weir(t, "app", "set", "web", "--instances", "20")
	u.waitRunning(t, "web", 20)
	u.pool(t, "a pool of 5", sized(5))
	text := u.weir(t, "explain")
	for _, want := range []string{
		"weir/instance_count build-", "value cpus=4 mem=1280", "weir/default shipped", "request  cpus=4",
		"opinions", "combine", "target", "never shrink on ignorance", "limits", "blue", "green", "requests to the provider",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("explain does not say %q:\n%s", want, text)
		}
	}
	if logs := u.weir(t, "app", "logs", "web", "--index", "7"); !strings.Contains(logs, "web/7 hello") {
		t.Errorf("logs of index 7 = %q", logs)
	}

	u.weir(t, "app", "set", "web", "--instances", "2")
	u.waitRunning(t, "web", 2)
	u.pool(t, "a pool of 2 again", sized(2))

	u.weir(t, "app", "delete", "web")
	eventually(t, "the end of web", func() error {
		if _, err := u.count("web"); err == nil {
			return errors.New("the harmonizer still knows web")
		}
		return nil
	})
}

// TestManyUpsOnOneHost runs two bootstraps for one pool and a third for another:
// no two of their signals share a socket.
func TestManyUpsOnOneHost(t *testing.T) {
	t.Parallel()
	pools := []string{"default", "default", "other"}
	held := map[string]string{} // by socket
	for i, pool := range pools {
		u := startUp(t, t.TempDir(), "--pool", pool)
		eventually(t, "an answer of the signal", func() error {
			s, err := runJSON[api.PoolStatus](u, "status", "--pool", pool)
			if err != nil || s.LastTick == nil || s.Processes == nil {
				return errors.Join(err, errors.New("not yet known"))
			}
			return answeredIn(*s.LastTick)
		})
		processes, err := runJSON[[]api.Process](u, "signal", "ps", "--pool", pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			who := fmt.Sprintf("%s of bootstrap %d", p.App, i)
			if other, ok := held[p.Address]; ok {
				t.Errorf("socket %s is that of %s and of %s", p.Address, other, who)
			}
			held[p.Address] = who
		}
	}
	if len(held) != 2*len(pools) {
		t.Errorf("sockets: %v, want two of each bootstrap", held)
	}
}

// answeredIn returns an error unless the signal of the first app has a value in the
// tick.
func answeredIn(r api.TickRecord) error {
	apps := appsOf(r)
	if len(apps) == 0 {
		return errors.New("the tick ended early: " + r.Failed)
	}
	if o := apps[0].Opinion; o.Verdict != api.VerdictValue {
		return fmt.Errorf("%+v", o)
	}
	return nil
}

func TestSignalIsKilled(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	before := u.runningSignal(t, "apps")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process of the signal", func() error {
		now, err := u.signal("apps")
		if err != nil {
			return err
		}
		if now.PID == before.PID || now.State != "running" {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	u.pool(t, "an answer of the signal, after its death", func(s api.PoolStatus) error {
		if err := answeredIn(*s.LastTick); err != nil {
			return err
		}
		if o := appsOf(*s.LastTick)[0].Opinion; !o.At.After(before.Since) {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}

func TestMachineIsKilled(t *testing.T) {
	t.Parallel()
	u := startUp(t, t.TempDir())
	u.weir(t, "app", "set", "web", "--instances", "4", "--cpus", "0.2", "--command", "sleep 1000 & sleep 1000")
	u.waitRunning(t, "web", 4)
	s, err := runJSON[api.HarmonizerStatus](u, "app", "status", "web")
	if err != nil {
		t.Fatal(err)
	}
	victim := s.App.Indices[0].Instances[0].Node
	if err := syscall.Kill(agentPID(t, victim), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "web elsewhere", func() error { return runsElsewhere(u, victim, 4) })
	u.pool(t, "another machine", func(s api.PoolStatus) error {
		for _, n := range s.LastTick.Case.Nodes {
			if n.ID == victim {
				return fmt.Errorf("%s is still there", victim)
			}
		}
		return sized(2)(s)
	})
	if left := processesOf(filepath.Join(u.data, "local", "machines", victim)); left != nil {
		t.Errorf("left of the machine: %q", left)
	}
}

// runsElsewhere returns an error unless n instances of web run, none on the node.
func runsElsewhere(u *upProcess, node string, n int) error {
	s, err := runJSON[api.HarmonizerStatus](u, "app", "status", "web")
	if err != nil {
		return err
	}
	if s.App.Count.Running != n {
		return fmt.Errorf("%+v", s.App.Count)
	}
	for _, i := range s.App.Indices {
		for _, c := range i.Instances {
			if c.Node == node {
				return fmt.Errorf("index %d is still on %s", i.Index, node)
			}
		}
	}
	return nil
}

// agentPID returns the process of a machine.
func agentPID(t testing.TB, node string) int {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.Contains(string(line), "\x00--id="+node+"\x00") {
			var pid int
			fmt.Sscan(filepath.Base(dir), &pid)
			return pid
		}
	}
	t.Fatalf("no process of machine %s", node)
	return 0
}

func TestUpIsKilledAndGoesOn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "3", "--cpus", "0.2", "--command", "sleep 1000 & sleep 1000")
	u.waitRunning(t, "web", 3)
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	u.expectNothingLeft(t)

	again := startUp(t, data)
	again.waitRunning(t, "web", 3)
	if s := again.runningSignal(t, "apps"); s.Version == "" {
		t.Errorf("signal after the restart: %+v", s)
	}
}

func TestUpWithoutBucket(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := startUp(t, data)
	first.runningSignal(t, "apps") // its release is in the cache
	first.end(t)
	u := startUp(t, data, "--no-bucket")
	// A tick on a busy machine may have warnings of its own.
	const process = "signal of app apps (weir/instance_count) is running since "
	const reason = " ago: from the cache, because the bucket was unavailable at the fetch: "
	u.pool(t, "an answer of the cached release, and a warning", func(s api.PoolStatus) error {
		if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.HasPrefix(w, process) && strings.Contains(w, reason) }) {
			return fmt.Errorf("warnings: %q", s.Warnings)
		}
		return answeredIn(*s.LastTick)
	})
	if text := u.weir(t, "status"); !strings.HasPrefix(text, "! ") {
		t.Errorf("status begins with %.200q", text)
	}
}

func TestCorruptRelease(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	startUp(t, data).end(t)
	if err := os.RemoveAll(filepath.Join(data, "releases")); err != nil {
		t.Fatal(err)
	}
	objects, err := filepath.Glob(filepath.Join(data, "s3", "buckets", "weir-signals", "*", "*", "*", "*", "*.tar.gz"))
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects of the bucket: %q, %v", objects, err)
	}
	archive, err := os.ReadFile(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	archive[len(archive)/2] ^= 1
	if err := os.WriteFile(objects[0], archive, 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, data)
	u.pool(t, "a tick served by the default signal", func(s api.PoolStatus) error {
		if s.LastTick.Detail == nil {
			return errors.New("the tick ended early: " + s.LastTick.Failed)
		}
		app := s.LastTick.Detail.Apps[0]
		if app.Source != api.FromDefault || !app.Fallback {
			return fmt.Errorf("%+v", app)
		}
		return nil
	})
	const warning = "! signal of app apps (weir/instance_count) is not fetched"
	eventually(t, "a line with the object and sha256", func() error {
		text := u.weir(t, "status")
		_, rest, _ := strings.Cut(text, warning)
		line, _, _ := strings.Cut(rest, "\n")
		if !strings.Contains(line, filepath.Base(objects[0])) || !strings.Contains(line, "sha256") {
			return errors.New(text)
		}
		return nil
	})
	if cached, _ := filepath.Glob(filepath.Join(data, "releases", "sha256-*")); cached != nil {
		t.Errorf("the cache holds %q", cached)
	}
}

// A damaged manifest in the bucket costs its release, and nothing else. "weir up" names the folder
// to remove; then the release is published again.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	startUp(t, data).end(t)
	manifests, err := filepath.Glob(filepath.Join(data, "s3", "buckets", "weir-signals", "weir", "instance_count", "*", "*", "manifest.json"))
	if err != nil || len(manifests) != 1 {
		t.Fatalf("manifests of the bucket: %q, %v", manifests, err)
	}
	text, err := os.ReadFile(manifests[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 0xff
	if err := os.WriteFile(manifests[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Dir(filepath.Dir(manifests[0]))
	u := startUp(t, data)
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", webCommand)
	u.waitRunning(t, "web", 2)
	if out := u.output(); !strings.Contains(out, "! release: ") || !strings.Contains(out, "remove the folder "+damaged+",") {
		t.Errorf("weir up does not name the damaged release:\n%s", out)
	}
	u.pool(t, "a warning about the release", func(s api.PoolStatus) error {
		if !slices.ContainsFunc(s.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "signal of app apps (weir/instance_count) is ") && strings.Contains(w, "corrupt release")
		}) {
			return fmt.Errorf("warnings: %q", s.Warnings)
		}
		return nil
	})
	u.end(t)
	if err := os.RemoveAll(damaged); err != nil {
		t.Fatal(err)
	}
	u = startUp(t, data)
	u.pool(t, "an answer of the signal", func(s api.PoolStatus) error { return answeredIn(*s.LastTick) })
}

// "weir up" does not start where its children could not: the error has the limit and the remedy.
func TestUpWithFewFiles(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -n 64 && exec "$0" up --data "$1"`,
		filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), t.TempDir())
	out, err := offspring.CombinedOutput(cmd)
	if want := "this process may open 64 files, and needs 256: raise the limit (\"ulimit -n 1024\""; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("weir up with 64 files: %v, %s; want %q", err, out, want)
	}
}
