package strictjson_test

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

type value struct {
	Count int     `json:"count"`
	Share float64 `json:"share"`
	Name  string  `json:"name"`
	Inner struct {
		Flag bool `json:"flag"`
	} `json:"inner"`
	List []string `json:"list"`
}

func TestWithin(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"whole", ` {"count": 2, "inner": {"flag": true}} ` + "\n", ""},
		{"at the bound", strings.Repeat(" ", 98) + "{}", ""},
		{"too long", strings.Repeat(" ", 99) + "{}", "101 bytes are too long: want at most 100"},
		{"nothing", " ", "want one JSON value, found nothing"},
		{"cut off", `{"count": 2`, "unexpected EOF"},
		{"unknown key", `{"cuont": 2}`, `unknown field "cuont"`},
		{"unknown key inside", `{"inner": {"flga": true}}`, `unknown field "flga"`},
		{"two values", `{} {}`, "want one JSON value, something follows it"},
		{"bracket after it", `{}}`, "want one JSON value, something follows it"},
		{"text for a number", `{"count": "2"}`, "count: want a whole number, not a string"},
		{"fraction", `{"count": 2.5}`, "count: want a whole number, not 2.5"},
		{"number that is too large", `{"share": 1e999}`, "share: want a number, not 1e999"},
		{"number for a text", `{"name": 2}`, "name: want a text, not a number"},
		{"number for a flag", `{"inner": {"flag": 2}}`, "inner.flag: want true or false, not a number"},
		{"object for a list", `{"list": {}}`, "list: want a list, not an object"},
		{"list for the value", `[]`, "want an object, not an array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v value
			err := strictjson.Within([]byte(c.text), 100, &v)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
				t.Errorf("Within(%q) = %v, want %q", c.text, err, c.want)
			}
		})
	}
}

// Accepted data has nothing after the value: with another bracket it is refused.
func FuzzDecode(f *testing.F) {
	f.Add(`{"count": 1, "list": ["a"]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		var v value
		if strictjson.Decode([]byte(text), &v) == nil && strictjson.Decode([]byte(text+"}"), &v) == nil {
			t.Errorf("Decode(%q) accepts one more bracket", text)
		}
	})
}
