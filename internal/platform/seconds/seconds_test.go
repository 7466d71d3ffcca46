package seconds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Inner is exported because a struct that embeds it promotes its fields.
type Inner struct {
	Uptime time.Duration `json:"uptime"`
}

type outer struct {
	Took time.Duration `json:"took_ns"`
	Inner
	List  []Inner                  `json:"list,omitempty"`
	Named map[string]Inner         `json:"named,omitempty"`
	Each  map[string]time.Duration `json:"each,omitempty"`
	Count map[string]int           `json:"count,omitempty"`
	Maybe *time.Duration           `json:"maybe_ns,omitempty"`
	At    time.Time                `json:"at,omitzero"`
	Text  string                   `json:"text,omitempty"`
	Large int                      `json:"large_ns,omitempty"`
}

func TestOf(t *testing.T) {
	long := 90 * time.Minute
	v := outer{
		Took: 1500 * time.Millisecond, Inner: Inner{time.Nanosecond}, List: []Inner{{-time.Second}, {}}, Named: map[string]Inner{"took_ns": {time.Hour}},
		Each: map[string]time.Duration{"x_ns": 2 * time.Second}, Count: map[string]int{"took_ns": 7, "uptime": 8}, Maybe: &long, Text: "a<b", Large: 12,
	}
	got, err := Of(v)
	want := `{"took_seconds":1.5,"uptime":0.000000001,"list":[{"uptime":-1},{"uptime":0}],"named":{"took_ns":{"uptime":3600}},` +
		`"each":{"x_ns":2},"count":{"took_ns":7,"uptime":8},"maybe_seconds":5400,"text":"a\u003cb","large_ns":12}`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("Of: %v (-want +got):\n%s", err, diff)
	}
}

// Back of what Of returns is the value.
func TestBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "ns")) })
		maybe := duration.Draw(t, "maybe")
		v := outer{
			Took: duration.Draw(t, "took"), Inner: Inner{duration.Draw(t, "uptime")}, Maybe: &maybe,
			Named: map[string]Inner{rapid.String().Draw(t, "name"): {duration.Draw(t, "named")}},
			Each:  map[string]time.Duration{"took_seconds": duration.Draw(t, "each")}, Count: map[string]int{"uptime": rapid.Int().Draw(t, "count")},
		}
		data, err := Of(v)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Back[outer](data)
		if err != nil || string(back) != string(plain) {
			t.Errorf("Back of %s = %s, %v, want %s", data, back, err, plain)
		}
	})
}

func TestBackRefuses(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"took_seconds":`, `{"took_seconds":1e300}`, `{"took_seconds":1e2}`, `{} {}`, `{"each":{"a":99999999999999999999}}`,
		strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300),
	} {
		if got, err := Back[outer]([]byte(text)); err == nil {
			t.Errorf("Back of %.40s = %s, want an error", text, got)
		}
	}
}

func FuzzBack(f *testing.F) {
	f.Add([]byte(`{"took_seconds":1.5,"each":{"a":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := Back[outer](data); err == nil && !json.Valid(got) {
			t.Errorf("Back of %q = %q, which is not JSON", data, got)
		}
	})
}
