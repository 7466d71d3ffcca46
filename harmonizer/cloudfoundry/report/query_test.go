package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeQueries(t *testing.T) {
	if got, err := decodeStatusQuery([]byte(`{"droplet":7,"state":"FLAPPING","version":"v1"}`)); err != nil || got != (statusQuery{"7", "FLAPPING", "v1"}) {
		t.Errorf("decodeStatusQuery = %v, %v", got, err)
	}
	health, err := decodeHealthQuery([]byte(`{"droplets":[{"droplet":"a","version":"v1"},{"droplet":7}]}`))
	if want := (healthQuery{Apps: []appVersion{{"a", "v1"}, {"7", ""}}}); err != nil || !cmp.Equal(health, want) {
		t.Errorf("decodeHealthQuery = %v, %v", health, err)
	}
	droplet, err := decodeDropletQuery([]byte(`{"droplets":[{"droplet":"a"},{"droplet":7}]}`))
	if want := (dropletQuery{Apps: []string{"a", "7"}}); err != nil || !cmp.Equal(droplet, want) {
		t.Errorf("decodeDropletQuery = %v, %v", droplet, err)
	}
	many := `{"droplets":[` + strings.Repeat(`{"droplet":"a"},`, maxRequested) + `{"droplet":"a"}]}`
	for _, bad := range []string{"", `{"droplets":3}`, `{"droplets":[3]}`, `{"droplets":[{}]}`, many} {
		if _, err := decodeHealthQuery([]byte(bad)); err == nil {
			t.Errorf("decodeHealthQuery(%.40s) succeeded", bad)
		}
		if _, err := decodeDropletQuery([]byte(bad)); err == nil {
			t.Errorf("decodeDropletQuery(%.40s) succeeded", bad)
		}
	}
	for _, bad := range []string{"", `{"droplet":"a"}`, `{"state":"CRASHED"}`, `{"droplet":{},"state":"CRASHED"}`} {
		if _, err := decodeStatusQuery([]byte(bad)); err == nil {
			t.Errorf("decodeStatusQuery(%s) succeeded", bad)
		}
	}
}

func TestStatusAnswerHasRequestedEmptyList(t *testing.T) {
	for _, tt := range []struct {
		in   statusAnswer
		want string
	}{
		{statusAnswer{Indices: []indexSince{}, Complete: true}, `{"indices":[],"complete":true}`},
		{statusAnswer{Instances: []instanceSince{{"i0", 1.5}}, Complete: true}, `{"instances":[{"instance":"i0","since":1.5}],"complete":true}`},
		{statusAnswer{Error: "not complete"}, `{"complete":false,"error":"not complete"}`},
	} {
		if got, err := json.Marshal(tt.in); err != nil || string(got) != tt.want {
			t.Errorf("%+v is %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// No query makes a decoder panic or exceed its bounds.
func FuzzDecodeQueries(f *testing.F) {
	for _, s := range []string{`{"droplets":[{"droplet":1,"version":"v"}]}`, `{"droplet":"a","state":"CRASHED"}`, `{`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if q, err := decodeHealthQuery(data); err == nil && len(q.Apps) > maxRequested {
			t.Errorf("decodeHealthQuery took %d apps", len(q.Apps))
		}
		_, _ = decodeStatusQuery(data)
		_, _ = decodeDropletQuery(data)
	})
}
