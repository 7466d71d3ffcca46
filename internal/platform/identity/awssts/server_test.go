package awssts_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awssts"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
)

// A NATS server admits the instance of the signed request, and with its proof no other node.
func TestServerAdmitsTheInstance(t *testing.T) {
	s := newSTS(t)
	site := identitytest.Serve(t, "awssts", s.verifier(t))
	p, err := awssts.Kind().Prove(t.Context(), &awssts.ProverSettings{Endpoint: s.URL, Region: region})
	if err != nil {
		t.Fatal(err)
	}
	site.Expect(statement().Claim, p, identitytest.Key(t, nkeys.CreateUser))
	s.caller(account, role, "i-0fedcba9876543210")
	if _, err := site.Connect(statement().Claim, p, identitytest.Key(t, nkeys.CreateUser)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another instance with this name: %v, want a refusal", err)
	}
}
