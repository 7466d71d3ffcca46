package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// TestFollowerReadsEachLineOnce follows an app over two restarts of its agent, while one instance writes, one ends, and
// one starts.
func TestFollowerReadsEachLineOnce(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	const count = `n=0; while [ $n -lt 60 ]; do echo line $n; n=$((n+1)); sleep 0.02; done; exit 4`
	f := wire.NewFollower(w.Client, wire.LogsRequest{App: "web", Lines: 0})
	read := map[string][]string{}
	away := 0
	next := func(nodes ...string) {
		copies, failed := f.Read(t.Context(), nodes)
		for _, c := range copies {
			if c.Lost {
				t.Errorf("lines of %s are lost", c.Instance)
			}
			read[c.Instance] = append(read[c.Instance], c.Lines...)
		}
		away += len(failed)
	}
	has := func(instance, line string) func() bool {
		return func() bool { next(); return slices.Contains(read[instance], line) }
	}
	if err := w.Start(t.Context(), "n1", indexed(0, count)); err != nil {
		t.Fatal(err)
	}
	next("n1")
	localtest.Until(t, "line 5 of i0", has("i0", "line 5"))
	end(syscall.SIGKILL)
	next()
	if away == 0 {
		t.Error("no error of a node without an agent")
	}
	end = w.run(t, true)
	if err := w.Start(t.Context(), "n1", indexed(1, count)); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "line 5 of i1", has("i1", "line 5"))
	end(syscall.SIGTERM)
	w.run(t, true)
	ended := func(instance string) func() bool {
		return func() bool {
			next("n1")
			lines := read[instance]
			return len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "[ended: ")
		}
	}
	localtest.Until(t, "the end of i0", ended("i0"))
	localtest.Until(t, "the end of i1", ended("i1"))
	next("n1")
	var want []string
	for n := range 60 {
		want = append(want, fmt.Sprintf("line %d", n))
	}
	for _, instance := range []string{"i0", "i1"} {
		got := slices.DeleteFunc(read[instance], func(line string) bool { return strings.HasPrefix(line, "[ended: ") })
		if diff := cmp.Diff(want, got); diff != "" || len(read[instance]) != len(want)+1 {
			t.Errorf("%s: -want +got:\n%s", instance, diff)
		}
	}
}

// TestFollowerReadsMuchOutput follows an instance that writes more than one answer holds.
func TestFollowerReadsMuchOutput(t *testing.T) {
	r := newRig(t)
	f := wire.NewFollower(r.Client, wire.LogsRequest{App: "web", Lines: 1})
	if copies, failed := f.Read(t.Context(), []string{"n1"}); len(copies)+len(failed) != 0 {
		t.Fatalf("before the first instance: %v, %v", copies, failed)
	}
	r.start(t, "a", `seq 100000; exec sleep 1000`)
	var got []string
	localtest.Until(t, "the last line", func() bool {
		copies, _ := f.Read(t.Context(), []string{"n1"})
		for _, c := range copies {
			got = append(got, c.Lines...)
		}
		return slices.Contains(got, "100000")
	})
	if len(got) != 100000 || got[0] != "1" || got[99999] != "100000" {
		t.Errorf("%d lines from %q to %q, want 1 to 100000", len(got), got[0], got[len(got)-1])
	}
}
