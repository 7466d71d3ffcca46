package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// slackBody is the body that Slack's incoming webhooks accept, and the chat programs that are compatible with them.
const slackBody = `{"text": "*{severity}* {cluster}/{pool} {event}: {text}"}`

// slackText makes text of Slack's markup: a reason such as "<!channel>" notifies nobody, and a link shows its address.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

const maxBody = 16 << 10 // bytes of a template

// Body is the template of a request's body: JSON with placeholders such as {text} inside its strings. An empty one is
// the event itself.
type Body string

// fields returns the placeholders with their values.
func (e Event) fields() [][2]string {
	return [][2]string{
		{"id", e.ID}, {"at", e.At.UTC().Format(time.RFC3339)}, {"cluster", e.Cluster}, {"pool", e.Pool}, {"kind", e.Kind},
		{"event", e.Name}, {"severity", string(e.Severity)}, {"text", e.Text},
	}
}

// Check returns an error if the template is not JSON with each value of its placeholders.
func (b Body) Check() error {
	if len(b) > maxBody {
		return fmt.Errorf("has %d bytes: want at most %d", len(b), maxBody)
	}
	const x = `x "quoted" text` // valid inside a string only, and not as the rest of an escape sequence
	_, err := b.render(Event{ID: x, Cluster: x, Pool: x, Kind: x, Name: x, Severity: x, Text: x}, nil)
	return err
}

// render returns the body of an event whose JSON is data.
func (b Body) render(e Event, data []byte) ([]byte, error) {
	if b == "" {
		return data, nil
	}
	var pairs []string
	for _, f := range e.fields() {
		value := f[1]
		if b == slackBody {
			value = slackText.Replace(value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, "{"+f[0]+"}", string(text[1:len(text)-1])) // inside a string of the template
	}
	out := []byte(strings.NewReplacer(pairs...).Replace(string(b)))
	if !json.Valid(out) {
		return nil, errors.New(`is not JSON: want an object such as {"text": "{pool}: {text}"}, with placeholders inside of strings`)
	}
	return out, nil
}
