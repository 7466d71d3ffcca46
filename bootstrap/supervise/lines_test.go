package supervise

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	tests := []struct {
		name, input string
		want        []string
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"empty line", "a\n\nb\n", []string{"a", "", "b"}},
		{"last line without an end", "a\nb", []string{"a", "b"}},
		{"carriage return", "a\r\nb\r\n", []string{"a", "b"}},
		{"long line is cut", long + "rest\nb\n", []string{long, "b"}},
		{"very long line is cut", strings.Repeat(long, 3) + "\nb\n", []string{long, "b"}},
		{"long line without an end", long + "rest", []string{long}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			readLines(strings.NewReader(test.input), func(line []byte) { got = append(got, string(line)) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		readLines(bytes.NewReader(input), func(line []byte) {
			if len(line) > MaxLine || bytes.ContainsRune(line, '\n') {
				t.Errorf("line of %d bytes: %q", len(line), line)
			}
		})
	})
}

func TestLineLimit(t *testing.T) {
	var limit lineLimit
	now := time.Unix(1000, 0)
	for i := range MaxLinesPerSecond {
		if !limit.admit(now) || limit.dropped != 0 {
			t.Fatalf("line %d: does not pass, %d dropped", i, limit.dropped)
		}
	}
	tests := []struct {
		name        string
		after       time.Duration
		wantPass    bool
		wantDropped int
	}{
		{"one too many", 0, false, 1},
		{"another, at the end of the second", 999 * time.Millisecond, false, 2},
		{"the next second", time.Second, true, 0},
		{"and on", 1999 * time.Millisecond, true, 0},
	}
	for _, test := range tests {
		if pass := limit.admit(now.Add(test.after)); pass != test.wantPass || limit.dropped != test.wantDropped {
			t.Errorf("%s: %v, %d dropped, want %v, %d", test.name, pass, limit.dropped, test.wantPass, test.wantDropped)
		}
	}
}

// What is dropped is told once a second, in silence too, and at the end.
func TestThrottleTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var told []string
		passing := throttle{emit: func(line []byte) {
			if string(line) != "x" {
				told = append(told, fmt.Sprintf("%s: %s", time.Since(began), line))
			}
		}}
		burst := func(n int) {
			for range n {
				passing.line([]byte("x"))
			}
		}
		burst(MaxLinesPerSecond + 7)
		<-time.After(300 * time.Millisecond)
		burst(5)
		<-time.After(2 * time.Second)
		burst(MaxLinesPerSecond)
		<-time.After(time.Second)
		burst(MaxLinesPerSecond + 3)
		<-time.After(time.Second - 1)
		passing.close()
		passing.close()
		<-time.After(time.Minute)
		want := []string{"1s: 12 lines dropped: more than 500 a second", "4.299999999s: 3 lines dropped: more than 500 a second"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// The child of a listener that does not keep up waits; its lines arrive whole and
// in order all the same, and the first one at once.
func TestLinesReachPipe(t *testing.T) {
	launcher := newLauncher(t)
	read, write := io.Pipe()
	spec := shell(`echo handshake; i=0; while [ $i -lt 400 ]; do printf 'line '; echo $i; i=$((i+1)); done; exec sleep 1000`,
		newMark(t), &listing{})
	spec.Lines = WriteLines(write)
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
		t.Errorf("%d lines passed, %d told as dropped, %d written", numbers, dropped, lines)
	}
}

func TestLogLines(t *testing.T) {
	var buffer bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buffer, nil)).With("signal", "web")
	LogLines(log)(Stderr, []byte("it \x1b[31mburns"))
	if got, want := buffer.String(), `level=INFO msg=output signal=web stream=stderr line="it \x1b[31mburns"`; !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q in it", got, want)
	}
}
