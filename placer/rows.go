package placer

import (
	"github.com/weirkeeper/weirkeeper/api"
)

const maxApps = 100_000 // rows in memory

// rows is the expected state of a pool, and the last node of each copy.
type rows struct {
	pool     string
	revision uint64 // grows with each change of a row
	apps     map[string]api.App
	unknown  map[string]bool           // apps with a row that cannot be read, and without an earlier one
	ran      map[string]map[int]string // app -> index -> node
}

// setRow stores a row. The row of another pool removes the app. It reports whether nodes were forgotten.
func (r *rows) setRow(row api.App) (changed bool) {
	delete(r.unknown, row.Name)
	if row.Pool != r.pool || r.apps[row.Name].Name == "" && len(r.apps) >= maxApps {
		return r.remove(row.Name)
	}
	if old, ok := r.apps[row.Name]; !ok || !old.Equal(row) {
		r.revision++
	}
	r.apps[row.Name] = row
	for index := range r.ran[row.Name] {
		if index >= row.Instances {
			delete(r.ran[row.Name], index)
			changed = true
		}
	}
	return changed
}

// setUnreadable records that the row of an app cannot be read. The last row stays.
func (r *rows) setUnreadable(name string) {
	if _, known := r.apps[name]; !known && len(r.unknown) < maxApps {
		r.unknown[name] = true
		r.revision++
	}
}

// remove removes an app, and reports whether nodes were forgotten.
func (r *rows) remove(name string) bool {
	delete(r.unknown, name)
	known := len(r.ran[name]) > 0
	if _, ok := r.apps[name]; ok {
		r.revision++
	}
	delete(r.apps, name)
	delete(r.ran, name)
	return known
}

func (r *rows) desired(s slot) bool {
	live, ok := r.current(s)
	return ok && live == s
}

// current returns the slot of the same index in the row's version. It returns false if there is no
// such app or index, or if the app is stopped.
func (r *rows) current(s slot) (slot, bool) {
	row, ok := r.apps[s.app]
	return slot{s.app, row.Version, s.index}, ok && s.index < row.Instances && row.State != api.AppStopped
}

// unwanted reports whether no copy of that index should run. It is false for an app whose row is unknown.
func (r *rows) unwanted(s slot) bool {
	_, wanted := r.current(s)
	return !wanted && !r.unknown[s.app]
}

// startable reports whether a copy may be started in that slot: it is desired, its package is
// staged, and the row has a command.
func (r *rows) startable(s slot) bool {
	row := r.apps[s.app]
	staged := row.Package == "" || row.Package == api.PackageStaged
	return r.desired(s) && staged && row.Command != ""
}

// remember stores the node of a desired slot, and reports whether it is another one.
func (r *rows) remember(s slot, node string) bool {
	if !r.desired(s) || r.ran[s.app][s.index] == node {
		return false
	}
	if r.ran[s.app] == nil {
		r.ran[s.app] = map[int]string{}
	}
	r.ran[s.app][s.index] = node
	return true
}
