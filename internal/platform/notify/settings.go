package notify

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// Settings is the section of one target.
type Settings struct {
	Name       string   `yaml:"name"`        // unique; part of the key of its position
	URL        string   `yaml:"url"`         // http or https
	URLFile    string   `yaml:"url_file"`    // has the URL, in place of url: that of a chat program is a secret
	SecretFile string   `yaml:"secret_file"` // signs the requests; empty: unsigned
	Format     string   `yaml:"format"`      // json (default) or slack
	Body       string   `yaml:"body"`        // template of the body, in place of a format
	Kinds      []string `yaml:"kinds"`       // decision, order, health, harmonizer, configuration, part; default: all
	Events     []string `yaml:"events"`      // names or patterns such as repair.*; default: all
	Pools      []string `yaml:"pools"`       // default: all pools of the cluster
	Severity   string   `yaml:"severity"`    // the least: debug, info (default), warning, error
}

// Formats of a body.
const (
	formatJSON  = "json"
	formatSlack = "slack"
)

// maxTargets bounds the list.
const maxTargets = 32

// Target returns the target of the section.
func (n Settings) Target() Target {
	t := Target{
		Name: n.Name, URL: n.URL, URLFile: n.URLFile, SecretFile: n.SecretFile, Body: Body(n.Body),
		Filter: Filter{Kinds: n.Kinds, Events: n.Events, Pools: n.Pools, Least: cmp.Or(api.Severity(n.Severity), api.SeverityInfo)},
	}
	if n.Format == formatSlack {
		t.Body = slackBody
	}
	return t
}

// CheckAll returns the problems of the sections of all targets. Their keys begin with the index of the section.
func CheckAll(all []Settings) (ps strictyaml.Problems) {
	if len(all) > maxTargets {
		ps = append(ps, &strictyaml.Problem{What: fmt.Sprintf("has %d targets: want at most %d", len(all), maxTargets)})
	}
	seen := map[string]bool{}
	for i, n := range all {
		at := func(key, format string, args ...any) {
			ps = append(ps, &strictyaml.Problem{Key: fmt.Sprintf("[%d].%s", i, key), What: fmt.Sprintf(format, args...)})
		}
		switch {
		case !names.Valid(n.Name):
			at("name", "is %.80q: %s", n.Name, names.Rule)
		case seen[n.Name]:
			at("name", "is %q, as that of another target: give each target a name of its own", n.Name)
		}
		seen[n.Name] = true
		n.check(at)
	}
	return ps
}

func (n Settings) check(at func(key, format string, args ...any)) {
	switch u, err := url.Parse(n.URL); {
	case (n.URL == "") == (n.URLFile == ""):
		at("url", "is missing, or stands beside url_file: give one of them")
	case n.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == ""):
		at("url", "is no URL with http or https and a host")
	case n.URL != "" && u.User != nil:
		at("url", "has a user name: sign with secret_file instead")
	}
	if n.URLFile != "" && !filepath.IsAbs(n.URLFile) {
		at("url_file", "is %q: want an absolute path", n.URLFile)
	}
	if n.SecretFile != "" && !filepath.IsAbs(n.SecretFile) {
		at("secret_file", "is %q: want an absolute path", n.SecretFile)
	}
	switch {
	case n.Format != "" && n.Format != formatJSON && n.Format != formatSlack:
		at("format", "is %.80q: want %s or %s", n.Format, formatJSON, formatSlack)
	case n.Format != "" && n.Body != "":
		at("body", "stands beside format: keep one of them")
	}
	if err := Body(n.Body).Check(); err != nil {
		at("body", "%v", err)
	}
	for _, kind := range n.Kinds {
		if !slices.Contains(api.EventKinds(), kind) {
			at("kinds", "has %.80q: want some of %s", kind, strings.Join(api.EventKinds(), ", "))
		}
	}
	for _, pool := range n.Pools {
		if !names.Valid(pool) {
			at("pools", "has %.80q: %s", pool, names.Rule)
		}
	}
	filter := n.Target().Filter
	if err := (Filter{Events: filter.Events}).Check(); err != nil {
		at("events", "has %v", err)
	}
	if err := (Filter{Least: filter.Least}).Check(); err != nil {
		at("severity", "is %v", err)
	}
}
