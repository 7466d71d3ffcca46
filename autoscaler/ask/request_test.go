package ask

import "testing"

func TestRequestSpecsAreEqual(t *testing.T) {
	t.Parallel()
	q := func(windows []Window, parameters map[string]any) RequestSpec {
		return RequestSpec{Windows: windows, Parameters: parameters, Setpoint: 0.7}
	}
	nested := func(x any) map[string]any { return map[string]any{"a": map[string]any{"b": []any{x}}} }
	tests := []struct {
		name string
		a, b RequestSpec
		want bool
	}{
		{"empty", q(nil, nil), q([]Window{}, map[string]any{}), true},
		{"equal", q([]Window{{Name: "m"}}, nested(1.5)), q([]Window{{Name: "m"}}, nested(1.5)), true},
		{"another value", q(nil, nested(1.5)), q(nil, nested(2.5)), false},
		{"another range", q([]Window{{Name: "m", Range: 1}}, nil), q([]Window{{Name: "m", Range: 2}}, nil), false},
		{"another resolution", q([]Window{{Name: "m"}}, nil), q([]Window{{Name: "m", Resolution: 1}}, nil), false},
		{"another setpoint", q(nil, nil), RequestSpec{Setpoint: 0.8}, false},
		{"another time of launch", q(nil, nil), RequestSpec{Setpoint: 0.7, Launch: 1}, false},
		{"no parameters", q(nil, nested(1.5)), q(nil, nil), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.a.equal(test.b); got != test.want {
				t.Errorf("equal = %t, want %t", got, test.want)
			}
		})
	}
}
