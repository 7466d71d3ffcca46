package cloudfoundry

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// RequestsSubject is the subject on which the classic health manager sends start and stop
// requests.
func RequestsSubject(partition string) string { return requests + "." + partition }

// requests is the same subject in the first health manager, which had no partitions.
const requests = "cloudcontrollers.hm.requests"

// IsRequestsSubject reports whether a subject is a RequestsSubject, with or without a partition.
func IsRequestsSubject(subject string) bool {
	return subject == requests || strings.HasPrefix(subject, requests+".")
}

// DecodeNudge decodes a Start or a Stop of either form: from message.SubjectStart, message.SubjectStop or a
// RequestsSubject.
func DecodeNudge(subject string, data []byte) (*api.Start, *api.Stop, error) {
	if IsRequestsSubject(subject) {
		return decodeRequest(data)
	}
	return message.DecodeNudge(subject, data)
}

// decodeRequest decodes an api.Nudge: a Start or a Stop.
func decodeRequest(data []byte) (*api.Start, *api.Stop, error) {
	var w struct {
		Op json.RawMessage `json:"op"`
	}
	if err := message.Unmarshal(data, &w); err != nil {
		return nil, nil, fmt.Errorf("decode request: %w", err)
	}
	var f message.Fields
	op := api.NudgeOp(f.Text("op", w.Op))
	switch {
	case f.Err != nil:
	case op == api.NudgeStart:
		return message.DecodeNudge(message.SubjectStart, data)
	case op == api.NudgeStop:
		return message.DecodeNudge(message.SubjectStop, data)
	default:
		f.Fail("op", "is neither START nor STOP")
	}
	return nil, nil, fmt.Errorf("decode request: %w", f.Err)
}
