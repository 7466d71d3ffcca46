package strictyaml

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func small() Bounds {
	return Bounds{Bytes: 200, Tokens: 30, Nesting: 3, TooMuch: "more than %d words", Indirect: "write it out"}
}

func TestValues(t *testing.T) {
	got, problem := Values([]byte("\ufeffa: 1\nb:\n  - x\n  - {c: ~, 2: true}\n---\n.inf\n"), small())
	if problem != nil {
		t.Fatal(problem)
	}
	want := []Value{
		{Line: 1, Kind: Map, Entries: []Entry{
			{Key: "a", Line: 1, Value: Value{Line: 1, Kind: Number, Text: "1"}},
			{Key: "b", Line: 2, Value: Value{Line: 3, Kind: List, Entries: []Entry{
				{Line: 3, Value: Value{Line: 3, Kind: Text, Text: "x"}},
				{Line: 4, Value: Value{Line: 4, Kind: Map, Entries: []Entry{
					{Key: "c", Line: 4, Value: Value{Line: 4, Text: "~"}},
					{Key: "2", Line: 4, Value: Value{Line: 4, Kind: Flag, Text: "true"}},
				}}},
			}}},
		}},
		{Line: 6, Kind: Number, Text: ".inf"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Values (-want +got):\n%s", diff)
	}
}

func TestValuesRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"too long", strings.Repeat("#", 201), "is longer than 200 bytes: want a shorter file"},
		{"not UTF-8", "\xff", "is not text in UTF-8: save it as UTF-8"},
		{"too much", strings.Repeat("a: 1\n", 11), "line 11: more than 30 words"},
		{"brackets", "\n[[[[1]]]]", "line 2: nests deeper than 3 levels"},
		{"dashes", "- - - - 1", "line 1: nests deeper than 3 levels"},
		{"indentation", "a:\n b:\n  c:\n   d:\n    e: 1\n", "line 5: nests deeper than 3 levels"},
		{"anchor", "a: &x 1", "line 1: write it out"},
		{"alias", "a:\n  *x", "line 2: write it out"},
		{"tag", "a: !!int 1", "line 1: write it out"},
		{"merge key", "<<: {a: 1}", "line 1: write it out"},
		{"key that is no text", "true: 1", "line 1: a key is true or false: want a text"},
		{"syntax", "a: b: c", "line 1: mapping value is not allowed in this context"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, problem := Values([]byte(c.text), small()); problem == nil || problem.Error() != c.want {
				t.Errorf("Values = %v, %v; want %s", got, problem, c.want)
			}
		})
	}
}

func TestProblemsNameFileLineAndKey(t *testing.T) {
	err := Problems{{File: "f", Line: 2, Key: "a.b", What: "is 1"}, {File: "f", Key: "c", What: "is missing"}, {What: "is empty"}}.OrNil()
	if want := "f: c: is missing\nis empty\nf:2: a.b: is 1"; err == nil || err.Error() != want {
		t.Errorf("problems are\n%v\nwant\n%s", err, want)
	}
	if err := (Problems{}).OrNil(); err != nil {
		t.Errorf("no problems are %v", err)
	}
}

func TestNear(t *testing.T) {
	lines := Lines{"a": 1, "a.b[0]": 3}
	for path, want := range map[string]int{"a.b[0].c": 3, "a.b[1]": 1, "a": 1, "d.e": 0, "": 0} {
		if got := lines.Near(path); got != want {
			t.Errorf("Near(%q) = %d, want %d", path, got, want)
		}
	}
}
