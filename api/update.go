package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// MaxHistory bounds App.History.
const MaxHistory = 10

// AppVersion is what makes up a version of an application.
type AppVersion struct {
	Version string            `json:"version"`
	Command string            `json:"command"`
	Release string            `json:"release,omitempty"`
	CPUs    float64           `json:"cpus"`
	Mem     float64           `json:"mem"`  // MB
	Disk    float64           `json:"disk"` // MB
	GPUs    float64           `json:"gpus"`
	Ready   *Readiness        `json:"ready,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Ports   []Port            `json:"ports,omitempty"`
	// Restarted makes a version of its own, so that all instances are replaced.
	Restarted time.Time `json:"restarted,omitzero"`
	At        time.Time `json:"at,omitzero"` // when it was set
}

// Footprint returns the resources of one instance of the version.
func (v AppVersion) Footprint() resource.Vector {
	return resource.Vector{v.CPUs, v.Mem, v.Disk, v.GPUs}
}

// Live returns the version of the row.
func (a App) Live() AppVersion {
	return AppVersion{
		Version: a.Version, Command: a.Command, Release: a.Release, CPUs: a.CPUs, Mem: a.Mem, Disk: a.Disk, GPUs: a.GPUs,
		Ready: a.Ready, Env: a.Env, Ports: a.Ports, Restarted: a.Restarted, At: a.Updated,
	}
}

// Find returns the version with that name: the live one, or one of the history.
func (a App) Find(version string) (AppVersion, bool) {
	if version == a.Version {
		return a.Live(), true
	}
	for _, v := range a.History {
		if v.Version == version {
			return v, true
		}
	}
	return AppVersion{}, false
}

// WithVersion returns the row with v as its live version. The live version before it becomes the first of the history, which
// has each version once, and at most MaxHistory.
func (a App) WithVersion(v AppVersion) App {
	history := []AppVersion{}
	if a.Version != "" && a.Version != v.Version {
		history = append(history, a.Live())
	}
	for _, old := range a.History {
		if old.Version != v.Version && old.Version != a.Version && len(history) < MaxHistory {
			history = append(history, old)
		}
	}
	a.History = history
	a.Version, a.Command, a.Release, a.CPUs, a.Mem, a.Disk, a.GPUs = v.Version, v.Command, v.Release, v.CPUs, v.Mem, v.Disk, v.GPUs
	a.Ready, a.Env, a.Ports, a.Restarted = v.Ready, v.Env, v.Ports, v.Restarted
	return a
}

// Update is how a new version replaces the earlier one.
type Update struct {
	// MaxSurge is how many indices may have an instance of both versions. Default 25%, at least 1.
	MaxSurge Share `json:"max_surge,omitzero"`
	// StopAfter is after how many crashes of the new version the update halts. Default 1.
	StopAfter int `json:"stop_after,omitempty"`
}

// Defaults of an Update.
const (
	defaultSurge     = 25 // percent
	defaultStopAfter = 1
)

// Surge returns how many of n indices may have an instance of both versions. u may be nil.
func (u *Update) Surge(n int) int {
	share := Share{Percent: defaultSurge}
	if u != nil && u.MaxSurge != (Share{}) {
		share = u.MaxSurge
	}
	return share.Of(n)
}

// Crashes returns after how many crashes the update halts. u may be nil.
func (u *Update) Crashes() int {
	if u == nil {
		return defaultStopAfter
	}
	return cmp.Or(u.StopAfter, defaultStopAfter)
}

// Share is a number, or a percentage of one. Its text is "3" or "25%"; in JSON it may be a number too.
type Share struct {
	Count   int
	Percent float64
}

// Of returns the share of n, rounded down, and at least 1.
func (s Share) Of(n int) int { return max(1, s.Count+int(s.Percent*float64(n)/100)) }

// ParseShare returns the share with that text.
func ParseShare(text string) (Share, error) {
	percent, is := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(strings.TrimSpace(percent))
	switch {
	case err != nil || n < 1 || is && n > 100:
		return Share{}, fmt.Errorf("%.40q: want a number from 1, or a percentage to 100%%", text)
	case is:
		return Share{Percent: float64(n)}, nil
	}
	return Share{Count: n}, nil
}

func (s Share) String() string {
	if s.Percent > 0 {
		return strconv.FormatFloat(s.Percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(s.Count)
}

// MarshalText implements encoding.TextMarshaler.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Share) UnmarshalJSON(data []byte) (err error) {
	var text string
	if string(data) == "null" {
		return nil
	}
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	*s, err = ParseShare(text)
	return err
}

// AppUpdate is an update of an application that is not complete.
type AppUpdate struct {
	From   string        `json:"from,omitempty"` // the last complete version
	To     string        `json:"to"`             // the version of the row
	Ready  int           `json:"ready"`          // indices that had a ready instance of To
	Halted *HaltedUpdate `json:"halted,omitempty"`
}

// HaltedUpdate is an update that was halted. The last complete version serves, until the row has another version.
type HaltedUpdate struct {
	Version string    `json:"version"` // that was halted
	Serves  string    `json:"serves"`  // the last complete version
	Why     string    `json:"why"`     // for people
	At      time.Time `json:"at"`
}

// HaltedApp is an application whose update is halted.
type HaltedApp struct {
	App  string `json:"app"`
	Pool string `json:"pool,omitempty"`
	HaltedUpdate
}

// String returns a sentence for operators, with what to do.
func (h HaltedUpdate) String(app string) string {
	return fmt.Sprintf("version %s of %s halted: %s; %s serves; \"weir app rollback %s\", or set a new version", h.Version, app, h.Why, h.Serves, app)
}
