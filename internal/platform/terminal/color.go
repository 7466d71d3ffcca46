package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Style is the appearance of a text on a terminal with colours: a parameter of the escape sequence SGR.
type Style string

// Styles.
const (
	Plain Style = ""
	Bold  Style = "1"
	Bad   Style = "31" // red
	Good  Style = "32" // green
	Warn  Style = "33" // yellow
)

// The values of --color.
const (
	ColorAuto   = "auto" // on a terminal that is not dumb, unless NO_COLOR is set
	ColorAlways = "always"
	ColorNever  = "never"
)

// showsColor reports whether --color auto means colours for a stream.
func showsColor(w io.Writer, getenv func(string) string) bool {
	term := getenv("TERM")
	return getenv("NO_COLOR") == "" && term != "" && term != "dumb" && isTerminal(w)
}

// SetColor applies a value of --color to a stream. A writer that is no Stream stays without colours.
func SetColor(w io.Writer, value string) error {
	p, ok := w.(*Stream)
	if !ok {
		return nil
	}
	switch value {
	case ColorAuto:
		p.color = showsColor(p.screen, os.Getenv)
	case ColorAlways:
		p.color = true
	case ColorNever:
		p.color = false
	default:
		return fmt.Errorf("--color %q: want auto, always or never", value)
	}
	return nil
}

// Paint writes a text to a command's stream in a style. A stream without colours gets the text alone.
func Paint(w io.Writer, style Style, text string) {
	p, ok := w.(*Stream)
	if !ok {
		_, _ = io.WriteString(w, text)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.color || style == Plain {
		_, _ = p.writeLocked([]byte(text))
		return
	}
	_ = p.paintLocked(style, []byte(text))
}

// paintLocked writes a text in a style.
func (p *Stream) paintLocked(style Style, text []byte) error {
	if _, err := fmt.Fprintf(p.to, "\x1b[%sm", style); err != nil {
		return err
	}
	_, err := p.writeLocked(text)
	if _, errEnd := io.WriteString(p.to, "\x1b[0m"); err == nil {
		err = errEnd
	}
	return err
}

// styleOf returns the style of the first line of an output: "!" marks what needs an operator, and "weir:" an error or a warning of
// the command.
func styleOf(line []byte) Style {
	switch {
	case bytes.HasPrefix(line, []byte("! ")), bytes.HasPrefix(line, []byte("weir: warning:")):
		return Warn
	case bytes.HasPrefix(line, []byte("weir: ")):
		return Bad
	}
	return Plain
}
