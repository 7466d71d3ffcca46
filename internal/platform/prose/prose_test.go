package prose_test

import (
	"testing"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

func TestProse(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{prose.Count(1, "node"), "1 node"},
		{prose.Count(0, "node"), "0 nodes"},
		{prose.Plural(2, "copy", "copies"), "2 copies"},
		{prose.Clip("short", 5), "short"},
		{prose.Clip("a\xff\xfeb", 9), "a?b"},
		{prose.Clip("aé", 2), "a"},
		{prose.Clip("\xbf\xbf", 1), ""},
		{prose.Marked("short", 5), "short"},
		{prose.Marked("longer", 5), "lo..."},
		{prose.Line(" a\x1b\u202e\nb ", 99), "a   b"},
		{prose.Line("abc  def", 4), "abc"},
		{prose.Printable("a\x1b\tb"), "a\uFFFD\tb"},
		{prose.Words("one two", 7), "one two"},
		{prose.Words("one two three", 9), "one two ..."},
		{prose.Words("unbroken", 3), "unb ..."},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("é\xff€\n", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 3 + min(max(most, 0), 100)
		for _, got := range []string{prose.Clip(s, most), prose.Marked(s, most), prose.Line(s, most)} {
			if len(got) > most || !utf8.ValidString(got) {
				t.Errorf("of %q at most %d bytes: %q", s, most, got)
			}
		}
	})
}
