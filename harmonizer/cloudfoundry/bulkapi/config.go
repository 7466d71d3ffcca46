package bulkapi

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// EveryApp is the key in [Config.Apps] for all apps that it does not list.
const EveryApp = "*"

const maxBatch = 100_000

// Footprint has what the rows of an app lack. For an empty or zero field, the value for every
// other app applies.
type Footprint struct {
	Pool string  `yaml:"pool"`
	CPUs float64 `yaml:"cpus"` // of one copy
	Mem  float64 `yaml:"mem"`  // MB, of one copy; used if the row has no memory
	Disk float64 `yaml:"disk"` // MB, of one copy
}

// Config configures a Source. Zero fields get the defaults named below.
type Config struct {
	Host      string `yaml:"host"`       // URL of the API; the default scheme is http://
	BatchSize int    `yaml:"batch_size"` // rows per page; default 500
	User      string `yaml:"user"`       // empty: credentials are requested
	Password  string `yaml:"password"`

	ExpectedStateUpdate time.Duration `yaml:"expected_state_update"` // interval between the starts of two passes; default 60 s
	ExpectedStateLost   time.Duration `yaml:"expected_state_lost"`   // how long a pass is valid, from its start; default 180 s
	RefreshAfter        time.Duration `yaml:"refresh_after"`         // wait for further changes before a refresh; default 500 ms
	RefreshPause        time.Duration `yaml:"refresh_pause"`         // shortest time from the end of a pass to the next; default 5 s, or ExpectedStateUpdate if shorter
	RequestTimeout      time.Duration `yaml:"request_timeout"`       // of one complete answer; default 10 s
	MaxBytes            int64         `yaml:"max_bytes"`             // of one answer; default 32 MiB

	Footprint `yaml:",inline"`
	Apps      map[string]Footprint `yaml:"apps"` // by app id; EveryApp for all others
}

// WithDefaults returns a copy in which each zero field has its default.
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

// Validate joins all problems of the configuration. Defaults must be set.
func (c Config) Validate() error {
	_, err := c.base()
	errs := []error{err}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.BatchSize < 1 || c.BatchSize > maxBatch {
		bad("batch_size is %d, outside 1 to %d", c.BatchSize, maxBatch)
	}
	if c.MaxBytes < 1 {
		bad("max_bytes is %d; it must be above 0", c.MaxBytes)
	}
	if c.User == "" && c.Password != "" {
		bad("password is set without user; set both or none")
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
			bad("%s is %v; it must be above 0", d.name, d.value)
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
			errs = append(errs, fmt.Errorf("apps: %q is not a valid app id", id))
		}
		errs = append(errs, f.validate("apps."+id+"."))
	}
	if c.Pool == "" && c.Apps[EveryApp].Pool == "" {
		errs = append(errs, errors.New("pool is missing; set the pool that the apps run on"))
	}
	return errors.Join(errs...)
}

func (f Footprint) validate(path string) error {
	var errs []error
	if f.Pool != "" && !names.Valid(f.Pool) {
		errs = append(errs, fmt.Errorf("%spool %q is not a valid name", path, f.Pool))
	}
	for _, r := range []struct {
		name  string
		value float64
	}{{"cpus", f.CPUs}, {"mem", f.Mem}, {"disk", f.Disk}} {
		if math.IsNaN(r.value) || r.value < 0 || r.value > message.MaxResource {
			errs = append(errs, fmt.Errorf("%s%s is %v, outside 0 to %v", path, r.name, r.value, float64(message.MaxResource)))
		}
	}
	return errors.Join(errs...)
}

// or returns f with its empty fields taken from g.
func (f Footprint) or(g Footprint) Footprint {
	return Footprint{
		Pool: cmp.Or(f.Pool, g.Pool), CPUs: cmp.Or(f.CPUs, g.CPUs),
		Mem: cmp.Or(f.Mem, g.Mem), Disk: cmp.Or(f.Disk, g.Disk),
	}
}

// base returns the URL of the API. Its errors never contain a password.
func (c Config) base() (*url.URL, error) {
	host := c.Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(strings.TrimRight(host, "/"))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("host is not an address; use HOST, HOST:PORT or https://HOST")
	case u.User != nil:
		return nil, errors.New("host contains a user; set user and password instead")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("host %q has a query or fragment; remove it", u.Scheme+"://"+u.Host+u.Path)
	}
	return u, nil
}
