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

// TestFullDiskEndsTheCopyThatFillsIt: with a request that it exceeds, or without one. The others run on.
func TestFullDiskEndsTheCopyThatFillsIt(t *testing.T) {
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
	start("within", 0, 20, "head -c 15M /dev/zero > kept")
	start("small", 1, 0, "head -c 5M /dev/zero > kept")
	localtest.Until(t, "both have written", func() bool {
		return strings.Count(strings.Join(r.lines(t, wire.LogsRequest{App: "web"}), " "), "done") == 2
	})
	for i, hog := range []struct {
		instance, request string
		disk              float64
	}{{"exceeds", "10 MB", 10}, {"unlimited", "no disk", 0}} {
		start(hog.instance, 2+i, hog.disk, "head -c 100M /dev/zero > fill")
		e := r.awaitExit(t, hog.instance)
		want := regexp.MustCompile(`^ended because the disk of its node had \d MB free: it used 4\d MB, 4\d MB of that new, and requested ` + hog.request + `; killed by SIGTERM$`)
		if e.Reason != api.ExitCrashed || !want.MatchString(e.Description) {
			t.Errorf("exit = %+v, want a crash with the disk use", e)
		}
		r.until(t, "small=RUNNING within=RUNNING")
		if got := r.lines(t, wire.LogsRequest{App: "web", Index: new(2 + i), Lines: 1}); len(got) == 0 || got[len(got)-1] != "[ended: "+e.Description+"]" {
			t.Errorf("output %q, want how it ended", got)
		}
	}
}
