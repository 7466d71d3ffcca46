package awssts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

const (
	body           = "Action=GetCallerIdentity&Version=2011-06-15"
	contentType    = "application/x-www-form-urlencoded; charset=utf-8"
	identityHeader = "X-Weir-Identity" // binds the proof to the cluster and the agent's nkey
	dateLayout     = "20060102T150405Z"
)

// proof is the proof's JSON value: the parts of the signed request that the verifier cannot build.
type proof struct {
	Endpoint      string `json:"endpoint"`
	Date          string `json:"date"`            // X-Amz-Date
	Token         string `json:"token,omitempty"` // X-Amz-Security-Token
	Authorization string `json:"authorization"`
}

// request returns the request of a proof. Its parts besides date, token and authorization are fixed by the
// configuration and the statement.
func request(ctx context.Context, endpoint string, s identity.Statement) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(identityHeader, s.Cluster+"/"+s.Key)
	return r, nil
}

// authorization has no bounds of repetition: a regular expression has a copy for each.
var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/([0-9]{8})/([a-z0-9-]+)/sts/aws4_request, ` +
	`SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]+)$`)

var plainToken = regexp.MustCompile(`^[A-Za-z0-9+/=_-]*$`)

// check verifies the form of a proof, and that the signature covers the header with the agent's nkey.
func (p proof) check(now time.Time) error {
	parts := authorization.FindStringSubmatch(p.Authorization)
	within := func(i, least, most int) bool { return len(parts[i]) >= least && len(parts[i]) <= most }
	if parts == nil || !within(1, 16, 128) || !within(3, 1, 32) || !within(4, 1, 200) || !within(5, 64, 64) || !plainToken.MatchString(p.Token) {
		return identity.Refuse(identity.Malformed, "proof: it is not a request signed with AWS signature version 4 for sts: connect with an agent of weir")
	}
	signed := strings.Split(parts[4], ";")
	for _, header := range []string{"host", "x-amz-date", strings.ToLower(identityHeader)} {
		if !slices.Contains(signed, header) {
			return identity.Refuse(identity.Forged, "the signature does not cover the header %s: connect with an agent of weir", header)
		}
	}
	at, err := time.Parse(dateLayout, p.Date)
	if err != nil || parts[2] != p.Date[:len("20060102")] {
		return identity.Refuse(identity.Malformed, "proof: its date is malformed: connect with an agent of weir")
	}
	if age := now.Sub(at); age.Abs() > maxAge {
		return identity.Refuse(identity.Stale, "the request was signed %v ago, at most %v are allowed: set the clock of the machine", age.Round(time.Second), maxAge)
	}
	return nil
}

// prover signs with the credentials of the instance role.
type prover struct {
	settings    ProverSettings
	credentials aws.CredentialsProvider
	signer      *v4.Signer
}

// newProver finds the credentials. They are cached and renewed before they end, so that a proof needs no request.
func newProver(ctx context.Context, s ProverSettings) (*prover, error) {
	loaded, err := awssdk.Load(ctx, awssdk.Config{Region: s.Region}, awssdk.HTTPClient(), func() aws.Retryer { return retry.NewStandard() })
	if err != nil {
		return nil, fmt.Errorf("find the credentials of the instance role: %w", err)
	}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("find the credentials of the instance role: %w; give the instance a role, or use another verifier", err)
	}
	return &prover{settings: s, credentials: loaded.Credentials, signer: v4.NewSigner()}, nil
}

// Prove implements identity.Prover.
func (p *prover) Prove(ctx context.Context, s identity.Statement) (any, error) {
	credentials, err := p.credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	r, err := request(ctx, p.settings.Endpoint, s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(body))
	if err := p.signer.SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), "sts", p.settings.Region, s.Now.UTC()); err != nil {
		return nil, err
	}
	made := proof{Endpoint: p.settings.Endpoint, Date: r.Header.Get("X-Amz-Date"), Token: r.Header.Get("X-Amz-Security-Token"), Authorization: r.Header.Get("Authorization")}
	if err := made.check(s.Now); err != nil {
		return nil, errors.Join(errors.New("sign a request of STS"), err)
	}
	return made, nil
}
