package jsonfault

import (
	"reflect"
	"slices"
	"strings"
)

// Rules define which cases leave an entry usable, with the meaning that it has. In every other case the entry is unknown.
//
// An unknown key changes nothing, and a key in other case is unknown. A missing or null value is usable if the field is
// optional.
type Rules struct {
	Optional string   // fields that may be missing or null, separated by spaces
	Free     string   // texts of any length
	Large    string   // numbers that may be as large as the Huge cases that are valid for their type
	Except   []Except // with a reason each
}

// Except is a kind of case for which the rule does not hold.
type Except struct {
	Field  string
	Faults []Fault // nil: each
	Values string  // of the case, separated by spaces; empty: any
	Usable bool
	Why    string
}

// Usable reports whether the entry at path keeps its meaning in a case at this path or below it.
func (r Rules) Usable(entry string, c Case) bool {
	if c.Fault == NotJSON {
		return false
	}
	field := strings.TrimPrefix(strings.TrimPrefix(c.Path, entry), ".")
	for _, e := range r.Except {
		if e.Field == field && (e.Faults == nil || slices.Contains(e.Faults, c.Fault)) &&
			(e.Values == "" || slices.Contains(strings.Fields(e.Values), c.Value)) {
			return e.Usable
		}
	}
	has := func(list string) bool { return slices.Contains(strings.Fields(list), field) }
	switch c.Fault {
	case Extra, OtherCase:
		return true
	case Missing, Null:
		return has(r.Optional)
	case Long:
		return has(r.Free)
	case Huge:
		return has(r.Large)
	}
	return false
}

// Under returns the cases at a path and below it.
func Under(path string, cases []Case) []Case {
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool {
		rest, ok := strings.CutPrefix(c.Path, path)
		return !ok || path != "" && rest != "" && rest[0] != '.' && rest[0] != '['
	})
}

// Lacks returns the fields of a type, by their JSON names, that an object of the document does not have.
func Lacks[T any](document string) (paths []string) {
	cases := Cases(document)
	has := map[string]bool{}
	for _, c := range cases {
		has[c.Path] = true
	}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		switch {
		case t.Kind() == reflect.Pointer:
			walk(t.Elem(), path)
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			if has[path+"[0]"] {
				walk(t.Elem(), path+"[0]")
			}
		case t.Kind() != reflect.Struct || decodesItself(t):
		default:
			for field := range t.Fields() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				at := strings.TrimPrefix(path+"."+name, ".")
				switch {
				case field.Anonymous && name == "":
					walk(field.Type, path)
				case name == "" || name == "-":
				case !has[at]:
					paths = append(paths, at)
				default:
					walk(field.Type, at)
				}
			}
		}
	}
	walk(reflect.TypeFor[T](), "")
	return paths
}

func decodesItself(t reflect.Type) bool {
	_, ok := reflect.PointerTo(t).MethodByName("UnmarshalJSON")
	return ok
}
