package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
)

// appendTo appends text to the output of a copy, as the copy does.
func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func lines(t testing.TB, path string, n, limit int) []string {
	t.Helper()
	x, err := lastLines(path, n, part{limit: limit, whole: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	return x.lines
}

func TestLastLines(t *testing.T) {
	tests := []struct {
		name, text string
		n, limit   int
		want       []string
	}{
		{"nothing", "", 0, 100, nil},
		{"all", "a\nb\n", 0, 100, []string{"a", "b"}},
		{"last one", "a\nb\n", 1, 100, []string{"b"}},
		{"without its end", "a\nb", 0, 100, []string{"a", "b"}},
		{"carriage returns", "a\r\nb\r\n", 0, 100, []string{"a", "b"}},
		{"empty lines", "\n\na\n", 0, 100, []string{"", "", "a"}},
		{"whole lines only", "aaaa\nbbbb\ncccc\n", 0, 11, []string{"bbbb", "cccc"}},
		{"exactly some lines", "aaaa\nbbbb\ncccc\n", 0, 10, []string{"bbbb", "cccc"}},
		{"a line beyond the limit", strings.Repeat("x", 50), 0, 20, []string{strings.Repeat("x", 20)}},
		{"a long line", strings.Repeat("x", maxLogLine+1) + "\ny\n", 0, 1 << 20, []string{strings.Repeat("x", maxLogLine), "x", "y"}},
		{"not UTF-8", "a\xff\xfeb\n", 0, 100, []string{"a\uFFFDb"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.out")
			appendTo(t, path, test.text)
			if diff := cmp.Diff(test.want, lines(t, path, test.n, test.limit)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestFollow reads a growing file in parts. Each line arrives once, whole, and in order.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.out")
	var got []string
	offset := int64(0)
	read := func(limit int, whole bool) excerpt {
		t.Helper()
		x, err := readOutput(path, part{from: offset, limit: limit, whole: whole})
		if err != nil {
			t.Fatal(err)
		}
		got, offset = append(got, x.lines...), x.next
		return x
	}
	var want []string
	for i := range 50 {
		line := strings.Repeat("x", i) + fmt.Sprint(i)
		want = append(want, line)
		appendTo(t, path, line[:i/2])
		read(100, false)
		appendTo(t, path, line[i/2:]+"\n")
		if i%3 == 0 {
			read(100, false)
		}
	}
	appendTo(t, path, "end")
	want = append(want, "end")
	for range 100 {
		read(100, true)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if x := read(100, true); len(x.lines) > 0 || x.lost {
		t.Errorf("at the end: %+v", x)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "again\n")
	if x := read(100, true); !x.lost || len(x.lines) != 1 {
		t.Errorf("after it was emptied: %+v, want one line, and lost", x)
	}
}

// TestTrim: the disk has a bounded part of the output, and offsets stay valid.
func TestTrim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.out")
	line := strings.Repeat("y", 99) + "\n"
	appendTo(t, path, strings.Repeat(line, 5*keptOutput/100)+"last\n")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := trimOutput(path, keptOutput); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if blocks := after.Sys().(*syscall.Stat_t).Blocks * 512; blocks > keptOutput+2*punchBlock {
		t.Errorf("%d bytes are on the disk, want at most %d", blocks, keptOutput+2*punchBlock)
	}
	if after.Size() != before.Size() {
		t.Errorf("size %d, want %d as before: offsets must stay valid", after.Size(), before.Size())
	}
	if got := lines(t, path, 1, replyLogs); len(got) != 1 || got[0] != "last" {
		t.Errorf("last line %q", got)
	}
	x, err := readOutput(path, part{from: 100, limit: 1000})
	if err != nil || !x.lost || len(x.lines) == 0 || x.lines[0]+"\n" != line {
		t.Errorf("from the freed part: %+v, %v, want whole lines, and lost", x, err)
	}
	appendTo(t, path, "more\n")
	if x, err := readOutput(path, part{from: before.Size(), limit: 1000}); err != nil || x.lost || len(x.lines) != 1 {
		t.Errorf("after the trim: %+v, %v", x, err)
	}
	if err := endOutput(path, "exit status 1"); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path, 1, replyLogs); len(got) != 1 || got[0] != "[ended: exit status 1]" {
		t.Errorf("last line %q", got)
	}
}

// TestReadWhileTheStartIsFreed: a line that the reader finds, and that is freed before it is read, is lost, not zeros.
func TestReadWhileTheStartIsFreed(t *testing.T) {
	line := strings.Repeat("y", 4000)
	text := strings.Repeat(line+"\n", 3*keptOutput/len(line))
	path := filepath.Join(t.TempDir(), "x.out")
	for range 200 {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		trimmed := make(chan error)
		go func() { trimmed <- trimOutput(path, keptOutput) }()
		for lost := false; !lost; {
			x, err := readOutput(path, part{limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			lost = x.lost
			for _, got := range x.lines {
				if strings.Trim(got, "y") != "" {
					t.Fatalf("line %.40q, lost %t, want bytes of the copy only", got, x.lost)
				}
			}
		}
		if err := <-trimmed; err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnfinishedLine: a client that follows a running copy gets its last line when it is whole.
func TestUnfinishedLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, stateFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	appendTo(t, outputPath(dir, "i"), "a\nb\nhal")
	for name, test := range map[string]struct {
		request wire.LogsRequest
		ended   bool
		want    []string
		next    int64
	}{
		"once":            {wire.LogsRequest{}, false, []string{"a", "b", "hal"}, 7},
		"follow":          {wire.LogsRequest{Follow: true}, false, []string{"a", "b"}, 4},
		"the last line":   {wire.LogsRequest{Follow: true, Lines: 1}, false, []string{"b"}, 4},
		"follow an ended": {wire.LogsRequest{Follow: true}, true, []string{"a", "b", "hal"}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			got := readLogs(dir, test.request, []wire.CopyLog{{Instance: "i", Ended: test.ended}}).Copies[0]
			if diff := cmp.Diff(test.want, got.Lines); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.Next != test.next {
				t.Errorf("the next offset is %d, want %d", got.Next, test.next)
			}
		})
	}
}

// TestOutputRefusesOtherFiles: the copy owns the folder's user, so it can replace its file.
func TestOutputRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe.out"), filepath.Join(dir, "link.out")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir} {
		if _, err := lastLines(path, 0, part{limit: 100, whole: true}, false); err == nil {
			t.Errorf("lastLines(%s) = nil", path)
		}
		if err := trimOutput(path, 1); err == nil {
			t.Errorf("trimOutput(%s) = nil", path)
		}
	}
}

func TestLogsFitIntoAMessage(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, stateFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	var copies []wire.CopyLog
	after := map[string]int64{}
	for i := range 100 {
		c := wire.CopyLog{Instance: fmt.Sprint("x", i), Index: i, Lines: []string{}}
		copies, after[c.Instance] = append(copies, c), 0
		appendTo(t, outputPath(dir, c.Instance), strings.Repeat("\x01\n", endedOutput)) // the worst case: six bytes in JSON
	}
	for name, r := range map[string]wire.LogsRequest{"last lines": {App: "web"}, "follow": {App: "web", After: after}} {
		reply := readLogs(dir, r, copies)
		data, err := json.Marshal(reply)
		if err != nil || len(data) > 1<<20 {
			t.Errorf("%s: the reply has %d bytes, %v", name, len(data), err)
		}
		newest := reply.Copies[len(reply.Copies)-1]
		if newest.Instance != "x99" || len(newest.Lines) == 0 {
			t.Errorf("%s: the newest copy is %s with %d lines", name, newest.Instance, len(newest.Lines))
		}
		if name == "follow" && len(reply.Copies) < replyLogs/wire.LeastShare/2 {
			t.Errorf("%d copies share the reply, want at least %d", len(reply.Copies), replyLogs/wire.LeastShare/2)
		}
	}
	if err := checkLogs(wire.LogsRequest{App: "web", Lines: wire.MaxLogLines + 1}); err == nil {
		t.Error("too many lines are accepted")
	}
}
