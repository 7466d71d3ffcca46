package command

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain text\twith a tab\nand größe 数\n": "plain text\twith a tab\nand größe 数\n",
		"\x1b[2J\x1b]0;title\x07":               `\x1b[2J\x1b]0;title\a`,
		"a\rb\r\nc":                             "a\\rb\nc",
		"user\u202etxt.exe":                     `user\u202etxt.exe`,
		"\u009b31m":                             `\u009b31m`,
		"\xff\xfe":                              `\xff\xfe`,
		"":                                      "",
	} {
		var whole, pieces strings.Builder
		if _, err := io.WriteString(&printable{to: &whole}, in); err != nil || whole.String() != want {
			t.Errorf("%q is printed as %q, %v, want %q", in, whole.String(), err, want)
		}
		if _, err := io.Copy(&printable{to: &pieces}, iotest.OneByteReader(strings.NewReader(in))); err != nil || pieces.String() != want {
			t.Errorf("%q, byte by byte, is printed as %q, %v, want %q", in, pieces.String(), err, want)
		}
	}
}
