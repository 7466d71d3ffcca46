package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// Limits of the decoders.
const (
	maxBytes     = 8 << 20 // of one message
	MaxBeats     = 1 << 16 // app instances in one heartbeat; entries of any list or object
	MaxID        = 256     // bytes of an id, version, state or reason
	MaxInstances = 100_000 // of one app; each index is below it
	maxLabels    = 16      // of one app
	MaxLabel     = 128     // bytes of a label's value
)

// FieldError is the error of the decoders for an invalid field, such as "droplets[3].index".
type FieldError = strictjson.FieldError

// UnreadError is the error of a heartbeat with objects that are not readable. The result has the others.
type UnreadError struct {
	First   *FieldError // problem of the first of them
	Objects int         // number of them
}

func (e *UnreadError) Error() string {
	text := fmt.Sprintf("decode heartbeat: %v", e.First)
	if e.Objects > 1 {
		text += fmt.Sprintf("; %d more objects are not readable", e.Objects-1)
	}
	return text
}

// Unwrap returns the first problem.
func (e *UnreadError) Unwrap() error { return e.First }

type wireBeat struct {
	Partition json.RawMessage `json:"cc_partition"`
	App       json.RawMessage `json:"droplet"`
	Version   json.RawMessage `json:"version"`
	Instance  json.RawMessage `json:"instance"`
	Index     json.RawMessage `json:"index"`
	State     json.RawMessage `json:"state"`
	Since     json.RawMessage `json:"state_timestamp"`
}

// DecodeHeartbeat decodes the Heartbeat of an agent. If beats are invalid, it returns the others, and the error is an
// *UnreadError: then the list is partial. An unknown state is kept.
func DecodeHeartbeat(data []byte) (api.Heartbeat, error) {
	d := decoder{scanner: scanner{data: data}, agent: true}
	r, err := d.heartbeat(nil)
	if _, part := errors.AsType[*UnreadError](err); err != nil && !part {
		return api.Heartbeat{}, err
	}
	hb := api.Heartbeat{Node: string(r.Node), Beats: slices.Grow([]api.Beat(nil), len(r.Listings))}
	for _, l := range r.Listings {
		hb.Beats = append(hb.Beats, api.Beat{
			Partition: string(l.Partition), App: string(l.App.Raw), Version: string(l.Version.Raw), Instance: string(l.Instance.Raw),
			Index: int(l.Index), State: api.CopyState(l.State), Since: l.Since, Unready: l.Unready,
		})
	}
	return hb, err
}

type wireExited struct {
	wireBeat
	Reason      json.RawMessage `json:"reason"`
	Status      json.RawMessage `json:"exit_status"`
	Description json.RawMessage `json:"exit_description"`
	CrashedAt   json.RawMessage `json:"crash_timestamp"`
	Repeated    json.RawMessage `json:"repeated"`
}

// DecodeExited decodes the Exited of a node. An empty node is the legacy subject, where ids may be whole numbers and a
// version may be missing. An unknown reason is kept.
func DecodeExited(from Node, data []byte) (api.Exited, error) {
	var w wireExited
	if err := Unmarshal(data, &w); err != nil {
		return api.Exited{}, fmt.Errorf("decode exit: %w", err)
	}
	f := Fields{agent: from.Name != ""}
	e := api.Exited{
		Partition:   f.Text("cc_partition", w.Partition),
		App:         f.ID("droplet", w.App),
		Version:     string(f.version("version", w.Version)),
		Instance:    f.ID("instance", w.Instance),
		Index:       f.index("index", w.Index),
		Reason:      api.ExitReason(f.ID("reason", w.Reason)),
		Status:      f.status("exit_status", w.Status),
		Description: f.Text("exit_description", w.Description),
		CrashedAt:   int64(f.seconds("crash_timestamp", w.CrashedAt)),
		Repeated:    f.flag("repeated", w.Repeated),
	}
	if f.Err != nil {
		return api.Exited{}, fmt.Errorf("decode exit: %w", f.Err)
	}
	return e, nil
}

// DecodeUpdated decodes an Updated.
func DecodeUpdated(data []byte) (Updated, error) {
	var w wireBeat
	if err := Unmarshal(data, &w); err != nil {
		return Updated{}, fmt.Errorf("decode update: %w", err)
	}
	var f Fields
	u := Updated{Partition: f.Text("cc_partition", w.Partition), App: f.ID("droplet", w.App)}
	if f.Err != nil {
		return Updated{}, fmt.Errorf("decode update: %w", f.Err)
	}
	return u, nil
}
