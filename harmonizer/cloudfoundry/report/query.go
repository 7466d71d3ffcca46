package report

import (
	"encoding/json"
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Subjects of requests.
const (
	SubjectStatus  = "healthmanager.status"  // a statusQuery; the answer is a statusAnswer
	SubjectHealth  = "healthmanager.health"  // a healthQuery; one healthAnswer for each app
	SubjectDroplet = "healthmanager.droplet" // a dropletQuery; one dropletAnswer for each app
)

// statusQuery requests, on SubjectStatus, the flapping indices of a version or the crashed
// copies.
type statusQuery struct {
	App     string `json:"droplet"`
	State   string `json:"state"`             // "FLAPPING" or "CRASHED"; other values get no answer
	Version string `json:"version,omitempty"` // of FLAPPING
}

// statusAnswer answers a statusQuery. The requested list is present even if it is empty; the
// other one is nil.
type statusAnswer struct {
	Indices   []indexSince    `json:"indices,omitzero"`   // of FLAPPING
	Instances []instanceSince `json:"instances,omitzero"` // of CRASHED, all versions
	Complete  bool            `json:"complete"`           // both states are complete
	Error     string          `json:"error,omitempty"`    // why there is no result
}

// indexSince is an index with the time of its last crash.
type indexSince struct {
	Index int     `json:"index"`
	Since float64 `json:"since"` // unix seconds
}

// instanceSince is a copy with the time of its crash.
type instanceSince struct {
	Instance string  `json:"instance"`
	Since    float64 `json:"since"` // unix seconds
}

// healthQuery requests, on SubjectHealth, how many indices of each app's version run.
type healthQuery struct {
	Apps []appVersion `json:"droplets"`
}

// appVersion is a version of an app.
type appVersion struct {
	App     string `json:"droplet"`
	Version string `json:"version"`
}

// healthAnswer answers a healthQuery, with one message for each app.
type healthAnswer struct {
	App      string `json:"droplet"`
	Version  string `json:"version"`
	Healthy  int    `json:"healthy"`         // desired indices of that version in state RUNNING
	Complete bool   `json:"complete"`        // both states are complete
	Error    string `json:"error,omitempty"` // why healthy is not valid
}

// dropletQuery requests, on SubjectDroplet, the full state of apps.
type dropletQuery struct {
	Apps []string // on the wire: "droplets", a list of objects with a "droplet"
}

// maxRequested is the largest number of apps in one query.
const maxRequested = 10_000

// wireQuery is a statusQuery, or an element of the other queries.
type wireQuery struct {
	App     json.RawMessage `json:"droplet"`
	State   json.RawMessage `json:"state"`
	Version json.RawMessage `json:"version"`
}

// decodeStatusQuery decodes a statusQuery.
func decodeStatusQuery(data []byte) (statusQuery, error) {
	var w wireQuery
	if err := message.Unmarshal(data, &w); err != nil {
		return statusQuery{}, fmt.Errorf("decode status query: %w", err)
	}
	var f message.Fields
	q := statusQuery{App: f.ID("droplet", w.App), State: f.ID("state", w.State), Version: f.OptionalID("version", w.Version)}
	if f.Err != nil {
		return statusQuery{}, fmt.Errorf("decode status query: %w", f.Err)
	}
	return q, nil
}

// decodeHealthQuery decodes a healthQuery.
func decodeHealthQuery(data []byte) (healthQuery, error) {
	var q healthQuery
	err := decodeDroplets(data, func(f *message.Fields, w wireQuery) {
		q.Apps = append(q.Apps, appVersion{App: f.ID("droplet", w.App), Version: f.OptionalID("version", w.Version)})
	})
	if err != nil {
		return healthQuery{}, fmt.Errorf("decode health query: %w", err)
	}
	return q, nil
}

// decodeDropletQuery decodes a dropletQuery.
func decodeDropletQuery(data []byte) (dropletQuery, error) {
	var q dropletQuery
	err := decodeDroplets(data, func(f *message.Fields, w wireQuery) {
		q.Apps = append(q.Apps, f.ID("droplet", w.App))
	})
	if err != nil {
		return dropletQuery{}, fmt.Errorf("decode droplet query: %w", err)
	}
	return q, nil
}

func decodeDroplets(data []byte, read func(*message.Fields, wireQuery)) error {
	var w struct {
		Apps json.RawMessage `json:"droplets"`
	}
	if err := message.Unmarshal(data, &w); err != nil {
		return err
	}
	var f message.Fields
	f.List("droplets", w.Apps, maxRequested, func(element *message.Fields, raw json.RawMessage) {
		var requested wireQuery
		if message.Unmarshal(raw, &requested) != nil {
			element.Fail("", "is not an object")
			return
		}
		read(element, requested)
	})
	if f.Err != nil {
		return f.Err
	}
	return nil
}
