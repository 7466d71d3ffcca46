package terminal

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStream(t *testing.T) {
	for in, want := range map[string]string{
		"plain text\twith a tab\nand größe 数\n": "plain text\twith a tab\nand größe 数\n",
		"\x1b[2J\x1b]0;title\x07":               `\x1b[2J\x1b]0;title\a`,
		"a\rb\r\nc":                             "a\\rb\nc",
		"user\u202etxt.exe":                     `user\u202etxt.exe`,
		"\u009b31m":                             `\u009b31m`,
		"\xff\xfe":                              `\xff\xfe`,
		"":                                      "",
		"\x7f \U000e0001 \ufffd":                `\u007f \udb40\udc01 \ufffd`,
	} {
		var whole, pieces strings.Builder
		if _, err := io.WriteString(&Stream{to: &whole}, in); err != nil || whole.String() != want {
			t.Errorf("%q is printed as %q, %v, want %q", in, whole.String(), err, want)
		}
		if _, err := io.Copy(&Stream{to: &pieces}, iotest.OneByteReader(strings.NewReader(in))); err != nil || pieces.String() != want {
			t.Errorf("%q, byte by byte, is printed as %q, %v, want %q", in, pieces.String(), err, want)
		}
	}
}

// What is JSON is JSON after the escapes, and has the same value.
func TestStreamJSON(t *testing.T) {
	const text = "\x00\x1b[2J\x7f\u0085\u202e\U000e0001\U0001f600 größe"
	for _, ascii := range []bool{false, true} {
		var out strings.Builder
		if err := json.NewEncoder(&Stream{to: &out, ascii: ascii}).Encode(text); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != text {
			t.Errorf("ascii %v: %s is %q, %v, want %q", ascii, out.String(), back, err, text)
		}
		if strings.ContainsAny(out.String(), "\x1b\x7f\u0085\u202e") || ascii && strings.ContainsFunc(out.String(), func(r rune) bool { return r > 0x7e }) {
			t.Errorf("ascii %v: %q is not escaped", ascii, out.String())
		}
	}
}

func TestASCIIOnly(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, true},
		{map[string]string{"LANG": "POSIX"}, true},
		{map[string]string{"LANG": "C.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.utf8"}, false},
		{map[string]string{"LANG": "de_DE.ISO-8859-1"}, true},
		{map[string]string{"LANG": "C", "LC_ALL": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_CTYPE": "C"}, true},
	} {
		if got := asciiOnly(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("asciiOnly of %v = %v, want %v", c.env, got, c.want)
		}
	}
}
