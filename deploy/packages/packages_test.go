package packages

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// maxBinary bounds the binary of production, in bytes.
const maxBinary = 45_000_000

// build returns the packages of this machine's architecture.
func build(t *testing.T) (deb, rpmFile string) {
	t.Helper()
	dist, err := testprograms.Packages(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("packages %s: %v %v, want one", pattern, found, err)
		}
		return found[0]
	}
	return one("weir_1.2.3_*.deb"), one("weir-1.2.3-*.rpm")
}

// TestPackages installs the deb into an empty root as dpkg does on a host, runs it there, and removes a part.
func TestPackages(t *testing.T) {
	deb, rpmFile := build(t)
	root := newRoot(t)
	inRoot := func(argv ...string) []string { return append([]string{"unshare", "--map-root-user", "--"}, argv...) }
	dpkg := func(args ...string) []string {
		return inRoot(append([]string{"dpkg", "--root=" + root, "--force-script-chrootless", "--force-depends", "--log=/dev/null"}, args...)...)
	}
	run(t, root, nil, dpkg("--install", deb)...)

	t.Run("files", func(t *testing.T) {
		got := regular(t, root)
		for _, want := range wanted(t) {
			if !slices.Contains(got, want) {
				t.Errorf("the root has no %s: %q", want, got)
			}
		}
		if n := len(slices.DeleteFunc(got, func(f string) bool { return !strings.HasPrefix(f, "usr/share/man/man1/weir-") })); n < 50 {
			t.Errorf("%d manual pages of commands, want at least 50", n)
		}
		page := run(t, root, nil, "zcat", filepath.Join(root, "usr/share/man/man1/weir-context.1.gz"))
		for _, want := range []string{"  current: prod\n", "weir.yaml and <cluster>/<pool>.yaml ("} {
			if !strings.Contains(strings.ReplaceAll(page, "\\&", ""), want) {
				t.Errorf("the page of weir context has no %q:\n%s", want, page)
			}
		}
	})
	t.Run("rpm has the same files", func(t *testing.T) { sameFiles(t, deb, rpmFile) })
	t.Run("users", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
		for _, want := range []string{"\nweir:", ":/var/lib/weir:", "\nweir-agent:"} {
			if err != nil || !strings.Contains("\n"+string(data), want) {
				t.Errorf("passwd has no %q: %v\n%s", want, err, data)
			}
		}
		if info, err := os.Stat(filepath.Join(root, "etc/weir/credentials")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("etc/weir/credentials: %v %v, want mode 0700", info, err)
		}
	})
	weir := filepath.Join(root, "usr/bin/weir")
	t.Run("program", func(t *testing.T) {
		if out := run(t, root, nil, weir, "version"); !strings.HasPrefix(out, "weir ") || !strings.Contains(out, runtime.GOARCH) {
			t.Errorf("weir version prints %q", out)
		}
		stored, err := os.ReadFile(filepath.Join(root, "usr/share/bash-completion/completions/weir"))
		if out := run(t, root, nil, weir, "completion", "bash"); err != nil || out != string(stored) {
			t.Errorf("weir completion bash prints %d bytes, and the package has %d: %v", len(out), len(stored), err)
		}
		examples := filepath.Join(root, "usr/share/doc/weir/examples")
		out := run(t, root, []string{"CREDENTIALS_DIRECTORY=/run/credentials/x"}, weir, "config", "validate", "default", "--cluster", "everywhere-prod", "--config-dir", examples)
		if !strings.Contains(out, "is valid") {
			t.Errorf("weir config validate of the examples prints %q", out)
		}
	})
	// The folder of a signal is complete: the Go command has neither a module cache nor a proxy.
	t.Run("SDK", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "requests")
		alone := append(testprograms.Flags(), "GOPROXY=off", "GOMODCACHE="+t.TempDir())
		if out := run(t, t.TempDir(), alone, weir, "signal", "init", "requests", "--offline", "--dir", dir); !strings.Contains(out, "from "+filepath.Join(root, "usr/share/weir/sdk.zip")) {
			t.Errorf("weir signal init --offline prints\n%s", out)
		}
		run(t, dir, alone, "go", "test", "./...")
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil || !strings.Contains(string(mod), "weirkeeper v1.2.3\n") {
			t.Errorf("go.mod: %s, %v, want the version of the package", mod, err)
		}
	})
	// Code that keeps the linker from dropping what is unused, such as html/template or a whole client of a cloud, shows here.
	t.Run("program is small", func(t *testing.T) {
		if info, err := os.Stat(weir); err != nil || info.Size() > maxBinary {
			t.Errorf("weir: %v, %v, want at most %d bytes", info, err, maxBinary)
		}
	})
	doctor := func() string {
		out, _, _ := try(t, root, nil, weir, "doctor", "--config-dir", t.TempDir(), "--data", t.TempDir(), "--timeout", "1s")
		return out
	}
	t.Run("whole package", func(t *testing.T) {
		if out := doctor(); !strings.Contains(out, "ok       package: ") || !strings.Contains(out, "files are those of the package") {
			t.Errorf("weir doctor prints\n%s", out)
		}
	})
	t.Run("half-installed package", func(t *testing.T) {
		unit := filepath.Join(root, "usr/lib/systemd/system/weir-agent.service")
		if err := os.Remove(unit); err != nil {
			t.Fatal(err)
		}
		if out := doctor(); !strings.Contains(out, "failed   package: "+unit+" is missing: the package is installed in part") {
			t.Errorf("weir doctor prints\n%s", out)
		}
		run(t, root, nil, dpkg("--install", deb)...)
		if out := doctor(); !strings.Contains(out, "ok       package: ") {
			t.Errorf("after the second installation weir doctor prints\n%s", out)
		}
	})
	t.Run("upgrade keeps settings, removal keeps credentials", func(t *testing.T) {
		settings, key := filepath.Join(root, "etc/weir/weir.env"), filepath.Join(root, "etc/weir/credentials/weir-agent.nk")
		for path, text := range map[string]string{settings: "CMAN_CLUSTER=mine\n", key: "seed"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run(t, root, nil, dpkg("--install", deb)...)
		if data, err := os.ReadFile(settings); string(data) != "CMAN_CLUSTER=mine\n" {
			t.Errorf("an upgrade writes %q into weir.env: %v", data, err)
		}
		run(t, root, nil, dpkg("--remove", "weir")...)
		if _, err := os.Stat(weir); err == nil {
			t.Error("usr/bin/weir exists after the removal")
		}
		if data, err := os.ReadFile(key); string(data) != "seed" {
			t.Errorf("the removal leaves %q of the key: %v", data, err)
		}
	})
}

// newRoot returns an empty root with dpkg's database.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// wanted returns files of the package that a host needs, in each case every unit.
func wanted(t *testing.T) []string {
	t.Helper()
	all := []string{
		"usr/bin/weir", "usr/bin/weir-local", "usr/lib/sysusers.d/weir.conf", "usr/lib/tmpfiles.d/weir.conf", "etc/weir/weir.env", "etc/weir/agent.env",
		"usr/share/man/man1/weir.1.gz", "usr/share/man/man1/weir-agent.1.gz", "usr/share/man/man1/weir-bootstrap.1.gz",
		"usr/share/zsh/vendor-completions/_weir", "usr/share/fish/vendor_completions.d/weir.fish", "usr/share/doc/weir/copyright",
		"usr/share/weir/sdk.zip", "usr/share/doc/weir/examples/weir.yaml", "usr/share/weir/nats/nats-server.service", "usr/share/doc/weir/examples/pools/everywhere-prod-default.env",
	}
	for _, folder := range []string{"aws", "terraform", "prometheus", "grafana"} {
		files, err := filepath.Glob(filepath.Join("..", folder, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files of %s: %v", folder, err)
		}
		for _, f := range files {
			all = append(all, filepath.Join("usr/share/weir", folder, filepath.Base(f)))
		}
	}
	for _, unit := range units(t) {
		all = append(all, "usr/lib/systemd/system/"+filepath.Base(unit))
	}
	return all
}

// regular returns the files below a root, without dpkg's own.
func regular(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(name, "var/lib/dpkg/") {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameFiles compares the lists of both packages. Only the folder of zsh differs.
func sameFiles(t *testing.T, deb, rpmFile string) {
	t.Helper()
	var inDeb []string
	listing := run(t, ".", nil, "dpkg-deb", "--contents", deb)
	for line := range strings.Lines(listing) {
		fields := strings.Fields(line)
		if name := strings.TrimPrefix(fields[5], "."); fields[0][0] == '-' {
			inDeb = append(inDeb, strings.Replace(name, "zsh/vendor-completions", "zsh/site-functions", 1))
		}
	}
	inRPM := rpmFiles(t, rpmFile)
	slices.Sort(inDeb)
	slices.Sort(inRPM)
	if diff := cmp.Diff(inDeb, inRPM); diff != "" {
		t.Errorf("files of deb (-) and rpm (+):\n%s", diff)
	}
}
