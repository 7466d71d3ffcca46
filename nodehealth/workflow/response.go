package workflow

import (
	"bytes"
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

// response is the response of a workflow, truncated to maxAnswer bytes.
type response struct {
	text []byte
	cut  bool
	// failure is the failure that the exit or HTTP status shows; empty: no failure.
	failure string
}

// result returns the result of a workflow.
func (a response) result() nodehealth.Result {
	text := bytes.TrimSpace(a.text)
	if !bytes.HasPrefix(text, []byte("{")) {
		if a.failure != "" {
			return failed(a.failure)
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		return nodehealth.Result{Decision: nodehealth.DecisionOK, Reason: prose.Line(string(line), api.MaxWhy)}
	}
	got, err := decodeAnswer(text, a.cut)
	switch {
	case a.failure != "" && (err != nil || got.Decision == nodehealth.DecisionOK):
		return failed(a.failure)
	case err != nil:
		return failed("decode the response: " + err.Error())
	}
	return got
}

// decodeAnswer reads one JSON object. Unknown keys are ignored.
func decodeAnswer(text []byte, cut bool) (nodehealth.Result, error) {
	if cut || len(text) > maxAnswer {
		return nodehealth.Result{}, fmt.Errorf("longer than %d bytes", maxAnswer)
	}
	var wire struct {
		Result string `json:"result"`
		Reason string `json:"reason"`
	}
	if _, err := strictjson.Lenient(text, &wire); err != nil {
		return nodehealth.Result{}, err
	}
	switch d := nodehealth.Decision(wire.Result); d {
	case nodehealth.DecisionOK, nodehealth.DecisionFailed, nodehealth.DecisionEscalate, nodehealth.DecisionSkip:
		return nodehealth.Result{Decision: d, Reason: prose.Line(wire.Reason, api.MaxWhy)}, nil
	}
	return nodehealth.Result{}, fmt.Errorf("result is %.40q: want %s, %s, %s or %s", wire.Result,
		nodehealth.DecisionOK, nodehealth.DecisionFailed, nodehealth.DecisionEscalate, nodehealth.DecisionSkip)
}

func failed(why string) nodehealth.Result {
	return nodehealth.Result{Decision: nodehealth.DecisionFailed, Reason: prose.Line(why, api.MaxWhy)}
}
