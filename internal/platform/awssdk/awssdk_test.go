package awssdk_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
)

func nop() aws.Retryer { return aws.NopRetryer{} }

// Load trusts the authorities of AWS_CA_BUNDLE.
func TestLoadWithAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(bundle, block, 0o600); err != nil {
		t.Fatal(err)
	}
	clearEnvironment(t)
	t.Setenv("AWS_CA_BUNDLE", bundle)
	loaded, err := awssdk.Load(t.Context(), awssdk.Config{Region: "eu-central-1"}, awssdk.HTTPClient(), nop)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := loaded.HTTPClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, want %d", answer.StatusCode, http.StatusNoContent)
	}
}

func TestRegion(t *testing.T) {
	clearEnvironment(t)
	for _, tc := range []struct {
		name string
		c    awssdk.Config
		want string
		err  error
	}{
		{"none", awssdk.Config{}, "", awssdk.ErrNoRegion},
		{"none, with keys", awssdk.Config{Keys: awssdk.Fixed("a", "b")}, "", awssdk.ErrNoRegion},
		{"none, a server of its own", awssdk.Config{Endpoint: "http://localhost"}, "us-east-1", nil},
		{"given", awssdk.Config{Region: "eu-central-1"}, "eu-central-1", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			loaded, err := awssdk.Load(t.Context(), tc.c, awssdk.HTTPClient(), nop)
			if !errors.Is(err, tc.err) || loaded.Region != tc.want {
				t.Errorf("Load = %q, %v, want %q, %v", loaded.Region, err, tc.want, tc.err)
			}
		})
	}
}

// clearEnvironment removes everything that the SDK could find.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_CA_BUNDLE"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, os.DevNull)
	}
}
