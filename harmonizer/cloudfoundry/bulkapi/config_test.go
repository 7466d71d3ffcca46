package bulkapi

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *Config)
		want   string // part of the error; empty: no error
	}{
		{"least", func(*Config) {}, ""},
		{"https", func(c *Config) { c.Host = "https://api.example.com:8443/below/" }, ""},
		{"pool of every app", func(c *Config) { c.Pool, c.Apps = "", map[string]Footprint{"*": {Pool: "p"}} }, ""},
		{"no host", func(c *Config) { c.Host = "" }, "host is not an address"},
		{"other scheme", func(c *Config) { c.Host = "ftp://api" }, "host is not an address"},
		{"user in the host", func(c *Config) { c.Host = "http://u:hidden@api" }, "host contains a user"},
		{"query", func(c *Config) { c.Host = "http://api/?a=b" }, "has a query or fragment"},
		{"negative batch", func(c *Config) { c.BatchSize = -1 }, "batch_size is -1"},
		{"huge batch", func(c *Config) { c.BatchSize = 1e9 }, "batch_size is 1000000000"},
		{"negative time", func(c *Config) { c.RequestTimeout = -1 }, "request_timeout is -1ns"},
		{"lost before updated", func(c *Config) { c.ExpectedStateUpdate = time.Hour }, "must be longer than expected_state_update (1h0m0s)"},
		{"negative bytes", func(c *Config) { c.MaxBytes = -1 }, "max_bytes is -1"},
		{"password alone", func(c *Config) { c.Password = "hidden" }, "password is set without user"},
		{"no pool", func(c *Config) { c.Pool = "" }, "pool is missing"},
		{"bad pool", func(c *Config) { c.Pool = "a.b" }, `pool "a.b" is not a valid name`},
		{"bad app", func(c *Config) { c.Apps = map[string]Footprint{"a*": {}} }, `"a*" is not a valid app id`},
		{"bad cpus", func(c *Config) { c.Apps = map[string]Footprint{"a": {CPUs: math.NaN()}} }, "apps.a.cpus is NaN"},
		{"bad disk", func(c *Config) { c.Disk = -1 }, "disk is -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{Host: "api.example.com", Footprint: Footprint{Pool: "default"}}
			tt.change(&c)
			_, err := New(c, newCredentialsServer().requestCredentials, quiet())
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("New() = %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("New() = %v, want an error with %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "hidden"):
				t.Errorf("New() = %v, which has the password in it", err)
			}
		})
	}
	if _, err := New(Config{Host: "api", Footprint: Footprint{Pool: "p"}}, nil, quiet()); err == nil {
		t.Error("New() without credentials = nil, want an error")
	}
}

func TestAddresses(t *testing.T) {
	for host, want := range map[string]string{
		"api.vcap.me":             "http://api.vcap.me/bulk/apps",
		"127.0.0.1:8080":          "http://127.0.0.1:8080/bulk/apps",
		"[::1]:8080":              "http://[::1]:8080/bulk/apps",
		"https://api.example.com": "https://api.example.com/bulk/apps",
		"http://api/v1/":          "http://api/v1/bulk/apps",
	} {
		base, err := Config{Host: host}.base()
		if err != nil {
			t.Errorf("base(%q) = %v", host, err)
			continue
		}
		if got := base.JoinPath("bulk/apps").String(); got != want {
			t.Errorf("address of %q = %s, want %s", host, got, want)
		}
	}
}

func TestFootprints(t *testing.T) {
	f := newFootprints(Config{
		Footprint: Footprint{Pool: "default", CPUs: 1, Disk: 100},
		Apps: map[string]Footprint{
			EveryApp: {CPUs: 2, Mem: 64},
			"web":    {Pool: "front", Disk: 200},
		},
	})
	if got, want := f.find("web"), (Footprint{Pool: "front", CPUs: 2, Mem: 64, Disk: 200}); got != want {
		t.Errorf("find(web) = %+v, want %+v", got, want)
	}
	if got, want := f.find("other"), (Footprint{Pool: "default", CPUs: 2, Mem: 64, Disk: 100}); got != want {
		t.Errorf("find(other) = %+v, want %+v", got, want)
	}
}

func TestStatusErrors(t *testing.T) {
	for status, want := range map[int]error{500: errUnavailable, 503: errUnavailable, 429: errUnavailable, 401: errDenied, 403: errDenied} {
		if err := (&statusError{Status: status}); !err.Is(want) {
			t.Errorf("status %d is no %q", status, want)
		}
	}
	for _, status := range []int{201, 302, 400, 404} {
		if err := (&statusError{Status: status}); err.Is(errUnavailable) || err.Is(errDenied) {
			t.Errorf("status %d will pass, want that it fails", status)
		}
	}
}
