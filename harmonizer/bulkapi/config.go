package bulkapi

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/names"
)

// EveryApp stands for all apps that [Config.Apps] does not name.
const EveryApp = "*"

const maxBatch = 100_000

// Footprint is what the rows of an app do not say. Empty and zero: as for every
// other app.
type Footprint struct {
	Pool string  `yaml:"pool"`
	CPUs float64 `yaml:"cpus"` // of one copy
	Mem  float64 `yaml:"mem"`  // MB, of one copy whose row has no memory
	Disk float64 `yaml:"disk"` // MB, of one copy
}

// Config of a Source. Zeros are the defaults named.
type Config struct {
	Host      string `yaml:"host"`       // URL of the API; http:// where it has no scheme
	BatchSize int    `yaml:"batch_size"` // rows of an answer; 500
	User      string `yaml:"user"`       // empty: credentials are asked for
	Password  string `yaml:"password"`

	ExpectedStateUpdate time.Duration `yaml:"expected_state_update"` // from pass to pass; 60 s
	ExpectedStateLost   time.Duration `yaml:"expected_state_lost"`   // how long a pass is good for, from its begin; 180 s
	RefreshAfter        time.Duration `yaml:"refresh_after"`         // more changes are waited for; 500 ms
	RefreshPause        time.Duration `yaml:"refresh_pause"`         // at least, from the end of a pass to the next; 5 s, or ExpectedStateUpdate if that is shorter
	RequestTimeout      time.Duration `yaml:"request_timeout"`       // of one answer, whole; 10 s
	MaxBytes            int64         `yaml:"max_bytes"`             // of one answer; 32 MiB

	Footprint `yaml:",inline"`
	Apps      map[string]Footprint `yaml:"apps"` // by id; EveryApp for those that are not named
}

// WithDefaults returns a copy in which every zero is the default.
func (c Config) WithDefaults() Config {
	c.BatchSize = cmp.Or(c.BatchSize, 500)
	c.ExpectedStateUpdate = cmp.Or(c.ExpectedStateUpdate, 60*time.Second)
	c.ExpectedStateLost = cmp.Or(c.ExpectedStateLost, 180*time.Second)
	c.RefreshAfter = cmp.Or(c.RefreshAfter, 500*time.Millisecond)
	c.RefreshPause = cmp.Or(c.RefreshPause, min(5*time.Second, c.ExpectedStateUpdate))
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 10*time.Second)
	c.MaxBytes = cmp.Or(c.MaxBytes, 32<<20)
	return c
}

// Validate joins everything that is wrong with the configuration, with its
// defaults in place.
func (c Config) Validate() error {
	_, err := c.base()
	errs := []error{err}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.BatchSize < 1 || c.BatchSize > maxBatch {
		bad("batch_size is %d, outside 1 to %d", c.BatchSize, maxBatch)
	}
	if c.MaxBytes < 1 {
		bad("max_bytes is %d, it must be above 0", c.MaxBytes)
	}
	if c.User == "" && c.Password != "" {
		bad("there is a password and no user")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"expected_state_update", c.ExpectedStateUpdate},
		{"expected_state_lost", c.ExpectedStateLost},
		{"refresh_after", c.RefreshAfter},
		{"refresh_pause", c.RefreshPause},
		{"request_timeout", c.RequestTimeout},
	} {
		if d.value <= 0 {
			bad("%s is %v, it must be above 0", d.name, d.value)
		}
	}
	if c.ExpectedStateLost <= c.ExpectedStateUpdate {
		bad("expected_state_lost (%v) must be longer than expected_state_update (%v)", c.ExpectedStateLost, c.ExpectedStateUpdate)
	}
	errs = append(errs, c.validateFootprints())
	return errors.Join(errs...)
}

func (c Config) validateFootprints() error {
	errs := []error{c.Footprint.validate("")}
	for id, f := range c.Apps {
		if id != EveryApp && !names.Valid(id) {
			errs = append(errs, fmt.Errorf("apps: %q is not the id of an app", id))
		}
		errs = append(errs, f.validate("apps."+id+"."))
	}
	if c.Pool == "" && c.Apps[EveryApp].Pool == "" {
		errs = append(errs, errors.New("pool is not given: which pool do the apps run on?"))
	}
	return errors.Join(errs...)
}

func (f Footprint) validate(path string) error {
	var errs []error
	if f.Pool != "" && !names.Valid(f.Pool) {
		errs = append(errs, fmt.Errorf("%spool %q is not a name", path, f.Pool))
	}
	for _, r := range []struct {
		name  string
		value float64
	}{{"cpus", f.CPUs}, {"mem", f.Mem}, {"disk", f.Disk}} {
		if math.IsNaN(r.value) || r.value < 0 || r.value > maxResource {
			errs = append(errs, fmt.Errorf("%s%s is %v, outside 0 to %v", path, r.name, r.value, float64(maxResource)))
		}
	}
	return errors.Join(errs...)
}

// or returns f with what it does not say taken from g.
func (f Footprint) or(g Footprint) Footprint {
	return Footprint{
		Pool: cmp.Or(f.Pool, g.Pool), CPUs: cmp.Or(f.CPUs, g.CPUs),
		Mem: cmp.Or(f.Mem, g.Mem), Disk: cmp.Or(f.Disk, g.Disk),
	}
}

// base returns the URL that the API is below. Its errors quote nothing that may
// have a password in it.
func (c Config) base() (*url.URL, error) {
	host := c.Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(strings.TrimRight(host, "/"))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("host is no address: want HOST, HOST:PORT or https://HOST")
	case u.User != nil:
		return nil, errors.New("host has a user in it: give user and password on their own")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("host %q has more than a path", u.Scheme+"://"+u.Host+u.Path)
	}
	return u, nil
}
