package agent_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// TestFullDiskEndsTheCopyThatExceedsItsRequest: a copy within its request runs on, and so does one without a request.
func TestFullDiskEndsTheCopyThatExceedsItsRequest(t *testing.T) {
	dir, inside := smalldisk.On(t, 64<<20, ".")
	if !inside {
		return
	}
	r := newRigIn(t, dir)
	start := func(instance string, index int, disk float64, command string) {
		t.Helper()
		request := indexed(index, command+"; echo done; exec sleep 1000")
		request.Instance, request.Footprint[resource.Disk] = instance, disk
		if err := r.Start(t.Context(), "n1", request); err != nil {
			t.Fatal(err)
		}
	}
	start("within", 0, 10, "head -c 5M /dev/zero > kept")
	start("unlimited", 1, 0, "head -c 20M /dev/zero > kept")
	localtest.Until(t, "both have written", func() bool {
		return strings.Count(strings.Join(r.lines(t, wire.LogsRequest{App: "web"}), " "), "done") == 2
	})
	start("hog", 2, 10, "head -c 100M /dev/zero > fill")
	e := r.awaitExit(t, "hog")
	if text := regexp.MustCompile(`^ended because it used 3[0-9] MB of disk, its request is 10 MB, and the disk of the node is full; killed by SIGTERM$`); e.Reason != api.ExitCrashed || !text.MatchString(e.Description) {
		t.Errorf("exit = %+v, want a crash with the disk use", e)
	}
	r.until(t, "unlimited=RUNNING within=RUNNING")
	if got := r.lines(t, wire.LogsRequest{App: "web", Index: new(2), Lines: 1}); len(got) == 0 || got[len(got)-1] != "[ended: "+e.Description+"]" {
		t.Errorf("output %q, want how it ended", got)
	}
}
