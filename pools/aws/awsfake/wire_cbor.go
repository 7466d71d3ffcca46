package awsfake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

// cborService is the name of CloudWatch in the path of a request.
const cborService = "/service/GraniteServiceVersion20100801/operation/"

// readCBOR decodes a request of the protocol rpc-v2-cbor.
func (s *Server) readCBOR(r *http.Request, body []byte) (incoming, error) {
	in := incoming{service: monitoring, params: params{}}
	action, ok := strings.CutPrefix(r.URL.Path, cborService)
	if !ok {
		return in, refuse("UnknownOperationException", "no service at %s", r.URL.Path)
	}
	in.action = action
	if r.Header.Get("Content-Encoding") == "gzip" { // the SDK compresses the values of PutMetricData
		whole, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(whole, largest))
		}
		if err != nil {
			return in, refuse("SerializationException", "%v", err)
		}
	}
	members := []byte("{}")
	if len(body) > 0 {
		value, err := cbor.Decode(body)
		if err == nil {
			members, err = json.Marshal(plain(value))
		}
		if err != nil {
			return in, refuse("SerializationException", "%v", err)
		}
	}
	if err := in.params.json(members); err != nil {
		return in, refuse("SerializationException", "%v", err)
	}
	return in, s.credentials(r, &in)
}

// plain returns a value as JSON has it. A time is the number of seconds.
func plain(v cbor.Value) any {
	switch v := v.(type) {
	case cbor.Map:
		out := map[string]any{}
		for name, member := range v {
			out[name] = plain(member)
		}
		return out
	case cbor.List:
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = plain(member)
		}
		return out
	case *cbor.Tag:
		return plain(v.Value)
	case cbor.String:
		return string(v)
	case cbor.Uint:
		return uint64(v)
	case cbor.NegInt:
		return -int64(v)
	case cbor.Bool:
		return bool(v)
	case cbor.Float32:
		return float64(v)
	case cbor.Float64:
		return float64(v)
	}
	return nil
}

// encoded returns an answer of maps, lists, texts, numbers and times.
func encoded(v any) cbor.Value {
	switch v := v.(type) {
	case nil:
		return cbor.Map{}
	case map[string]any:
		out := cbor.Map{}
		for name, member := range v {
			out[name] = encoded(member)
		}
		return out
	case []any:
		out := make(cbor.List, len(v))
		for i, member := range v {
			out[i] = encoded(member)
		}
		return out
	case string:
		return cbor.String(v)
	case float64:
		return cbor.Float64(v)
	case time.Time:
		return &cbor.Tag{ID: 1, Value: cbor.Float64(float64(v.UnixMilli()) / 1000)}
	}
	return cbor.String(fmt.Sprintf("no form of %T", v)) // a mistake in this package: no client expects it
}

// writeCBOR sets the headers of a response of the protocol rpc-v2-cbor, and returns its body. Its date is that of the clock of the server.
func writeCBOR(h http.Header, now time.Time, answer any, f *fault) []byte {
	h.Set("Content-Type", "application/cbor")
	h.Set("Smithy-Protocol", "rpc-v2-cbor")
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	if f != nil {
		h.Set("X-Amzn-Query-Error", f.code+";Sender")
		answer = map[string]any{"__type": "com.amazonaws.cloudwatch#" + f.code, "message": f.message}
	}
	return cbor.Encode(encoded(answer))
}
