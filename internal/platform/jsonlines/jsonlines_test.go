package jsonlines_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
)

func TestReader(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
		cut  bool // the last line has no line feed
		bad  int  // line of the error; 0: no error
	}{
		"empty":                              {"", nil, false, 0},
		"lines":                              {"{\"a\": 1}\n  {}  \n", []string{`{"a": 1}`, `{}`}, false, 0},
		"only blank and comment lines":       {"\n# why\n{}\r\n\n", []string{`{}`}, false, 0},
		"a last line whole":                  {"[]\n{}", []string{`[]`, `{}`}, true, 0},
		"a last line cut":                    {"{}\n{\"a\"", []string{`{}`, `{"a"`}, true, 0},
		"a last line of note":                {"{}\n# the", []string{`{}`}, false, 0},
		"too long":                           {"{}\n" + strings.Repeat("x", 40) + "\n", []string{`{}`}, false, 2},
		"invalid JSON is the caller's error": {"{\n", []string{`{`}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := jsonlines.NewReader(strings.NewReader(tc.text), 32, "")
			var got []string
			cut := false
			for {
				data, err := r.Next()
				if err != nil {
					bad, ok := errors.AsType[*jsonlines.Error](err)
					if ok != (tc.bad > 0) || ok && bad.Line != tc.bad || !ok && !errors.Is(err, io.EOF) {
						t.Errorf("Next = %v, want an error of line %d", err, tc.bad)
					}
					break
				}
				got = append(got, string(data))
				cut = r.Cut()
			}
			if cut != tc.cut {
				t.Errorf("the last line is cut: %t, want %t", cut, tc.cut)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
