package decide_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

func TestLimitsJSON(t *testing.T) {
	all := api.TargetLimits{Min: 3, Max: api.Unlimited, MaxAdd: api.Unlimited, MaxRemove: 0.5}
	const text = `{"min_capacity":3,"max_capacity":"inf","max_weight_to_add":"inf","max_weight_to_remove":0.5}`
	if got := encode(t, all); got != text {
		t.Errorf("written as %s, want %s", got, text)
	}
	tests := []struct {
		name, text string
		want       api.TargetLimits
		err        string // a part of the error; empty: no error
	}{
		{"inf", text, all, ""},
		{"a number as large", strings.ReplaceAll(text, `"inf"`, "1.7976931348623157e308"), all, ""},
		{"what is left out stays", `{"max_capacity": 7}`, api.TargetLimits{Min: 1, Max: 7, MaxAdd: 3, MaxRemove: 4}, ""},
		{"null", `{"max_capacity": null}`, api.TargetLimits{Min: 1, Max: 2, MaxAdd: 3, MaxRemove: 4}, ""},
		{"unknown", `{"maximum": 7}`, api.TargetLimits{Min: 1, Max: 2, MaxAdd: 3, MaxRemove: 4}, `"maximum"`},
		{"another word", `{"max_capacity": "many"}`, api.TargetLimits{Min: 1, Max: 2, MaxAdd: 3, MaxRemove: 4}, "max_capacity"},
		{"no object", `[]`, api.TargetLimits{Min: 1, Max: 2, MaxAdd: 3, MaxRemove: 4}, "array"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := api.TargetLimits{Min: 1, Max: 2, MaxAdd: 3, MaxRemove: 4}
			err := json.Unmarshal([]byte(test.text), &got)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s is %+v, %v; want %+v, %q", test.text, got, err, test.want, test.err)
			}
		})
	}
}

func TestUnlimited(t *testing.T) {
	in := asks(t, 1e9)
	in.Policy.Limits = api.TargetLimits{Max: api.Unlimited, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited}
	in.State.Changes = []api.TargetChange{{At: in.Now, Up: 1e9, Down: 1e9}}
	d := decide.Decide(in)
	if want := 6 * (1e9 / 6 / 0.7); math.Abs(d.Target-want) > 1 || !strings.Contains(d.Steps[len(d.Steps)-1].Why, "inf") {
		t.Errorf("target %v, want %v: %+v", d.Target, want, d.Steps)
	}
	in.Apps[0].Opinion.Request = in.Apps[0].Opinion.Request.With(0, 0)
	if d := decide.Decide(in); d.Target != 0 {
		t.Errorf("target %v, want 0: %+v", d.Target, d.Steps)
	}
}

func FuzzLimitsJSON(f *testing.F) {
	for _, seed := range []string{`{"min_capacity":3,"max_capacity":"inf"}`, `{"max_capacity":1e999}`, `{}`, `null`, `[`, `{"max_capacity":{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var l api.TargetLimits
		if json.Unmarshal(data, &l) != nil {
			return
		}
		var again api.TargetLimits
		if err := json.Unmarshal([]byte(encode(t, l)), &again); err != nil || again != l {
			t.Errorf("%+v is read again as %+v, %v", l, again, err)
		}
	})
}
