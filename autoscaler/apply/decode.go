package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// ErrLaterSchema means that a later version of weir wrote the state.
var ErrLaterSchema = errors.New("a later version of weir wrote it")

// decodeSaved reads a saved state. It returns ErrLaterSchema before it reads any other key of a later schema.
func decodeSaved(data []byte) (m Saved, err error) {
	var of struct {
		Schema int    `json:"schema"`
		Weir   string `json:"weir"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return Saved{}, err
	}
	if of.Schema > resolve.Schema {
		return Saved{}, fmt.Errorf("%w: it has schema %d, this version reads schema %d: run weir %s or later; nothing was changed",
			ErrLaterSchema, of.Schema, resolve.Schema, cmp.Or(decide.OneLine(of.Weir), "of the version that wrote it"))
	}
	err = json.Unmarshal(data, &m)
	return m, err
}
