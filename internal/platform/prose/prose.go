// Package prose makes texts for people. [Count] and [Plural] write numbers of things. The others bound what another party
// sent, before it goes into a log, an error or a page. Their results are valid UTF-8, and lengths are in bytes. All
// functions are pure and may be called concurrently.
package prose

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Count returns "1 node" or "2 nodes".
func Count(n int, noun string) string { return Plural(n, noun, noun+"s") }

// Plural returns "1 copy" or "2 copies".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Clip returns the beginning of a text that has more than most bytes, without a part of a character at its end. What is
// not UTF-8 becomes "?".
func Clip(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "?")
}

// Marked is Clip with "..." at the end of a clipped text, at most as many bytes in all.
func Marked(s string, most int) string {
	if len(s) > most {
		return Clip(s, most-len("...")) + "..."
	}
	return Clip(s, most)
}

// Line is Clip for one line: characters that cannot be printed become blanks, and it has no blanks at its ends.
func Line(s string, most int) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, Clip(s, most)))
}

// Printable replaces the characters that cannot be printed, but for tabs, so that they do not act on a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Words clips a text that has more than most bytes at its last space before them, and writes " ..." behind it.
func Words(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = Clip(s, most)
	if end := strings.LastIndexByte(s, ' '); end > 0 {
		s = s[:end]
	}
	return s + " ..."
}
