package jsonfault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCases(t *testing.T) {
	var got []string
	for _, c := range Cases(`{"n": 7, "list": [{"on": true}, "x"], "none": null}`) {
		got = append(got, strings.ReplaceAll(c.String()+" => "+c.Text, strings.Repeat("x", LongText), "xxx"))
	}
	want := strings.Split(strings.TrimSpace(`
: unknown key first => {"unknown_key":{"a":[1,null]},"n":7,"list":[{"on":true},"x"],"none":null}
: unknown key last => {"n":7,"list":[{"on":true},"x"],"none":null,"unknown_key":{"a":[1,null]}}
n: null null => {"n":null,"list":[{"on":true},"x"],"none":null}
n: not JSON NaN => {"n":NaN,"list":[{"on":true},"x"],"none":null}
n: not JSON -Infinity => {"n":-Infinity,"list":[{"on":true},"x"],"none":null}
n: missing => {"list":[{"on":true},"x"],"none":null}
n: key given twice its value first => {"n":7,"n":11,"list":[{"on":true},"x"],"none":null}
n: key given twice its value last => {"n":11,"n":7,"list":[{"on":true},"x"],"none":null}
n: key given twice the same => {"n":7,"n":7,"list":[{"on":true},"x"],"none":null}
n: key in other case => {"n":7,"N":11,"list":[{"on":true},"x"],"none":null}
n: wrong type true => {"n":true,"list":[{"on":true},"x"],"none":null}
n: wrong type {} => {"n":{},"list":[{"on":true},"x"],"none":null}
n: wrong type [] => {"n":[],"list":[{"on":true},"x"],"none":null}
n: number as text "NaN" => {"n":"NaN","list":[{"on":true},"x"],"none":null}
n: number as text "7" => {"n":"7","list":[{"on":true},"x"],"none":null}
n: negative -1 => {"n":-1,"list":[{"on":true},"x"],"none":null}
n: negative -1e300 => {"n":-1e300,"list":[{"on":true},"x"],"none":null}
n: huge 1e999 => {"n":1e999,"list":[{"on":true},"x"],"none":null}
n: huge 99999999999999999999 => {"n":99999999999999999999,"list":[{"on":true},"x"],"none":null}
n: huge 1e300 => {"n":1e300,"list":[{"on":true},"x"],"none":null}
n: huge 9000000000000000000 => {"n":9000000000000000000,"list":[{"on":true},"x"],"none":null}
list: null null => {"n":7,"list":null,"none":null}
list: not JSON NaN => {"n":7,"list":NaN,"none":null}
list: not JSON -Infinity => {"n":7,"list":-Infinity,"none":null}
list: missing => {"n":7,"none":null}
list: key given twice its value first => {"n":7,"list":[{"on":true},"x"],"list":[],"none":null}
list: key given twice its value last => {"n":7,"list":[],"list":[{"on":true},"x"],"none":null}
list: key given twice the same => {"n":7,"list":[{"on":true},"x"],"list":[{"on":true},"x"],"none":null}
list: key in other case => {"n":7,"list":[{"on":true},"x"],"LIST":[],"none":null}
list: wrong type true => {"n":7,"list":true,"none":null}
list: wrong type 7 => {"n":7,"list":7,"none":null}
list: wrong type "x" => {"n":7,"list":"x","none":null}
list: wrong type {} => {"n":7,"list":{},"none":null}
list[0]: null null => {"n":7,"list":[null,"x"],"none":null}
list[0]: not JSON NaN => {"n":7,"list":[NaN,"x"],"none":null}
list[0]: not JSON -Infinity => {"n":7,"list":[-Infinity,"x"],"none":null}
list[0]: wrong type true => {"n":7,"list":[true,"x"],"none":null}
list[0]: wrong type 7 => {"n":7,"list":[7,"x"],"none":null}
list[0]: wrong type "x" => {"n":7,"list":["x","x"],"none":null}
list[0]: wrong type [] => {"n":7,"list":[[],"x"],"none":null}
list[0]: unknown key first => {"n":7,"list":[{"unknown_key":{"a":[1,null]},"on":true},"x"],"none":null}
list[0]: unknown key last => {"n":7,"list":[{"on":true,"unknown_key":{"a":[1,null]}},"x"],"none":null}
list[0].on: null null => {"n":7,"list":[{"on":null},"x"],"none":null}
list[0].on: not JSON NaN => {"n":7,"list":[{"on":NaN},"x"],"none":null}
list[0].on: not JSON -Infinity => {"n":7,"list":[{"on":-Infinity},"x"],"none":null}
list[0].on: missing => {"n":7,"list":[{},"x"],"none":null}
list[0].on: key given twice its value first => {"n":7,"list":[{"on":true,"on":false},"x"],"none":null}
list[0].on: key given twice its value last => {"n":7,"list":[{"on":false,"on":true},"x"],"none":null}
list[0].on: key given twice the same => {"n":7,"list":[{"on":true,"on":true},"x"],"none":null}
list[0].on: key in other case => {"n":7,"list":[{"on":true,"ON":false},"x"],"none":null}
list[0].on: wrong type 7 => {"n":7,"list":[{"on":7},"x"],"none":null}
list[0].on: wrong type "true" => {"n":7,"list":[{"on":"true"},"x"],"none":null}
list[0].on: wrong type {} => {"n":7,"list":[{"on":{}},"x"],"none":null}
list[0].on: wrong type [] => {"n":7,"list":[{"on":[]},"x"],"none":null}
list[1]: null null => {"n":7,"list":[{"on":true},null],"none":null}
list[1]: not JSON NaN => {"n":7,"list":[{"on":true},NaN],"none":null}
list[1]: not JSON -Infinity => {"n":7,"list":[{"on":true},-Infinity],"none":null}
list[1]: wrong type true => {"n":7,"list":[{"on":true},true],"none":null}
list[1]: wrong type 7 => {"n":7,"list":[{"on":true},7],"none":null}
list[1]: wrong type -1 => {"n":7,"list":[{"on":true},-1],"none":null}
list[1]: wrong type 1.5 => {"n":7,"list":[{"on":true},1.5],"none":null}
list[1]: wrong type {} => {"n":7,"list":[{"on":true},{}],"none":null}
list[1]: wrong type [] => {"n":7,"list":[{"on":true},[]],"none":null}
list[1]: very long => {"n":7,"list":[{"on":true},"xxx"],"none":null}
none: null null => {"n":7,"list":[{"on":true},"x"],"none":null}
none: not JSON NaN => {"n":7,"list":[{"on":true},"x"],"none":NaN}
none: not JSON -Infinity => {"n":7,"list":[{"on":true},"x"],"none":-Infinity}
none: missing => {"n":7,"list":[{"on":true},"x"]}
none: key given twice its value first => {"n":7,"list":[{"on":true},"x"],"none":null,"none":11}
none: key given twice its value last => {"n":7,"list":[{"on":true},"x"],"none":11,"none":null}
none: key given twice the same => {"n":7,"list":[{"on":true},"x"],"none":null,"none":null}
none: key in other case => {"n":7,"list":[{"on":true},"x"],"none":null,"NONE":11}`), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got)\n%s", diff)
	}
}

func TestOnlyNotJSONIsNotJSON(t *testing.T) {
	const document = `{"a\"b": "c\n", "x": [[], {}, [1, -2.5e3]], "t": {"f": false}}`
	for _, c := range Cases(document) {
		if json.Valid([]byte(c.Text)) == (c.Fault == NotJSON) {
			t.Errorf("%v: %s", c, c.Text)
		}
	}
	if a, b := fmt.Sprint(Cases(document)), fmt.Sprint(Cases(document)); a != b {
		t.Error("two calls differ")
	}
}

func TestUnder(t *testing.T) {
	all := Cases(`{"list":[{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1},{"a":1}],"listed":1}`)
	paths := func(under string) (out []string) {
		for _, c := range Under(under, all) {
			out = append(out, c.Path)
		}
		return slices.Compact(out)
	}
	if got := paths("list[1]"); !slices.Equal(got, []string{"list[1]", "list[1].a"}) {
		t.Errorf("Under(list[1]) = %q", got)
	}
	if got := paths("list"); slices.Contains(got, "listed") || len(got) != 23 {
		t.Errorf("Under(list) = %q", got)
	}
}

func TestRules(t *testing.T) {
	rules := Rules{Optional: "a.b", Free: "text", Large: "n", Except: []Except{
		{Field: "a", Faults: []Fault{Type}, Values: "7 true", Usable: true, Why: "a test"},
	}}
	for _, c := range []struct {
		of   Case
		want bool
	}{
		{Case{Path: "x[1].a.b", Fault: Missing}, true},
		{Case{Path: "x[1].a.b", Fault: Null}, true},
		{Case{Path: "x[1].a.b", Fault: Type}, false},
		{Case{Path: "x[1].a", Fault: Missing}, false},
		{Case{Path: "x[1].a", Fault: Type, Value: "7"}, true},
		{Case{Path: "x[1].a", Fault: Type, Value: "{}"}, false},
		{Case{Path: "x[1].a", Fault: Twice}, false},
		{Case{Path: "x[1]", Fault: Extra}, true},
		{Case{Path: "x[1].a", Fault: OtherCase}, true},
		{Case{Path: "x[1].text", Fault: Long}, true},
		{Case{Path: "x[1].n", Fault: Huge}, true},
		{Case{Path: "x[1].n", Fault: Negative}, false},
		{Case{Path: "x[1].n", Fault: NotJSON}, false},
	} {
		if got := rules.Usable("x[1]", c.of); got != c.want {
			t.Errorf("Usable(%v) = %v", c.of, got)
		}
	}
}

func TestLacks(t *testing.T) {
	type inner struct {
		A int `json:"a"`
	}
	type outer struct {
		inner
		B    *inner          `json:"b"`
		List []inner         `json:"list,omitempty"`
		Raw  json.RawMessage `json:"raw"`
		None int             `json:"-"`
	}
	for document, want := range map[string][]string{
		`{"a":1,"b":{"a":1},"list":[{"a":1}],"raw":1}`: nil,
		`{"b":{},"list":[{}],"raw":1}`:                 {"a", "b.a", "list[0].a"},
		`{"a":1,"b":{"a":1},"raw":1}`:                  {"list"},
	} {
		if got := Lacks[outer](document); !slices.Equal(got, want) {
			t.Errorf("Lacks(%s) = %q, want %q", document, got, want)
		}
	}
}
