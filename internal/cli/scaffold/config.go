package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Lang is the language of a signal.
type Lang string

const (
	Go     Lang = "go"     // with the SDK, as a go-plugin; the default
	Python Lang = "python" // with the standard library
)

// Config selects the files to write.
type Config struct {
	Name string // of the signal, as in namespace/NAME@version
	Lang Lang   // empty: Go

	// SDKVersion is the version of this module that a Go signal requires. It is empty if SDK is set.
	SDKVersion string

	// SDK is a source tree of this module that replaces a version. Empty: the Go command downloads SDKVersion.
	SDK string
}

// Validate returns every problem of the configuration, joined. It does not read the source tree.
func (c Config) Validate() error {
	var errs []error
	if !names.ValidRelease(c.Name) {
		errs = append(errs, fmt.Errorf("name %.100q: want up to %d letters, digits and ._-, and no dot or dash at the beginning; for example %q",
			c.Name, names.MaxRelease, nearestName(c.Name)))
	}
	switch cmp.Or(c.Lang, Go) {
	case Python:
	case Go:
		if err := module.CheckPath(c.module()); err != nil && names.ValidRelease(c.Name) {
			errs = append(errs, fmt.Errorf("module path: %w: choose another name", err))
		}
		switch {
		case c.SDK != "" && c.SDKVersion != "":
			errs = append(errs, errors.New("the SDK has a source tree and a version: choose one of them"))
		case c.SDK == "" && (!semver.IsValid(c.SDKVersion) || semver.Canonical(c.SDKVersion) != c.SDKVersion):
			errs = append(errs, fmt.Errorf("version %q of the SDK is not a module version: want one like v1.2.3", c.SDKVersion))
		}
	default:
		errs = append(errs, fmt.Errorf("language %q: want go or python", c.Lang))
	}
	return errors.Join(errs...)
}

// module returns the path of the Go module.
func (c Config) module() string { return "example.com/" + c.Name }

// nearestName returns a similar valid name.
func nearestName(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return !names.ValidRelease("_" + string(r)) })
	name = strings.TrimLeft(strings.Join(parts, "_"), ".-")
	return cmp.Or(name[:min(len(name), names.MaxRelease)], "my_signal")
}
