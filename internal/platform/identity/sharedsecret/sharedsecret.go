// Package sharedsecret proves identities by a secret that the machines and "weir auth" share.
// It is for places without a better proof. A machine with the secret can take the name of
// any node of the pools that the secret is for.
//
// The proof is an HMAC-SHA256 over the cluster, pool, node, public nkey, server's nonce and
// time. So it is valid for one connection of one agent. The key file has one secret a line. The
// verifier accepts all of them, and a prover uses the first. Both read the file for each proof,
// so a rotation needs no restart: add the new secret to the end at "weir auth", then put it
// first at the machines, then remove the old one.
//
// Everything may be called concurrently.
package sharedsecret

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

const (
	minSecret = 32 // bytes of one secret
	maxProof  = 256
	maxSkew   = 5 * time.Minute // between the clocks of both sides, with the age of the proof
)

// Kind returns the kind of this verifier.
func Kind() identity.Kind {
	return identity.Kind{
		Key: "sharedsecret", About: "a secret that machines and weir auth share",
		NewVerifier: func() identity.Settings { return new(Settings) },
		NewProver:   func() identity.Settings { return new(ProverSettings) },
		Open: func(_ context.Context, site identity.Site) (identity.Verifier, error) {
			s := site.Settings.(*Settings) // NewVerifier has created it
			_, err := secrets(s.KeyFile)
			return &verifier{settings: *s}, err
		},
		Prove: func(_ context.Context, s identity.Settings) (identity.Prover, error) {
			p := prover{*s.(*ProverSettings)} // NewProver has created it
			_, err := secrets(p.settings.KeyFile)
			return p, err
		},
	}
}

// Settings is the value of auth.verifiers.sharedsecret.
type Settings struct {
	KeyFile string   `yaml:"key_file"` // absolute path, mode 0600; one secret a line
	Pools   []string `yaml:"pools"`    // the pools of the machines with the secret
}

// Check implements identity.Settings.
func (s *Settings) Check() strictyaml.Problems {
	ps := checkFile(s.KeyFile)
	if len(s.Pools) == 0 {
		ps = append(ps, &strictyaml.Problem{Key: "pools", What: "is missing: want the pools of the machines with the secret"})
	}
	for _, pool := range s.Pools {
		if !names.Valid(pool) {
			ps = append(ps, &strictyaml.Problem{Key: "pools", What: fmt.Sprintf("has %q: %s", pool, names.Rule)})
		}
	}
	return ps
}

// ProverSettings is the value of identity.sharedsecret.
type ProverSettings struct {
	KeyFile string `yaml:"key_file"` // absolute path, mode 0600; the first secret is used
}

// Check implements identity.Settings.
func (s *ProverSettings) Check() strictyaml.Problems { return checkFile(s.KeyFile) }

func checkFile(path string) strictyaml.Problems {
	if filepath.IsAbs(path) {
		return nil
	}
	return strictyaml.Problems{{Key: "key_file", What: fmt.Sprintf("is %q: want the absolute path of a file of secrets", path)}}
}

// secrets reads the file of secrets.
func secrets(path string) (all [][]byte, err error) {
	data, err := identity.ReadSecret(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(line) < minSecret {
			return nil, fmt.Errorf("read %s: secret %d has %d bytes: want at least %d, such as from \"openssl rand -hex 32\"", path, len(all)+1, len(line), minSecret)
		}
		all = append(all, line)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read %s: it has no secret: write one a line, such as from \"openssl rand -hex 32\"", path)
	}
	return all, nil
}

// proof is the proof's JSON value.
type proof struct {
	At  int64  `json:"at"`  // seconds since 1970
	MAC []byte `json:"mac"` // in base64
}

// sum returns the HMAC. No field may contain a line break.
func sum(secret []byte, s identity.Statement, at int64) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, field := range []string{"weir-identity-1", s.Cluster, s.Pool, s.Node, s.Key, s.Nonce, strconv.FormatInt(at, 10)} {
		mac.Write([]byte(field + "\n"))
	}
	return mac.Sum(nil)
}

type prover struct{ settings ProverSettings }

// Prove implements identity.Prover.
func (p prover) Prove(_ context.Context, s identity.Statement) (any, error) {
	all, err := secrets(p.settings.KeyFile)
	if err != nil {
		return nil, err
	}
	at := s.Now.Unix()
	return proof{At: at, MAC: sum(all[0], s, at)}, nil
}

type verifier struct{ settings Settings }

// Verify implements identity.Verifier.
func (v *verifier) Verify(_ context.Context, r identity.Request) (identity.Identity, error) {
	var p proof
	if err := strictjson.Within(r.Proof, maxProof, &p); err != nil {
		return identity.Identity{}, identity.Refuse(identity.Malformed, "proof: %v; install one version of weir for the agent and \"weir auth\"", err)
	}
	all, err := secrets(v.settings.KeyFile)
	if err != nil {
		return identity.Identity{}, identity.Refuse(identity.Unavailable, "%v", err)
	}
	if !slices.ContainsFunc(all, func(secret []byte) bool { return hmac.Equal(p.MAC, sum(secret, r.Statement, p.At)) }) {
		return identity.Identity{}, identity.Refuse(identity.Forged, "no secret of the key file made this proof: give the agent and \"weir auth\" the same secret")
	}
	if age := r.Now.Sub(time.Unix(p.At, 0)).Abs(); age > maxSkew {
		return identity.Identity{}, identity.Refuse(identity.Stale, "the clocks differ by %v, at most %v are allowed: set the clock of the machine", age.Round(time.Second), maxSkew)
	}
	if !slices.Contains(v.settings.Pools, r.Pool) {
		return identity.Identity{}, identity.Refuse(identity.WrongName, "the secret is not for pool %s: add the pool to auth.verifiers.sharedsecret.pools, or correct --pool of the agent", r.Pool)
	}
	return identity.Identity{Pool: r.Pool, Node: r.Node}, nil
}
