package awsfake

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// largest is the maximum size of a request's body, in bytes.
const largest = 1 << 20

// incoming is a decoded request.
type incoming struct {
	service, action string
	key             string // id of the access key of the signature
	params          params
}

// read decodes a request. If the service can be found, it is set even with an error.
func (s *Server) read(r *http.Request) (incoming, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, largest))
	if err != nil {
		return incoming{service: "ec2"}, refuse("MalformedQueryString", "the body cannot be read: %v", err)
	}
	in := incoming{params: params{}}
	if r.Header.Get("Smithy-Protocol") == "rpc-v2-cbor" {
		return s.readCBOR(r, body)
	}
	if service, what, is := strings.Cut(r.Header.Get("X-Amz-Target"), "."); is {
		in.service, in.action = map[string]string{"AmazonSQS": "sqs", "AWSPriceListService": pricing}[service], what
		if err := in.params.json(body); err != nil {
			return in, refuse("SerializationException", "%v", err)
		}
		err := s.credentials(r, &in)
		return in, err
	}
	form, err := url.ParseQuery(string(body))
	for name, values := range form {
		in.params[name] = values[0]
	}
	in.action = in.params["Action"]
	switch in.service = "ec2"; in.params["Version"] {
	case "2016-11-15":
	case "2011-01-01":
		in.service = "autoscaling"
	case "2015-12-01":
		in.service = "elasticloadbalancing"
	default:
		return in, refuse("InvalidAction", "The action %s is not valid for this web service.", in.action)
	}
	delete(in.params, "Action")
	delete(in.params, "Version")
	if err != nil {
		return in, refuse("MalformedQueryString", "%v", err)
	}
	err = s.credentials(r, &in)
	return in, err
}

// json adds the members of an object: texts as they are, other values as JSON.
func (p params) json(body []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	for name, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		p[name] = text
	}
	return nil
}

// credentials sets the key of a request. It returns an error for missing credentials, or for
// credentials of another region or service.
func (s *Server) credentials(r *http.Request, in *incoming) error {
	_, rest, ok := strings.Cut(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	scope := strings.Split(strings.SplitN(rest, ",", 2)[0], "/")
	in.key = scope[0]
	switch {
	case !ok || len(scope) != 5 || scope[0] == "" || !strings.Contains(rest, "Signature="):
		return &fault{http.StatusForbidden, "MissingAuthenticationToken", "Request is missing Authentication Token"}
	case in.service == pricing && slices.Contains(pricingRegions, scope[2]):
	case scope[2] != s.Region():
		return &fault{http.StatusForbidden, "SignatureDoesNotMatch", fmt.Sprintf("Credential should be scoped to a valid region, not '%s'.", scope[2])}
	case scope[3] != in.service:
		return &fault{http.StatusForbidden, "SignatureDoesNotMatch", fmt.Sprintf("Credential should be scoped to correct service: '%s'.", in.service)}
	}
	return nil
}

// write sends the response in the format of the service.
func (s *Server) write(w http.ResponseWriter, in incoming, id string, answer any, err error) {
	var body []byte
	status := http.StatusOK
	f, refused := errors.AsType[*fault](err)
	if refused {
		status = f.status
	}
	w.Header().Set("X-Amzn-Requestid", id)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	switch in.service {
	case "sqs":
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if refused {
			w.Header().Set("X-Amzn-Query-Error", queryCode(f.code)+";Sender")
			answer = queueFault{Type: "com.amazonaws.sqs#" + f.code, Message: f.message}
		}
		body, err = json.Marshal(answer)
	case pricing:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if refused {
			answer = queueFault{Type: f.code, Message: f.message}
		}
		body, err = json.Marshal(answer)
	case monitoring:
		body, err = writeCBOR(w.Header(), s.Now(), answer, f), nil
	case "autoscaling", "elasticloadbalancing":
		body, err = queryXML(in.service, in.action, id, answer, f)
	default:
		body, err = computeXML(in.action, id, answer, f)
	}
	if err != nil {
		// A response that cannot be encoded is a mistake in this package.
		status, body = http.StatusInternalServerError, []byte(err.Error())
	}
	w.WriteHeader(status)
	w.Write(body)
}

// queryXML encodes a response of the query protocol.
func queryXML(service, action, id string, answer any, f *fault) ([]byte, error) {
	space := "http://autoscaling.amazonaws.com/doc/2011-01-01/"
	if service != "autoscaling" {
		space = "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"
	}
	if f != nil {
		return document("ErrorResponse", space, struct {
			Type      string `xml:"Error>Type"`
			Code      string `xml:"Error>Code"`
			Message   string `xml:"Error>Message"`
			RequestID string `xml:"RequestId"`
		}{"Sender", f.code, f.message, id})
	}
	inner, err := element(action+"Result", answer) // empty without a response
	if err != nil {
		return nil, err
	}
	return document(action+"Response", space, struct {
		Inner     string `xml:",innerxml"`
		RequestID string `xml:"ResponseMetadata>RequestId"`
	}{string(inner), id})
}

// computeXML encodes a response of EC2.
func computeXML(action, id string, answer any, f *fault) ([]byte, error) {
	if f != nil {
		return document("Response", "", struct {
			Code      string `xml:"Errors>Error>Code"`
			Message   string `xml:"Errors>Error>Message"`
			RequestID string
		}{f.code, f.message, id})
	}
	inner, err := element("r", answer)
	if err != nil {
		return nil, err
	}
	inner = bytes.TrimSuffix(bytes.TrimPrefix(inner, []byte("<r>")), []byte("</r>"))
	return document(action+"Response", "http://ec2.amazonaws.com/doc/2016-11-15/", struct {
		Inner     string `xml:",innerxml"`
		RequestID string `xml:"requestId"`
	}{string(inner), id})
}

func document(name, space string, content any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	start := xml.StartElement{Name: xml.Name{Local: name}}
	if space != "" {
		start.Attr = []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: space}}
	}
	err := xml.NewEncoder(&b).EncodeElement(content, start)
	return b.Bytes(), err
}

func element(name string, content any) ([]byte, error) {
	var b bytes.Buffer
	err := xml.NewEncoder(&b).EncodeElement(content, xml.StartElement{Name: xml.Name{Local: name}})
	return b.Bytes(), err
}
