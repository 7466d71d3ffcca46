package awssts

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// Kind returns the kind of this verifier.
func Kind() identity.Kind {
	return identity.Kind{
		Key: "awssts", About: "the instance role of an EC2 machine, confirmed by AWS STS",
		NewVerifier: func() identity.Settings { return new(Settings) },
		NewProver:   func() identity.Settings { return new(ProverSettings) },
		Open: func(_ context.Context, site identity.Site) (identity.Verifier, error) {
			return newVerifier(*site.Settings.(*Settings)) // NewVerifier has created it
		},
		Prove: func(ctx context.Context, s identity.Settings) (identity.Prover, error) {
			return newProver(ctx, *s.(*ProverSettings)) // NewProver has created it
		},
	}
}

// Settings is the value of auth.verifiers.awssts.
type Settings struct {
	// Endpoints are the URLs of STS that agents may use, such as https://sts.eu-central-1.amazonaws.com.
	Endpoints []string `yaml:"endpoints"`
	Allow     []Role   `yaml:"allow"`
	// CAFile replaces the authorities of the system; empty: those of the system.
	CAFile string `yaml:"ca_file"`
}

// Role allows the machines of one role to join pools.
type Role struct {
	Account string   `yaml:"account"` // 12 digits
	Role    string   `yaml:"role"`    // name without path
	Pools   []string `yaml:"pools"`
}

// ProverSettings is the value of identity.awssts.
type ProverSettings struct {
	Endpoint string `yaml:"endpoint"` // as in the list of "weir auth"
	Region   string `yaml:"region"`   // of the endpoint
}

const maxRole = 64 // bytes of the name of a role, by IAM

var (
	validAccount = regexp.MustCompile(`^[0-9]{12}$`)
	validRole    = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]+$`)
	validRegion  = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// Check implements identity.Settings.
func (s *Settings) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	if len(s.Endpoints) == 0 {
		at("endpoints", "is missing: want URLs such as https://sts.eu-central-1.amazonaws.com")
	}
	for i, e := range s.Endpoints {
		if err := checkEndpoint(e); err != nil {
			at(fmt.Sprintf("endpoints[%d]", i), "%v", err)
		}
	}
	if len(s.Allow) == 0 {
		at("allow", "is missing: want entries of account, role and pools")
	}
	for i, r := range s.Allow {
		if !validAccount.MatchString(r.Account) {
			at(fmt.Sprintf("allow[%d].account", i), "is %q: want the 12 digits of an AWS account", r.Account)
		}
		if !validRole.MatchString(r.Role) || len(r.Role) > maxRole {
			at(fmt.Sprintf("allow[%d].role", i), "is %q: want the name of a role without its path", r.Role)
		}
		if len(r.Pools) == 0 || slices.ContainsFunc(r.Pools, func(p string) bool { return !names.Valid(p) }) {
			at(fmt.Sprintf("allow[%d].pools", i), "is %q: want names of pools", r.Pools)
		}
	}
	return ps
}

// Check implements identity.Settings.
func (s *ProverSettings) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	if err := checkEndpoint(s.Endpoint); err != nil {
		ps = append(ps, &strictyaml.Problem{Key: "endpoint", What: err.Error()})
	}
	if !validRegion.MatchString(s.Region) {
		ps = append(ps, &strictyaml.Problem{Key: "region", What: fmt.Sprintf("is %q: want the region of the endpoint, such as eu-central-1", s.Region)})
	}
	return ps
}

func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || text != "https://"+u.Host {
		return fmt.Errorf("is %q: want https://HOST without a path, such as https://sts.eu-central-1.amazonaws.com", text)
	}
	return nil
}
