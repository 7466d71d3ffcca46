package cloudfoundry

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestRequests(t *testing.T) {
	start := api.Start{App: "web", LastUpdated: 5, Version: "v1", Indices: []int{0}, Running: map[string]int{"v1": 2}}
	late := api.Start{App: "web", Version: "v1", Indices: []int{3}, Flapping: true}
	stop := api.Stop{App: "web", LastUpdated: 5, Version: "v1", Instances: map[string]string{"i2": "v0", "i1": "v1"}, Running: map[string]int{"v1": 1}}
	tests := []struct {
		name string
		in   api.Nudge
		wire string
	}{
		{"start", start.Request(), `{"droplet":"web","op":"START","last_updated":5,"version":"v1","indices":[0]}`},
		{"delayed start", late.Request(), `{"droplet":"web","op":"START","last_updated":null,"version":"v1","indices":[3],"flapping":true}`},
		{"stop", stop.Request(), `{"droplet":"web","op":"STOP","last_updated":5,"instances":["i1","i2"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := json.Marshal(tt.in)
			if err != nil || string(data) != tt.wire {
				t.Errorf("on the wire: %s, %v, want %s", data, err, tt.wire)
			}
		})
	}
}

func TestDecodeNudge(t *testing.T) {
	start := &api.Start{App: "web", LastUpdated: 5, Version: "v1", Indices: []int{0}, Running: map[string]int{}}
	stop := &api.Stop{App: "web", Instances: map[string]string{"i1": ""}, Running: map[string]int{}}
	const in = `"droplet":"web","last_updated":5,"version":"v1","indices":[0]}`
	tests := []struct {
		name, subject, data string
		start               *api.Start
		stop                *api.Stop
	}{
		{"health start", message.SubjectStart, `{` + in, start, nil},
		{"health stop", message.SubjectStop, `{"droplet":"web","instances":{"i1":""}}`, nil, stop},
		{"classic start", RequestsSubject("default"), `{"op":"START",` + in, start, nil},
		{"classic stop", RequestsSubject("p2"), `{"op":"STOP","droplet":"web","last_updated":null,"instances":["i1",null]}`, nil, stop},
		{"classic without a partition", "cloudcontrollers.hm.requests", `{"op":"START",` + in, start, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start, stop, err := DecodeNudge(tt.subject, []byte(tt.data))
			if err != nil || !cmp.Equal(start, tt.start) || !cmp.Equal(stop, tt.stop) {
				t.Errorf("DecodeNudge = %+v, %+v, %v", start, stop, err)
			}
		})
	}
	for _, bad := range []struct{ name, subject, data string }{
		{"another subject", "dea.heartbeat", `{` + in}, {"near the subject", "cloudcontrollers.hm.requestsx", `{"op":"START",` + in},
		{"no op", RequestsSubject("default"), `{` + in}, {"unknown op", RequestsSubject("default"), `{"op":"KILL",` + in},
		{"bad start", message.SubjectStart, `{"droplet":"web","indices":[-1]}`}, {"bad stop", RequestsSubject("default"), `{"op":"STOP"}`},
	} {
		t.Run(bad.name, func(t *testing.T) {
			if start, stop, err := DecodeNudge(bad.subject, []byte(bad.data)); err == nil || start != nil || stop != nil {
				t.Errorf("DecodeNudge = %+v, %+v, %v", start, stop, err)
			}
		})
	}
	_, _, err := decodeRequest([]byte(`{"op":"KILL"}`))
	if fe, ok := errors.AsType[*message.FieldError](err); !ok || fe.Field != "op" {
		t.Errorf("decodeRequest = %v, want a problem with op", err)
	}
}

func FuzzDecodeNudge(f *testing.F) {
	for _, s := range []string{`{"droplet":"a","op":"START","indices":[1]}`, `{"droplet":"a","op":"STOP","instances":["i",null]}`, `{`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if start, stop, err := decodeRequest(data); err == nil && (start == nil) == (stop == nil) {
			t.Errorf("decodeRequest(%q) is %v and %v", data, start, stop)
		}
	})
}
