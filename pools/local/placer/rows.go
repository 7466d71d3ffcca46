package placer

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

const (
	maxApps = 100_000  // rows in memory
	maxRow  = 64 << 10 // bytes of one row, including its command
)

// rows is the expected state of a pool, and the last node of each copy.
type rows struct {
	pool string
	apps map[string]message.App
	ran  map[string]map[int]string // app -> index -> node
}

// set stores a row. The row of another pool removes the app.
func (r *rows) set(row message.App) {
	if row.Pool != r.pool || r.apps[row.Name].Name == "" && len(r.apps) >= maxApps {
		r.remove(row.Name)
		return
	}
	r.apps[row.Name] = row
	for index := range r.ran[row.Name] {
		if index >= row.Instances {
			delete(r.ran[row.Name], index)
		}
	}
}

func (r *rows) remove(name string) {
	delete(r.apps, name)
	delete(r.ran, name)
}

func (r *rows) desired(s slot) bool {
	live, ok := r.current(s)
	return ok && live == s
}

// current returns the slot of the same index in the row's version. It returns false if there is no
// such app or index, or if the app is stopped.
func (r *rows) current(s slot) (slot, bool) {
	row, ok := r.apps[s.app]
	return slot{s.app, row.Version, s.index}, ok && s.index < row.Instances && row.State != message.AppStopped
}

// startable reports whether a copy may be started in that slot: it is desired, its package is
// staged, and the row has a command.
func (r *rows) startable(s slot) bool {
	row := r.apps[s.app]
	staged := row.Package == "" || row.Package == message.PackageStaged
	return r.desired(s) && staged && row.Command != ""
}

func (r *rows) remember(s slot, node string) {
	if !r.desired(s) {
		return
	}
	if r.ran[s.app] == nil {
		r.ran[s.app] = map[int]string{}
	}
	r.ran[s.app][s.index] = node
}

func decodeApp(key string, data []byte) (message.App, error) {
	if len(data) > maxRow {
		return message.App{}, fmt.Errorf("row of app %q has %d bytes: at most %d are allowed", key, len(data), maxRow)
	}
	a, err := message.DecodeApp(data)
	if err != nil {
		return message.App{}, fmt.Errorf("row of app %q: %w", key, err)
	}
	if a.Name != key {
		return message.App{}, fmt.Errorf("row of app %q names itself %q", key, a.Name)
	}
	return a, nil
}
