package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// errUnreadable means that the saved state cannot be decoded, or is invalid.
var errUnreadable = errors.New("the saved state cannot be read")

// ErrLaterSchema means that a later version of weir wrote the state.
var ErrLaterSchema = errors.New("a later version of weir wrote it")

// Encoded is a Memory that stores the state as JSON.
type Encoded struct {
	// Bytes stores the data of a Memory. If no data was saved, ok is false.
	Bytes interface {
		Load(ctx context.Context) (data []byte, ok bool, err error)
		Save(ctx context.Context, data []byte) error
	}
}

// Load implements Memory.
func (e Encoded) Load(ctx context.Context) (s Saved, ok bool, err error) {
	data, ok, err := e.Bytes.Load(ctx)
	if err != nil || !ok {
		return Saved{}, false, err
	}
	s, err = decodeSaved(data)
	return s, err == nil, err
}

// Save implements Memory.
func (e Encoded) Save(ctx context.Context, s Saved) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return e.Bytes.Save(ctx, data)
}

// decodeSaved reads a saved state. It returns ErrLaterSchema before it reads any other key of a later schema.
func decodeSaved(data []byte) (m Saved, err error) {
	var of struct {
		Schema int    `json:"schema"`
		Weir   string `json:"weir"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return Saved{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if of.Schema > resolve.Schema {
		return Saved{}, fmt.Errorf("%w: it has schema %d, this version reads schema %d: run weir %s or later; nothing was changed",
			ErrLaterSchema, of.Schema, resolve.Schema, cmp.Or(decide.OneLine(of.Weir), "of the version that wrote it"))
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Saved{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return m, nil
}
