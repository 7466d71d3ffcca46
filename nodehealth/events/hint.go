package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	maxHint   = 8 << 10          // bytes of a hint
	maxWord   = 128              // bytes of an event, a state or a publisher
	oldHint   = 15 * time.Minute // older hints are dropped
	lastWhole = 253402300799     // the end of the year 9999
)

// hint is a decoded hint about a machine.
type hint struct {
	judge.Hint
	at time.Time // zero: no timestamp
}

// wireHint has Senlin's fields.
type wireHint struct {
	Event     string          `json:"event"`
	State     string          `json:"state"`
	Instance  string          `json:"instance_id"`
	Publisher string          `json:"publisher"`
	Timestamp json.RawMessage `json:"timestamp"`
}

// decodeHint decodes an event of another program. Only instance_id must be usable: other fields that are not count as
// missing.
func decodeHint(data []byte) (hint, error) {
	if len(data) > maxHint {
		return hint{}, fmt.Errorf("decode hint: size is %d bytes, limit %d", len(data), maxHint)
	}
	var w wireHint
	if _, err := strictjson.Lenient(data, &w); err != nil {
		return hint{}, fmt.Errorf("decode hint: %w", err)
	}
	if w.Instance == "" || prose.Line(w.Instance, api.MaxNodeID) != w.Instance {
		return hint{}, fmt.Errorf("decode hint: instance_id is missing, longer than %d bytes, or has unprintable characters", api.MaxNodeID)
	}
	at, err := decodeTime(w.Timestamp)
	if err != nil {
		at = time.Time{}
	}
	why := fmt.Sprintf("event %s, state %s, published by %s", word(w.Event), word(w.State), word(w.Publisher))
	return hint{Hint: judge.Hint{Node: w.Instance, Why: why}, at: at}, nil
}

func word(s string) string { return cmp.Or(prose.Line(s, maxWord), "unknown") }

// layouts returns the accepted time formats: RFC 3339, and the formats of OpenStack, which are in
// UTC.
func layouts() []string {
	return []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}
}

var errTime = errors.New("is not a number of seconds since 1970 and not a time")

// decodeTime reads a number of seconds or a text. Absent, null and empty are the zero time.
func decodeTime(raw json.RawMessage) (time.Time, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
		return time.Time{}, nil
	}
	s := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &s); err != nil {
			return time.Time{}, errTime
		}
		for _, layout := range layouts() {
			if t, err := time.Parse(layout, s); err == nil {
				return t, nil
			}
		}
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0 && seconds <= lastWhole) {
		return time.Time{}, errTime
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC(), nil
}
