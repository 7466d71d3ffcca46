package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// ErrLaterSchema means that a later version of weir wrote the state.
var ErrLaterSchema = errors.New("a later version of weir wrote it")

// Decode reads a saved state of this version or of version 1.
func Decode(data []byte) (Saved, error) {
	var of struct {
		Schema int    `json:"schema"`
		Weir   string `json:"weir"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return Saved{}, err
	}
	switch {
	case of.Schema > resolve.Schema:
		return Saved{}, fmt.Errorf("%w: it has schema %d, this version reads schema %d and earlier: run weir %s or later; nothing was changed",
			ErrLaterSchema, of.Schema, resolve.Schema, cmp.Or(decide.OneLine(of.Weir), "of the version that wrote it"))
	case of.Schema == resolve.Schema:
		var m Saved
		err := json.Unmarshal(data, &m)
		return m, err
	}
	return decodeFirst(data)
}

// firstCounts holds the counts of version 1 beside the targets of the groups.
type firstCounts struct {
	Offset  float64        `json:"offset"`
	Owed    float64        `json:"owed"`
	Spare   float64        `json:"spare"` // not in an intent
	Rolling map[string]int `json:"rolling"`
}

// decodeFirst reads the saved state of version 1. That version stored only additions to the targets
// of the groups. The first reading of the groups adds their shares. For an interrupted tick the
// larger result counts.
func decodeFirst(data []byte) (Saved, error) {
	var first struct {
		State struct {
			firstCounts
			AskedAt map[string]time.Time `json:"asked_at"`
		} `json:"state"`
		Intent *struct {
			Before *firstCounts `json:"before"`
		} `json:"intent"`
	}
	var m Saved
	if err := errors.Join(json.Unmarshal(data, &first), json.Unmarshal(data, &m)); err != nil {
		return Saved{}, err
	}
	counts := first.State.firstCounts
	if first.Intent != nil && first.Intent.Before != nil {
		counts.Owed = max(counts.Owed, first.Intent.Before.Owed)
		counts.Offset = min(counts.Offset, first.Intent.Before.Offset)
	}
	m.Schema, m.State.Offset = resolve.Schema, counts.Offset
	m.State.Wanted = new(max(0, counts.Owed) - max(0, counts.Spare) - counts.Offset)
	m.State.Groups = map[string]resolve.GroupState{}
	for group, surge := range counts.Rolling {
		m.State.Groups[group] = resolve.GroupState{Surge: surge}
	}
	for group, at := range first.State.AskedAt {
		of := m.State.Groups[group]
		of.At = at
		m.State.Groups[group] = of
	}
	return m, nil
}
