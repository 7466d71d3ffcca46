package api_test

import (
	"encoding/json"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestPortsInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","port":80}`:     `{"name":"a","port":80}`,
		`{"name":"a","port":"auto"}`: `{"name":"a","port":"auto"}`,
		`{"name":"a","port":-1}`:     "",
		`{"name":"a","port":"80"}`:   "",
		`{"name":"a","port":1.5}`:    "",
	} {
		var p api.Port
		err := json.Unmarshal([]byte(text), &p)
		got, _ := json.Marshal(p)
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]api.PortRef{`80`: {Number: 80}, `"http"`: {Name: "http"}} {
		var p api.PortRef
		err := json.Unmarshal([]byte(text), &p)
		if got, _ := json.Marshal(p); err != nil || p != want || string(got) != text {
			t.Errorf("%s: %+v as %s, %v", text, p, got, err)
		}
	}
}
