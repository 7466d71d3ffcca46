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
	Python Lang = "python" // with the module weirsignal
)

// Config selects the files to write.
type Config struct {
	Name string // of the signal, as in namespace/NAME@version
	Lang Lang   // empty: Go

	// SDK is where a Go signal gets this module from.
	SDK SDK
}

// SDK has exactly one field that is not empty.
type SDK struct {
	Version string // released version, which the Go command fetches
	Tree    string // source tree, for a replace line in go.mod
	Archive string // file that deploy/packages/sdk wrote; its content becomes part of the signal's folder
}

func (s SDK) validate() error {
	set := 0
	for _, from := range []string{s.Version, s.Tree, s.Archive} {
		if from != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return errors.New("the SDK has two of a version, a source tree and an archive: choose one of them")
	case s.Tree == "" && s.Archive == "" && (!semver.IsValid(s.Version) || semver.Canonical(s.Version) != s.Version):
		return fmt.Errorf("version %q of the SDK is not a module version: want one like v1.2.3", s.Version)
	}
	return nil
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
		if err := c.SDK.validate(); err != nil {
			errs = append(errs, err)
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
