package localworld

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
)

func TestTerminalThatIsNotRead(t *testing.T) {
	r, w := io.Pipe() // no reader
	defer r.Close()
	term := newScreen(w)
	for range 1000 {
		if n, err := term.Write([]byte("tick\n")); n != 5 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	term.close(time.Millisecond)
}

func TestTerminalThatIsRead(t *testing.T) {
	var out bytes.Buffer
	term := newScreen(&out)
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := term.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	term.close(time.Minute)
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("it was given %q", got)
	}
}

// The live line is redrawn in place, and erased before other lines.
func TestLiveLine(t *testing.T) {
	var screen bytes.Buffer // the goroutine of the terminal alone writes to it until close returns
	term := startScreen(&screen, &screen, func() int { return 10 })
	io.WriteString(term, "one\n")
	term.Live("2 ticks")
	term.Live("a text of more than 10 columns")
	io.WriteString(term, "two\n")
	term.Live("1 tick")
	term.close(time.Minute)
	want := "one\n" + clearLine + "2 ticks" + clearLine + "a text of" + clearLine + "two\n" + clearLine + "1 tick" + clearLine
	if got := screen.String(); got != want {
		t.Errorf("it was given %q, want %q", got, want)
	}
}

// An output without a terminal gets no live line.
func TestNoLiveLine(t *testing.T) {
	var out bytes.Buffer
	term := newScreen(&out)
	io.WriteString(term, "one\n")
	term.Live("2 ticks")
	term.close(time.Minute)
	if got := out.String(); got != "one\n" {
		t.Errorf("it was given %q", got)
	}
}

// Only a tick that changed something is a line of its own.
func TestTickLines(t *testing.T) {
	var out bytes.Buffer
	var live []string
	lines := tickLines{out: &out, live: func(text string) { live = append(live, text) }}
	for _, text := range []string{"04:25:19 pool 2 -> 2", "04:25:21 pool 2 -> 2", "04:25:23 pool 2 -> 2", "04:25:25 pool 2 -> 5", "04:25:27 pool 2 -> 5"} {
		lines.tick(text)
	}
	lines.repeat()
	lines.tick("04:25:29 pool 2 -> 5")
	want := "04:25:19 pool 2 -> 2\n04:25:25 pool 2 -> 5\n04:25:29 pool 2 -> 5\n"
	if got := out.String(); got != want {
		t.Errorf("lines\n%swant\n%s", got, want)
	}
	wantLive := []string{"04:25:21 1 tick without a change", "04:25:23 2 ticks without a change", "04:25:27 1 tick without a change"}
	if !slices.Equal(live, wantLive) {
		t.Errorf("live lines %s, want %s", strings.Join(live, "; "), strings.Join(wantLive, "; "))
	}
}

// The line "ready" has what another terminal needs to find the data folder.
func TestExportOfDataFolder(t *testing.T) {
	for data, want := range map[string]string{"": "", "it's": `export WEIR_DATA='/tmp/it'\''s'; `} {
		u := &up{Root: &command.Root{}, data: "/tmp/" + data}
		u.Data = data
		if got := u.export(); got != want {
			t.Errorf("for --data %q: %q, want %q", data, got, want)
		}
	}
}
