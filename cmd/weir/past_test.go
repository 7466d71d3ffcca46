package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
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

// A pool that the cluster does not have is a mistake, though the range has events of all pools.
func TestEventsOfUnknownPool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	storeFinding(t, b, `[{"kind":"missing","app":"web"}]`)
	run := inData(data)
	if r := run("events", "web", "--since", "1h"); r.code != command.ExitOK || !strings.Contains(r.stdout, "harmonizer missing") {
		t.Errorf("weir events web: %+v, want the stored finding", r)
	}
	want := run("explain", "wbe")
	for _, flags := range [][]string{{"--since", "1h"}, {"--follow"}, {"--since", "1h", "--follow"}} {
		if r := runInTime(t, append([]string{"events", "wbe", "--data", data}, flags...)...); r != want || r.code != command.ExitUsage {
			t.Errorf("weir events wbe %q: %+v, want %+v", flags, r, want)
		}
	}
}

// The crashes of one application are one line. "--all" and JSON have each of them.
func TestEventsFoldCrashes(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	for i := range 5 {
		storeFinding(t, b, fmt.Sprintf(`[{"kind":"crashed","app":"api","index":%d,"why":"crashed","detail":"exit status 1"}]`, i%2))
	}
	storeFinding(t, b, `[{"kind":"flapping","app":"api","index":1,"why":"crashed","detail":"exit status 3"}]`)
	run := inData(data)
	for flags, want := range map[string][2]string{
		"": {"1", "harmonizer flapping: api crashed 6 times in "}, "--kind health": {"0", ""},
		"--app api": {"1", "api crashed 6 times in "}, "--app api --all": {"6", "flapping api/1"}, "--app web": {"0", ""}, "--node i-1": {"0", ""},
		"--all": {"6", "harmonizer flapping: flapping api/1 (crashed): exit status 3\n"}, "--output json": {"6", `"event":"flapping"`}, "--output yaml": {"6", "event: flapping\n"},
	} {
		r := run(append([]string{"events", "web", "--since", "1h"}, strings.Fields(flags)...)...)
		if wantNote := want[0] == "0"; strings.Contains(r.stderr, "weir: pool local/web has no event") != wantNote || wantNote && !strings.HasSuffix(r.stderr, " in the last 60 min\n") {
			t.Errorf("weir events web --since 1h %s reports %q, want a line if there is no event: %v", flags, r.stderr, wantNote)
		}
		if n := strings.Count(r.stdout, "harmonizer "); r.code != command.ExitOK || !strings.Contains(r.stdout, want[1]) || !strings.Contains(flags, "output") && strconv.Itoa(n) != want[0] {
			t.Errorf("weir events web --since 1h %s: %+v, want %q", flags, r, want)
		}
	}
}

// storeFinding publishes findings of the harmonizer, which are stored.
func storeFinding(t *testing.T, b *bus.Bus, findings string) {
	t.Helper()
	_, err := b.JetStream().Publish(t.Context(), message.EventsSubject("local"), []byte(findings))
	if err != nil {
		t.Fatal(err)
	}
}

// The events of a pool with a file can be followed before its first tick.
func TestFollowEventsOfNewPool(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), "events", "default", "--follow", "--data", data, "--config-dir", muteConfig(t))
	cmd.Env = append(os.Environ(), asWeir+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = offspring.Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
			if err := b.Conn().Publish(message.EventsSubject("local"), []byte(`[{"kind":"missing","app":"web"}]`)); err != nil {
				t.Error(err)
			}
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "harmonizer missing") {
		t.Errorf("weir events --follow prints %q, %v; want the finding", line, err)
	}
	cancel()
	publishing.Wait()
	_ = cmd.Wait() // it is killed
}

// Without a range, the events of the last hour are printed. Repeated findings without an application or a node are one line.
func TestEventsWithoutARange(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := openBus(t, data)
	storeTick(t, b, "web", decidedTick("web", time.Now().UTC()))
	for range 5 {
		storeFinding(t, b, `[{"kind":"incomplete","rule":"freshness","why":"not_fresh"}]`)
	}
	r := inData(data)("events", "web")
	if r.code != command.ExitOK || strings.Count(r.stdout, "harmonizer incomplete") != 1 || !strings.Contains(r.stdout, "5 times in ") ||
		!strings.Contains(r.stderr, "events of the last hour; --since chooses another range") {
		t.Errorf("weir events web: %+v", r)
	}
}
