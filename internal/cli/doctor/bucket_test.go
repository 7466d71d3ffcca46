package doctor

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

// oneOf requires one finding with that result and these texts, and a fix for a failure.
func oneOf(t *testing.T, all []Finding, r Result, texts ...string) {
	t.Helper()
	for i := range all {
		all[i].Check = "x"
	}
	want(t, all, "x", r, texts...)
}

// skewed serves the server, with another time in its responses.
func skewed(t *testing.T, endpoint string, ahead time.Duration) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // the signature includes the host
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			return nil
		},
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

// Each problem of the bucket is reported with what to do.
func TestBucketIsChecked(t *testing.T) {
	server := s3test.Start(t, "signals", "empty")
	site := func(bucket, endpoint string, keys signalbucket.Keys) Site {
		return Site{Keys: keys, Timeout: patience, Service: config.Service{
			AWS: config.AWS{SignalsBucket: bucket, Region: "us-east-1", EndpointURL: endpoint, PathStyle: true},
		}}
	}
	good := signalbucket.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey}
	b, err := signalbucket.Open(t.Context(), site("signals", server.Endpoint, good).Service, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "a/b", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	fine := site("signals", server.Endpoint, good).bucket(t.Context())
	oneOf(t, fine, OK, "s3://signals/", "may be listed and read")
	oneOf(t, fine, OK, "s3://signals/", "clock is that of this host")
	ahead := site("signals", skewed(t, server.Endpoint, 5*time.Minute), good).bucket(t.Context())
	oneOf(t, ahead, Failed, "s3://signals/: its clock is", "ahead of", "synchronize")
	oneOf(t, site("empty", server.Endpoint, good).bucket(t.Context()), Warned, "is empty", "weir release publish")
	oneOf(t, site("missing", server.Endpoint, good).bucket(t.Context()), Failed, "NoSuchBucket", "create the bucket")
	wrong := signalbucket.Keys{Access: s3test.AccessKey, Secret: "wrong"}
	oneOf(t, site("signals", server.Endpoint, wrong).bucket(t.Context()), Failed, "s3:ListBucket", "aws.access_key_file")
	oneOf(t, site("", server.Endpoint, good).bucket(t.Context()), OK, "names no bucket")
	server.Kill()
	oneOf(t, site("signals", server.Endpoint, good).bucket(t.Context()), Failed, "connection refused", "check the network")
}

// A bucket without signatures, and keys that are not keys, are reported.
func TestTrustedKeysAreChecked(t *testing.T) {
	t.Parallel()
	const key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	required := true
	for name, tc := range map[string]struct {
		releases config.Releases
		want     Result
		text     string
	}{
		"trusted":    {config.Releases{TrustedKeys: []string{key}}, OK, "1 keys of signers"},
		"unsigned":   {config.Releases{}, Warned, "need no signature"},
		"unreadable": {config.Releases{TrustedKeys: []string{"x"}}, Failed, "releases.trusted_keys"},
		"none":       {config.Releases{RequireSignature: &required}, Failed, "trusts no key"},
		"clusterman": {config.Releases{Layout: config.LayoutClusterman}, Warned, "have no signature"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Site{Service: config.Service{AWS: config.AWS{SignalsBucket: "b"}, Releases: tc.releases}}
			oneOf(t, s.keys(t.Context()), tc.want, tc.text)
		})
	}
}
