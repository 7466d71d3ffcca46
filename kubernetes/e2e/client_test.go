//go:build plane

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client sends requests to the API server as one user.
type client struct {
	base, token string
	http        *http.Client
}

func newClient(base, token string, ca []byte) *client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &client{base, token, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}}
}

// as returns a client of another user.
func (c *client) as(token string) *client { return &client{c.base, token, c.http} }

// refusal is a response that is not a success.
type refusal struct{ metav1.Status }

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Code, r.Reason, r.Message) }

// codeOf returns the status code of an error; 0: it is none of the API server.
func codeOf(err error) int {
	if r, is := err.(*refusal); is {
		return int(r.Code)
	}
	return 0
}

// do sends an object, and decodes the response into out. nil: none.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
		if strings.HasSuffix(path, "/status") {
			r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
		}
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		f := &refusal{}
		if json.Unmarshal(data, &f.Status) != nil || f.Code == 0 {
			f.Code, f.Message = int32(response.StatusCode), string(data)
		}
		return f
	}
	if out == nil {
		return nil // a health check answers with text
	}
	return json.Unmarshal(data, out)
}

// event is one of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch receives all objects of a path and their changes until ctx ends or the API server ends it.
func (c *client) watch(ctx context.Context, path string, receive func(event)) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?watch=true", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	for {
		var e event
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		receive(e)
	}
}
