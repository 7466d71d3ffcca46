package api

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// App is the expected state of one application: a row of a source. In the key-value bucket
// AppsBucket, the key is its name.
type App struct {
	Name      string    `json:"name"`
	Pool      string    `json:"pool"`
	Instances int       `json:"instances"`
	Version   string    `json:"version"`           // changes with the command and the resources, not with Instances
	Command   string    `json:"command"`           // for /bin/sh -c; empty in rows of a bulk API
	Release   string    `json:"release,omitempty"` // NAMESPACE/NAME@VERSION of the files for the command; empty: none
	CPUs      float64   `json:"cpus"`              // of one copy
	Mem       float64   `json:"mem"`               // MB, of one copy
	Disk      float64   `json:"disk"`              // MB, of one copy
	GPUs      float64   `json:"gpus"`
	Updated   time.Time `json:"updated"`

	Ready  *Readiness        `json:"ready,omitempty"`  // nil: see [DefaultReadyAfter]
	Env    map[string]string `json:"env,omitempty"`    // of the command, besides the variables of the agent
	Ports  []Port            `json:"ports,omitempty"`  // that an instance needs on its machine; the first one is PORT
	Update *Update           `json:"update,omitempty"` // nil: its defaults
	Spread *Spread           `json:"spread,omitempty"` // nil: its defaults
	// OneShot is work that ends: an instance that exits with 0 is done, and is not started again in this version.
	OneShot bool `json:"one_shot,omitempty"`
	// Retries is how often an instance of a OneShot application is started again after another exit. Then it has failed. Default 3.
	Retries *int `json:"retries,omitempty"`
	// Restarted makes a version of its own, so that all instances are replaced.
	Restarted time.Time         `json:"restarted,omitzero"`
	History   []AppVersion      `json:"history,omitempty"` // earlier versions, the latest first
	State     AppState          `json:"state,omitempty"`
	Package   PackageState      `json:"package_state,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // framework, runtime, ...
}

// Equal reports whether two rows are equal, with defaults filled in.
func (a App) Equal(b App) bool {
	return a.Name == b.Name && a.Pool == b.Pool && a.Instances == b.Instances && a.Version == b.Version &&
		a.Command == b.Command && a.Release == b.Release && a.Footprint() == b.Footprint() && a.Updated.Equal(b.Updated) &&
		cmp.Or(a.State, AppStarted) == cmp.Or(b.State, AppStarted) &&
		cmp.Or(a.Package, PackageStaged) == cmp.Or(b.Package, PackageStaged) && maps.Equal(a.Labels, b.Labels) &&
		a.Ready.equal(b.Ready) && same(a.Update, b.Update) && maps.Equal(a.Env, b.Env) && slices.Equal(a.Ports, b.Ports) && same(a.Spread, b.Spread) && a.OneShot == b.OneShot && same(a.Retries, b.Retries) && a.Restarted.Equal(b.Restarted) &&
		slices.EqualFunc(a.History, b.History, func(x, y AppVersion) bool { return x.Version == y.Version })
}

// defaultRetries is that of App.Retries.
const defaultRetries = 3

// MostRetries returns Retries, or its default.
func (a App) MostRetries() int {
	if a.Retries == nil {
		return defaultRetries
	}
	return *a.Retries
}

// Footprint returns the resources of one copy of the app.
func (a App) Footprint() resource.Vector {
	return resource.Vector{a.CPUs, a.Mem, a.Disk, a.GPUs}
}
