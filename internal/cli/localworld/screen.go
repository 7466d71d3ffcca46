package localworld

import (
	"fmt"
	"io"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// screen writes to an output that may block: a pager, or a halted terminal. Callers never wait; when the buffer is
// full, lines are dropped. It is safe for concurrent use.
//
// On a terminal that can move the cursor, the last row may be a live line: Live redraws it in place, and Write removes
// it before it prints.
type screen struct {
	lines chan line
	done  chan struct{}
	out   io.Writer
	raw   io.Writer  // the terminal without escapes, for the live line; nil: there is no live line
	width func() int // columns of the terminal; 0: unknown
}

// line is an item of the buffer.
type line struct {
	text []byte
	live bool
}

// newScreen returns the terminal of a command's output. Call close to end it.
func newScreen(w io.Writer) *screen {
	var raw io.Writer
	if device := terminal.Of(w); device != nil {
		raw = device
	}
	return startScreen(w, raw, func() int { return terminal.Width(w) })
}

func startScreen(out, raw io.Writer, width func() int) *screen {
	t := &screen{lines: make(chan line, 256), done: make(chan struct{}), out: out, raw: raw, width: width}
	go func() { // ends with close, or never if the output blocks forever
		defer close(t.done)
		t.run()
	}()
	return t
}

// Codes of a terminal: to the first column, and erase to the end of the line.
const clearLine = "\r\x1b[K"

func (t *screen) run() {
	shown := false // a live line is in the last row
	for l := range t.lines {
		if l.live {
			fmt.Fprintf(t.raw, "%s%s", clearLine, fit(string(l.text), t.width()))
			shown = true
			continue
		}
		if shown {
			io.WriteString(t.raw, clearLine)
			shown = false
		}
		if _, err := t.out.Write(l.text); err != nil {
			continue // still empty the channel
		}
	}
	if shown {
		io.WriteString(t.raw, clearLine)
	}
}

// fit cuts a text to one column less than the width, so that the cursor stays in its row. A width of 0 means 80.
func fit(text string, width int) string {
	if width == 0 {
		width = 80
	}
	if r := []rune(text); len(r) >= width {
		return string(r[:max(0, width-1)])
	}
	return text
}

// Write never waits.
func (t *screen) Write(p []byte) (int, error) {
	t.add(line{text: append([]byte(nil), p...)})
	return len(p), nil
}

// Live sets the live line to a text without control characters. Without a terminal that can move the cursor, it does
// nothing. It never waits.
func (t *screen) Live(text string) {
	if t.raw != nil {
		t.add(line{text: []byte(text), live: true})
	}
}

func (t *screen) add(l line) {
	select {
	case t.lines <- l:
	default:
	}
}

// close waits for written lines, at most limit. Do not write afterwards.
func (t *screen) close(limit time.Duration) {
	close(t.lines)
	select {
	case <-t.done:
	case <-time.After(limit):
	}
}
