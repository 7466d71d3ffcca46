package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
)

// writers returns the processes that write the output of a copy to its file.
func (r rig) writers(t *testing.T, instance string) (pids []int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/fd/1")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if to, err := os.Readlink(entry); err == nil && to == filepath.Join(r.dir, ".instances", instance+".out") {
			pid, err := strconv.Atoi(strings.Split(entry, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// counted returns the lines "line 1" to "line n".
func counted(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprint("line ", i+1))
	}
	return lines
}

// TestOpenedOutputKeepsItsLines: an app opens its standard output and its standard error again, as "> /dev/stderr"
// does in a shell.
func TestOpenedOutputKeepsItsLines(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", `i=0; while [ $i -lt 80 ]; do i=$((i+1)); case $((i%5)) in
		0) echo line $i > /dev/stderr;; 1) echo line $i > /dev/stdout;; 2) echo line $i >&2;; *) echo line $i;; esac; done`)
	r.awaitExit(t, "a")
	if diff := cmp.Diff(append(counted(80), "[ended: exit status 0]"), r.lines(t, wire.LogsRequest{App: "web"})); diff != "" {
		t.Errorf("output, -want +got:\n%s", diff)
	}
	if left := r.writers(t, "a"); len(left) != 0 {
		t.Errorf("writers %v are left", left)
	}
}

// TestLinesOfSeveralProcessesAreWhole, also for a client that follows them while the machine trims the file.
func TestLinesOfSeveralProcessesAreWhole(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", `for p in a b c d; do (
		line=$(head -c 4000 /dev/zero | tr '\0' $p); i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $line $i; done) & done
		wait; echo done; exec sleep 1000`)
	f := wire.NewFollower(r.Client, wire.LogsRequest{App: "web"})
	next, done := map[byte]int{}, false // of each process: the number of its next line; some may be trimmed before they are read
	localtest.Until(t, "the line after those of all processes", func() bool {
		copies, _ := f.Read(t.Context(), []string{"n1"})
		for _, c := range copies {
			for _, line := range c.Lines {
				if done = line == "done"; done {
					continue
				}
				text, number, _ := strings.Cut(line, " ")
				n, err := strconv.Atoi(number)
				if len(text) != 4000 || strings.Trim(text, text[:1]) != "" || err != nil || n < next[text[0]] {
					t.Fatalf("line %.20q..., %d bytes, %q: want 4000 equal bytes, and at least number %d", text, len(text), number, next[text[0]])
				}
				next[text[0]] = n + 1
			}
		}
		return done
	})
	if len(next) == 0 {
		t.Error("no line of a process was read")
	}
	info, err := os.Stat(filepath.Join(r.dir, ".instances", "a.out"))
	if want := int64(1200 * len(" \n")); err != nil || info.Size() < 4*300*4000+want {
		t.Errorf("the file has %v, %v, want all bytes written: offsets stay valid", info, err)
	}
	localtest.Until(t, "the trimmed file", func() bool {
		info, err := os.Stat(filepath.Join(r.dir, ".instances", "a.out"))
		return err == nil && info.Sys().(*syscall.Stat_t).Blocks*512 <= 2<<20
	})
}

// TestOutputIsWrittenWithoutAnAgent kills the agent of a copy that then writes more than a pipe holds.
func TestOutputIsWrittenWithoutAnAgent(t *testing.T) {
	w := newWorld(t)
	end := w.run(t, true)
	const lines = 20_000
	command := fmt.Sprintf("echo $$; trap 'go=1' USR1; while [ -z $go ]; do sleep 0.02; done; seq -f 'line %%.0f' %d; touch wrote; while :; do sleep 0.02; done", lines)
	if err := w.Start(t.Context(), "n1", indexed(0, command)); err != nil {
		t.Fatal(err)
	}
	pid := w.pid(t, 0)
	end(syscall.SIGKILL)
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "the output", func() bool { _, err := os.Stat(filepath.Join(w.dir, "i0", "wrote")); return err == nil })
	if len(w.writers(t, "i0")) == 0 {
		t.Error("no process writes the output: it ended with the agent")
	}
	w.run(t, true)
	if err := w.Stop(t.Context(), "n1", "i0"); err != nil {
		t.Fatal(err)
	}
	w.awaitExit(t, "i0")
	got := w.lines(t, wire.LogsRequest{App: "web", Lines: 1000})
	if n := len(got); n < 900 || got[n-2] != fmt.Sprint("line ", lines) || !strings.HasPrefix(got[n-1], "[ended: ") {
		t.Errorf("the last lines of %d: %q", n, got[max(0, n-3):])
	}
	if left := w.writers(t, "i0"); len(left) != 0 {
		t.Errorf("writers %v are left", left)
	}
}

// TestOutputGoesOnAfterAFailureOfCat: the shell of the writer starts it again. At most a second of output is dropped.
func TestOutputGoesOnAfterAFailureOfCat(t *testing.T) {
	r := newRig(t)
	r.start(t, "a", "while :; do echo up; sleep 0.02; done")
	killed := 0
	localtest.Until(t, "a running cat", func() bool {
		for _, pid := range r.writers(t, "a") {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && string(name) == "cat\n" {
				killed = pid
			}
		}
		return killed > 0
	})
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	localtest.Until(t, "a mark, and more output", func() bool {
		got := r.lines(t, wire.LogsRequest{App: "web"})
		i := slices.Index(got, "[output dropped: its file could not be written]")
		return i >= 0 && i < len(got)-1 && got[len(got)-1] == "up"
	})
}

// TestWriterEndsWithTheOutput: of a copy that is killed, of one that closes its output, and of one that leaves a process
// which it does not find: this process keeps the output open.
func TestWriterEndsWithTheOutput(t *testing.T) {
	r := newRig(t)
	r.start(t, "killed", "echo up; exec sleep 1000")
	r.start(t, "closed", "echo up; exec sleep 1000 >&- 2>&-")
	localtest.Until(t, "the end of the writer of a closed output", func() bool { return len(r.writers(t, "closed")) == 0 })
	r.until(t, "closed=RUNNING killed=RUNNING")
	for _, instance := range []string{"killed", "closed"} {
		if err := r.Stop(t.Context(), "n1", instance); err != nil {
			t.Fatal(err)
		}
		r.awaitExit(t, instance)
	}
	r.start(t, "left", `env -i setsid /bin/sh -c 'echo $$; exec sleep 1000' & while ! read pid; do sleep 0.02; done < ../.instances/left.out`)
	r.awaitExit(t, "left")
	want := []string{"up", "[ended: killed by SIGTERM]", "up", "[ended: killed by SIGTERM]"}
	got := r.lines(t, wire.LogsRequest{App: "web"})
	if len(got) != 6 || !slices.Equal(got[:4], want) || got[5] != "[ended: exit status 0]" {
		t.Fatalf("output %q, want %q, a process id and an end", got, want)
	}
	if pid, err := strconv.Atoi(got[4]); err != nil {
		t.Error(err)
	} else {
		_ = syscall.Kill(pid, syscall.SIGKILL) // with cgroups, it has ended with its copy
	}
	for _, instance := range []string{"killed", "left"} {
		if left := r.writers(t, instance); len(left) != 0 {
			t.Errorf("writers %v of %s are left", left, instance)
		}
	}
}

// TestFullDiskNeitherBlocksNorEndsACopy: its output is dropped, and continues when there is space.
func TestFullDiskNeitherBlocksNorEndsACopy(t *testing.T) {
	dir, inside := smalldisk.On(t, 8<<20, ".")
	if !inside {
		return
	}
	r := newRigIn(t, dir)
	away := t.TempDir() // on another disk
	r.start(t, "a", `cd `+away+`; while [ ! -e quiet ]; do seq -f '%.0f of a long line in a large block of output' 1000; echo beat >> beats; done
		while :; do echo later; sleep 0.05; done`)
	r.until(t, "a=RUNNING")
	free := smalldisk.Fill(t, dir)
	written := func() int64 {
		info, err := os.Stat(filepath.Join(away, "beats"))
		if err != nil {
			return 0
		}
		return info.Size() / int64(len("beat\n"))
	}
	before := written()
	localtest.Until(t, "more output than a pipe holds", func() bool { return written() > before+20 })
	if err := os.WriteFile(filepath.Join(away, "quiet"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	free()
	localtest.Until(t, "output after the full disk", func() bool {
		got := r.lines(t, wire.LogsRequest{App: "web"})
		i := slices.Index(got, "[output dropped: its file could not be written]")
		return i >= 0 && i < len(got)-1 && got[len(got)-1] == "later"
	})
	if err := r.Stop(t.Context(), "n1", "a"); err != nil {
		t.Fatal(err)
	}
	if e := r.awaitExit(t, "a"); e.Description != "killed by SIGTERM" {
		t.Errorf("exit = %+v", e)
	}
}
