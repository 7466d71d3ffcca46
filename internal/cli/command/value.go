package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// Forms of --output.
const (
	FormTable = "table"
	FormJSON  = "json"
	FormYAML  = "yaml"
	formWide  = "wide" // a table, for people who type it
	formName  = "name" // the names of the listed things, one on each line
)

// encode writes a value as indented JSON or as one YAML document. Both have the keys of the value's JSON, but durations
// are in seconds: see package seconds.
func encode(w io.Writer, form string, v any) error {
	if form == FormYAML {
		return encodeYAML(w, v)
	}
	data, err := seconds.Of(v)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	_, err = text.WriteTo(w)
	return err
}

// EncodeNext writes one value of a stream: one line of JSON, or a YAML document after "---".
func EncodeNext(w io.Writer, form string, v any) error {
	if form != FormYAML {
		data, err := seconds.Of(v)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		return err
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return encodeYAML(w, v)
}

func encodeYAML(w io.Writer, v any) error {
	data, err := seconds.Of(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var text strings.Builder
	ordered, err := inOrder(d)
	if err != nil {
		return fmt.Errorf("read the JSON of the output: %w", err)
	}
	appendYAML(&text, ordered, 0)
	_, err = io.WriteString(w, text.String())
	return err
}

// object is a JSON object whose keys have an order.
type object []member

type member struct {
	key   string
	value any
}

// inOrder reads the next JSON value: an object, a []any or a scalar.
func inOrder(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		var o object
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := inOrder(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{fmt.Sprint(key), value})
		}
		_, err := d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := inOrder(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

// appendYAML appends a value in block style and the end of its line. Further lines are indented.
func appendYAML(b *strings.Builder, v any, indent int) {
	start := strings.Repeat(" ", indent)
	switch x := v.(type) {
	case object:
		for i, m := range x {
			if i > 0 {
				b.WriteString(start)
			}
			b.WriteString(yamlText(m.key) + ":")
			switch child := m.value.(type) {
			case object:
				if len(child) > 0 {
					b.WriteString("\n" + start + "  ")
					appendYAML(b, child, indent+2)
					continue
				}
			case []any:
				if len(child) > 0 {
					b.WriteString("\n" + start)
					appendYAML(b, child, indent)
					continue
				}
			}
			b.WriteString(" ")
			appendYAML(b, m.value, indent)
		}
		if len(x) == 0 {
			b.WriteString("{}\n")
		}
	case []any:
		for i, one := range x {
			if i > 0 {
				b.WriteString(start)
			}
			b.WriteString("- ")
			appendYAML(b, one, indent+2)
		}
		if len(x) == 0 {
			b.WriteString("[]\n")
		}
	case string:
		b.WriteString(yamlText(x) + "\n")
	case json.Number:
		b.WriteString(yamlNumber(x.String()) + "\n")
	case nil:
		b.WriteString("null\n")
	default:
		fmt.Fprintln(b, x)
	}
}

// yamlText returns a text as a plain scalar, or else in double quotes: Go's escapes are those of YAML.
func yamlText(text string) string {
	plain := text != "" && !strings.HasSuffix(text, " ")
	for i, r := range text {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		plain = plain && (letter || i > 0 && (r >= '0' && r <= '9' || strings.ContainsRune(" -./@", r)))
	}
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// yamlNumber returns a JSON number in the form of YAML, which wants a point before an exponent.
func yamlNumber(n string) string {
	if i := strings.IndexAny(n, "eE"); i > 0 && !strings.Contains(n, ".") {
		return n[:i] + ".0" + n[i:]
	}
	return n
}
