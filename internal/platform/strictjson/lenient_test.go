package strictjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

type event struct {
	envelope
	Name   string                `json:"name"`
	Raw    json.RawMessage       `json:"raw"`
	At     time.Time             `json:"at"`
	Count  *int                  `json:"count"`
	List   []entry               `json:"list"`
	Words  []string              `json:"words"`
	Table  map[string]entry      `json:"table"`
	Deep   struct{ Inner entry } `json:"deep"`
	Hidden string                `json:"-"`
}

type envelope struct {
	ID   string `json:"id"`
	Name string `json:"name"` // hidden by that of event
}

type entry struct {
	Value float64 `json:"value"`
	On    bool    `json:"on"`
}

const whole = `{"id":"e1","name":"n","raw":[1, {"a":"]"}],"at":"2026-03-01T12:00:00Z","count":7,"list":[{"value":1,"on":true},{"value":-2.5e3}],
	"words":["a","b\"\\"],"table":{"x":{"value":3}},"deep":{}}`

func TestLenientReadsWhatJSONReads(t *testing.T) {
	var want, got event
	if err := json.Unmarshal([]byte(whole), &want); err != nil {
		t.Fatal(err)
	}
	field, err := strictjson.Lenient([]byte(" "+whole+"\n"), &got, "id", "list", "count")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{}, envelope{})); diff != "" || field != nil || err != nil {
		t.Errorf("%v, %v (-json +Lenient)\n%s", field, err, diff)
	}
}

func TestLenient(t *testing.T) {
	for _, c := range []struct{ name, text, want, problem string }{
		{"unknown keys", `{"id":"e","ID":"f","Name":3,"new":{"id":7},"new":1}`, `{"id":"e"}`, ""},
		{"null is missing", `{"id":"e","list":null,"at":null,"count":null,"deep":null}`, `{"id":"e"}`, ""},
		{"required is missing", `{"name":"n"}`, `{"name":"n"}`, "id is missing"},
		{"required is null", `{"id":null,"name":"n"}`, `{"name":"n"}`, "id is missing"},
		{"twice", `{"id":"e","name":"a","name":"a"}`, `{"id":"e"}`, "name is given twice"},
		{"twice, once null", `{"id":"e","name":null,"name":"a"}`, `{"id":"e"}`, "name is given twice"},
		{"key with an escape", `{"id":"e","n\u0061me":"a"}`, `{"id":"e","name":"a"}`, ""},
		{"wrong type", `{"id":"e","name":7,"count":2}`, `{"id":"e","count":2}`, "name has the wrong type: want a text, not a number"},
		{"object for a list", `{"id":"e","list":{}}`, `{"id":"e"}`, "list has the wrong type: want a list, not an object"},
		{"element", `{"id":"e","list":[{"value":1},7,{"value":"x","on":true},{"value":3}]}`, `{"id":"e","list":[{"value":1},{},{"on":true},{"value":3}]}`,
			"list[1] has the wrong type: want an object, not a number"},
		{"element twice", `{"id":"e","list":[{"value":1,"value":2}]}`, `{"id":"e","list":[{}]}`, "list[0].value is given twice"},
		{"null in a list", `{"id":"e","words":["a",null]}`, `{"id":"e","words":["a",""]}`, "words[1] is null"},
		{"key of a map twice", `{"id":"e","table":{"x":{"value":1},"x":{"value":2}}}`, `{"id":"e","table":{"x":{"value":1}}}`, "table.x is given twice"},
		{"value of a map", `{"id":"e","table":{"x":{"on":7}}}`, `{"id":"e","table":{"x":{}}}`, "table.x.on has the wrong type: want true or false, not a number"},
		{"type that decodes itself", `{"id":"e","at":"noon"}`, `{"id":"e"}`, `at has the wrong type: parsing time "noon"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want, got event
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			field, err := strictjson.Lenient([]byte(c.text), &got, "id")
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{}, envelope{})); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if (field == nil) != (c.problem == "") || field != nil && !strings.HasPrefix(field.Error(), c.problem) {
				t.Errorf("problem %v, want %q", field, c.problem)
			}
		})
	}
	for _, text := range []string{"", "null", "[]", "7", "{", `{"id":NaN}`, "{} {}"} {
		if _, err := strictjson.Lenient([]byte(text), new(event)); err == nil {
			t.Errorf("Lenient(%q) succeeded", text)
		}
	}
}

// A fault is a problem of a field, unless the rules allow it. It changes no field outside of its path.
func TestLenientFaults(t *testing.T) {
	const document = `{"id":"e1","list":[{"value":1,"on":true},{"value":2,"on":true}],"table":{"x":{"value":3,"on":true}}}`
	type plain struct {
		ID    string           `json:"id"`
		List  []entry          `json:"list"`
		Table map[string]entry `json:"table"`
	}
	var want plain
	if err := json.Unmarshal([]byte(document), &want); err != nil {
		t.Fatal(err)
	}
	rules := jsonfault.Rules{
		Optional: "list list[0].value list[0].on list[1].value list[1].on table.x.value table.x.on table", Free: "id",
		Except: []jsonfault.Except{
			{Field: "table.x", Faults: []jsonfault.Fault{jsonfault.Missing}, Usable: true, Why: "a map may lack it"},
		},
	}
	for _, at := range []string{"list[0].value", "list[1].value", "table.x.value"} {
		rules.Except = append(rules.Except,
			jsonfault.Except{Field: at, Faults: []jsonfault.Fault{jsonfault.Negative}, Usable: true, Why: "a number"},
			jsonfault.Except{Field: at, Faults: []jsonfault.Fault{jsonfault.Huge}, Values: "1e999", Why: "not a float64"},
			jsonfault.Except{Field: at, Faults: []jsonfault.Fault{jsonfault.Huge}, Usable: true, Why: "a number"})
	}
	for _, c := range jsonfault.Cases(document) {
		var got plain
		field, err := strictjson.Lenient([]byte(c.Text), &got, "id")
		if (err != nil) != (c.Fault == jsonfault.NotJSON) {
			t.Errorf("%v: %v", c, err)
			continue
		}
		if err != nil {
			continue
		}
		if (field == nil) != rules.Usable("", c) {
			t.Errorf("%v: problem %v", c, field)
		}
		if fe, ok := errors.AsType[*strictjson.FieldError](field); ok && !strings.HasPrefix(fe.Field, c.Path) {
			t.Errorf("%v: problem %v, want one at %s", c, field, c.Path)
		}
		for path, same := range map[string]bool{
			"id": got.ID == want.ID, "list": reflect.DeepEqual(got.List, want.List), "table": reflect.DeepEqual(got.Table, want.Table),
		} {
			if !same && !strings.HasPrefix(c.Path, path) {
				t.Errorf("%v: %s is %+v", c, path, got)
			}
		}
	}
}

// FuzzLenient compares with encoding/json. They differ only where a key is given twice, or in another case.
func FuzzLenient(f *testing.F) {
	f.Add(whole)
	f.Add(`{"table":{"a":{"value":1}},"words":["\u00e4"],"raw":"x"}`)
	f.Add(`{"list":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var got, want event
		field, err := strictjson.Lenient([]byte(text), &got)
		if err != nil || field != nil {
			return
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &keys); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if strings.ToLower(text) != text { // keys in other case
			return
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("Lenient reads %q, encoding/json: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{}, envelope{})); diff != "" {
			t.Errorf("%q (-json +Lenient)\n%s", text, diff)
		}
	})
}

func BenchmarkLenient(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var e event
		_, _ = strictjson.Lenient([]byte(whole), &e)
	}
}

func BenchmarkJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var e event
		_ = json.Unmarshal([]byte(whole), &e)
	}
}
