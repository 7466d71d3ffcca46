package output

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Dropped lines are reported once a second, without further output too, and at the end.
func TestThrottleReportsDroppedLines(t *testing.T) {
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
			t.Errorf("emitted (-want +got):\n%s", diff)
		}
	})
}

// A stream passes on maxBytesPerHour bytes in an hour. One line reports the begin of the drop, and one its end.
func TestThrottleBoundsTheBytesOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, notes := 0, []string{}
		long := []byte(strings.Repeat("x", MaxLine))
		passing := throttle{emit: func(line []byte) {
			if len(line) == len(long) {
				bytes += len(line)
			} else {
				notes = append(notes, string(line))
			}
		}}
		for range 3 * maxBytesPerHour / MaxLine {
			passing.line(long)
			<-time.After(time.Second / 100)
		}
		if bytes != maxBytesPerHour || len(notes) != 1 || !strings.HasPrefix(notes[0], "lines are dropped until ") {
			t.Errorf("%d bytes, notes %q; want %d, and one note", bytes, notes, maxBytesPerHour)
		}
		<-time.After(time.Hour)
		passing.line(long)
		if want := fmt.Sprintf("%d lines dropped: more than 64 MiB an hour", 2*maxBytesPerHour/MaxLine); bytes != maxBytesPerHour+MaxLine || notes[len(notes)-1] != want {
			t.Errorf("%d bytes, notes %q; want one line more, and %q", bytes, notes, want)
		}
		passing.close()
	})
}

func TestLogLines(t *testing.T) {
	var buffer bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buffer, nil)).With("signal", "web")
	LogLines(log)(Stderr, []byte("it \x1b[31mburns"))
	if got, want := buffer.String(), `level=INFO msg=output signal=web stream=stderr line="it \x1b[31mburns"`; !strings.Contains(got, want) {
		t.Errorf("logged %q, want %q in it", got, want)
	}
}

// In JSON each line is an object, also the text of a crash, and a line that was cut.
func TestWriteLinesInJSON(t *testing.T) {
	lines := []string{
		`{"level":"INFO","msg":"tick"}`, "panic: index out of range", "goroutine 1 [running]:", "", "null", "\xff\x1b[31m",
		`{"msg":"` + strings.Repeat("x", MaxLine),
	}
	var buffer bytes.Buffer
	write := WriteLines(&buffer, slog.New(slog.NewJSONHandler(&buffer, &slog.HandlerOptions{Level: slog.LevelError})).With("process", "autoscaler"))
	for _, line := range lines {
		write(Stderr, []byte(line))
	}
	got := strings.Split(strings.TrimSuffix(buffer.String(), "\n"), "\n")
	if len(got) != len(lines) || got[0] != lines[0] {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(lines), buffer.String())
	}
	for i, line := range got {
		var one struct{ Msg, Line, Process string }
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if i == 1 && (one.Line != lines[1] || one.Process != "autoscaler" || one.Msg != "output") {
			t.Errorf("the crash is logged as %q", line)
		}
	}
	buffer.Reset()
	WriteLines(&buffer, slog.New(slog.NewTextHandler(&buffer, nil)))(Stderr, []byte("panic: x"))
	if got := buffer.String(); got != "panic: x\n" {
		t.Errorf("as text: %q", got)
	}
}
