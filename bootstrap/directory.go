package bootstrap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of the stream between bootstrap and its autoscaler.
const (
	maxDirectory   = 16 << 20 // bytes of one revision
	maxReport      = 1 << 20  // bytes of one report
	maxAnswers     = 128      // answers of one report
	maxRemark      = 400      // bytes of a text for people, on its way either way
	maxUnreported  = 4096     // answers that wait to be written
	firstLineBytes = 64 << 10
)

// Directory is one revision of where a pool's signals answer. Bootstrap writes
// each revision to its autoscaler as one line of JSON over an inherited socket;
// the autoscaler writes reports the other way. The end of the stream means that
// bootstrap is gone.
type Directory struct {
	Revision int `json:"revision"` // grows by one
	// Config is Plan.Config. It is on the stream when it has changed; a Reader
	// keeps it.
	Config  []byte  `json:"config,omitempty"`
	Signals []Entry `json:"signals"`
}

// Endpoint is where one process of a signal answers.
type Endpoint struct {
	Address  string `json:"address"`
	Group    int    `json:"group,omitempty"` // process group of the running process
	Version  string `json:"version,omitempty"`
	Columnar bool   `json:"columnar,omitempty"` // it offered the columnar body
	Down     string `json:"down,omitempty"`     // why nobody answers; empty if it runs
	// Question is SignalPlan.Question as the process was planned with: that of a
	// new plan comes with the process of the new plan.
	Question string `json:"question,omitempty"`
}

// Entry is one signal of the directory.
type Entry struct {
	App string `json:"app"`
	Endpoint
	Candidate *Candidate `json:"candidate,omitempty"`
}

// Candidate is a process beside a signal's own one. It is asked with the same
// windows, and its answers have no effect.
type Candidate struct {
	Endpoint
	// Shadow: it is asked whenever the signal is, and compared. Else it is to take
	// the signal's place, and is asked once as soon as it is seen.
	Shadow bool `json:"shadow,omitempty"`
	// Tolerance is how far a resource may differ and still agree, as a fraction
	// of the signal's own answer.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// Report says how far the autoscaler has followed the directory, and what it
// heard.
type Report struct {
	// Revision is the newest one that is followed: nobody is asked at a place any
	// more that it does not list.
	Revision int      `json:"revision"`
	Answers  []Answer `json:"answers,omitempty"`
}

// VerdictFailed is the verdict of an answer that is none: an error, garbage, or
// too late.
const VerdictFailed = "failed"

// Answer is what was heard of one process.
type Answer struct {
	App       string `json:"app"`
	Version   string `json:"version,omitempty"`
	Address   string `json:"address"`
	Group     int    `json:"group,omitempty"` // Endpoint.Group of who was asked; 0: not known
	Candidate bool   `json:"candidate,omitempty"`
	Verdict   string `json:"verdict"`          // as package autoscaler/decide names it
	Why       string `json:"why,omitempty"`    // of a verdict other than value
	Silent    bool   `json:"silent,omitempty"` // it took the connection, and did not answer in time
	// Of a shadow candidate that answered, when the signal itself did too:
	Compared   bool   `json:"compared,omitempty"`
	Difference string `json:"difference,omitempty"` // empty: they agree within the tolerance
}

// errNonsense: what came over the stream is none of it.
var errNonsense = errors.New("nonsense on the stream")

// decodeDirectory reads one line of the stream to the autoscaler.
func decodeDirectory(line []byte) (Directory, error) {
	var d Directory
	err := json.Unmarshal(line, &d)
	if err == nil && len(d.Signals) > MaxSignals {
		err = fmt.Errorf("%d signals, at most %d", len(d.Signals), MaxSignals)
	}
	if err != nil {
		return Directory{}, fmt.Errorf("read directory: %w: %w", errNonsense, err)
	}
	return d, nil
}

// decodeReport reads one line of the stream from the autoscaler.
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
		return Report{}, fmt.Errorf("read report: %w: %w", errNonsense, err)
	}
	for i := range r.Answers {
		r.Answers[i] = r.Answers[i].clipped()
	}
	return r, nil
}

// clipped is the answer with its texts cut to what the stream carries.
func (a Answer) clipped() Answer {
	a.Why, a.Difference = clip(a.Why), clip(a.Difference)
	return a
}

// clip cuts a text for people, and keeps it valid UTF-8.
func clip(text string) string {
	if len(text) <= maxRemark {
		return strings.ToValidUTF8(text, "?")
	}
	return strings.ToValidUTF8(text[:maxRemark-len("...")], "") + "..."
}

// eachLine gives the lines of a stream to take, until the stream or take fails.
// It returns nil at the stream's end; what an end cut off is not a line.
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
		return fmt.Errorf("%w: a line of more than %d bytes", errNonsense, limit)
	}
	return lines.Err()
}

// wholeLines is a bufio.SplitFunc that yields lines, but not what an end cut off.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}
