package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/config/verifiers"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// Auth configures "weir auth".
type Auth struct {
	IssuerKeyFile string        `yaml:"issuer_key_file"` // seed of the account key auth_callout.issuer
	XKeyFile      string        `yaml:"xkey_file"`       // seed of the curve key auth_callout.xkey; empty: not encrypted
	DaemonsFile   string        `yaml:"daemons_file"`    // the daemons of pools: daemons.json of "weir nats init"; read again after a change
	Timeout       time.Duration `yaml:"timeout"`         // of one connection; default 2 s
	Lifetime      time.Duration `yaml:"user_lifetime"`   // until an agent proves its identity again; default 1 h
	Verifiers     Verifiers     `yaml:"verifiers"`
}

// Verifiers are the accepted ways of a proof. Each key is that of a verifier.
type Verifiers struct {
	Values map[string]identity.Settings // by key
}

// Identity selects how an agent proves its identity. Its only key is that of a verifier.
type Identity struct {
	Value identity.Settings // of the first key; nil without a key
	Keys  []string          // in the file's order; a valid section has at most one
}

// options implements choice.
func (Verifiers) options() []option {
	return identityOptions(func(k identity.Kind) identity.Settings { return k.NewVerifier() })
}

// options implements choice.
func (Identity) options() []option {
	return identityOptions(func(k identity.Kind) identity.Settings { return k.NewProver() })
}

func identityOptions(settings func(identity.Kind) identity.Settings) []option {
	var all []option
	for _, k := range verifiers.All() {
		all = append(all, option{key: k.Key, about: k.Key + ": " + k.About, value: reflect.TypeOf(settings(k))})
	}
	return all
}

// findKind returns the verifier with that key.
func findKind(key string) (identity.Kind, bool) {
	all := verifiers.All()
	i := slices.IndexFunc(all, func(k identity.Kind) bool { return k.Key == key })
	if i < 0 {
		return identity.Kind{}, false
	}
	return all[i], true
}

// UnmarshalYAML implements yaml.NodeUnmarshaler for a checked node.
func (v *Verifiers) UnmarshalYAML(node ast.Node) error {
	pairs, _ := mappingOf(node)
	v.Values = map[string]identity.Settings{}
	for _, pair := range pairs {
		kind, ok := findKind(keyOf(pair))
		if !ok {
			continue // the checker has reported it
		}
		value := kind.NewVerifier()
		if _, err := decodeChoice(pair, func(string) any { return value }); err != nil {
			return err
		}
		v.Values[kind.Key] = value
	}
	return nil
}

// UnmarshalYAML implements yaml.NodeUnmarshaler for a checked node.
func (i *Identity) UnmarshalYAML(node ast.Node) (err error) {
	i.Keys, err = decodeChoice(node, func(key string) any {
		if kind, ok := findKind(key); ok {
			i.Value = kind.NewProver()
		}
		return i.Value
	})
	return err
}

// Kind returns the verifier of the section; ok is false without one.
func (i Identity) Kind() (k identity.Kind, ok bool) { return findKind(strings.Join(i.Keys, "")) }

// Bounds of the section auth. The servers wait for 3 s by default.
const (
	shortestAuth     = 100 * time.Millisecond
	longestAuth      = 30 * time.Second
	shortestLifetime = time.Minute
	longestLifetime  = 24 * time.Hour
)

// Given reports whether the file has the section "auth".
func (a Auth) Given() bool { return a.IssuerKeyFile != "" }

func (a Auth) problems(d document) Problems {
	if !d.given("auth") {
		return nil
	}
	var ps Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("auth."+key, fmt.Sprintf(format, args...)))
	}
	if !filepath.IsAbs(a.IssuerKeyFile) {
		at("issuer_key_file", "is %q: want the absolute path of the seed of the servers' auth_callout.issuer", a.IssuerKeyFile)
	}
	if a.XKeyFile != "" && !filepath.IsAbs(a.XKeyFile) {
		at("xkey_file", "is %q: want the absolute path of the seed of the servers' auth_callout.xkey", a.XKeyFile)
	}
	if a.DaemonsFile != "" && !filepath.IsAbs(a.DaemonsFile) {
		at("daemons_file", "is %q: want the absolute path of daemons.json, which \"weir nats init\" wrote", a.DaemonsFile)
	}
	if a.Timeout != 0 && (a.Timeout < shortestAuth || a.Timeout > longestAuth) {
		at("timeout", "is %s: want %s to %s, and less than authorization.timeout of the servers", seconds.Short(a.Timeout), seconds.Short(shortestAuth), seconds.Short(longestAuth))
	}
	if a.Lifetime != 0 && (a.Lifetime < shortestLifetime || a.Lifetime > longestLifetime) {
		at("user_lifetime", "is %s: want %s to %s", seconds.Short(a.Lifetime), seconds.Short(shortestLifetime), seconds.Short(longestLifetime))
	}
	if len(a.Verifiers.Values) == 0 {
		at("verifiers", "is missing: want %s", strings.Join(keysOfOptions(Verifiers{}.options()), ", "))
	}
	for _, kind := range verifiers.All() {
		if value := a.Verifiers.Values[kind.Key]; value != nil {
			for _, p := range value.Check() {
				at("verifiers."+kind.Key+"."+p.Key, "%s", p.What)
			}
		}
	}
	return ps
}

func (i Identity) problems(d document) Problems {
	if len(i.Keys) > 1 {
		return Problems{d.problem("identity", "names "+counted(i.Keys)+": want one of "+strings.Join(keysOfOptions(i.options()), ", "))}
	}
	if i.Value == nil {
		return nil
	}
	var ps Problems
	for _, p := range i.Value.Check() {
		ps = append(ps, d.problem("identity."+i.Keys[0]+"."+p.Key, p.What))
	}
	return ps
}
