package message

import (
	"encoding/json"
	"fmt"
)

// StatusQuery requests, on SubjectStatus, the flapping indices of a version or the crashed
// copies.
type StatusQuery struct {
	App     string `json:"droplet"`
	State   string `json:"state"`             // "FLAPPING" or "CRASHED"; other values get no answer
	Version string `json:"version,omitempty"` // of FLAPPING
}

// StatusAnswer answers a StatusQuery. The requested list is present even if it is empty; the
// other one is nil.
type StatusAnswer struct {
	Indices   []IndexSince    `json:"indices,omitzero"`   // of FLAPPING
	Instances []InstanceSince `json:"instances,omitzero"` // of CRASHED, all versions
	Complete  bool            `json:"complete"`           // both states are complete
	Error     string          `json:"error,omitempty"`    // why there is no result
}

// IndexSince is an index with the time of its last crash.
type IndexSince struct {
	Index int     `json:"index"`
	Since float64 `json:"since"` // unix seconds
}

// InstanceSince is a copy with the time of its crash.
type InstanceSince struct {
	Instance string  `json:"instance"`
	Since    float64 `json:"since"` // unix seconds
}

// HealthQuery requests, on SubjectHealth, how many indices of each app's version run.
type HealthQuery struct {
	Apps []AppVersion `json:"droplets"`
}

// AppVersion is a version of an app.
type AppVersion struct {
	App     string `json:"droplet"`
	Version string `json:"version"`
}

// HealthAnswer answers a HealthQuery, with one message for each app.
type HealthAnswer struct {
	App      string `json:"droplet"`
	Version  string `json:"version"`
	Healthy  int    `json:"healthy"`         // desired indices of that version in state RUNNING
	Complete bool   `json:"complete"`        // both states are complete
	Error    string `json:"error,omitempty"` // why healthy is not valid
}

// DropletQuery requests, on SubjectDroplet, the full state of apps.
type DropletQuery struct {
	Apps []string // on the wire: "droplets", a list of objects with a "droplet"
}

// Credentials are for basic authentication at the bulk API.
type Credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// MaxRequested is the largest number of apps in one query.
const MaxRequested = 10_000

// DecodeStatusQuery decodes a StatusQuery.
func DecodeStatusQuery(data []byte) (StatusQuery, error) {
	var w wireBeat
	if err := unmarshal(data, &w); err != nil {
		return StatusQuery{}, fmt.Errorf("decode status query: %w", err)
	}
	var f fields
	q := StatusQuery{App: f.id("droplet", w.App), State: f.id("state", w.State), Version: f.optionalID("version", w.Version)}
	if f.err != nil {
		return StatusQuery{}, fmt.Errorf("decode status query: %w", f.err)
	}
	return q, nil
}

// DecodeHealthQuery decodes a HealthQuery.
func DecodeHealthQuery(data []byte) (HealthQuery, error) {
	var q HealthQuery
	err := decodeDroplets(data, func(f *fields, w wireBeat) {
		q.Apps = append(q.Apps, AppVersion{App: f.id("droplet", w.App), Version: f.optionalID("version", w.Version)})
	})
	if err != nil {
		return HealthQuery{}, fmt.Errorf("decode health query: %w", err)
	}
	return q, nil
}

// DecodeDropletQuery decodes a DropletQuery.
func DecodeDropletQuery(data []byte) (DropletQuery, error) {
	var q DropletQuery
	err := decodeDroplets(data, func(f *fields, w wireBeat) {
		q.Apps = append(q.Apps, f.id("droplet", w.App))
	})
	if err != nil {
		return DropletQuery{}, fmt.Errorf("decode droplet query: %w", err)
	}
	return q, nil
}

func decodeDroplets(data []byte, read func(*fields, wireBeat)) error {
	var w struct {
		Beats json.RawMessage `json:"droplets"`
	}
	if err := unmarshal(data, &w); err != nil {
		return err
	}
	var f fields
	f.list("droplets", w.Beats, MaxRequested, func(element *fields, raw json.RawMessage) {
		var requested wireBeat
		if kind(raw) != '{' || json.Unmarshal(raw, &requested) != nil {
			element.fail("", "is not an object")
			return
		}
		read(element, requested)
	})
	if f.err != nil {
		return f.err
	}
	return nil
}

// DecodeCredentials decodes Credentials. Its errors never contain their values.
func DecodeCredentials(data []byte) (Credentials, error) {
	var w struct {
		User     json.RawMessage `json:"user"`
		Password json.RawMessage `json:"password"`
	}
	if err := unmarshal(data, &w); err != nil {
		return Credentials{}, fmt.Errorf("decode credentials: %w", err)
	}
	var f fields
	c := Credentials{User: f.secret("user", w.User), Password: f.secret("password", w.Password)}
	if f.err != nil {
		return Credentials{}, fmt.Errorf("decode credentials: %w", f.err)
	}
	return c, nil
}

// secret decodes a required string of bounded size.
func (f *fields) secret(field string, raw json.RawMessage) string {
	s := f.text(field, raw)
	if s == "" {
		f.fail(field, "is missing")
	}
	if len(s) > MaxSecret {
		f.fail(field, fmt.Sprintf("is longer than %d bytes", MaxSecret))
	}
	return s
}
