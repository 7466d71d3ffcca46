package awsdocument

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// Kind returns the kind of this verifier.
func Kind() identity.Kind {
	return identity.Kind{
		Key: "awsdocument", About: "the signed identity document of an EC2 machine, bound to the agent at its first use",
		NewVerifier: func() identity.Settings { return new(Settings) },
		NewProver:   func() identity.Settings { return new(ProverSettings) },
		Open: func(_ context.Context, site identity.Site) (identity.Verifier, error) {
			if site.Instances == nil || site.Bindings == nil {
				return nil, errors.New("awsdocument needs the instances of the pools and a bucket for bindings")
			}
			return newVerifier(*site.Settings.(*Settings), site.Instances, site.Bindings) // NewVerifier has created it
		},
		Prove: func(ctx context.Context, s identity.Settings) (identity.Prover, error) {
			return newProver(ctx, *s.(*ProverSettings)) // NewProver has created it
		},
	}
}

// Settings is the value of auth.verifiers.awsdocument.
type Settings struct {
	// Certificates are the files of AWS's RSA certificates in PEM, by region. Other regions are refused.
	Certificates map[string]string `yaml:"certificates"`
	Accounts     []string          `yaml:"accounts"` // 12 digits each
}

// ProverSettings is the value of identity.awsdocument.
type ProverSettings struct {
	Endpoint string `yaml:"endpoint"` // of the instance metadata service; empty: that of EC2
}

var (
	validAccount = regexp.MustCompile(`^[0-9]{12}$`)
	validRegion  = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// Check implements identity.Settings.
func (s *Settings) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	if len(s.Certificates) == 0 {
		at("certificates", "is missing: want the file of AWS's RSA certificate for each region")
	}
	for _, region := range slices.Sorted(maps.Keys(s.Certificates)) {
		if !validRegion.MatchString(region) {
			at("certificates", "has %q: want a region such as eu-central-1", region)
		} else if !filepath.IsAbs(s.Certificates[region]) {
			at("certificates."+region, "is %q: want the absolute path of a certificate in PEM", s.Certificates[region])
		}
	}
	if len(s.Accounts) == 0 {
		at("accounts", "is missing: want the accounts of the machines")
	}
	for i, a := range s.Accounts {
		if !validAccount.MatchString(a) {
			at(fmt.Sprintf("accounts[%d]", i), "is %q: want the 12 digits of an AWS account", a)
		}
	}
	return ps
}

// Check implements identity.Settings.
func (s *ProverSettings) Check() strictyaml.Problems {
	if u, err := url.Parse(s.Endpoint); s.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return strictyaml.Problems{{Key: "endpoint", What: fmt.Sprintf("is %q: want http://HOST[:PORT] of an instance metadata service", s.Endpoint)}}
	}
	return nil
}
