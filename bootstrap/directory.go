package bootstrap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// Bounds of the stream between bootstrap and its autoscaler.
const (
	maxDirectory   = 16 << 20 // bytes of one revision
	maxReport      = 1 << 20  // bytes of a report
	maxAnswers     = 128      // answers in a report
	maxRemark      = 400      // bytes of a message text, in either direction
	maxUnreported  = 4096     // answers that wait to be written
	firstLineBytes = 64 << 10
)

// Directory is one revision of the endpoints of a pool's signals. Bootstrap writes each revision to its autoscaler as
// one line of JSON over an inherited socket. The autoscaler writes reports in the other direction. The end of the
// stream means that bootstrap has ended.
type Directory struct {
	Revision int `json:"revision"` // increases by one
	// Config is Plan.Config. It is sent only after a change; a Reader stores it.
	Config  []byte  `json:"config,omitempty"`
	Signals []Entry `json:"signals"`
}

// Endpoint is the socket of one process of a signal.
type Endpoint struct {
	Address  string `json:"address"`
	Group    int    `json:"group,omitempty"` // process group of the running process
	Version  string `json:"version,omitempty"`
	Columnar bool   `json:"columnar,omitempty"` // it supports the columnar body
	Down     string `json:"down,omitempty"`     // why it does not respond; empty if it runs
	Yanked   string `json:"yanked,omitempty"`   // why the running release was withdrawn; of a signal, not of a candidate
	// RequestConfig is SignalPlan.RequestConfig of the plan with which the process was started. A new plan's value is sent with
	// the new plan's process.
	RequestConfig string `json:"request_config,omitempty"`
}

// Entry is one signal of the directory.
type Entry struct {
	App string `json:"app"`
	Endpoint
	Candidate *Candidate `json:"candidate,omitempty"`
}

// Candidate is a process beside the signal's current one. It receives the same windows. Its answers have no effect.
type Candidate struct {
	Endpoint
	// Shadow: it receives every request, and its answers are compared. Otherwise it should replace the signal, and
	// receives one request as soon as it is listed.
	Shadow bool `json:"shadow,omitempty"`
	// Tolerance is the difference up to which a resource agrees, as a fraction of the signal's own answer.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// Report is a message of the autoscaler: the revision that it follows, and the answers that it received.
type Report struct {
	// Revision is the latest revision that the autoscaler follows. It sends no more requests to endpoints that this
	// revision does not list.
	Revision int      `json:"revision"`
	Answers  []Answer `json:"answers,omitempty"`
}

// VerdictFailed is the verdict of a failed request: an error, an invalid response, or a timeout.
const VerdictFailed = "failed"

// Answer is the result of one request to a process.
type Answer struct {
	App       string `json:"app"`
	Version   string `json:"version,omitempty"`
	Address   string `json:"address"`
	Group     int    `json:"group,omitempty"` // Endpoint.Group of the process; 0: unknown
	Candidate bool   `json:"candidate,omitempty"`
	Verdict   string `json:"verdict"`          // a name of package autoscaler/decide
	Why       string `json:"why,omitempty"`    // reason: for verdicts other than value
	Silent    bool   `json:"silent,omitempty"` // it accepted the connection and did not respond in time
	// For a shadow, if both it and the signal answered:
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // empty: equal within the tolerance
}

// errInvalidStream: the stream contains invalid data.
var errInvalidStream = errors.New("invalid data on the stream")

// decodeDirectory decodes one line of the stream to the autoscaler.
func decodeDirectory(line []byte) (Directory, error) {
	var d Directory
	err := json.Unmarshal(line, &d)
	if err == nil && len(d.Signals) > maxSignals {
		err = fmt.Errorf("%d signals, at most %d", len(d.Signals), maxSignals)
	}
	if err != nil {
		return Directory{}, fmt.Errorf("read directory: %w: %w", errInvalidStream, err)
	}
	return d, nil
}

// decodeReport decodes one line of the stream from the autoscaler.
func decodeReport(line []byte) (Report, error) {
	var r Report
	err := json.Unmarshal(line, &r)
	switch {
	case err != nil:
	case r.Revision < 0:
		err = fmt.Errorf("revision %d is negative", r.Revision)
	case len(r.Answers) > maxAnswers:
		err = fmt.Errorf("%d answers, at most %d", len(r.Answers), maxAnswers)
	}
	if err != nil {
		return Report{}, fmt.Errorf("read report: %w: %w", errInvalidStream, err)
	}
	for i := range r.Answers {
		r.Answers[i] = r.Answers[i].clipped()
	}
	return r, nil
}

// clipped returns the answer with its texts cut to the maximum length.
func (a Answer) clipped() Answer {
	a.Why, a.Difference = prose.Marked(a.Why, maxRemark), prose.Marked(a.Difference, maxRemark)
	return a
}

// eachLine calls take for each line of a stream, until the stream or take fails. At the end of the stream it returns
// nil. An incomplete last line is ignored.
func eachLine(stream io.Reader, limit int, take func(line []byte) error) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, min(limit, firstLineBytes)), limit)
	lines.Split(wholeLines)
	for lines.Scan() {
		if err := take(lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%w: a line of more than %d bytes", errInvalidStream, limit)
	}
	return lines.Err()
}

// wholeLines is a bufio.SplitFunc that yields only complete lines.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}
