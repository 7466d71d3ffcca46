package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// row is a row of the expected state in a file of the Recorder. It has the fields of the bulk
// API and of all other sources. Unknown keys are ignored, as on the bus.
type row struct {
	Instances *int              `json:"instances"`
	State     *api.AppState     `json:"state"`
	Version   *version          `json:"version"`
	Package   *api.PackageState `json:"package_state"`
	UpdatedAt *instant          `json:"updated_at"`
	Memory    float64           `json:"memory"` // MB

	Pool    string            `json:"pool,omitempty"`
	Command string            `json:"command,omitempty"`
	CPUs    float64           `json:"cpus,omitempty"`
	Disk    float64           `json:"disk,omitempty"` // MB
	GPUs    float64           `json:"gpus,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	Ready   *api.Readiness   `json:"ready,omitempty"`
	Ports   []api.Port       `json:"ports,omitempty"` // a check may name one of them
	Update  *api.Update      `json:"update,omitempty"`
	History []api.AppVersion `json:"history,omitempty"`
	OneShot bool             `json:"one_shot,omitempty"`
	Retries *int             `json:"retries,omitempty"`
}

// app decodes a row. pool is the default pool.
func (r rawRow) app(pool string) (api.App, error) {
	var w row
	if err := json.Unmarshal(r.data, &w); err != nil {
		return api.App{}, fmt.Errorf("read row: %w", err)
	}
	if w.Instances == nil || w.State == nil || w.Package == nil || w.Version == nil || w.UpdatedAt == nil {
		return api.App{}, errors.New("read row: instances, state, version, package_state or updated_at is missing")
	}
	a := api.App{
		Name: r.name, Pool: cmp.Or(w.Pool, pool), Instances: *w.Instances, Version: string(*w.Version), Command: w.Command,
		CPUs: w.CPUs, Mem: w.Memory, Disk: w.Disk, GPUs: w.GPUs, Updated: time.Time(*w.UpdatedAt),
		State: *w.State, Package: *w.Package, Labels: w.Labels,
		Ready: w.Ready, Ports: w.Ports, Update: w.Update, History: w.History, OneShot: w.OneShot, Retries: w.Retries,
	}
	if err := message.ValidateApp(a); err != nil {
		return api.App{}, fmt.Errorf("read row: %w", err)
	}
	return a, nil
}

// rowOf is the inverse of app.
func rowOf(a api.App) row {
	state, pack := cmp.Or(a.State, api.AppStarted), cmp.Or(a.Package, api.PackageStaged)
	return row{
		Instances: &a.Instances, State: &state, Package: &pack,
		Version: new(version(a.Version)), UpdatedAt: new(instant(a.Updated)),
		Memory: a.Mem, Pool: a.Pool, Command: a.Command, CPUs: a.CPUs, Disk: a.Disk, GPUs: a.GPUs, Labels: a.Labels,
		Ready: a.Ready, Ports: a.Ports, Update: a.Update, History: a.History, OneShot: a.OneShot, Retries: a.Retries,
	}
}

// version is a string or a whole number.
type version string

// UnmarshalJSON implements json.Unmarshaler.
func (v *version) UnmarshalJSON(data []byte) error {
	if _, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		*v = version(data)
		return nil
	}
	s, err := text("version", data)
	*v = version(s)
	return err
}

// instant is a time in one of the forms that cloud controllers used: "2012-11-16 00:00:00
// UTC", with an offset, RFC 3339, or unix seconds.
type instant time.Time

// MarshalJSON implements json.Marshaler.
func (i instant) MarshalJSON() ([]byte, error) { return time.Time(i).UTC().MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (i *instant) UnmarshalJSON(data []byte) error {
	if s, err := strconv.ParseFloat(string(data), 64); err == nil && s >= 0 && s < 1e11 {
		*i = instant(time.Unix(int64(s), 0).UTC())
		return nil
	}
	s, err := text("updated_at", data)
	if err != nil {
		return err
	}
	for _, layout := range []string{"2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 -0700", time.RFC3339} {
		if at, err := time.Parse(layout, s); err == nil {
			*i = instant(at.UTC())
			return nil
		}
	}
	return fmt.Errorf("updated_at is %.40q; it must be a time like 2012-11-16 00:00:00 UTC or RFC 3339", s)
}
