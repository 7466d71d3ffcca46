package rowfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// maxTokens bounds the words and signs of YAML. JSON has another parser and only the other
// bounds.
const maxTokens = 1 << 18

func bounds() strictyaml.Bounds {
	return strictyaml.Bounds{
		Bytes: MaxFile, Tokens: maxTokens, Nesting: 16,
		TooMuch:  "the file has more than %d words and signs; write it as JSON, which has no such limit",
		Indirect: "anchors, aliases, merge keys and tags are not supported; write the value out",
	}
}

func wrong(line int, format string, args ...any) *strictyaml.Problem {
	return &strictyaml.Problem{Line: line, What: fmt.Sprintf(format, args...)}
}

// treeOf decodes one document of JSON, which begins with a bracket, or of YAML.
func treeOf(data []byte) (strictyaml.Value, *strictyaml.Problem) {
	data, problem := strictyaml.Check(data, bounds())
	if problem != nil {
		return strictyaml.Value{}, problem
	}
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		return jsonTree(data)
	}
	documents, problem := strictyaml.Values(data, bounds())
	switch {
	case problem != nil:
		return strictyaml.Value{}, problem
	case len(documents) == 0:
		return strictyaml.Value{Line: 1}, nil
	case len(documents) > 1:
		return strictyaml.Value{}, wrong(documents[1].Line, "a second document begins; a file may have only one")
	}
	return documents[0], nil
}

// jsonTree decodes JSON. It rejects YAML in brackets.
func jsonTree(data []byte) (strictyaml.Value, *strictyaml.Problem) {
	r := jsonReader{data: data, line: 1, decoder: json.NewDecoder(bytes.NewReader(data))}
	r.decoder.UseNumber()
	v, err := r.value(0)
	if err == nil {
		if _, end := r.decoder.Token(); !errors.Is(end, io.EOF) {
			err = wrong(r.currentLine(), "has data after the end of its JSON")
		}
	}
	return v, err
}

type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	line    int // at offset
	offset  int
}

// currentLine returns the line of the reader's position.
func (r *jsonReader) currentLine() int {
	end := int(r.decoder.InputOffset())
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return r.line
}

func (r *jsonReader) token() (json.Token, *strictyaml.Problem) {
	t, err := r.decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, wrong(r.currentLine(), "is not JSON: %v", err)
	}
	return t, nil
}

func (r *jsonReader) value(depth int) (strictyaml.Value, *strictyaml.Problem) {
	t, err := r.token()
	if err != nil {
		return strictyaml.Value{}, err
	}
	v := strictyaml.Value{Line: r.currentLine()}
	switch t := t.(type) {
	case string:
		v.Kind, v.Text = strictyaml.Text, t
	case json.Number:
		v.Kind, v.Text = strictyaml.Number, t.String()
	case bool:
		v.Kind, v.Text = strictyaml.Flag, strconv.FormatBool(t)
	case json.Delim:
		if depth >= bounds().Nesting {
			return v, wrong(v.Line, "nests deeper than %d levels", bounds().Nesting)
		}
		return r.inside(v, t, depth)
	}
	return v, nil
}

// inside decodes a map or list to its end.
func (r *jsonReader) inside(v strictyaml.Value, open json.Delim, depth int) (strictyaml.Value, *strictyaml.Problem) {
	v.Kind = strictyaml.List
	if open == '{' {
		v.Kind = strictyaml.Map
	}
	for r.decoder.More() {
		var p strictyaml.Entry
		if v.Kind == strictyaml.Map {
			key, err := r.token()
			if err != nil {
				return v, err
			}
			p.Key, _ = key.(string) // the decoder accepts no other
			p.Line = r.currentLine()
		}
		var err *strictyaml.Problem
		if p.Value, err = r.value(depth + 1); err != nil {
			return v, err
		}
		if v.Kind == strictyaml.Map {
			v.Entries = append(v.Entries, p)
		}
	}
	_, err := r.token()
	return v, err
}
