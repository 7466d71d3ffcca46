// Package awstest starts the AWS of package awsfake for tests. A server listens on loopback, or it has no listener and a
// [Client] calls it without a network, for tests in a bubble of testing/synctest. A server ends with its test. A control
// for a missing instance fails the test.
//
// A server and its client may be used concurrently.
package awstest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// New starts a server on loopback. It ends with the test.
func New(t testing.TB, c awsfake.Config) *awsfake.Server {
	listener := httptest.NewUnstartedServer(nil)
	s := awsfake.New("http://"+listener.Listener.Addr().String(), c, fail(t))
	listener.Config.Handler = s
	listener.Start()
	t.Cleanup(listener.Close)
	t.Cleanup(s.Close)
	return s
}

// NewDirect returns a server that does not listen. Its clients use [Client].
func NewDirect(t testing.TB, c awsfake.Config) *awsfake.Server {
	s := awsfake.New(directURL, c, fail(t))
	t.Cleanup(s.Close)
	return s
}

// directURL is the address of a server that does not listen.
const directURL = "http://aws.test"

// fail returns a function that fails the test.
func fail(t testing.TB) func(error) { return func(err error) { t.Errorf("awstest: %v", err) } }

// Client sends requests to a server without a network, for tests in a bubble of testing/synctest.
type Client struct{ *awsfake.Server }

// Direct returns the client of a server that does not listen. ok is false for a server that listens.
func Direct(s *awsfake.Server) (client Client, ok bool) { return Client{s}, s.URL() == directURL }

// Do sends a request. A closed connection is io.ErrUnexpectedEOF.
func (c Client) Do(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if cut := recover(); cut == http.ErrAbortHandler {
			err = io.ErrUnexpectedEOF
		} else if cut != nil {
			panic(cut)
		}
	}()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// WithS3 returns the address of one endpoint for an S3 server and for s, as AWS has for all its services, until the test ends.
func WithS3(t testing.TB, s *awsfake.Server, address string) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	bucket := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the signature includes it
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request") {
			bucket.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}
