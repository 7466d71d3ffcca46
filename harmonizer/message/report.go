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

// wireQuery is a StatusQuery, or an element of the other queries.
type wireQuery struct {
	App     json.RawMessage `json:"droplet"`
	State   json.RawMessage `json:"state"`
	Version json.RawMessage `json:"version"`
}

// DecodeStatusQuery decodes a StatusQuery.
func DecodeStatusQuery(data []byte) (StatusQuery, error) {
	var w wireQuery
	if err := Unmarshal(data, &w); err != nil {
		return StatusQuery{}, fmt.Errorf("decode status query: %w", err)
	}
	var f Fields
	q := StatusQuery{App: f.ID("droplet", w.App), State: f.ID("state", w.State), Version: f.OptionalID("version", w.Version)}
	if f.Err != nil {
		return StatusQuery{}, fmt.Errorf("decode status query: %w", f.Err)
	}
	return q, nil
}

// DecodeHealthQuery decodes a HealthQuery.
func DecodeHealthQuery(data []byte) (HealthQuery, error) {
	var q HealthQuery
	err := decodeDroplets(data, func(f *Fields, w wireQuery) {
		q.Apps = append(q.Apps, AppVersion{App: f.ID("droplet", w.App), Version: f.OptionalID("version", w.Version)})
	})
	if err != nil {
		return HealthQuery{}, fmt.Errorf("decode health query: %w", err)
	}
	return q, nil
}

// DecodeDropletQuery decodes a DropletQuery.
func DecodeDropletQuery(data []byte) (DropletQuery, error) {
	var q DropletQuery
	err := decodeDroplets(data, func(f *Fields, w wireQuery) {
		q.Apps = append(q.Apps, f.ID("droplet", w.App))
	})
	if err != nil {
		return DropletQuery{}, fmt.Errorf("decode droplet query: %w", err)
	}
	return q, nil
}

func decodeDroplets(data []byte, read func(*Fields, wireQuery)) error {
	var w struct {
		Apps json.RawMessage `json:"droplets"`
	}
	if err := Unmarshal(data, &w); err != nil {
		return err
	}
	var f Fields
	f.List("droplets", w.Apps, MaxRequested, func(element *Fields, raw json.RawMessage) {
		var requested wireQuery
		if Unmarshal(raw, &requested) != nil {
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

// DecodeCredentials decodes Credentials. Its errors never contain their values.
func DecodeCredentials(data []byte) (Credentials, error) {
	var w struct {
		User     json.RawMessage `json:"user"`
		Password json.RawMessage `json:"password"`
	}
	if err := Unmarshal(data, &w); err != nil {
		return Credentials{}, fmt.Errorf("decode credentials: %w", err)
	}
	var f Fields
	c := Credentials{User: secret(&f, "user", w.User), Password: secret(&f, "password", w.Password)}
	if f.Err != nil {
		return Credentials{}, fmt.Errorf("decode credentials: %w", f.Err)
	}
	return c, nil
}

// secret decodes a required string of bounded size.
func secret(f *Fields, field string, raw json.RawMessage) string {
	s := f.Text(field, raw)
	if s == "" {
		f.Fail(field, "is missing")
	}
	if len(s) > MaxSecret {
		f.Fail(field, fmt.Sprintf("is longer than %d bytes", MaxSecret))
	}
	return s
}
