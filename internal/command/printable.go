package command

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// printable is an output stream for terminals. It escapes characters that affect the display, in Go's string syntax:
// ESC as \x1b, the bidirectional override as \u202e, a byte that is not UTF-8 as \xff. Line feeds and tabs stay. It
// is safe for concurrent use.
type printable struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte // an incomplete character at the end of the last write
}

// Write implements io.Writer.
func (p *printable) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) == 0 && !bytes.ContainsFunc(b, func(r rune) bool { return !shows(r) }) {
		return p.to.Write(b)
	}
	text := append(p.rest, b...)
	var out []byte
	for len(text) > 0 && whole(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\x`+strconv.FormatUint(uint64(text[0]), 16)...)
		case r == '\r' && len(text) > 1 && text[1] == '\n': // the line feed suffices
		case shows(r):
			out = append(out, text[:size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	p.rest = bytes.Clone(text)
	if _, err := p.to.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// TerminalOf returns the terminal behind a command's stream, for output that moves the cursor; nil without a
// terminal. Output to it is not escaped.
func TerminalOf(w io.Writer) *os.File {
	if p, ok := w.(*printable); ok {
		w = p.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// whole reports whether text begins with a complete character.
func whole(text []byte) bool { return utf8.FullRune(text) && !bytes.Equal(text, []byte{'\r'}) }

func shows(r rune) bool {
	return r == '\n' || r == '\t' || r != utf8.RuneError && unicode.IsGraphic(r)
}
