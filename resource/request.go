package resource

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Request is what a signal requests: a value for some kinds, no opinion on the others. The zero
// Request has no opinion on any kind.
type Request struct {
	values  Vector
	present [Count]bool
}

// Of returns the request that has every kind of v.
func Of(v Vector) Request {
	r := Request{values: v}
	for k := range r.present {
		r.present[k] = true
	}
	return r
}

// With returns a copy of r that requests x of k.
func (r Request) With(k Kind, x float64) Request {
	r.values[k], r.present[k] = x, true
	return r
}

// Get returns the value of k in r, and whether r has one.
func (r Request) Get(k Kind) (float64, bool) { return r.values[k], r.present[k] }

// IsEmpty reports whether r has no opinion on any kind.
func (r Request) IsEmpty() bool { return r.present == [Count]bool{} }

// Validate returns an error that names the first kind whose value is negative or not finite.
func (r Request) Validate() error {
	for _, k := range Kinds() {
		if x, ok := r.Get(k); ok {
			if err := check(k, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// String prints the kinds that r requests, for people: "cpus=4 mem=2048".
func (r Request) String() string {
	var parts []string
	for _, k := range Kinds() {
		if x, ok := r.Get(k); ok {
			parts = append(parts, k.String()+"="+strconv.FormatFloat(x, 'g', 6, 64))
		}
	}
	if parts == nil {
		return "no opinion"
	}
	return strings.Join(parts, " ")
}

// MarshalJSON writes an object with only the kinds that r requests.
func (r Request) MarshalJSON() ([]byte, error) {
	out := make(map[string]float64, Count)
	for _, k := range Kinds() {
		if x, ok := r.Get(k); ok {
			out[k.String()] = x
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object of kinds. null and an omitted kind mean no opinion. For an unknown
// kind, a string or a negative value the error names the kind.
func (r *Request) UnmarshalJSON(data []byte) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	var out Request
	for name, raw := range in {
		k, err := ParseKind(name)
		if err != nil {
			return err
		}
		var x *float64
		if err := json.Unmarshal(raw, &x); err != nil {
			return fmt.Errorf("%s is %s: want a number or null", k, raw)
		}
		if x != nil {
			out = out.With(k, *x)
		}
	}
	if err := out.Validate(); err != nil {
		return err
	}
	*r = out
	return nil
}
