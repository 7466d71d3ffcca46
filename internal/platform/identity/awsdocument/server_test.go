package awsdocument_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/identity/awsdocument"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
)

// A NATS server admits the first key with the document of an instance, again and again, and no other key.
func TestServerAdmitsTheFirstKey(t *testing.T) {
	c := newCloud(t)
	present := time.Now()
	c.launched[node] = present.Add(-time.Minute)
	site := identitytest.Serve(t, "awsdocument", c.verifier())
	p, err := awsdocument.Kind().Prove(t.Context(), &awsdocument.ProverSettings{Endpoint: c.metadata(c.document(account, region, node, present.Add(-time.Minute)))})
	if err != nil {
		t.Fatal(err)
	}
	claim, key := statement("", present).Claim, identitytest.Key(t, nkeys.CreateUser)
	for range 2 {
		site.Expect(claim, p, key)
	}
	if _, err := site.Connect(claim, p, identitytest.Key(t, nkeys.CreateUser)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("another key with the same document: %v, want a refusal", err)
	}
}
