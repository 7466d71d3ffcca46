package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// Limits of a description.
const (
	maxText      = 255      // bytes of a name, version, type or encoding
	maxMetricKey = 1024     // bytes of a metric's name, which may be a regular expression
	maxMetrics   = 1000     // required metrics
	maxEncodings = 16       // encodings
	maxSchema    = 64 << 10 // bytes of the parameters' schema
)

// Description is a signal's description of itself. Its texts are bounded and printable. Whether they are true depends
// on the signal.
type Description struct {
	Name      string // of the program; empty: unknown
	Version   string // of the build; empty: unknown
	SDK       string // SDK in use; empty: unknown
	Metrics   []RequiredMetric
	Schema    json.RawMessage // JSON schema of its parameters, an object; nil: unknown
	Encodings []string        // encodings of windows that it accepts, besides JSON
	Protocol  int             // negotiated version of the control protocol
}

// RequiredMetric is a metric that the signal needs for an opinion, in the notation of a pool file. Its type is not
// checked.
type RequiredMetric struct {
	Name  string
	Type  string
	Range time.Duration // how much history is useful; 0: unknown
	Regex bool          // Name is a regular expression
}

// Columnar reports whether the signal accepts columnar bodies.
func (d Description) Columnar() bool { return slices.Contains(d.Encodings, signalv1.EncodingColumnar) }

// newDescription checks a response. It returns errDescription with every problem.
func newDescription(answer *signalv1.DescribeResponse, protocol int) (Description, error) {
	if err := errors.Join(checkTexts(answer), checkLists(answer), checkWire(answer), checkSchema(answer)); err != nil {
		return Description{}, fmt.Errorf("%w: %w", errDescription, err)
	}
	d := Description{
		Name: answer.GetName(), Version: answer.GetVersion(), SDK: answer.GetSdk(),
		Encodings: answer.GetEncodings(), Protocol: protocol,
	}
	if len(answer.GetParametersSchema()) > 0 {
		d.Schema = answer.GetParametersSchema()
	}
	for _, m := range answer.GetRequiredMetrics() {
		d.Metrics = append(d.Metrics, RequiredMetric{
			Name: m.GetName(), Type: m.GetType(), Range: time.Duration(m.GetRangeSeconds()) * time.Second, Regex: m.GetRegex(),
		})
	}
	return d, nil
}

func checkTexts(answer *signalv1.DescribeResponse) error {
	return errors.Join(
		checkText("name", answer.GetName(), maxText),
		checkText("version", answer.GetVersion(), maxText),
		checkText("sdk", answer.GetSdk(), maxText),
	)
}

func checkLists(answer *signalv1.DescribeResponse) error {
	metrics, encodings := answer.GetRequiredMetrics(), answer.GetEncodings()
	if len(metrics) > maxMetrics || len(encodings) > maxEncodings {
		return fmt.Errorf("%d required metrics and %d encodings, at most %d and %d",
			len(metrics), len(encodings), maxMetrics, maxEncodings)
	}
	for i, m := range metrics {
		if m.GetName() == "" {
			return fmt.Errorf("required metric %d has no name", i)
		}
		if err := errors.Join(
			checkText(fmt.Sprintf("name of required metric %d", i), m.GetName(), maxMetricKey),
			checkText(fmt.Sprintf("type of required metric %d", i), m.GetType(), maxText),
		); err != nil {
			return err
		}
	}
	for i, encoding := range encodings {
		if err := checkText(fmt.Sprintf("encoding %d", i), encoding, maxText); err != nil {
			return err
		}
	}
	return nil
}

func checkWire(answer *signalv1.DescribeResponse) error {
	if v := answer.GetWireVersion(); v != 0 && v != signalv1.WireVersion {
		return fmt.Errorf("its socket has wire version %d, want %d", v, signalv1.WireVersion)
	}
	return nil
}

// checkText checks the length and the characters of a displayed text. The decoder has verified that it is UTF-8.
func checkText(what, text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%s has %d bytes, at most %d", what, len(text), limit)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s is not printable: %q", what, text)
	}
	return nil
}

func checkSchema(answer *signalv1.DescribeResponse) error {
	schema := answer.GetParametersSchema()
	switch {
	case len(schema) == 0:
		return nil
	case len(schema) > maxSchema:
		return fmt.Errorf("schema of the parameters has %d bytes, at most %d", len(schema), maxSchema)
	case !json.Valid(schema) || bytes.TrimSpace(schema)[0] != '{':
		return errors.New("schema of the parameters is not a JSON object")
	}
	return nil
}
