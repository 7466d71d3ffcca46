package release_test

import (
	"bufio"
	"context"
	"fmt"
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

// fetchEnv makes this binary a process that downloads the beginning of v1 from
// an endpoint into a cache, says so, and hangs: "ENDPOINT DIR".
const fetchEnv = "WEIR_RELEASE_TEST_FETCH"

// runIfFetcher is main of that process; it does not return.
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
		c, err = release.OpenCache(release.Config{
			Dir: dir, Platform: linux, Patience: time.Minute,
			Progress: func(_ release.Ref, done, _ int64) { fmt.Println("has", done) },
		})
		if err == nil {
			_, err = c.Fetch(context.Background(), flakyBucket{b, 1000, true, new(atomic.Int32)}, v1)
		}
	}
	fmt.Println("ended:", err)
	os.Exit(1)
}

// A process that is killed in the middle of a download leaves nothing that
// counts, and nothing that stays.
func TestFetchKilled(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": incompressible(10_000)})
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
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || !strings.HasPrefix(line, "has ") {
		t.Fatalf("the fetching process says %q, %v", line, err)
	}
	leftovers := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "tmp-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	openCache(t, dir)
	if got := leftovers(); len(got) != 1 {
		t.Errorf("work of a living process: %v, want one folder, untouched", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	c := openCache(t, dir)
	if got := leftovers(); len(got) != 0 {
		t.Errorf("work of a dead process: %v, want none", got)
	}
	mustFetch(t, c, b, v1)
}
