package config

import (
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
)

// Telemetry is the block "telemetry" of weir.yaml: where the values of each tick are sent.
type Telemetry struct {
	RemoteWrite *prometheus.RemoteWrite `yaml:"remote_write"` // nil: nowhere
}

// below resolves the paths of the block relative to the folder of its file.
func (t Telemetry) below(file string) {
	if dir, err := filepath.Abs(filepath.Dir(file)); err == nil && t.RemoteWrite != nil { // an error: the working directory is gone
		t.RemoteWrite.Below(dir)
	}
}

func (t Telemetry) problems(d document) (ps Problems) {
	if t.RemoteWrite == nil {
		return nil
	}
	for _, p := range t.RemoteWrite.Check() {
		ps = append(ps, d.problem("telemetry.remote_write."+p.Key, p.What))
	}
	return ps
}
