package sigproto

import (
	"encoding/json"
	"errors"
)

// Resources is what a signal asks for; nil has no opinion.
type Resources struct {
	CPUs *float64 `json:"cpus"` // shares of a core
	Mem  *float64 `json:"mem"`  // megabytes
	Disk *float64 `json:"disk"` // megabytes
	GPUs *float64 `json:"gpus"` // devices
}

// Validate returns a [FieldError] for the first value that is not a finite
// number of at least zero.
func (r Resources) Validate() error {
	for _, f := range r.fields() {
		if x := *f.value; x != nil {
			if err := checkQuantity(*x); err != nil {
				return fieldError("Resources."+f.name, err)
			}
		}
	}
	return nil
}

type resourceField struct {
	name  string
	value **float64
}

// fields lists the four in the order of the wire.
func (r *Resources) fields() [4]resourceField {
	return [4]resourceField{{"cpus", &r.CPUs}, {"mem", &r.Mem}, {"disk", &r.Disk}, {"gpus", &r.GPUs}}
}

// Response is a signal's answer.
type Response struct {
	Resources Resources
	// Unknown holds the keys that version 1 does not know, as "Resources.fpgas";
	// it is worth a warning. It is never sent.
	Unknown []string
}

// parseResponse reads a response that is complete.
func parseResponse(data []byte) (Response, error) {
	var out Response
	found := false
	err := whole(data, func(dec *json.Decoder, key string) error {
		if key != "Resources" {
			out.Unknown = append(out.Unknown, key)
			return skip(dec)
		}
		found = true
		return out.readResources(dec)
	})
	switch {
	case err != nil:
		return Response{}, err
	case !found:
		return Response{}, fieldError("Resources", errors.New("is missing"))
	}
	return out, nil
}

func (r *Response) readResources(dec *json.Decoder) error {
	err := object(dec, "Resources", func(key string) error {
		for _, f := range r.Resources.fields() {
			if f.name == key {
				return dec.Decode(f.value)
			}
		}
		r.Unknown = append(r.Unknown, "Resources."+key)
		return skip(dec)
	})
	if err != nil {
		return err
	}
	return r.Resources.Validate()
}

// appendResponse writes a response.
func appendResponse(dst []byte, r Resources) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	data, err := json.Marshal(struct{ Resources Resources }{r})
	if err != nil {
		return dst, err
	}
	return append(dst, data...), nil
}
