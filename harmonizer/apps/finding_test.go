package apps

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOldNamesDecodeAsNew: values that the previous version published decode as the current
// values. The current values and all others decode unchanged, and are encoded unchanged.
func TestOldNamesDecodeAsNew(t *testing.T) {
	type names struct {
		Finding
		State LimitState `json:"state"`
	}
	tests := map[string]struct {
		text string
		want names
	}{
		"held":      {`{"kind":"braked","why":"rowless","rule":"brake","state":"held"}`, names{Finding{Kind: KindLimitHeld, Why: WhyWithoutRow, Rule: RuleDisruptionLimit}, LimitHeld}},
		"throttled": {`{"kind":"eased","why":"proven","rule":"brake","state":"eased"}`, names{Finding{Kind: KindLimitThrottled, Why: WhyProven, Rule: RuleDisruptionLimit}, LimitThrottled}},
		"not sent":  {`{"kind":"not_nudged","why":"stands_in","rule":"last_copy","state":""}`, names{Finding{Kind: KindNotNudged, Why: WhyReplacesMissing, Rule: RuleLastCopy}, LimitOff}},
		"current": {`{"kind":"limit_throttled","why":"replaces_missing","rule":"disruption_limit","state":"throttled"}`,
			names{Finding{Kind: KindLimitThrottled, Why: WhyReplacesMissing, Rule: RuleDisruptionLimit}, LimitThrottled}},
		"in another field": {`{"kind":"brake","why":"eased","rule":"stands_in","state":"braked"}`, names{Finding{Kind: "brake", Why: "eased", Rule: "stands_in"}, "braked"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got names
			if err := json.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	encoded, err := json.Marshal(names{Finding{Kind: KindLimitHeld, Why: WhyWithoutRow, Rule: RuleDisruptionLimit}, LimitThrottled})
	if want := `{"kind":"limit_held","why":"without_row","index":0,"rule":"disruption_limit","state":"throttled"}`; err != nil || string(encoded) != want {
		t.Errorf("encoded %s, %v, want %s", encoded, err, want)
	}
}
