package supervise

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// The child of a slow listener waits. Its lines arrive whole and in order, the first one at once.
func TestLinesReachPipe(t *testing.T) {
	launcher := newLauncher(t)
	read, write := io.Pipe()
	spec := shell(`echo handshake; i=0; while [ $i -lt 400 ]; do printf 'line '; echo $i; i=$((i+1)); done; exec sleep 1000`,
		newMark(t), &listing{})
	spec.Lines = output.WriteLines(write, slog.New(slog.DiscardHandler))
	child := start(t, launcher, spec)
	lines := bufio.NewScanner(read)
	for i := -1; i < 399 && lines.Scan(); i++ {
		want := fmt.Sprintf("line %d", i)
		if i < 0 {
			want = "handshake"
		}
		if lines.Text() != want {
			t.Fatalf("line %q, want %q", lines.Text(), want)
		}
	}
	// The last line waits for a reader that never comes.
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	read.Close()
}

func TestFlood(t *testing.T) {
	launcher := newLauncher(t)
	const lines = 200_000
	var passed listing
	spec := shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); done", lines), newMark(t), &passed)
	if exit := awaitEnd(t, start(t, launcher, spec)); exit.Code != 0 {
		t.Fatalf("ended with %s", exit)
	}
	var numbers, dropped int
	for _, line := range passed.all() {
		var n int
		if _, err := fmt.Sscanf(line, "%d lines dropped", &n); err == nil {
			dropped += n
		} else {
			numbers++
		}
	}
	if dropped == 0 || numbers+dropped != lines {
		t.Errorf("%d lines passed, %d reported as dropped, %d written", numbers, dropped, lines)
	}
}

// One tail serves one child after another. It has marks at each start and end and all of a flood's last lines.
func TestTailOfChildren(t *testing.T) {
	launcher := newLauncher(t)
	tail := output.NewTail(1000, 1<<20)
	for _, spec := range []Spec{
		{Argv: []string{"/bin/sh", "-c", "echo out; exit 3"}},
		{Argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 900 ]; do echo $i; i=$((i+1)); done"}, Lines: new(listing).add},
		{Argv: []string{"/nonexistent/x"}},
	} {
		spec.Name, spec.Tail = "x", tail
		if child, err := launcher.Start(t.Context(), spec); err == nil {
			awaitEnd(t, child)
		}
	}
	lines, _ := tail.Since(0)
	pid := regexp.MustCompile(`, pid \d+`)
	var got []string
	for _, line := range lines {
		if line.Time.IsZero() {
			t.Errorf("line without a time: %+v", line)
		}
		if line.Stream == output.Marks {
			got = append(got, pid.ReplaceAllString(line.Text, ""))
		} else if line.Text == "out" || line.Text == "899" {
			got = append(got, line.Text)
		}
	}
	want := []string{"started", "out", "ended: exit status 3", "started", "899", "ended: exit status 0",
		"not started: fork/exec /nonexistent/x: no such file or directory"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}
