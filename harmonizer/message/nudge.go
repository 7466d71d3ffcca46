package message

import (
	"encoding/json"
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
)

type wireNudge struct {
	App         json.RawMessage `json:"droplet"`
	LastUpdated json.RawMessage `json:"last_updated"`
	Version     json.RawMessage `json:"version"`
	Indices     json.RawMessage `json:"indices"`
	Instances   json.RawMessage `json:"instances"`
	Running     json.RawMessage `json:"running"`
	Flapping    json.RawMessage `json:"flapping"`
}

// DecodeNudge decodes a Start from SubjectStart, or a Stop from SubjectStop.
func DecodeNudge(subject string, data []byte) (*api.Start, *api.Stop, error) {
	switch subject {
	case SubjectStart:
		s, err := DecodeStart(data)
		return orNil(s, err), nil, err
	case SubjectStop:
		s, err := DecodeStop(data)
		return nil, orNil(s, err), err
	}
	return nil, nil, fmt.Errorf("decode nudge: subject %.100q is unknown", subject)
}

func orNil[T any](v T, err error) *T {
	if err != nil {
		return nil
	}
	return &v
}

// DecodeStart decodes a Start of either dialect.
func DecodeStart(data []byte) (api.Start, error) {
	var w wireNudge
	if err := Unmarshal(data, &w); err != nil {
		return api.Start{}, fmt.Errorf("decode start: %w", err)
	}
	var f Fields
	s := api.Start{
		App:         f.ID("droplet", w.App),
		LastUpdated: int64(f.seconds("last_updated", w.LastUpdated)),
		Version:     f.OptionalID("version", w.Version),
		Running:     f.running(w.Running),
		Flapping:    f.flag("flapping", w.Flapping),
	}
	f.List("indices", w.Indices, MaxInstances, func(element *Fields, raw json.RawMessage) {
		s.Indices = append(s.Indices, element.index("", raw))
	})
	if f.Err != nil {
		return api.Start{}, fmt.Errorf("decode start: %w", f.Err)
	}
	return s, nil
}

// DecodeStop decodes a Stop of either dialect. instances is an object (instance -> version),
// or a list of instances whose versions stay empty.
func DecodeStop(data []byte) (api.Stop, error) {
	var w wireNudge
	if err := Unmarshal(data, &w); err != nil {
		return api.Stop{}, fmt.Errorf("decode stop: %w", err)
	}
	var f Fields
	s := api.Stop{
		App:         f.ID("droplet", w.App),
		LastUpdated: int64(f.seconds("last_updated", w.LastUpdated)),
		Version:     f.OptionalID("version", w.Version),
		Running:     f.running(w.Running),
		Instances:   f.instances(w.Instances),
	}
	if f.Err != nil {
		return api.Stop{}, fmt.Errorf("decode stop: %w", f.Err)
	}
	return s, nil
}

func (f *Fields) running(raw json.RawMessage) map[string]int {
	out := map[string]int{}
	f.object("running", raw, func(element *Fields, version string, n json.RawMessage) {
		out[version] = element.count("", n)
	})
	return out
}

func (f *Fields) instances(raw json.RawMessage) map[string]string {
	out := map[string]string{}
	if kind(raw) == '[' {
		f.List("instances", raw, MaxInstances, func(element *Fields, id json.RawMessage) {
			if kind(id) != 0 { // the classic health manager may send null for an unknown instance
				out[element.ID("", id)] = ""
			}
		})
		return out
	}
	f.object("instances", raw, func(element *Fields, id string, version json.RawMessage) {
		out[id] = element.OptionalID("", version)
	})
	return out
}
