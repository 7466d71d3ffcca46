package awssts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awssts"
)

const (
	region  = "eu-central-1"
	account = "123456789012"
	role    = "weir-node"
	node    = "i-0123456789abcdef0"
)

// sts is an STS of the test's own. It verifies signatures as AWS does, for one access key.
type sts struct {
	*httptest.Server
	arn     atomic.Pointer[string]
	respond atomic.Pointer[http.HandlerFunc] // in place of the answer; nil: the answer
	ca      string
}

// newSTS starts an STS, and gives the process the credentials of an instance role.
func newSTS(tb testing.TB) *sts {
	tb.Helper()
	tb.Setenv("AWS_ACCESS_KEY_ID", "ASIAEXAMPLEEXAMPLE12")
	tb.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	tb.Setenv("AWS_SESSION_TOKEN", strings.Repeat("IQoJb3JpZ2luX2VjE+/=", 70))
	s := &sts{ca: filepath.Join(tb.TempDir(), "ca.pem")}
	s.caller(account, role, node)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.handle))
	tb.Cleanup(s.Close)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.ca, cert, 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

func (s *sts) caller(account, role, session string) {
	s.arn.Store(new(fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", account, role, session)))
}

func (s *sts) handle(w http.ResponseWriter, r *http.Request) {
	if respond := s.respond.Load(); respond != nil {
		(*respond)(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "Action=GetCallerIdentity&Version=2011-06-15" || r.Method != http.MethodPost || r.URL.Path != "/" {
		http.Error(w, "no such action", http.StatusBadRequest)
		return
	}
	if !valid(r, body) {
		http.Error(w, "<Error><Code>SignatureDoesNotMatch</Code></Error>", http.StatusForbidden)
		return
	}
	fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>`+
		`<Arn>%s</Arn><UserId>AROA:%s</UserId><Account>%s</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`,
		*s.arn.Load(), node, strings.Split(*s.arn.Load(), ":")[4])
}

// valid signs the request again, with the headers that its signature covers.
func valid(r *http.Request, body []byte) bool {
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	again, err := http.NewRequest(r.Method, "https://"+r.Host+"/", strings.NewReader(string(body)))
	at, errTime := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || errTime != nil {
		return false
	}
	for header := range strings.SplitSeq(list, ";") {
		if v := r.Header.Get(header); v != "" {
			again.Header.Set(header, v)
		}
	}
	keys := aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN")}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), keys, again, hex.EncodeToString(sum[:]), "sts", region, at); err != nil {
		return false
	}
	return again.Header.Get("Authorization") == r.Header.Get("Authorization")
}

func statement() identity.Statement {
	return identity.Statement{Claim: identity.Claim{Cluster: "prod", Pool: "web", Node: node}, Key: "UABC", Nonce: "nonce", Now: time.Now()}
}

func (s *sts) verifier(tb testing.TB) identity.Verifier {
	tb.Helper()
	v, err := awssts.Kind().Open(tb.Context(), identity.Site{Settings: &awssts.Settings{
		Endpoints: []string{s.URL}, CAFile: s.ca, Allow: []awssts.Role{{Account: account, Role: role, Pools: []string{"web"}}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func prove(tb testing.TB, endpoint string, s identity.Statement) json.RawMessage {
	tb.Helper()
	p, err := awssts.Kind().Prove(tb.Context(), &awssts.ProverSettings{Endpoint: endpoint, Region: region})
	if err != nil {
		tb.Fatal(err)
	}
	proof, err := p.Prove(tb.Context(), s)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(proof)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func reason(err error) identity.Reason {
	if r, ok := errors.AsType[*identity.Refusal](err); ok {
		return r.Reason
	}
	return ""
}

func TestInstanceRoleProvesItsInstance(t *testing.T) {
	s := newSTS(t)
	proof := prove(t, s.URL, statement())
	got, err := s.verifier(t).Verify(t.Context(), identity.Request{Statement: statement(), Proof: proof})
	if err != nil || got != (identity.Identity{Pool: "web", Node: node}) {
		t.Errorf("Verify = %+v, %v", got, err)
	}
	text, err := identity.Token{Verifier: "awssts", Claim: statement().Claim, Proof: proof}.Encode()
	if err != nil {
		t.Errorf("a token with a session token of 1.4 KB: %v", err)
	}
	t.Logf("the token has %d bytes", len(text))
}

func TestWrongProofsAreRefused(t *testing.T) {
	s := newSTS(t)
	foreign := newSTS(t)
	valid := string(prove(t, s.URL, statement()))
	old := statement()
	old.Now = old.Now.Add(-6 * time.Minute)
	tests := map[string]struct {
		proof  string
		change func(*identity.Statement)
		want   identity.Reason
	}{
		"stolen by another agent":    {valid, func(s *identity.Statement) { s.Key = "UDEF" }, identity.Forged},
		"of another cluster":         {valid, func(s *identity.Statement) { s.Cluster = "test" }, identity.Forged},
		"stale":                      {string(prove(t, s.URL, old)), nil, identity.Stale},
		"of the future":              {valid, func(s *identity.Statement) { s.Now = s.Now.Add(-6 * time.Minute) }, identity.Stale},
		"another endpoint":           {string(prove(t, foreign.URL, statement())), nil, identity.ForeignAccount},
		"endpoint with a user":       {strings.Replace(valid, "https://", "https://x@", 1), nil, identity.ForeignAccount},
		"changed signature":          {flip(valid), nil, identity.Forged},
		"header is not signed":       {strings.Replace(valid, ";x-weir-identity", "", 1), nil, identity.Forged},
		"another service":            {strings.Replace(valid, "/sts/aws4", "/iam/aws4", 1), nil, identity.Malformed},
		"another algorithm":          {strings.Replace(valid, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256", 1), nil, identity.Malformed},
		"line break in a header":     {strings.Replace(valid, `"token":"`, `"token":"\r\nHost: x`, 1), nil, identity.Malformed},
		"unknown key":                {strings.Replace(valid, `"endpoint"`, `"body":"Action=x","endpoint"`, 1), nil, identity.Malformed},
		"date of another day":        {strings.Replace(valid, `"date":"2`, `"date":"1`, 1), nil, identity.Malformed},
		"pool that has no such role": {valid, func(s *identity.Statement) { s.Pool = "db" }, identity.WrongName},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			of := statement()
			if tc.change != nil {
				tc.change(&of)
			}
			got, err := s.verifier(t).Verify(t.Context(), identity.Request{Statement: of, Proof: json.RawMessage(tc.proof)})
			if reason(err) != tc.want || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("Verify = %+v, %v, want %s in one line", got, err, tc.want)
			}
		})
	}
}

// flip changes the last digit of the signature.
func flip(proof string) string {
	i := strings.LastIndex(proof, `"`) - 1
	digit := "0"
	if proof[i] == '0' {
		digit = "1"
	}
	return proof[:i] + digit + proof[i+1:]
}

func TestForeignCallersAreRefused(t *testing.T) {
	s := newSTS(t)
	v := s.verifier(t)
	for name, tc := range map[string]struct {
		account, role, session string
		want                   identity.Reason
	}{
		"another account": {"999999999999", role, node, identity.ForeignAccount},
		"another role":    {account, "admin", node, identity.ForeignAccount},
		"a person":        {account, role, "alice", identity.ForeignAccount},
		"role in a path":  {account, "x/" + role, node, identity.ForeignAccount},
	} {
		t.Run(name, func(t *testing.T) {
			s.caller(tc.account, tc.role, tc.session)
			got, err := v.Verify(t.Context(), identity.Request{Statement: statement(), Proof: prove(t, s.URL, statement())})
			if reason(err) != tc.want {
				t.Errorf("Verify = %+v, %v, want %s", got, err, tc.want)
			}
		})
	}
	s.caller(account, role, "i-0fedcba9876543210")
	got, err := v.Verify(t.Context(), identity.Request{Statement: statement(), Proof: prove(t, s.URL, statement())})
	if err != nil || got.Node == node {
		t.Errorf("Verify of another instance = %+v, %v, want that instance's name", got, err)
	}
}

// An endpoint that misbehaves is "unavailable", and never accepts.
func TestBadEndpointsAreBounded(t *testing.T) {
	s := newSTS(t)
	v := s.verifier(t)
	proof := prove(t, s.URL, statement())
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	t.Cleanup(other.Close)
	for name, respond := range map[string]http.HandlerFunc{
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		},
		"mute": func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil { // the server detects a closed connection after the body
				<-r.Context().Done()
			}
		},
		"not XML":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"fails":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"throttles": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
	} {
		t.Run(name, func(t *testing.T) {
			s.respond.Store(&respond)
			got, err := v.Verify(t.Context(), identity.Request{Statement: statement(), Proof: proof})
			if reason(err) != identity.Unavailable {
				t.Errorf("Verify = %+v, %v, want %s", got, err, identity.Unavailable)
			}
		})
	}
	if elsewhere.Load() {
		t.Error("the verifier followed a redirect")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	s := &awssts.Settings{Endpoints: []string{"http://sts.amazonaws.com", "https://sts.amazonaws.com/x"}, Allow: []awssts.Role{{Account: "1", Role: "a/b"}}}
	if got := len(s.Check()); got != 5 {
		t.Errorf("Check = %v, want 5 problems", s.Check())
	}
	if got := len(new(awssts.Settings).Check()); got != 2 {
		t.Errorf("Check of empty settings has %d problems, want 2", got)
	}
	if got := new(awssts.ProverSettings).Check(); len(got) != 2 {
		t.Errorf("Check of an empty prover = %v, want 2 problems", got)
	}
}

func FuzzProof(f *testing.F) {
	s := newSTS(f)
	v := s.verifier(f)
	f.Add(`{"endpoint":"` + s.URL + `","date":"20260101T000000Z","authorization":"AWS4-HMAC-SHA256 Credential=A/20260101/x/sts/aws4_request, SignedHeaders=host, Signature=00"}`)
	f.Fuzz(func(t *testing.T, proof string) {
		if got, err := v.Verify(t.Context(), identity.Request{Statement: statement(), Proof: json.RawMessage(proof)}); err == nil {
			t.Errorf("Verify(%q) = %+v", proof, got)
		}
	})
}
