// Package jsonfault makes faulty JSON for tests of decoders: each document that differs from a valid one by one fault.
//
//	for _, c := range jsonfault.Cases(valid) {
//		got, err := decode(c.Text) // c.String() names the path and the fault
//	}
//
// [Rules] says of each case whether its entry still counts. [Under] selects the cases of one entry. [Lacks] finds fields of a Go
// type that the valid document does not have. So a new field is tested too. The order and the faults are always the same. All
// functions may be called concurrently.
package jsonfault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is a kind of fault.
type Fault string

// The faults. Negative, Huge and Text are of numbers only, and Long is of texts only.
const (
	Missing   Fault = "missing"           // the key is missing
	Null      Fault = "null"              // its value is null
	Type      Fault = "wrong type"        // its value has another type of JSON
	Negative  Fault = "negative"          // the number is below 0
	Huge      Fault = "huge"              // the number is beyond 64 bits, beyond a float64, or large
	Text      Fault = "number as text"    // the number is a text, such as "NaN"
	Long      Fault = "very long"         // the text has LongText bytes
	Extra     Fault = "unknown key"       // the object has a further key
	OtherCase Fault = "key in other case" // the object has the key a second time, in capital letters
	Twice     Fault = "key given twice"   // the object has the key twice, with two values
	NotJSON   Fault = "not JSON"          // the value is NaN or Infinity, so the whole document is not JSON
)

// LongText is the length of the text of a Long fault, in bytes.
const LongText = 5000

// Case is a document with one fault.
type Case struct {
	Path  string // of the value: "droplets[1].index"; empty: the document
	Fault Fault
	Value string // the faulty text, shortened, or where it is
	Text  string // the document
}

// String returns the path and the fault.
func (c Case) String() string {
	return strings.TrimSpace(c.Path + ": " + string(c.Fault) + " " + c.Value)
}

// Cases returns a valid document with one fault at each path, in the order of the document. It panics if the document is
// not JSON.
func Cases(document string) []Case {
	d := json.NewDecoder(strings.NewReader(document))
	d.UseNumber()
	b := &builder{root: parse(d)}
	b.value("", b.root)
	return b.cases
}

// value is a value of JSON. An array has members without keys.
type value struct {
	open    byte // '{' or '[' of an object or an array, or 0
	members []member
	raw     string // of another value
}

type member struct {
	key string
	*value
}

func parse(d *json.Decoder) *value {
	t, err := d.Token()
	if err != nil {
		panic(fmt.Sprintf("jsonfault: the document is not JSON: %v", err))
	}
	open, ok := t.(json.Delim)
	if !ok {
		raw, err := json.Marshal(t)
		if err != nil {
			panic(err)
		}
		return &value{raw: string(raw)}
	}
	v := &value{open: byte(open)}
	for d.More() {
		m := member{}
		if v.open == '{' {
			key, _ := d.Token()
			m.key, _ = key.(string)
		}
		m.value = parse(d)
		v.members = append(v.members, m)
	}
	_, _ = d.Token() // the end: More has found it
	return v
}

func (v *value) text() string {
	if v.open == 0 {
		return v.raw
	}
	var parts []string
	for _, m := range v.members {
		text := m.text()
		if v.open == '{' {
			text = strconv.Quote(m.key) + ":" + text
		}
		parts = append(parts, text)
	}
	return string(v.open) + strings.Join(parts, ",") + string(v.open+2) // ']' and '}'
}

// builder collects the cases.
type builder struct {
	root  *value
	cases []Case
}

// add adds the document in which these are the members of a value.
func (b *builder) add(path string, fault Fault, shown string, of *value, members ...member) {
	was := of.members
	of.members = members
	if len(shown) > 20 {
		shown = shown[:20] + "..."
	}
	b.cases = append(b.cases, Case{path, fault, shown, b.root.text()})
	of.members = was
}

// value adds the faults inside a value.
func (b *builder) value(path string, v *value) {
	if v.open == '{' {
		extra := member{"unknown_key", &value{raw: `{"a":[1,null]}`}}
		b.add(path, Extra, "first", v, slices.Concat([]member{extra}, v.members)...)
		b.add(path, Extra, "last", v, slices.Concat(v.members, []member{extra})...)
	}
	for i, m := range v.members {
		at := fmt.Sprintf("%s[%d]", path, i)
		if v.open == '{' {
			at = strings.TrimPrefix(path+"."+m.key, ".")
		}
		b.member(at, v, i)
		b.value(at, m.value)
	}
}

// member adds the faults of one member of a value.
func (b *builder) member(path string, of *value, i int) {
	m := of.members[i]
	with := func(fault Fault, shown string, ms ...member) {
		b.add(path, fault, shown, of, slices.Concat(of.members[:i], ms, of.members[i+1:])...)
	}
	replaced := func(fault Fault, raws ...string) {
		for _, raw := range raws {
			with(fault, raw, member{m.key, &value{raw: raw}})
		}
	}
	replaced(Null, "null")
	replaced(NotJSON, "NaN", "-Infinity")
	if of.open == '{' {
		other := member{m.key, &value{raw: another(m.value)}}
		with(Missing, "")
		with(Twice, "its value first", m, other)
		with(Twice, "its value last", other, m)
		with(Twice, "the same", m, m)
		other.key = strings.ToUpper(m.key)
		with(OtherCase, "", m, other)
	}
	switch kind(m.value) {
	case "number":
		replaced(Type, "true", "{}", "[]")
		replaced(Text, `"NaN"`, `"7"`)
		replaced(Negative, "-1", "-1e300")
		replaced(Huge, "1e999", "99999999999999999999", "1e300", "9000000000000000000")
	case "text":
		replaced(Type, "true", "7", "-1", "1.5", "{}", "[]")
		with(Long, "", member{m.key, &value{raw: `"` + strings.Repeat("x", LongText) + `"`}})
	case "flag":
		replaced(Type, "7", `"true"`, "{}", "[]")
	case "object":
		replaced(Type, "true", "7", `"x"`, "[]")
	case "array":
		replaced(Type, "true", "7", `"x"`, "{}")
	}
}

// kind returns the name of the value's type, empty for null.
func kind(v *value) string {
	switch {
	case v.open == '{':
		return "object"
	case v.open == '[':
		return "array"
	case v.raw == "true", v.raw == "false":
		return "flag"
	case v.raw[0] == '"':
		return "text"
	case v.raw == "null":
		return ""
	}
	return "number"
}

// another returns another value of the same type.
func another(v *value) string {
	switch kind(v) {
	case "object":
		return "{}"
	case "array":
		return "[]"
	case "flag":
		return strconv.FormatBool(v.raw == "false")
	case "text":
		return `"another"`
	}
	return "11"
}
