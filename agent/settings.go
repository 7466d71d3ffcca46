package agent

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Values of Settings.Metadata.
const (
	metadataEC2 = "ec2" // default
	MetadataOff = "off"
)

// Settings is the block "agent" of weir.yaml: what the machine is and offers, for which no flag is given. Each key may be
// missing.
type Settings struct {
	Cluster string `yaml:"cluster"`
	Pool    string `yaml:"pool"`
	Group   string `yaml:"group"`
	ID      string `yaml:"id"`
	Dir     string `yaml:"dir"` // absolute path of the machine's folder
	// Resources replaces the measured resources, and Reserve is what the machine keeps of that for itself.
	Resources Quantities `yaml:"resources"`
	Reserve   Quantities `yaml:"reserve"`
	// Metadata selects the service that has the missing values.
	Metadata         string `yaml:"metadata"`
	MetadataEndpoint string `yaml:"metadata_endpoint"` // empty: that of EC2
	PoolTag          string `yaml:"pool_tag"`          // key of the tag with cluster and pool
}

// Given reports whether weir.yaml has a key of the block.
func (s Settings) Given() bool { return s != Settings{} }

// Quantities has the kinds that are given.
type Quantities struct {
	CPUs *float64 `yaml:"cpus"`
	Mem  *float64 `yaml:"mem"`
	Disk *float64 `yaml:"disk"`
	GPUs *float64 `yaml:"gpus"`
}

// Of returns the quantity of a kind, nil if it is not given.
func (q Quantities) Of(k resource.Kind) *float64 {
	return [resource.Count]*float64{resource.CPUs: q.CPUs, resource.Mem: q.Mem, resource.Disk: q.Disk, resource.GPUs: q.GPUs}[k]
}

// Check returns all mistakes of the block. Keys are relative to it.
func (s Settings) Check() (ps strictyaml.Problems) {
	at := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	for _, one := range []struct{ key, value string }{{"cluster", s.Cluster}, {"pool", s.Pool}, {"group", s.Group}, {"id", s.ID}} {
		if one.value != "" && !names.ValidToken(one.value) {
			at(one.key, "is %.130q: want letters, digits, - or _", one.value)
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		at("dir", "is %q: want an absolute path", s.Dir)
	}
	for key, q := range map[string]Quantities{"resources": s.Resources, "reserve": s.Reserve} {
		for _, k := range resource.Kinds() {
			if v := q.Of(k); v != nil && !(*v >= 0 && *v <= math.MaxInt32) {
				at(key+"."+k.String(), "is %v: want a number of at least 0", *v)
			}
		}
	}
	if s.Metadata != "" && s.Metadata != metadataEC2 && s.Metadata != MetadataOff {
		at("metadata", "is %q: want %s or %s", s.Metadata, metadataEC2, MetadataOff)
	}
	if u, err := url.Parse(s.MetadataEndpoint); s.MetadataEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		at("metadata_endpoint", "is %q: want http://HOST[:PORT] of an instance metadata service", s.MetadataEndpoint)
	}
	return ps
}
