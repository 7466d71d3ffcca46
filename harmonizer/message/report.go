package message

import (
	"encoding/json"
	"fmt"
)

// StatusQuery asks on SubjectStatus for the indices of a version that flap, or
// for the copies that crashed.
type StatusQuery struct {
	App     string `json:"droplet"`
	State   string `json:"state"`             // "FLAPPING" or "CRASHED"; others are not answered
	Version string `json:"version,omitempty"` // of FLAPPING
}

// StatusAnswer answers a StatusQuery. The list that was asked for is there even
// if it is empty, the other one is nil.
type StatusAnswer struct {
	Indices   []IndexSince    `json:"indices,omitzero"`   // of FLAPPING
	Instances []InstanceSince `json:"instances,omitzero"` // of CRASHED, all versions
	Complete  bool            `json:"complete"`           // both states are whole
	Error     string          `json:"error,omitempty"`    // why there is nothing
}

// IndexSince is an index, and since when it is as it is.
type IndexSince struct {
	Index int     `json:"index"`
	Since float64 `json:"since"` // unix seconds
}

// InstanceSince is a copy, and when it crashed.
type InstanceSince struct {
	Instance string  `json:"instance"`
	Since    float64 `json:"since"` // unix seconds
}

// HealthQuery asks on SubjectHealth how many indices of each app's version run.
type HealthQuery struct {
	Apps []AppVersion `json:"droplets"`
}

// AppVersion is a version of an app.
type AppVersion struct {
	App     string `json:"droplet"`
	Version string `json:"version"`
}

// HealthAnswer answers a HealthQuery, one message for each app.
type HealthAnswer struct {
	App      string `json:"droplet"`
	Version  string `json:"version"`
	Healthy  int    `json:"healthy"`         // desired indices of that version in state RUNNING
	Complete bool   `json:"complete"`        // both states are whole
	Error    string `json:"error,omitempty"` // why healthy says nothing
}

// DropletQuery asks on SubjectDroplet for all that is known of apps.
type DropletQuery struct {
	Apps []string // on the wire: "droplets", a list of objects with a "droplet"
}

// Credentials are the basic authentication of the bulk API.
type Credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// MaxAsked is how many apps one query may name.
const MaxAsked = 10_000

// DecodeStatusQuery reads a StatusQuery.
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

// DecodeHealthQuery reads a HealthQuery.
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

// DecodeDropletQuery reads a DropletQuery.
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
	var w wireHeartbeat
	if err := unmarshal(data, &w); err != nil {
		return err
	}
	var f fields
	f.list("droplets", w.Beats, MaxAsked, func(element *fields, raw json.RawMessage) {
		var asked wireBeat
		if kind(raw) != '{' || json.Unmarshal(raw, &asked) != nil {
			element.fail("", "is not an object")
			return
		}
		read(element, asked)
	})
	if f.err != nil {
		return f.err
	}
	return nil
}

// DecodeCredentials reads Credentials. No error of it tells what they are.
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

// secret reads a string of bounded size; it must be there.
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
