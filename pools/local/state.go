package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

const (
	stateFile = "groups.json"
	maxState  = 64 << 20 // bytes
)

// kept is the durable state of an owner. Bounds are not part of it, because they are configuration.
type kept struct {
	// RepairReleased: machines that die are not replaced, and outlive the owner.
	RepairReleased bool                  `json:"repair_released,omitempty"`
	Groups         map[string]savedGroup `json:"groups"`
}

type savedGroup struct {
	Target   *int           `json:"target,omitempty"`
	Known    []string       `json:"known"` // ids, the newest last
	Machines []savedMachine `json:"machines,omitempty"`
}

type savedMachine struct {
	ID       string    `json:"id"`
	Launched time.Time `json:"launched"`
	Down     bool      `json:"down,omitempty"`
	Why      string    `json:"why,omitempty"` // of Down
	Fenced   bool      `json:"fenced,omitempty"`
	Attempt  attempt   `json:"attempt,omitzero"`
}

// validate returns an error for a state that this package cannot have written. Ids are used as
// folder names.
func (k kept) validate() error {
	for name, g := range k.Groups {
		for _, m := range g.Machines {
			if err := names.CheckToken("machine", m.ID); err != nil {
				return fmt.Errorf("group %q: %w", name, err)
			}
		}
	}
	return nil
}

// load reads the state in dir. Without a file it returns an empty state.
func load(dir string) (kept, error) {
	path := filepath.Join(dir, stateFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	}
	if err == nil && info.Size() > maxState {
		err = fmt.Errorf("%d bytes: the limit is %d", info.Size(), maxState)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil {
		err = k.validate()
	}
	if err != nil {
		return kept{}, fmt.Errorf("read the groups' state %s: %w; restore the file, or move it away: then each group begins with its minimum, and its machines are new", path, err)
	}
	return k, nil
}

// save writes the state to dir atomically.
func save(dir string, k kept) error {
	path := filepath.Join(dir, stateFile)
	data, err := json.Marshal(k)
	if err == nil {
		err = wholefile.Write(path, data)
	}
	if err != nil {
		return fmt.Errorf("write the groups' state %s: %w", path, err)
	}
	return nil
}
