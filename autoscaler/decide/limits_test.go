package decide

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// limited is the step of a pool without a history.
func limited(t, wanted float64, l api.TargetLimits, scaleInBlocked string) api.Step {
	return limit(api.DecisionInput{Policy: api.DecisionPolicy{Limits: l}, NoScaleIn: scaleInBlocked}, api.DecisionState{}, t, wanted)
}

// The limits of Clusterman's own tests: by default min 3, max 345, add 200, remove 10.
func TestLimit(t *testing.T) {
	usual := api.TargetLimits{Min: 3, Max: 345, MaxAdd: 200, MaxRemove: 10}
	with := func(change func(*api.TargetLimits)) api.TargetLimits { l := usual; change(&l); return l }
	min300 := with(func(l *api.TargetLimits) { l.Min = 300 })
	older := api.TargetLimits{Min: 24, Max: 5000, MaxAdd: 200, MaxRemove: 10}
	tests := []struct {
		name      string
		t, wanted float64
		limits    api.TargetLimits
		want      float64
	}{
		{"up", 49, 100, usual, 100},
		{"a step up", 49, 1000, usual, 249},
		{"to max", 49, 1000, with(func(l *api.TargetLimits) { l.Max = 97 }), 97},
		{"from over max", 490, 1000, usual, 480},
		{"from over max, little less", 490, 485, usual, 480}, // Clusterman: 485
		{"from over max, far less", 490, 100, usual, 480},
		{"from under min", 1, 100, min300, 201}, // Clusterman: 100
		{"from under min, far more", 1, 1000, min300, 201},
		{"down", 49, 40, usual, 40},
		{"a step down", 49, 20, usual, 39},
		{"to min", 49, 20, with(func(l *api.TargetLimits) { l.Min = 45 }), 45},
		{"less, from under min", 49, 30, min300, 249},
		{"unchanged", 49, 49, usual, 49},
		{"unchanged, from under min", 49, 49, min300, 249}, // Clusterman: 49
		{"older: up", 300, 400, older, 400},
		{"older: down", 300, 295, older, 295},
		{"older: far down", 300, -3700, older, 290},
		{"older: far up", 300, 4300, older, 500},
		{"older: near max", 4900, 5050, older, 5000},
		{"older: near min", 30, -10, older, 24},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if s := limited(test.t, test.wanted, test.limits, ""); s.After != test.want {
				t.Errorf("limit(%v, %v) = %v, want %v: %s", test.t, test.wanted, s.After, test.want, s.Why)
			}
		})
	}
}
