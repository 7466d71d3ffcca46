package sigproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxExplanation is the maximum length of an explanation, in bytes.
const MaxExplanation = 1024

// Resources is a signal's resource request; nil means no opinion.
type Resources struct {
	CPUs *float64 `json:"cpus"` // CPU cores
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

// fields returns the four fields in wire order.
func (r *Resources) fields() [4]resourceField {
	return [4]resourceField{{"cpus", &r.CPUs}, {"mem", &r.Mem}, {"disk", &r.Disk}, {"gpus", &r.GPUs}}
}

// Verdict classifies an answer. The zero value is VerdictValue.
type Verdict string

const (
	VerdictValue     Verdict = ""           // the resources are needed; "value" on the wire, or "", null, no key
	VerdictNoOpinion Verdict = "no_opinion" // no opinion; the resources are empty
	VerdictStale     Verdict = "stale"      // the data is too old for an opinion; the resources are empty
)

// Response is a signal's answer.
type Response struct {
	Resources Resources
	Verdict   Verdict
	// Explanation explains the answer to operators. It is sent and received as one line of at most MaxExplanation
	// printable bytes.
	Explanation string
	// Unknown holds the unknown keys, as "Resources.fpgas"; log a warning for them. It is not sent.
	Unknown []string
}

// Validate returns a [FieldError] for the first value that cannot be sent.
func (r Response) Validate() error {
	if err := r.Resources.Validate(); err != nil {
		return err
	}
	switch r.Verdict {
	case VerdictValue:
		return nil
	case VerdictNoOpinion, VerdictStale:
		return r.checkEmpty()
	}
	return fieldError("Verdict", fmt.Errorf("is %q, want %q, %q or %q", r.Verdict, wireValue, VerdictNoOpinion, VerdictStale))
}

// checkEmpty returns an error if a resource accompanies the verdict. It is a separate function so that a response with
// a value needs no allocation.
func (r Response) checkEmpty() error {
	for _, f := range r.Resources.fields() {
		if x := *f.value; x != nil {
			return fieldError("Verdict", fmt.Errorf("is %q beside Resources.%s = %v, want null there", r.Verdict, f.name, *x))
		}
	}
	return nil
}

// wireValue is an alternative for VerdictValue on the wire.
const wireValue = "value"

// parseResponse decodes a complete response.
func parseResponse(data []byte) (Response, error) {
	var out Response
	found := false
	err := whole(data, func(dec *json.Decoder, key string) error {
		switch key {
		case "Resources":
			found = true
			return out.readResources(dec)
		case "Verdict":
			text, err := readText(dec)
			out.Verdict = Verdict(text)
			return err
		case "Explanation":
			text, err := readText(dec)
			out.Explanation = text
			return err
		}
		out.Unknown = append(out.Unknown, key)
		return skip(dec)
	})
	switch {
	case err != nil:
		return Response{}, err
	case !found:
		return Response{}, fieldError("Resources", errors.New("is missing"))
	}
	if out.Verdict == wireValue {
		out.Verdict = VerdictValue
	}
	out.Explanation = oneLine(out.Explanation)
	if err := out.Validate(); err != nil {
		return Response{}, err
	}
	return out, nil
}

// readText reads a string. null becomes "".
func readText(dec *json.Decoder) (string, error) {
	var text *string
	if err := dec.Decode(&text); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return "", fmt.Errorf("is of type %s, want a string", wrong.Value)
		}
		return "", err
	}
	if text == nil {
		return "", nil
	}
	return *text, nil
}

func (r *Response) readResources(dec *json.Decoder) error {
	return object(dec, "Resources", func(key string) error {
		for _, f := range r.Resources.fields() {
			if f.name == key {
				return dec.Decode(f.value)
			}
		}
		r.Unknown = append(r.Unknown, "Resources."+key)
		return skip(dec)
	})
}

// appendResponse encodes a response.
func appendResponse(dst []byte, r Response) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return dst, err
	}
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false) // escaping takes six bytes per character
	err := enc.Encode(struct {
		Resources   Resources
		Verdict     Verdict `json:",omitempty"`
		Explanation string  `json:",omitempty"`
	}{r.Resources, r.Verdict, oneLine(r.Explanation)})
	if err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// oneLine returns a text as one line of at most MaxExplanation bytes, without characters that could affect a terminal.
func oneLine(text string) string {
	text = text[:min(len(text), 4*MaxExplanation)] // the rest is cut anyway
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if len(text) <= MaxExplanation {
		return text
	}
	end := MaxExplanation
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSpace(text[:end])
}
