package awsdocument_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awsdocument"
)

const (
	region  = "eu-central-1"
	account = "123456789012"
	node    = "i-0123456789abcdef0"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cloud signs documents as AWS does, has the instances of the pools, and keeps the bindings.
type cloud struct {
	testing.TB
	key  *rsa.PrivateKey
	cert string // path

	mu       sync.Mutex
	launched map[string]time.Time
	bound    map[string]string
	fails    error
}

func newCloud(tb testing.TB) *cloud {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	c := &cloud{TB: tb, key: key, cert: filepath.Join(tb.TempDir(), "aws.pem"), launched: map[string]time.Time{node: now.Add(-time.Minute)}, bound: map[string]string{}}
	if err := os.WriteFile(c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *cloud) Known(_ context.Context, instance string) (string, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	launched, ok := c.launched[instance]
	if c.fails != nil {
		return "", time.Time{}, c.fails
	}
	if !ok {
		return "", time.Time{}, identity.ErrUnknownInstance
	}
	return "web", launched, nil
}

func (c *cloud) Bound(_ context.Context, node string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound[node], nil
}

func (c *cloud) Bind(_ context.Context, node, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound[node] == "" {
		c.bound[node] = key
	}
	return c.bound[node], nil
}

// document returns a document of this form, and its signature.
func (c *cloud) document(account, region, instance string, pending time.Time) (text string, signature []byte) {
	c.Helper()
	text = fmt.Sprintf("{\n  \"accountId\" : %q,\n  \"architecture\" : \"x86_64\",\n  \"availabilityZone\" : \"eu-central-1a\",\n  \"billingProducts\" : null,\n"+
		"  \"imageId\" : \"ami-0abcdef1234567890\",\n  \"instanceId\" : %q,\n  \"instanceType\" : \"m7i.large\",\n  \"pendingTime\" : %q,\n  \"privateIp\" : \"10.0.0.1\",\n"+
		"  \"region\" : %q,\n  \"version\" : \"2017-09-30\"\n}", account, instance, pending.Format(time.RFC3339), region)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, c.key, crypto.SHA256, sum[:])
	if err != nil {
		c.Fatal(err)
	}
	return text, signature
}

// metadata is the metadata service of a machine with that document.
func (c *cloud) metadata(text string, signature []byte) (url string) {
	c.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			fmt.Fprint(w, "session")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/latest/dynamic/instance-identity/document":
			fmt.Fprint(w, text)
		case r.URL.Path == "/latest/dynamic/instance-identity/signature":
			line := base64.StdEncoding.EncodeToString(signature)
			fmt.Fprint(w, line[:64]+"\n"+line[64:])
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	c.Cleanup(s.Close)
	return s.URL
}

func proof(text string, signature []byte) json.RawMessage {
	data, _ := json.Marshal(map[string][]byte{"document": []byte(text), "signature": signature}) // never fails for these types
	return data
}

func statement(key string, at time.Time) identity.Statement {
	return identity.Statement{Claim: identity.Claim{Cluster: "prod", Pool: "web", Node: node}, Key: key, Nonce: "nonce", Now: at}
}

func (c *cloud) verifier() identity.Verifier {
	c.Helper()
	v, err := awsdocument.Kind().Open(c.Context(), identity.Site{
		Settings:  &awsdocument.Settings{Certificates: map[string]string{region: c.cert}, Accounts: []string{account}},
		Instances: c, Bindings: c,
	})
	if err != nil {
		c.Fatal(err)
	}
	return v
}

func reason(err error) identity.Reason {
	if r, ok := errors.AsType[*identity.Refusal](err); ok {
		return r.Reason
	}
	return ""
}

// The first key with the document of a young instance keeps it for as long as the provider has the instance.
func TestDocumentIsBoundToItsFirstKey(t *testing.T) {
	c := newCloud(t)
	v := c.verifier()
	text, signature := c.document(account, region, node, now.Add(-2*time.Minute))
	p, err := awsdocument.Kind().Prove(t.Context(), &awsdocument.ProverSettings{Endpoint: c.metadata(text, signature)})
	if err != nil {
		t.Fatal(err)
	}
	made, err := p.Prove(t.Context(), statement("UABC", now))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(key string, at time.Time) error {
		got, err := v.Verify(t.Context(), identity.Request{Statement: statement(key, at), Proof: data})
		if err == nil && got != (identity.Identity{Pool: "web", Node: node}) {
			t.Errorf("Verify = %+v", got)
		}
		return err
	}
	if err := verify("UABC", now); err != nil {
		t.Errorf("first use = %v", err)
	}
	if err := verify("UDEF", now); reason(err) != identity.Stolen {
		t.Errorf("the same document with another key = %v, want %s", err, identity.Stolen)
	}
	if err := verify("UABC", now.Add(72*time.Hour)); err != nil {
		t.Errorf("the bound key after three days = %v", err)
	}
	c.mu.Lock()
	delete(c.launched, node)
	c.mu.Unlock()
	if err := verify("UABC", now); reason(err) != identity.UnknownInstance {
		t.Errorf("after the end of the instance = %v, want %s", err, identity.UnknownInstance)
	}
	if text, err := (identity.Token{Verifier: "awsdocument", Claim: statement("", now).Claim, Proof: data}).Encode(); err != nil {
		t.Errorf("token of %d bytes: %v", len(text), err)
	}
	other := statement("UABC", now)
	other.Node = "i-01"
	if _, err := p.Prove(t.Context(), other); err == nil || !strings.Contains(err.Error(), "--id "+node) {
		t.Errorf("proof for another node = %v, want the right flag", err)
	}
}

func TestWrongDocumentsAreRefusedAndBindNothing(t *testing.T) {
	c := newCloud(t)
	v := c.verifier()
	young := now.Add(-2 * time.Minute)
	of := func(account, region, instance string, pending time.Time) json.RawMessage {
		return proof(c.document(account, region, instance, pending))
	}
	text, signature := c.document(account, region, node, young)
	foreign := newCloud(t)
	for name, tc := range map[string]struct {
		proof  json.RawMessage
		change func(*identity.Statement)
		want   identity.Reason
	}{
		"forged signature":    {proof(foreign.document(account, region, node, young)), nil, identity.Forged},
		"changed document":    {proof(strings.Replace(text, "m7i.large", "m7i.small", 1), signature), nil, identity.Forged},
		"no signature":        {proof(text, nil), nil, identity.Forged},
		"another account":     {of("999999999999", region, node, young), nil, identity.ForeignAccount},
		"another region":      {of(account, "us-east-1", node, young), nil, identity.ForeignAccount},
		"another instance":    {of(account, region, "i-0fedcba9876543210", young), nil, identity.WrongName},
		"old document":        {of(account, region, node, now.Add(-16*time.Minute)), nil, identity.Stale},
		"of the future":       {of(account, region, node, now.Add(6*time.Minute)), nil, identity.Stale},
		"old at the provider": {proof(text, signature), func(*identity.Statement) { c.launched[node] = now.Add(-time.Hour) }, identity.Stale},
		"launch is unknown":   {proof(text, signature), func(*identity.Statement) { c.launched[node] = time.Time{} }, identity.Unavailable},
		"provider is down":    {proof(text, signature), func(*identity.Statement) { c.fails = errors.New("throttled") }, identity.Unavailable},
		"unknown instance":    {proof(text, signature), func(*identity.Statement) { delete(c.launched, node) }, identity.UnknownInstance},
		"another pool":        {proof(text, signature), func(s *identity.Statement) { s.Pool = "db" }, identity.WrongName},
		"not JSON":            {json.RawMessage(`"x"`), nil, identity.Malformed},
		"document not JSON":   {proof("<xml>", signature), nil, identity.Malformed},
		"long document":       {proof(strings.Repeat(" ", 2100)+text, signature), nil, identity.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			c.launched, c.fails = map[string]time.Time{node: now.Add(-time.Minute)}, nil
			s := statement("UABC", now)
			if tc.change != nil {
				tc.change(&s)
			}
			got, err := v.Verify(t.Context(), identity.Request{Statement: s, Proof: tc.proof})
			if reason(err) != tc.want || strings.Contains(err.Error(), "\n") {
				t.Errorf("Verify = %+v, %v, want %s in one line", got, err, tc.want)
			}
			if len(c.bound) != 0 {
				t.Errorf("bindings = %v, want none", c.bound)
			}
		})
	}
}

func TestCertificatesAndSettingsAreChecked(t *testing.T) {
	c := newCloud(t)
	for name, path := range map[string]string{"missing": "/nonexistent", "not PEM": os.Args[0]} {
		_, err := awsdocument.Kind().Open(t.Context(), identity.Site{
			Settings: &awsdocument.Settings{Certificates: map[string]string{region: path}}, Instances: c, Bindings: c,
		})
		if err == nil || !strings.Contains(err.Error(), "certificates."+region) {
			t.Errorf("%s = %v, want the key", name, err)
		}
	}
	s := &awsdocument.Settings{Certificates: map[string]string{"a b": "/x", region: "x"}, Accounts: []string{"1"}}
	if got := s.Check(); len(got) != 3 {
		t.Errorf("Check = %v, want 3 problems", got)
	}
	if got := new(awsdocument.Settings).Check(); len(got) != 2 {
		t.Errorf("Check of empty settings = %v, want 2 problems", got)
	}
}

func FuzzProof(f *testing.F) {
	c := newCloud(f)
	v := c.verifier()
	f.Add([]byte(proof(c.document("999999999999", region, node, now))))
	f.Add([]byte(`{"document":"e30=","signature":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := v.Verify(t.Context(), identity.Request{Statement: statement("UABC", now), Proof: data}); err == nil {
			t.Errorf("Verify(%q) = %+v", data, got)
		}
	})
}
