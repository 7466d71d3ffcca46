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
	maxText      = 255      // bytes of a name, a version, a type, an encoding
	maxMetricKey = 1024     // bytes of a metric's name, which may be a regular expression
	maxMetrics   = 1000     // required metrics
	maxEncodings = 16       // encodings
	maxSchema    = 64 << 10 // bytes of the parameters' schema
)

// Description is what a signal says of itself. Its texts are printable and
// bounded, but as true as the signal.
type Description struct {
	Name      string // of the program; empty: it does not tell
	Version   string // as it was built; empty: it does not tell
	SDK       string // what it is written with; empty: it does not tell
	Metrics   []RequiredMetric
	Schema    json.RawMessage // of its parameters, a JSON object; nil: it does not tell
	Encodings []string        // in which it takes windows; JSON it takes without saying so
	Protocol  int             // the version of the control protocol that was negotiated
}

// RequiredMetric is a metric without which the signal has no opinion, in the
// words of a pool file. Whether the type is one that exists is not checked.
type RequiredMetric struct {
	Name  string
	Type  string
	Range time.Duration // how much of its past is of use; 0: it does not tell
	Regex bool          // Name is a regular expression
}

// Columnar reports whether the signal takes columnar bodies.
func (d Description) Columnar() bool { return slices.Contains(d.Encodings, signalv1.EncodingColumnar) }

// newDescription checks an answer. Its error is an ErrDescription with every
// problem.
func newDescription(answer *signalv1.DescribeResponse, protocol int) (Description, error) {
	if err := errors.Join(checkTexts(answer), checkLists(answer), checkWire(answer), checkSchema(answer)); err != nil {
		return Description{}, fmt.Errorf("%w: %w", ErrDescription, err)
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
		return fmt.Errorf("its socket speaks version %d of the wire, ours version %d", v, signalv1.WireVersion)
	}
	return nil
}

// checkText checks a text that is shown to people. That it is UTF-8 the decoder
// has seen to.
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
