package release_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// overwrite changes a file's bytes, as any process of the same user can.
func overwrite(path string) error {
	return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte("echo evil!\n"), 0o644), os.Chmod(path, 0o755))
}

func instead(path string, put func(path string) error) error {
	return errors.Join(os.Remove(path), put(path))
}

func TestInstalledVerify(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "#!/bin/sh\n. ./lib/a.sh\n", "lib/a.sh*": "echo good\n", "lib/b.sh*": "echo good\n"})
	put(t, b, tarballKey("v1"), tarred(t, venvOf("hello")))
	c := openCache(t, t.TempDir())
	ours := func() (release.Installed, error) { return c.Fetch(t.Context(), b, v1) }
	tarball := func() (release.Installed, error) { return c.FetchClusterman(t.Context(), b, "jammy", web("v1")) }
	for _, tc := range []struct {
		name, path string
		fetch      func() (release.Installed, error)
		damage     func(path string) error
		want       error
	}{
		{"fellow overwritten", "lib/a.sh", ours, overwrite, release.ErrCorrupt},
		{"fellow removed", "lib/a.sh", ours, os.Remove, release.ErrCorrupt},
		{"fellow with another mode", "lib/a.sh", ours, func(p string) error { return os.Chmod(p, 0o644) }, release.ErrCorrupt},
		{"fellow is a folder", "lib/a.sh", ours, func(p string) error {
			return instead(p, func(p string) error { return os.Mkdir(p, 0o755) })
		}, release.ErrCorrupt},
		{"fellow is a pipe", "lib/a.sh", ours, func(p string) error {
			return instead(p, func(p string) error { return syscall.Mkfifo(p, 0o755) })
		}, release.ErrCorrupt},
		{"fellow is a link out", "lib/a.sh", ours, func(p string) error {
			return instead(p, func(p string) error { return os.Symlink("/bin/sh", p) })
		}, release.ErrCorrupt},
		{"folder is a file", "lib", ours, func(p string) error {
			return errors.Join(os.RemoveAll(p), os.WriteFile(p, nil, 0o644))
		}, release.ErrCorrupt},
		{"all gone", "", ours, os.RemoveAll, release.ErrCorrupt},
		{"something more", "lib/c.sh", ours, func(p string) error { return os.WriteFile(p, nil, 0o644) }, nil},
		{"module overwritten", "clusterman_signals/run.py", tarball, overwrite, release.ErrCorrupt},
		{"link leads elsewhere", "prodenv/bin/python3", tarball, func(p string) error {
			return instead(p, func(p string) error { return os.Symlink("/bin/sh", p) })
		}, release.ErrCorrupt},
		{"link is a file", "prodenv/lib64", tarball, func(p string) error {
			return instead(p, func(p string) error { return os.WriteFile(p, nil, 0o755) })
		}, release.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, err := tc.fetch()
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Verify(t.Context()); err != nil {
				t.Fatalf("Verify of what was fetched = %v", err)
			}
			if err := in.Verify(cancelled(t)); !errors.Is(err, context.Canceled) || errors.Is(err, release.ErrCorrupt) {
				t.Errorf("Verify, cancelled = %v", err)
			}
			if err := tc.damage(filepath.Join(in.Dir, tc.path)); err != nil {
				t.Fatal(err)
			}
			err = in.Verify(t.Context())
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), in.Dir) {
				t.Errorf("Verify = %v, want %v", err, tc.want)
			}
			t.Log(err)
			if in, err = tc.fetch(); err != nil {
				t.Fatal(err)
			}
			if err := in.Verify(t.Context()); err != nil {
				t.Errorf("Verify after Fetch = %v, want it repaired", err)
			}
		})
	}
}

// While the source of credentials is unavailable, a release comes from the cache, as with an unavailable bucket.
func TestFetchWhileCredentialsUnavailable(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "cached"})
	dir := t.TempDir()
	mustFetch(t, openCache(t, dir), b, v1)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": dir + "/no", "AWS_SHARED_CREDENTIALS_FILE": dir + "/no",
		"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	in, content := mustFetch(t, openCache(t, dir), openBucket(t, server.Endpoint, bucketName), v1)
	if content != "cached" || !errors.Is(in.BucketErr, release.ErrUnavailable) {
		t.Errorf("Fetch = %q, away %v", content, in.BucketErr)
	}
}

// A complete download is kept when the context ends before unpacking.
func TestFetchKeepsDownloadWhenCancelled(t *testing.T) {
	_, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": incompressible(10_000)})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := release.OpenCache(t.Context(), release.Config{
		Dir: dir, Platform: linux,
		Progress: func(_ release.Ref, done, total int64) {
			if done == total {
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(ctx, b, v1); !errors.Is(err, context.Canceled) {
		t.Fatalf("Fetch = %v, want that it was cancelled", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "part-"+m.Object.SHA256.String())); err != nil || info.Size() != m.Object.Size {
		t.Errorf("download = %v, %v, want all of it", info, err)
	}
	offsets := &offsetBucket{Bucket: b}
	mustFetch(t, openCache(t, dir), offsets, v1)
	diff(t, "archive read from", offsets.from, []int64(nil))
}

func TestListWithoutReleases(t *testing.T) {
	_, b := startBucket(t)
	found, err := release.List(t.Context(), b, "nobody", "")
	if err != nil || found == nil || len(found) > 0 {
		t.Errorf("List = %#v, %v, want an empty list that is not nil", found, err)
	}
}
