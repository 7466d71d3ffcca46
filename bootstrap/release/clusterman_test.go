package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

const python = "/usr/bin/python3"

// tarred returns an archive of these entries.
func tarred(t testing.TB, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o755, Size: int64(len(e.body)), ModTime: today}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	gz.Close()
	return buf.Bytes()
}

// venvOf returns the entries of a virtual environment, as Debian's python creates it, with a package.
func venvOf(wantText string) []entry {
	return []entry{
		{name: "./", kind: tar.TypeDir},
		{name: "./prodenv/", kind: tar.TypeDir},
		{name: "./prodenv/bin/python", kind: tar.TypeSymlink, link: "python3"},
		{name: "./prodenv/bin/python3", kind: tar.TypeSymlink, link: python},
		{name: "./prodenv/bin/python3.11", kind: tar.TypeSymlink, link: "python3"},
		{name: "./prodenv/lib64", kind: tar.TypeSymlink, link: "lib"},
		{name: "./prodenv/lib/x.py", kind: tar.TypeReg, body: "pass\n"},
		{name: "./prodenv/pyvenv.cfg", kind: tar.TypeReg, body: "home = /usr/bin\ninclude-system-site-packages = false\n"},
		{name: "./clusterman_signals/__init__.py", kind: tar.TypeReg},
		{name: "./clusterman_signals/run.py", kind: tar.TypeReg, body: "import sys, os\nprint('" + wantText + "', *sys.argv[1:], os.path.basename(sys.prefix))\n"},
	}
}

func tarballKey(version string) string { return "jammy/clusterman_signals_" + version + ".tar.gz" }

func TestFetchClusterman(t *testing.T) {
	server, b := startBucket(t)
	put(t, b, tarballKey("v1"), tarred(t, venvOf("hello")))
	put(t, b, tarballKey("v1.1"), tarred(t, venvOf("hello")))
	web := release.Ref{Namespace: "shop", Name: "Web", Version: "v1"}
	cart := release.Ref{Namespace: "shop", Name: "Cart", Version: "v1"}
	dir := t.TempDir()
	var downloads atomic.Int32
	c := openCache(t, dir)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if in, err := c.FetchClusterman(t.Context(), countingBucket{b, &downloads}, "jammy", cart); err != nil || in.Ref != cart {
				t.Errorf("FetchClusterman = %v, %v", in.Ref, err)
			}
		})
	}
	in, err := c.FetchClusterman(t.Context(), countingBucket{b, &downloads}, "jammy", web)
	wg.Wait()
	if err != nil || in.Ref != web || in.Entry != "prodenv/bin/python" || in.BucketErr != nil {
		t.Fatalf("FetchClusterman = %+v, %v", in, err)
	}
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads, want 1 for all signals of the version", n)
	}

	f, err := in.Open(in.Entry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	args := append(in.Args, "shop", "Web", "app")
	if got, want := run(t, in, f, args...), "hello shop Web app prodenv\n"; got != want {
		t.Errorf("run = %q, want %q", got, want)
	}
	before := tree(t, dir)
	if in, err := openCache(t, dir).FetchClusterman(t.Context(), b, "jammy", web); err != nil || in.Pinned {
		t.Errorf("FetchClusterman again = %+v, %v", in.Pinned, err)
	}
	diff(t, "cache", tree(t, dir), before)

	t.Run("not there", func(t *testing.T) {
		_, err := c.FetchClusterman(t.Context(), b, "jammy", release.Ref{Namespace: "shop", Name: "Web", Version: "v2"})
		if !errors.Is(err, release.ErrNotFound) || !strings.Contains(err.Error(), "there are v1, v1.1") {
			t.Errorf("FetchClusterman = %v, want ErrNotFound with what there is", err)
		}
	})
	t.Run("signature required", func(t *testing.T) {
		key, _ := newKey(t)
		_, err := openTrusting(t, dir, true, key).FetchClusterman(t.Context(), b, "jammy", web)
		if !errors.Is(err, release.ErrUnsigned) {
			t.Errorf("FetchClusterman = %v, want ErrUnsigned", err)
		}
	})
	t.Run("damaged copy", func(t *testing.T) {
		if err := os.Remove(filepath.Join(in.Dir, "prodenv/bin/python")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/bin/sh", filepath.Join(in.Dir, "prodenv/bin/python")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.FetchClusterman(t.Context(), b, "jammy", web); err != nil {
			t.Fatal(err)
		}
		diff(t, "cache", tree(t, dir), before)
	})
	t.Run("changed", func(t *testing.T) {
		if err := os.Remove(server.Path(bucketName, "some/prefix/"+tarballKey("v1"))); err != nil {
			t.Fatal(err)
		}
		put(t, b, tarballKey("v1"), tarred(t, venvOf("evil")))
		_, err := c.FetchClusterman(t.Context(), b, "jammy", web)
		if !errors.Is(err, release.ErrChanged) || !strings.Contains(err.Error(), `"weir release forget NAMESPACE/NAME@v1"`) {
			t.Fatalf("FetchClusterman = %v, want ErrChanged", err)
		}
		diff(t, "cache", tree(t, dir), before)
		if err := c.ForgetClusterman(t.Context(), b, "jammy", cart); err != nil {
			t.Fatal(err)
		}
		if in, err := c.FetchClusterman(t.Context(), b, "jammy", web); err != nil || !in.Pinned {
			t.Errorf("FetchClusterman after that = %v, %v, want it pinned anew", in.Pinned, err)
		}
	})
	t.Run("bucket away", func(t *testing.T) {
		server.Kill()
		in, err := openCache(t, dir).FetchClusterman(t.Context(), b, "jammy", cart)
		if err != nil || !errors.Is(in.BucketErr, release.ErrUnavailable) {
			t.Errorf("FetchClusterman = %v, away %v", err, in.BucketErr)
		}
	})
}

// The first content of a tarball that a host of a cluster fetched is the content for all hosts, until it is forgotten.
func TestTarballIsPinnedForAllHosts(t *testing.T) {
	server, b := startBucket(t)
	put(t, b, tarballKey("v1"), tarred(t, venvOf("good")))
	web := release.Ref{Namespace: "shop", Name: "Web", Version: "v1"}
	shared := &sharedStore{seen: map[release.SeenKey]release.Seen{}}
	c, other := openShared(t, shared), openShared(t, shared)
	first, err := c.FetchClusterman(t.Context(), b, "jammy", web)
	if err != nil || !first.Pinned {
		t.Fatalf("FetchClusterman = %v, %v, want it pinned", first.Pinned, err)
	}
	replace := func(wantText string) {
		if err := os.Remove(server.Path(bucketName, "some/prefix/"+tarballKey("v1"))); err != nil {
			t.Fatal(err)
		}
		put(t, b, tarballKey("v1"), tarred(t, venvOf(wantText)))
	}
	replace("evil")
	for name, host := range map[string]*release.Cache{"the host that fetched it": c, "another host": other} {
		_, err := host.FetchClusterman(t.Context(), b, "jammy", web)
		if !errors.Is(err, release.ErrChanged) || !strings.Contains(err.Error(), "had "+first.Digest.String()+" when it was first seen") {
			t.Errorf("%s: %v, want ErrChanged with the first digest", name, err)
		}
	}
	replace("good")
	if in, err := other.FetchClusterman(t.Context(), b, "jammy", web); err != nil || in.Pinned || in.Digest != first.Digest {
		t.Errorf("another host: %v, pinned %v, %v, want the first digest", in.Digest, in.Pinned, err)
	}
	if err := c.ForgetClusterman(t.Context(), b, "jammy", web); err != nil {
		t.Fatal(err)
	}
	if in, err := other.FetchClusterman(t.Context(), b, "jammy", web); err != nil || !in.Pinned {
		t.Errorf("the same content after Forget: pinned %v, %v, want it pinned anew", in.Pinned, err)
	}
	replace("next")
	if _, err := c.FetchClusterman(t.Context(), b, "jammy", web); !errors.Is(err, release.ErrChanged) {
		t.Errorf("other content after that: %v, want ErrChanged", err)
	}
}

func TestFetchClustermanRefuses(t *testing.T) {
	_, b := startBucket(t)
	dir := t.TempDir()
	c := openCache(t, dir)
	file := func(name string) entry { return entry{name: name, body: "x", kind: tar.TypeReg} }
	deep := strings.Repeat("d/", release.MaxDepth)
	symlink := func(name, to string) entry { return entry{name: name, kind: tar.TypeSymlink, link: to} }
	for i, tc := range []struct {
		name string
		add  []entry
		want error
	}{
		{"path that leads out", []entry{file("../x")}, release.ErrUnsafe},
		{"absolute path", []entry{file("/x")}, release.ErrUnsafe},
		{"link out", []entry{symlink("a", "../x")}, release.ErrUnsafe},
		{"link out by way of down", []entry{symlink("a", "b/../../x")}, release.ErrUnsafe},
		{"link out by way of a link", []entry{symlink("s/d/up", "../.."), symlink("x", "s/d/up/../x")}, release.ErrUnsafe},
		{"absolute link", []entry{symlink("a", "/etc/passwd")}, release.ErrUnsafe},
		{"absolute link to another python", []entry{symlink("prodenv/bin/python2", "/opt/python2")}, release.ErrUnsafe},
		{"file through a link", []entry{symlink("a", "prodenv"), file("a/x")}, release.ErrUnsafe},
		{"link through a link", []entry{symlink("a", "prodenv"), symlink("a/x", "y")}, release.ErrUnsafe},
		{"twice", []entry{file("a"), file("a")}, release.ErrUnsafe},
		{"deep file", []entry{file(deep + "x")}, release.ErrUnsafe},
		{"deep folder", []entry{{name: deep + "x/", kind: tar.TypeDir}}, release.ErrUnsafe},
		{"deep link", []entry{symlink(deep+"x", "y")}, release.ErrUnsafe},
		{"file and folder", []entry{file("a"), file("a/b")}, release.ErrUnsafe},
		{"hard link", []entry{{name: "a", kind: tar.TypeLink, link: "prodenv/pyvenv.cfg"}}, release.ErrUnsafe},
		{"device", []entry{{name: "a", kind: tar.TypeChar}}, release.ErrUnsafe},
		{"fifo", []entry{{name: "a", kind: tar.TypeFifo}}, release.ErrUnsafe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			version := "bad" + string(rune('a'+i))
			put(t, b, tarballKey(version), tarred(t, append(venvOf("x"), tc.add...)))
			_, err := c.FetchClusterman(t.Context(), b, "jammy", release.Ref{Namespace: "shop", Name: "Web", Version: version})
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "s3://releases/some/prefix/jammy/") {
				t.Errorf("FetchClusterman = %v, want %v", err, tc.want)
			}
			t.Log(err)
			diff(t, "cache", tree(t, dir), map[string]string{"/lock": ""})
		})
	}
	for name, entries := range map[string][]entry{
		"empty":        nil,
		"no-entry":     {file("a")},
		"other-python": {symlink("prodenv/bin/python", "/bin/sh")},
		"round":        {symlink("prodenv/bin/python", "python3"), symlink("prodenv/bin/python3", "python")},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, b, tarballKey(name), tarred(t, entries))
			_, err := c.FetchClusterman(t.Context(), b, "jammy", release.Ref{Namespace: "shop", Name: "Web", Version: name})
			if !errors.Is(err, release.ErrCorrupt) && !errors.Is(err, release.ErrUnsafe) {
				t.Errorf("FetchClusterman = %v, want ErrCorrupt or ErrUnsafe", err)
			}
			diff(t, "cache", tree(t, dir), map[string]string{"/lock": ""})
		})
	}
}

// A virtual environment created on this machine runs.
func TestFetchClustermanRealVenv(t *testing.T) {
	_, b := startBucket(t)
	dir := t.TempDir()
	if out, err := exec.Command(python, "-m", "venv", "--without-pip", filepath.Join(dir, "prodenv")).CombinedOutput(); err != nil {
		t.Fatalf("make a virtual environment: %v: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "clusterman_signals"), 0o755); err != nil {
		t.Fatal(err)
	}
	module := []byte("import sys\nprint(sys.prefix)\n")
	if err := os.WriteFile(filepath.Join(dir, "clusterman_signals", "run.py"), module, 0o644); err != nil {
		t.Fatal(err)
	}
	archive, err := exec.Command("tar", "-C", dir, "-cz", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, tarballKey("real"), archive)
	in, err := openCache(t, t.TempDir()).FetchClusterman(t.Context(), b, "jammy", release.Ref{Namespace: "shop", Name: "Web", Version: "real"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := in.Open(in.Entry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := run(t, in, f, in.Args...), filepath.Join(in.Dir, "prodenv")+"\n"; got != want {
		t.Errorf("sys.prefix = %q, want %q", got, want)
	}
}
