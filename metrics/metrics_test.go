package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics"
)

func TestCheckApp(t *testing.T) {
	tests := map[string]struct {
		app  string
		good bool
	}{
		"plain":               {"web", true},
		"of the default":      {"__default__", true},
		"as long as may be":   {strings.Repeat("w", 63), true},
		"too long":            {strings.Repeat("w", 64), false},
		"none":                {"", false},
		"another one's":       {"w,eb", false},
		"a comma at the end":  {"web,", false},
		"a path":              {"../x", false},
		"a subject":           {"web.*", false},
		"a terminal's escape": {"web\x1b[2J", false},
		"as long as a novel ": {strings.Repeat("w", 1<<20), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := metrics.CheckApp(tt.app)
			if (err == nil) != tt.good || err != nil && (!errors.Is(err, metrics.ErrMalformed) || len(err.Error()) > 500) {
				t.Errorf("CheckApp(%.300q) = %v, want it good: %t", tt.app, err, tt.good)
			}
		})
	}
}
