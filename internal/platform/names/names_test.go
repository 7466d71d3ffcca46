package names_test

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Each rule is tested at the border of its set.
func TestRules(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name  string
		valid func(string) bool
		good  []string
		bad   []string
	}{
		{"Valid", names.Valid, []string{"a", "Z9", "a-_", long(63)}, []string{"-a", "_a", "a.b", "a/b", "a b", "ä", long(64)}},
		{"ValidToken", names.ValidToken, []string{"-", "_a", "i-0abc", long(128)}, []string{"a.b", "*", ">", "a b", "ä", long(129)}},
		{"ValidKey", names.ValidKey, []string{"a.b", "A-Z_0/9=", "=abc", long(253)}, []string{".a", "a.", "a..b", "*", "a.>", "ä", long(254)}},
		{"ValidRelease", names.ValidRelease, []string{"_a", "a.b-c", long(64)}, []string{".a", "-a", "a+b", "a/b", "a~b", long(65)}},
		{"ValidVersion", names.ValidVersion, []string{"v1.4.0", "feature/x", "v1+b", "_", long(128)}, []string{"/a", "a/", "a//b", "../x", "a~b", "a/-b", long(129)}},
		{"ValidPlatform", names.ValidPlatform, []string{"linux", "mips64_be"}, []string{"a-b", "a.b", long(65)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range c.good {
				if !c.valid(s) {
					t.Errorf("%s(%q) = false, want true", c.name, s)
				}
			}
			for _, s := range append(c.bad, "", "\x00", "a\n", "a\xff") {
				if c.valid(s) {
					t.Errorf("%s(%q) = true, want false", c.name, s)
				}
			}
		})
	}
}

func TestToken(t *testing.T) {
	for in, want := range map[string]string{"web": "web", "a.b c*": "a_b_c_", "ä-1": "_-1", "a\xff": "a_"} {
		if got := names.Token(in); got != want {
			t.Errorf("Token(%q) = %q, want %q", in, got, want)
		}
	}
	if err := names.CheckToken("node", "a.b"); err == nil || err.Error() != `node "a.b": want 1 to 128 letters, digits, - or _` {
		t.Errorf("CheckToken = %v", err)
	}
}
