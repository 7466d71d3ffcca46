package awsfake_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"
)

// exchange is one request with its response.
type exchange struct {
	Service string `json:"service"`
	Action  string `json:"action"`
	Status  int    `json:"status"`
	Target  string `json:"target"`
	Request string `json:"request"`
	Answer  string `json:"answer"`
}

// recorder is an HTTP client that records requests and responses.
type recorder struct {
	client   http.Client
	mu       sync.Mutex
	exchange []exchange
}

func newRecorder(t *testing.T) *recorder {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &recorder{client: http.Client{Transport: transport}}
}

// Do implements the SDK's HTTPClient.
func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		var err error
		if sent, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	r.remember(request, string(sent), response.StatusCode, string(answer))
	return response, nil
}

func (r *recorder) remember(request *http.Request, sent string, status int, answer string) {
	s := exchange{Target: request.Header.Get("X-Amz-Target"), Status: status, Request: sent, Answer: answer}
	if action, is := strings.CutPrefix(request.URL.Path, "/service/GraniteServiceVersion20100801/operation/"); is {
		s.Service, s.Action, s.Target = "cloudwatch", action, "GraniteServiceVersion20100801."+action
		if request.Header.Get("Content-Encoding") == "gzip" {
			if whole, err := gzip.NewReader(strings.NewReader(sent)); err == nil {
				text, _ := io.ReadAll(whole) // the server has read it
				sent = string(text)
			}
		}
		s.Request, s.Answer = fromCBOR(sent), fromCBOR(answer)
	} else if service, what, is := strings.Cut(s.Target, "."); is {
		s.Service, s.Action = map[string]string{"AmazonSQS": "sqs", "AWSPriceListService": "pricing"}[service], what
	} else if form, err := url.ParseQuery(sent); err == nil {
		s.Action = form.Get("Action")
		s.Service = map[string]string{"2011-01-01": "autoscaling", "2015-12-01": "elasticloadbalancing", "2016-11-15": "ec2"}[form.Get("Version")]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchange = append(r.exchange, s)
}

// fromCBOR returns a body as JSON, with times as texts.
func fromCBOR(body string) string {
	value, err := cbor.Decode([]byte(body))
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(readable(value))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func readable(v cbor.Value) any {
	switch v := v.(type) {
	case cbor.Map:
		out := map[string]any{}
		for name, member := range v {
			out[name] = readable(member)
		}
		return out
	case cbor.List:
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = readable(member)
		}
		return out
	case *cbor.Tag:
		at, err := cbor.AsTime(v)
		if err != nil {
			return err.Error()
		}
		return at.String()
	case cbor.Float64: // JSON has no number with a point for a whole one
		return json.RawMessage(strconv.FormatFloat(float64(v), 'f', 1, 64))
	}
	return v
}

// operations returns the recorded operations, each once.
func (r *recorder) operations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, s := range r.exchange {
		names = append(names, s.Service+" "+s.Action)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
