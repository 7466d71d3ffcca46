package terminal

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Stream is an output stream for terminals. It escapes characters that affect the
// display, in Go's string syntax: ESC as \x1b, the bidirectional override as \u202e, a byte
// that is not UTF-8 as \xff. JSON stays JSON. Line feeds and tabs stay. It is safe for
// concurrent use. Its own colours are the only escape sequences that it writes.
type Stream struct {
	to     io.Writer
	screen io.Writer // shown to the user: to, or the stream that a Frame will be written to
	ascii  bool      // the terminal shows ASCII only
	color  bool      // the screen shows colours; set before the first write

	mu   sync.Mutex
	rest []byte // an incomplete character at the end of the last write
}

// New returns a stream to w. If w is a terminal whose locale is not one of UTF-8, the
// other characters are escaped too.
func New(w io.Writer) *Stream {
	return &Stream{to: w, screen: w, ascii: isTerminal(w) && asciiOnly(os.Getenv), color: showsColor(w, os.Getenv)}
}

// asciiOnly reports whether the locale of an environment is one without UTF-8. An environment
// without a locale has UTF-8.
func asciiOnly(getenv func(string) string) bool {
	locale := strings.ToUpper(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale != "" && !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
}

// Write implements io.Writer.
func (p *Stream) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, rest, ends := bytes.Cut(b, []byte("\n"))
	if style := styleOf(line); ends && p.color && style != Plain {
		if err := p.paintLocked(style, line); err != nil {
			return 0, err
		}
		if _, err := p.writeLocked(append([]byte("\n"), rest...)); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return p.writeLocked(b)
}

// writeLocked escapes b and writes it.
func (p *Stream) writeLocked(b []byte) (int, error) {
	if len(p.rest) == 0 && !bytes.ContainsFunc(b, func(r rune) bool { return !p.shows(r) }) {
		return p.to.Write(b)
	}
	text := append(p.rest, b...)
	var out []byte
	for len(text) > 0 && whole(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\x`+strconv.FormatUint(uint64(text[0]), 16)...)
		case r == '\r' && len(text) > 1 && text[1] == '\n': // the line feed is enough
		case p.shows(r):
			out = append(out, text[:size]...)
		default:
			out = appendEscape(out, r)
		}
		text = text[size:]
	}
	p.rest = bytes.Clone(text)
	if _, err := p.to.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Below returns the stream below a command's stream, for texts that are escaped already.
func Below(w io.Writer) io.Writer {
	if p, ok := w.(*Stream); ok {
		return p.to
	}
	return w
}

// Frame returns a stream that writes to text as the stream w would: with its width and its colours.
func Frame(w io.Writer, text io.Writer) io.Writer {
	p, ok := w.(*Stream)
	if !ok {
		return text
	}
	return &Stream{to: text, screen: p.screen, ascii: p.ascii, color: p.color}
}

// Of returns the terminal behind a command's stream, for output that moves the
// cursor. It returns nil without a terminal, and for a terminal that cannot move the cursor
// (TERM=dumb). Output to it is not escaped.
func Of(w io.Writer) *os.File {
	if p, ok := w.(*Stream); ok {
		w = p.screen
	}
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return w.(*os.File)
}

// Width returns the columns of the terminal that a command's stream leads to; 0 if it leads to
// something else.
func Width(w io.Writer) int {
	if p, ok := w.(*Stream); ok {
		w = p.screen
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// OneLine returns a text as a command's stream shows it, in one line: a line feed or a tab is
// escaped too.
func OneLine(text string) string {
	var out strings.Builder
	p := Stream{to: &out}
	_, _ = io.WriteString(&p, strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(text)) // a Builder takes all
	return out.String()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// whole reports whether text begins with a complete character.
func whole(text []byte) bool { return utf8.FullRune(text) && !bytes.Equal(text, []byte{'\r'}) }

func (p *Stream) shows(r rune) bool {
	if p.ascii && r >= utf8.RuneSelf {
		return false
	}
	return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsGraphic(r)
}

// appendEscape appends the escape of a character. That of a character which encoding/json
// writes as it is has the form that JSON knows.
func appendEscape(out []byte, r rune) []byte {
	if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
		return fmt.Appendf(out, `\u%04x\u%04x`, r1, r2)
	}
	if r >= 0x7f {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	quoted := strconv.QuoteRuneToASCII(r)
	return append(out, quoted[1:len(quoted)-1]...)
}
