package awssts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	maxAge      = 5 * time.Minute
	maxProof    = 3400
	maxAnswer   = 16 << 10                // bytes
	maxCA       = 1 << 20                 // bytes
	callTimeout = 1500 * time.Millisecond // of one request to STS, within the server's limit for a connection
	idleCalls   = 64                      // kept connections to STS
)

// verifier sends the signed requests of agents to STS.
type verifier struct {
	settings Settings
	client   *http.Client
}

func newVerifier(s Settings) (*verifier, error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext, TLSHandshakeTimeout: callTimeout,
		MaxIdleConnsPerHost: idleCalls, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
	if s.CAFile != "" {
		data, err := inputfile.Read(s.CAFile, maxCA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("read %s: it has no certificate: name a file of certificates in PEM", s.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &verifier{settings: s, client: &http.Client{
		Transport: transport, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Verify implements identity.Verifier.
func (v *verifier) Verify(ctx context.Context, r identity.Request) (identity.Identity, error) {
	var p proof
	if err := strictjson.Within(r.Proof, maxProof, &p); err != nil {
		return identity.Identity{}, identity.Refuse(identity.Malformed, "proof: %v; install one version of weir for the agent and \"weir auth\"", err)
	}
	if !slices.Contains(v.settings.Endpoints, p.Endpoint) {
		return identity.Identity{}, identity.Refuse(identity.ForeignAccount, "endpoint %.100q is not in auth.verifiers.awssts.endpoints: add it there, or correct identity.awssts.endpoint of the agent", p.Endpoint)
	}
	if err := p.check(r.Now); err != nil {
		return identity.Identity{}, err
	}
	caller, err := v.call(ctx, p, r.Statement)
	if err != nil {
		return identity.Identity{}, err
	}
	return v.identify(caller, r.Claim)
}

// answer is the answer of GetCallerIdentity.
type answer struct {
	XMLName xml.Name `xml:"GetCallerIdentityResponse"`
	Result  struct {
		Arn     string `xml:"Arn"`
		Account string `xml:"Account"`
	} `xml:"GetCallerIdentityResult"`
}

// call sends the request to STS.
func (v *verifier) call(ctx context.Context, p proof, s identity.Statement) (a answer, err error) {
	r, err := request(ctx, p.Endpoint, s)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("X-Amz-Date", p.Date)
	r.Header.Set("Authorization", p.Authorization)
	if p.Token != "" {
		r.Header.Set("X-Amz-Security-Token", p.Token)
	}
	response, err := v.client.Do(r)
	if err != nil {
		return answer{}, identity.Refuse(identity.Unavailable, "send the request to STS: %v", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch status := response.StatusCode; {
	case err != nil:
		return answer{}, identity.Refuse(identity.Unavailable, "read the answer of STS: %v", err)
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return answer{}, identity.Refuse(identity.Forged, "STS refuses the signed request with status %d: check the instance role and the clock of the machine", status)
	case status != http.StatusOK:
		return answer{}, identity.Refuse(identity.Unavailable, "STS answers with status %d", status)
	case len(data) > maxAnswer:
		err = errors.New("it is too long")
	default:
		err = xml.Unmarshal(data, &a)
	}
	if err != nil {
		return answer{}, identity.Refuse(identity.Unavailable, "read the answer of STS: %v", err)
	}
	return a, nil
}

// session has no bound for the role, which maxRole is: a regular expression has a copy for each repetition.
var session = regexp.MustCompile(`^arn:aws[a-z-]*:sts::([0-9]{12}):assumed-role/([A-Za-z0-9+=,.@_-]+)/(i-[0-9a-f]{8,17})$`)

// identify returns the node of a caller, in the claimed pool if the caller's role may join it.
func (v *verifier) identify(a answer, claim identity.Claim) (identity.Identity, error) {
	parts := session.FindStringSubmatch(a.Result.Arn)
	if parts == nil || parts[1] != a.Result.Account || len(parts[2]) > maxRole {
		return identity.Identity{}, identity.Refuse(identity.ForeignAccount, "caller %.200q is not the instance role of an EC2 machine: give the machine an instance role", a.Result.Arn)
	}
	account, role, node := parts[1], parts[2], parts[3]
	known := false
	for _, allowed := range v.settings.Allow {
		if allowed.Account != account || allowed.Role != role {
			continue
		}
		if known = true; slices.Contains(allowed.Pools, claim.Pool) {
			return identity.Identity{Pool: claim.Pool, Node: node}, nil
		}
	}
	if known {
		return identity.Identity{}, identity.Refuse(identity.WrongName, "role %s of account %s may not join pool %s: add the pool to auth.verifiers.awssts.allow, or correct --pool of the agent", role, account, claim.Pool)
	}
	return identity.Identity{}, identity.Refuse(identity.ForeignAccount, "role %s of account %s is not in auth.verifiers.awssts.allow: add it there, or give the machine another role", role, account)
}
