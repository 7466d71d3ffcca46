package awsdocument

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	maxProof       = 3400
	maxDocument    = 2048 // bytes
	maxCertificate = 16 << 10
	young          = 15 * time.Minute // at the first use
	maxSkew        = 5 * time.Minute
)

type verifier struct {
	accounts  []string
	keys      map[string]*rsa.PublicKey // by region
	instances identity.Instances
	bindings  identity.Bindings
}

func newVerifier(s Settings, instances identity.Instances, bindings identity.Bindings) (*verifier, error) {
	v := &verifier{accounts: s.Accounts, keys: map[string]*rsa.PublicKey{}, instances: instances, bindings: bindings}
	for region, path := range s.Certificates {
		key, err := publicKey(path)
		if err != nil {
			return nil, fmt.Errorf("certificates.%s: %w", region, err)
		}
		v.keys[region] = key
	}
	return v, nil
}

// publicKey reads the key of a certificate. Its dates do not count: AWS signs with keys of old certificates.
func publicKey(path string) (*rsa.PublicKey, error) {
	data, err := inputfile.Read(path, maxCertificate)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || len(data) > maxCertificate {
		return nil, fmt.Errorf("read %s: it is not a certificate in PEM: download AWS's RSA certificate of the region", path)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: download AWS's RSA certificate of the region", path, err)
	}
	key, ok := certificate.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("read %s: its key is not RSA: download AWS's RSA certificate of the region", path)
	}
	return key, nil
}

// Verify implements identity.Verifier.
func (v *verifier) Verify(ctx context.Context, r identity.Request) (identity.Identity, error) {
	d, err := v.signed(r.Proof)
	if err != nil {
		return identity.Identity{}, err
	}
	if !slices.Contains(v.accounts, d.Account) {
		return identity.Identity{}, identity.Refuse(identity.ForeignAccount, "account %.40q is not in auth.verifiers.awsdocument.accounts: add it there, if its machines may join", d.Account)
	}
	if d.Instance != r.Node || !names.ValidToken(d.Instance) {
		return identity.Identity{}, identity.Refuse(identity.WrongName, "the document is of instance %.40q: correct --id of the agent", d.Instance)
	}
	pool, launched, err := v.instances.Known(ctx, d.Instance)
	if errors.Is(err, identity.ErrUnknownInstance) {
		return identity.Identity{}, identity.Refuse(identity.UnknownInstance, "no pool of the cluster has instance %s: add it to the group of a pool at the provider", d.Instance)
	}
	if err != nil {
		return identity.Identity{}, identity.Refuse(identity.Unavailable, "find instance %s at the provider: %v", d.Instance, err)
	}
	if pool != r.Pool { // before a binding
		return identity.Identity{}, identity.Refuse(identity.WrongName, "instance %s is of pool %s, and not of pool %s: correct --pool of the agent", d.Instance, pool, r.Pool)
	}
	if err := v.bind(ctx, d, launched, r); err != nil {
		return identity.Identity{}, err
	}
	return identity.Identity{Pool: pool, Node: d.Instance}, nil
}

// signed returns the document of a proof after it has verified AWS's signature.
func (v *verifier) signed(data json.RawMessage) (d document, err error) {
	var p proof
	if err := strictjson.Within(data, maxProof, &p); err != nil {
		return d, identity.Refuse(identity.Malformed, "proof: %v; install one version of weir for the agent and \"weir auth\"", err)
	}
	if len(p.Document) > maxDocument {
		return d, identity.Refuse(identity.Malformed, "the document has %d bytes, at most %d are read: connect with an agent of weir", len(p.Document), maxDocument)
	}
	if err := json.Unmarshal(p.Document, &d); err != nil { // the region selects the key; no other field counts yet
		return document{}, identity.Refuse(identity.Malformed, "document: %v; connect with an agent of weir", strictjson.Plain(err))
	}
	key, ok := v.keys[d.Region]
	if !ok {
		return document{}, identity.Refuse(identity.ForeignAccount, "region %.40q is not in auth.verifiers.awsdocument.certificates: add the certificate of AWS for it", d.Region)
	}
	sum := sha256.Sum256(p.Document)
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], p.Signature); err != nil {
		return document{}, identity.Refuse(identity.Forged, "AWS did not sign this document in region %s: correct auth.verifiers.awsdocument.certificates, or replace the machine", d.Region)
	}
	return d, nil
}

// bind requires that the instance is bound to the agent's key. It binds a young instance that has no binding.
func (v *verifier) bind(ctx context.Context, d document, launched time.Time, r identity.Request) error {
	bound, err := v.bindings.Bound(ctx, d.Instance)
	if err == nil && bound == "" {
		if err := firstUse(d, launched, r.Now); err != nil {
			return err
		}
		bound, err = v.bindings.Bind(ctx, d.Instance, r.Key)
	}
	if err != nil {
		return identity.Refuse(identity.Unavailable, "read the binding of instance %s: %v", d.Instance, err)
	}
	if bound != r.Key {
		return identity.Refuse(identity.Stolen, "instance %s is bound to another key: another process uses its document, or the agent lost its key file: replace the machine", d.Instance)
	}
	return nil
}

// firstUse requires that the instance is young, by its document and by the provider.
func firstUse(d document, launched, now time.Time) error {
	pending, err := time.Parse(time.RFC3339, d.Pending)
	if err != nil {
		return identity.Refuse(identity.Malformed, "document: pendingTime %.40q is not a time: connect with an agent of weir", d.Pending)
	}
	if launched.IsZero() {
		return identity.Refuse(identity.Unavailable, "the provider does not report when instance %s was launched", d.Instance)
	}
	for of, at := range map[string]time.Time{"the document": pending, "the provider": launched} {
		if age := now.Sub(at); age > young || age < -maxSkew {
			return identity.Refuse(identity.Stale, "instance %s is %v old by %s, a first use needs at most %v: replace the machine", d.Instance, age.Round(time.Second), of, young)
		}
	}
	return nil
}
