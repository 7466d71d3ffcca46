package api_test

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestLinesOfBootTimes(t *testing.T) {
	b := api.Boots{Times: map[string][]float64{"m5.large eu-1a": {120, 60, 90.26}, "m5.large eu-1b": nil, api.NoMarket: {2}}}
	for group, want := range map[string][]string{
		"a": {"boot time of group a: p50 2s, p95 2s, of the last machine", "boot time of group a, m5.large eu-1a: p50 1m30.3s, p95 2m0s, of the last 3 machines"},
		"":  {"boot time: p50 2s, p95 2s, of the last machine", "boot time of m5.large eu-1a: p50 1m30.3s, p95 2m0s, of the last 3 machines"},
	} {
		if got := b.Lines(group); !slices.Equal(got, want) {
			t.Errorf("Lines(%q) = %q, want %q", group, got, want)
		}
	}
	if _, ok := (api.Boots{}).Quantile("", 0.5); ok {
		t.Error("without a boot time, a quantile is known")
	}
}
