package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/command"
)

// Two ticks without a difference are not an empty table.
func TestDiffOfEqualTicks(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	run := inData(data)
	for flags, want := range map[string]string{"": "\nno differences\n", "--output json": `"changes": []`} {
		if r := run(append([]string{"diff", "web", "last", "last"}, strings.Fields(flags)...)...); r.code != command.ExitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("weir diff web last last %s: %+v, want %q", flags, r, want)
		}
	}
}

// A pool that the cluster does not have is a mistake, though the range may have events of all pools.
func TestEventsOfUnknownPool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	storeTick(t, openBus(t, data), "web", decidedTick("web", time.Now().UTC()))
	run := inData(data)
	if r, want := run("events", "wbe", "--since", "1h"), run("explain", "wbe"); r != want || r.code != command.ExitUsage {
		t.Errorf("weir events wbe: %+v, want %+v", r, want)
	}
}
