package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeQueries(t *testing.T) {
	if got, err := DecodeStatusQuery([]byte(`{"droplet":7,"state":"FLAPPING","version":"v1"}`)); err != nil || got != (StatusQuery{"7", "FLAPPING", "v1"}) {
		t.Errorf("DecodeStatusQuery = %v, %v", got, err)
	}
	health, err := DecodeHealthQuery([]byte(`{"droplets":[{"droplet":"a","version":"v1"},{"droplet":7}]}`))
	if want := (HealthQuery{Apps: []AppVersion{{"a", "v1"}, {"7", ""}}}); err != nil || !cmp.Equal(health, want) {
		t.Errorf("DecodeHealthQuery = %v, %v", health, err)
	}
	droplet, err := DecodeDropletQuery([]byte(`{"droplets":[{"droplet":"a"},{"droplet":7}]}`))
	if want := (DropletQuery{Apps: []string{"a", "7"}}); err != nil || !cmp.Equal(droplet, want) {
		t.Errorf("DecodeDropletQuery = %v, %v", droplet, err)
	}
	many := `{"droplets":[` + strings.Repeat(`{"droplet":"a"},`, MaxRequested) + `{"droplet":"a"}]}`
	for _, bad := range []string{"", `{"droplets":3}`, `{"droplets":[3]}`, `{"droplets":[{}]}`, many} {
		if _, err := DecodeHealthQuery([]byte(bad)); err == nil {
			t.Errorf("DecodeHealthQuery(%.40s) succeeded", bad)
		}
		if _, err := DecodeDropletQuery([]byte(bad)); err == nil {
			t.Errorf("DecodeDropletQuery(%.40s) succeeded", bad)
		}
	}
	for _, bad := range []string{"", `{"droplet":"a"}`, `{"state":"CRASHED"}`, `{"droplet":{},"state":"CRASHED"}`} {
		if _, err := DecodeStatusQuery([]byte(bad)); err == nil {
			t.Errorf("DecodeStatusQuery(%s) succeeded", bad)
		}
	}
}

func TestStatusAnswerHasRequestedEmptyList(t *testing.T) {
	for _, tt := range []struct {
		in   StatusAnswer
		want string
	}{
		{StatusAnswer{Indices: []IndexSince{}, Complete: true}, `{"indices":[],"complete":true}`},
		{StatusAnswer{Instances: []InstanceSince{{"i0", 1.5}}, Complete: true}, `{"instances":[{"instance":"i0","since":1.5}],"complete":true}`},
		{StatusAnswer{Error: "not complete"}, `{"complete":false,"error":"not complete"}`},
	} {
		if got, err := json.Marshal(tt.in); err != nil || string(got) != tt.want {
			t.Errorf("%+v is %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestDecodeCredentials(t *testing.T) {
	got, err := DecodeCredentials([]byte(`{"user":"bulk","password":"s3cret"}`))
	if err != nil || got != (Credentials{"bulk", "s3cret"}) {
		t.Errorf("DecodeCredentials = %v, %v", got, err)
	}
	for _, bad := range []string{`{"user":"s3cret"}`, `{"password":"s3cret"}`, `{"user":7,"password":"s3cret"}`,
		`{"user":"u","password":"` + strings.Repeat("s3cret", 200) + `"}`, `s3cret`} {
		if _, err := DecodeCredentials([]byte(bad)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("DecodeCredentials(%.40s) = %v", bad, err)
		}
	}
}
