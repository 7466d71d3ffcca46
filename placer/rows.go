package placer

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

const maxApps = 100_000 // rows in memory, and apps without a row

// expectation is whether a copy is expected to run, as far as the row of its app is known.
type expectation int

const (
	unknown  expectation = iota // the row was never received, or was never readable: the copy may be wanted
	unwanted                    // by the row, or the app was deleted
	wanted
)

// rows is the expected state of a pool, and the last node of each copy.
type rows struct {
	pool     string
	revision uint64 // grows with each change of a row
	apps     map[string]api.App
	gone     map[string]bool           // apps that were deleted, or are of another pool
	unread   map[string]string         // why the latest row of an app cannot be read
	ran      map[string]map[int]string // app -> index -> node
}

func newRows(pool string) rows {
	return rows{pool: pool, apps: map[string]api.App{}, gone: map[string]bool{}, unread: map[string]string{}, ran: map[string]map[int]string{}}
}

// unreadable records that the latest row of an app cannot be read. An earlier row remains; without one, the app is unknown.
func (r *rows) unreadable(name, why string) {
	if r.gone[name] || r.unread[name] != why {
		r.revision++
	}
	delete(r.gone, name)
	if _, known := r.unread[name]; known || len(r.unread) < maxApps {
		r.unread[name] = why
	}
}

// setRow stores a row. The row of another pool removes the app. It reports whether nodes were forgotten.
func (r *rows) setRow(row api.App) (changed bool) {
	if row.Pool != r.pool {
		return r.remove(row.Name)
	}
	if _, known := r.apps[row.Name]; !known && len(r.apps) >= maxApps {
		r.unreadable(row.Name, fmt.Sprintf("the pool has more than %d applications", maxApps))
		return false
	}
	delete(r.gone, row.Name)
	delete(r.unread, row.Name)
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

// remove removes an app that was deleted or is of another pool, and reports whether nodes were forgotten.
func (r *rows) remove(name string) bool {
	known := len(r.ran[name]) > 0
	if !r.gone[name] {
		r.revision++
	}
	delete(r.apps, name)
	delete(r.unread, name)
	delete(r.ran, name)
	if len(r.gone) < maxApps { // of further ones, copies stay until they are placed again
		r.gone[name] = true
	}
	return known
}

func (r *rows) desired(s slot) bool {
	live, expect := r.current(s)
	return expect == wanted && live == s
}

// current returns the slot of the same index in the row's version, and whether a copy is wanted there: the app has the index, and
// is not stopped. If the app is unknown, the slot has no meaning.
func (r *rows) current(s slot) (slot, expectation) {
	row, known := r.apps[s.app]
	live := slot{s.app, row.Version, s.index}
	switch {
	case !known && !r.gone[s.app]:
		return live, unknown
	case !known || s.index >= row.Instances || row.State == api.AppStopped:
		return live, unwanted
	}
	return live, wanted
}

// whyUnknown returns why the row of an app is unknown.
func (r *rows) whyUnknown(app string) string {
	why := r.unread[app]
	if why == "" {
		why = "it was not received"
	}
	return fmt.Sprintf("the row of %s is unknown: %s: set the application again, or delete it", app, why)
}

// startable reports whether a copy may be started in that slot: its index is desired, its version is the row's or an earlier one,
// its package is staged, and the version has a command.
func (r *rows) startable(s slot) bool {
	row := r.apps[s.app]
	staged := row.Package == "" || row.Package == api.PackageStaged
	_, expect := r.current(s)
	v, known := row.Find(s.version)
	return expect == wanted && known && staged && v.Command != ""
}

// footprint returns the resources of a copy in that slot.
func (r *rows) footprint(s slot) resource.Vector {
	row := r.apps[s.app]
	if v, known := row.Find(s.version); known {
		return v.Footprint()
	}
	return row.Footprint()
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
