package release_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
)

// fetchEnv makes this binary a process that downloads the beginning of v1 from an endpoint into a cache, prints a line,
// and hangs: "ENDPOINT DIR".
const fetchEnv = "WEIR_RELEASE_TEST_FETCH"

// runIfFetcher is main of that process. It does not return.
func runIfFetcher() {
	spec, ok := os.LookupEnv(fetchEnv)
	if !ok {
		return
	}
	endpoint, dir, _ := strings.Cut(spec, " ")
	b, err := s3store.Open(context.Background(), s3store.Config{
		Bucket: bucketName, Prefix: "some/prefix", Region: "us-east-1", Endpoint: endpoint, PathStyle: true,
	})
	if err == nil {
		var c *release.Cache
		c, err = release.OpenCache(context.Background(), release.Config{
			Dir: dir, Platform: linux, RetryTimeout: time.Minute,
			Progress: func(_ release.Ref, done, _ int64) { fmt.Println("has", done) },
		})
		if err == nil {
			_, err = c.Fetch(context.Background(), flakyBucket{b, 1000, true, new(atomic.Int32)}, v1)
		}
	}
	fmt.Println("ended:", err)
	os.Exit(1)
}

// A process killed in the middle of a download leaves only the partial download. Another process continues it.
func TestFetchKilled(t *testing.T) {
	server, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": incompressible(10_000)})
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fetchEnv+"="+server.Endpoint+" "+dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "has 1000" {
	}
	if lines.Text() != "has 1000" {
		t.Fatalf("the fetching process printed %q", lines.Text())
	}
	leftovers := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	openCache(t, dir)
	if got := leftovers("tmp-*"); len(got) != 1 {
		t.Errorf("work of a living process: %v, want one folder, untouched", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	c := openCache(t, dir)
	if tmp, part := leftovers("tmp-*"), leftovers("part-*"); len(tmp) != 0 || len(part) != 1 {
		t.Errorf("work of a dead process: %v and %v, want none and the download", tmp, part)
	}
	offsets := &offsetBucket{Bucket: b}
	mustFetch(t, c, offsets, v1)
	diff(t, "archive read from", offsets.from, []int64{1000})
	if part := leftovers("part-*"); len(part) != 0 {
		t.Errorf("after the download: %v, want none", part)
	}

	// If the leftover is wrong or too large, the download starts over.
	for _, left := range []int{1000, int(m.Object.Size), int(m.Object.Size) + 1} {
		t.Run(fmt.Sprint("nonsense of ", left), func(t *testing.T) {
			c := openCache(t, t.TempDir())
			in, _ := mustFetch(t, c, b, v1)
			os.RemoveAll(in.Dir)
			part := filepath.Join(filepath.Dir(in.Dir), "part-"+m.Object.SHA256.String())
			if err := os.WriteFile(part, make([]byte, left), 0o600); err != nil {
				t.Fatal(err)
			}
			offsets := &offsetBucket{Bucket: b}
			mustFetch(t, c, offsets, v1)
			if n := len(offsets.from); n == 0 || n > 2 || offsets.from[n-1] != 0 {
				t.Errorf("archive read from %v, want the last time from 0", offsets.from)
			}
		})
	}
}

// offsetBucket records the offsets from which archives are read.
type offsetBucket struct {
	release.Bucket
	from []int64
}

func (o *offsetBucket) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if strings.HasSuffix(key, ".tar.gz") {
		o.from = append(o.from, from)
	}
	return o.Bucket.Get(ctx, key, from)
}

// A partial download that is not continued is removed.
func TestPartialsAreSwept(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "part-old"), filepath.Join(dir, "part-fresh")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	openCache(t, dir)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("old download: %v, want it gone", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("fresh download: %v, want it kept", err)
	}
}
