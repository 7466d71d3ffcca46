package release_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

func fdNumber(f *os.File) string { return strconv.Itoa(int(f.Fd())) }

func TestFetch(t *testing.T) {
	_, b := startBucket(t)
	files := map[string]string{"run*": "#!/bin/sh\necho hello\n", "lib/a.txt": "a", "lib/deep/b": ""}
	m := publish(t, b, v1, files)
	dir := t.TempDir()
	c := openCache(t, dir)
	in, entry := mustFetch(t, c, b, v1)
	if in.BucketErr != nil || in.Digest != m.Object.SHA256 || in.Ref != v1 || entry != files["run*"] {
		t.Errorf("Fetch = %+v, entry %q", in, entry)
	}
	diff(t, "files", tree(t, in.Dir), map[string]string{"/run": files["run*"], "/lib/a.txt": "a", "/lib/deep/b": ""})

	f, err := in.Open("run")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("run by descriptor = %q, %v", out, err)
	}

	before := tree(t, dir)
	mustFetch(t, c, b, v1)
	mustFetch(t, openCache(t, dir), b, v1)
	diff(t, "cache after two more fetches", tree(t, dir), before)
}

// A removed cache is made again, with its mode, by the next fetch.
func TestFetchIntoARemovedFolder(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "#!/bin/sh\necho hello\n"})
	dir := filepath.Join(t.TempDir(), "data", "releases")
	c := openCache(t, dir)
	mustFetch(t, c, b, v1)
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	mustFetch(t, c, b, v1)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the folder: %v, %v; want mode 0711", info, err)
	}
}

func TestFetchSingleBinary(t *testing.T) {
	_, b := startBucket(t)
	src := release.Source{Path: filepath.Join(writeFolder(t, map[string]string{"signal*": "binary"}), "signal"), SDK: "weir/0.1.0", Protocol: 1, Created: today}
	if _, err := release.Publish(t.Context(), b, v1, linux, src); err != nil {
		t.Fatal(err)
	}
	in, entry := mustFetch(t, openCache(t, t.TempDir()), b, v1)
	if in.Entry != "signal" || entry != "binary" || in.Manifest.SDK != "weir/0.1.0" || in.Manifest.Protocol != 1 {
		t.Errorf("Fetch = %+v, entry %q", in, entry)
	}
}

// Invalid bucket content is rejected with its own error, and leaves nothing in the cache.
func TestFetchRefuses(t *testing.T) {
	server, b := startBucket(t)
	good := entry{name: "run", body: "good", kind: tar.TypeReg}
	stored := func(m release.Manifest, change func([]byte) []byte) {
		path := server.Path(bucketName, "some/prefix/"+objectKey(m, m.Object.Name))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		name     string
		setup    func(ref release.Ref)
		want     error
		wantText string
	}{
		{"flipped byte behind the store", func(ref release.Ref) {
			stored(publish(t, b, ref, map[string]string{"run*": ref.Name}), func(d []byte) []byte { d[len(d)/2] ^= 1; return d })
		}, release.ErrCorrupt, ".tar.gz"},
		{"truncated object", func(ref release.Ref) {
			stored(publish(t, b, ref, map[string]string{"run*": ref.Name}), func(d []byte) []byte { return d[:len(d)/2] })
		}, release.ErrCorrupt, ".tar.gz"},
		{"digest of other bytes", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, func(m *release.Manifest) {
				m.Object.SHA256[0] ^= 1
				m.Object.Name = "sha256-" + m.Object.SHA256.String() + ".tar.gz"
			})
		}, release.ErrCorrupt, "has sha256"},
		{"smaller than in the manifest", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, func(m *release.Manifest) { m.Object.Size++ })
		}, release.ErrCorrupt, "truncated"},
		{"larger than in the manifest", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, func(m *release.Manifest) { m.Object.Size-- })
		}, release.ErrCorrupt, "larger"},
		{"path that leads out", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "../x", body: "evil", kind: tar.TypeReg}}, nil)
		}, release.ErrUnsafe, `"../x"`},
		{"path that leads out, in the manifest too", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "../x", body: "evil", kind: tar.TypeReg}}, func(m *release.Manifest) {
				m.Files = append([]release.File{{Path: "../x", Mode: release.Plain}}, m.Files...)
			})
		}, release.ErrCorrupt, `"../x"`},
		{"absolute path", func(ref release.Ref) {
			craft(t, b, ref, []entry{{name: "/etc/x", body: "evil", kind: tar.TypeReg}, good}, nil)
		}, release.ErrUnsafe, `"/etc/x"`},
		{"symbolic link", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "link", kind: tar.TypeSymlink, link: "/etc"}}, nil)
		}, release.ErrUnsafe, `"link"`},
		{"hard link", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "link", kind: tar.TypeLink, link: "run"}}, nil)
		}, release.ErrUnsafe, `"link"`},
		{"device", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "null", kind: tar.TypeChar}}, nil)
		}, release.ErrUnsafe, `"null"`},
		{"file that is not in the manifest", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, {name: "zzz", body: "?", kind: tar.TypeReg}}, func(m *release.Manifest) { m.Files = m.Files[:1] })
		}, release.ErrUnsafe, `"zzz"`},
		{"file twice", func(ref release.Ref) {
			craft(t, b, ref, []entry{good, good}, func(m *release.Manifest) { m.Files = m.Files[:1] })
		}, release.ErrUnsafe, "twice"},
		{"file that is missing", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, func(m *release.Manifest) {
				m.Files = append(m.Files, release.File{Path: "zzz", Mode: release.Plain})
			})
		}, release.ErrCorrupt, "zzz"},
		{"file with other bytes", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, func(m *release.Manifest) { m.Files[0].SHA256[5] ^= 1 })
		}, release.ErrCorrupt, "run has sha256"},
		{"not an archive", func(ref release.Ref) {
			putRaw(t, b, release.Manifest{Format: 1, Ref: ref, Platform: linux, Created: today, Entry: "run",
				Files: []release.File{{Path: "run", Mode: release.Executable}}}, []byte("no gzip"), nil)
		}, release.ErrCorrupt, "archive"},
		{"manifest of another release", func(ref release.Ref) {
			craft(t, b, ref, []entry{good}, nil)
			server := server.Path(bucketName, "some/prefix/"+ref.Namespace+"/"+ref.Name)
			if err := os.Rename(filepath.Join(server, "v1"), filepath.Join(server, "v2")); err != nil {
				t.Fatal(err)
			}
		}, nil, "manifest.json"},
		{"never published", func(release.Ref) {}, release.ErrNotFound, "manifest.json"},
	}

	dir := t.TempDir()
	c := openCache(t, dir)
	publish(t, b, v1, map[string]string{"run*": "the good one"})
	mustFetch(t, c, b, v1)
	before := tree(t, dir)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			ref := release.Ref{Namespace: "bad", Name: fmt.Sprintf("case%d", i), Version: "v1"}
			tc.setup(ref)
			if tc.name == "manifest of another release" {
				ref.Version, tc.want = "v2", release.ErrCorrupt
			}
			err := refusal(t, c, b, ref)
			if !errors.Is(err, tc.want) || errors.Is(err, release.ErrUnavailable) {
				t.Errorf("Fetch = %v, want %v", err, tc.want)
			}
			for _, part := range []string{tc.wantText, "s3://releases/some/prefix/bad/", ref.String()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Fetch = %v, want it to say %q", err, part)
				}
			}
			diff(t, "cache", tree(t, dir), before)
		})
	}
}

func TestFetchErrorsByCause(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "x"})
	c := openCache(t, t.TempDir())
	t.Run("no such bucket", func(t *testing.T) {
		err := refusal(t, c, openBucket(t, server.Endpoint, "nowhere"), v1)
		if !errors.Is(err, release.ErrNoBucket) || !strings.Contains(err.Error(), "s3://nowhere/some/prefix/shop/") {
			t.Errorf("Fetch = %v, want ErrNoBucket", err)
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
		if err := refusal(t, c, openBucket(t, server.Endpoint, bucketName), v1); !errors.Is(err, release.ErrDenied) {
			t.Errorf("Fetch = %v, want ErrDenied", err)
		}
	})
	t.Run("unknown access key", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "nobody")
		if err := refusal(t, c, openBucket(t, server.Endpoint, bucketName), v1); !errors.Is(err, release.ErrDenied) {
			t.Errorf("Fetch = %v, want ErrDenied", err)
		}
	})
	t.Run("bad ref", func(t *testing.T) {
		refusal(t, c, b, release.Ref{Namespace: "..", Name: "x", Version: "v1"})
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Fetch(ctx, b, v1); !errors.Is(err, context.Canceled) {
			t.Errorf("Fetch = %v, want Canceled", err)
		}
	})
}

func TestFetchWhileBucketUnavailable(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "one"})
	v2 := release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: "v2.0.0"}
	publish(t, b, v2, map[string]string{"run*": "two"})
	dir := t.TempDir()
	mustFetch(t, openCache(t, dir), b, v1)
	server.Kill()

	c := openCache(t, dir)
	in, entry := mustFetch(t, c, b, v1)
	if entry != "one" || !errors.Is(in.BucketErr, release.ErrUnavailable) || !strings.Contains(in.BucketErr.Error(), "connection refused") {
		t.Errorf("Fetch of the cached = %q, away: %v", entry, in.BucketErr)
	}
	err := refusal(t, c, b, v2)
	if !errors.Is(err, release.ErrUnavailable) || !strings.Contains(err.Error(), "not in the cache") {
		t.Errorf("Fetch of the other version = %v, want ErrUnavailable, not in the cache", err)
	}

	// The cached release did not come from the other bucket.
	elsewhere := openBucket(t, server.Endpoint, "elsewhere")
	if err := refusal(t, c, elsewhere, v1); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("Fetch from another bucket = %v, want ErrUnavailable", err)
	}

	// A damaged copy is not returned either.
	if err := damage(filepath.Join(in.Dir, "run")); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, c, b, v1); !errors.Is(err, release.ErrUnavailable) || !errors.Is(err, release.ErrCorrupt) {
		t.Errorf("Fetch of a damaged copy = %v, want ErrUnavailable and ErrCorrupt", err)
	}
	if _, err := in.Open("run"); !errors.Is(err, release.ErrCorrupt) {
		t.Errorf("Open of a damaged file = %v, want ErrCorrupt", err)
	}
}

// damage writes other bytes into a read-only file and keeps its mode.
func damage(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	err = errors.Join(os.Chmod(path, 0o700), os.WriteFile(path, []byte("0ne"), 0o700))
	return errors.Join(err, os.Chmod(path, info.Mode()))
}

func TestFetchRepairsADamagedCopy(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "one", "data": "d"})
	tests := []struct {
		name string
		do   func(dir string) error
	}{
		{"other bytes", func(dir string) error { return damage(filepath.Join(dir, "run")) }},
		{"file gone", func(dir string) error { return os.Remove(filepath.Join(dir, "data")) }},
		{"other mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "run"), 0o644) }},
		{"folder gone", os.RemoveAll},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			c := openCache(t, dir)
			in, _ := mustFetch(t, c, b, v1)
			before := tree(t, dir)
			if err := tc.do(in.Dir); err != nil {
				t.Fatal(err)
			}
			if _, entry := mustFetch(t, c, b, v1); entry != "one" {
				t.Errorf("entry = %q, want one", entry)
			}
			diff(t, "cache", tree(t, dir), before)
		})
	}
}

// countingBucket counts the downloads of archives.
type countingBucket struct {
	release.Bucket
	downloads *atomic.Int32
}

func (c countingBucket) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if strings.HasSuffix(key, ".tar.gz") {
		c.downloads.Add(1)
	}
	return c.Bucket.Get(ctx, key, from)
}

func TestFetchConcurrently(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": strings.Repeat("x", 1<<20)})
	dir := t.TempDir()
	var downloads atomic.Int32
	counted := countingBucket{b, &downloads}

	same := openCache(t, dir)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := same.Fetch(t.Context(), counted, v1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads by one cache, want 1", n)
	}

	// Separate caches, as in several processes.
	shared := t.TempDir()
	for range 4 {
		c := openCache(t, shared)
		wg.Go(func() {
			in, err := c.Fetch(t.Context(), b, v1)
			if err != nil {
				t.Error(err)
			} else if f, err := in.Open(in.Entry); err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(shared, "tmp-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// flakyBucket interrupts transfers of archives after some bytes.
type flakyBucket struct {
	release.Bucket
	each  int64 // bytes per transfer
	stall bool  // hang instead of returning an error
	gets  *atomic.Int32
}

func (f flakyBucket) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	body, err := f.Bucket.Get(ctx, key, from)
	if err != nil || !strings.HasSuffix(key, ".tar.gz") {
		return body, err
	}
	f.gets.Add(1)
	return &flakyBody{ReadCloser: body, left: f.each, stall: f.stall, ctx: ctx}, nil
}

type flakyBody struct {
	io.ReadCloser
	ctx   context.Context
	left  int64
	stall bool
}

func (f *flakyBody) Read(p []byte) (int, error) {
	if f.left == 0 {
		if f.stall {
			<-f.ctx.Done()
			return 0, f.ctx.Err()
		}
		return 0, release.ErrUnavailable
	}
	n, err := f.ReadCloser.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

func TestFetchResumes(t *testing.T) {
	_, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": incompressible(10_000)})
	for _, stall := range []bool{false, true} {
		t.Run(fmt.Sprintf("stall %v", stall), func(t *testing.T) {
			var progress []int64
			var gets atomic.Int32
			silence := time.Minute
			if stall {
				silence = time.Second
			}
			c, err := release.OpenCache(t.Context(), release.Config{
				Dir: t.TempDir(), Platform: linux, RetryTimeout: silence,
				Progress: func(_ release.Ref, done, total int64) {
					if total != m.Object.Size {
						t.Errorf("progress is %d of %d, want of %d", done, total, m.Object.Size)
					}
					progress = append(progress, done)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Fetch(t.Context(), flakyBucket{b, 3000, stall, &gets}, v1); err != nil {
				t.Fatal(err)
			}
			if n := gets.Load(); n < 4 {
				t.Errorf("%d transfers, want at least 4, of at most 3000 bytes", n)
			}
			if last := progress[len(progress)-1]; last != m.Object.Size {
				t.Errorf("last progress is %d, want %d", last, m.Object.Size)
			}
		})
	}
	t.Run("never a byte", func(t *testing.T) {
		var gets atomic.Int32
		c := openCache(t, t.TempDir())
		if err := refusal(t, c, flakyBucket{b, 0, true, &gets}, v1); !errors.Is(err, release.ErrUnavailable) {
			t.Errorf("Fetch = %v, want ErrUnavailable", err)
		}
	})
}

// A cancelled fetch does not fail other callers of the same release.
func TestCancelledFetchDoesNotFailOthers(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "x"})
	c := openCache(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	blocked := blockingBucket{b, make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Fetch(ctx, blocked, v1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Fetch = %v, want Canceled", err)
		}
	})
	<-blocked.entered
	wg.Go(func() {
		if _, err := c.Fetch(t.Context(), b, v1); err != nil {
			t.Error(err)
		}
	})
	cancel()
	wg.Wait()
}

type blockingBucket struct {
	release.Bucket
	entered chan struct{}
}

func (b blockingBucket) Get(ctx context.Context, _ string, _ int64) (io.ReadCloser, error) {
	b.entered <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}
