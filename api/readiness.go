package api

import (
	"cmp"
	"fmt"
	"time"
)

// Duration is a time span. Its text is that of Go, such as 1m30s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("duration %.40q: want a number with a unit, such as 10s", text)
	}
	*d = Duration(v)
	return nil
}

// DefaultReadyAfter is Readiness.After of an application without a check.
const DefaultReadyAfter = 10 * time.Second

// Readiness is when an instance counts as ready. Only a ready instance replaces another one.
//
// At most one of HTTP, TCP and Exec is set: the check, which the agent makes on its machine. Until its first success the instance
// is STARTING. After Failures in a row it is not ready until the next success.
type Readiness struct {
	HTTP *HTTPCheck `json:"http,omitempty"`
	TCP  *TCPCheck  `json:"tcp,omitempty"`
	Exec *ExecCheck `json:"exec,omitempty"`
	// After is how long the process runs before the instance can be ready. Default 10 s without a check, 0 with one.
	After *Duration `json:"after,omitempty"`
	// Within is how long a new instance may take to become ready before it counts as failed. Default 5 min.
	Within Duration `json:"within,omitempty"`
	// Timeout bounds one check. Default 1 s.
	Timeout Duration `json:"timeout,omitempty"`
	// Period is the time between two checks. Default 5 s; a STARTING instance is checked each second.
	Period Duration `json:"period,omitempty"`
	// Failures is how many checks in a row must fail. Default 3.
	Failures int `json:"failures,omitempty"`
	// RestartUnready ends an instance that was ready and is no more, so that it is started again.
	RestartUnready bool `json:"restart_unready,omitempty"`
}

// HTTPCheck succeeds if a GET request to the instance has the expected status. Redirects are not followed.
type HTTPCheck struct {
	Port   PortRef `json:"port"`             // on the machine of the instance
	Path   string  `json:"path,omitempty"`   // default /
	Status int     `json:"status,omitempty"` // default: any from 200 to 399
}

// TCPCheck succeeds if the port accepts a connection.
type TCPCheck struct {
	Port PortRef `json:"port"` // on the machine of the instance
}

// ExecCheck succeeds if a command exits with 0. It runs with /bin/sh -c in the folder and environment of the instance.
type ExecCheck struct {
	Command string `json:"command"`
}

// equal reports whether both are nil, or have equal values.
func (r *Readiness) equal(o *Readiness) bool {
	if r == nil || o == nil {
		return r == o
	}
	return same(r.HTTP, o.HTTP) && same(r.TCP, o.TCP) && same(r.Exec, o.Exec) && same(r.After, o.After) && r.Within == o.Within &&
		r.Timeout == o.Timeout && r.Period == o.Period && r.Failures == o.Failures && r.RestartUnready == o.RestartUnready
}

// same reports whether both are nil, or point to equal values.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// HasCheck reports whether more than the age of the process decides.
func (r *Readiness) HasCheck() bool {
	return r != nil && (r.HTTP != nil || r.TCP != nil || r.Exec != nil)
}

// WithDefaults returns the readiness with all values set; nil is that of an application without a check.
func (r *Readiness) WithDefaults() Readiness {
	var d Readiness
	if r != nil {
		d = *r
	}
	if d.After == nil {
		after := Duration(DefaultReadyAfter)
		if d.HasCheck() {
			after = 0
		}
		d.After = &after
	}
	d.Within = cmp.Or(d.Within, Duration(5*time.Minute))
	d.Timeout = cmp.Or(d.Timeout, Duration(time.Second))
	d.Period = cmp.Or(d.Period, Duration(5*time.Second))
	d.Failures = cmp.Or(d.Failures, 3)
	if h := d.HTTP; h != nil && h.Path == "" {
		d.HTTP = &HTTPCheck{Port: h.Port, Path: "/", Status: h.Status}
	}
	return d
}

// Port returns the port of the check; nil without a check of a port.
func (r *Readiness) Port() *PortRef {
	switch {
	case r == nil:
		return nil
	case r.HTTP != nil:
		return &r.HTTP.Port
	case r.TCP != nil:
		return &r.TCP.Port
	}
	return nil
}
