package harmonizer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// TestStatusDecodesOldKeys: a status of the previous version decodes as one of this version.
func TestStatusDecodesOldKeys(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	limit := apps.LimitStatus{State: apps.LimitThrottled, Since: at, Indices: 50, ReleaseAt: 6, WithoutRow: 1, WithoutRowOf: 9, RowsSince: at}
	const rest = `"complete":true,"at":"2026-01-02T15:04:05Z","counters":{"heartbeats":3},"leading":true,"queue":{"starts":1,"stops":0,"send":0,"save":0}`
	const old = `"brake":{"state":"eased","since":"2026-01-02T15:04:05Z","indices":50,"release_at":6,"rowless":1,"rowless_of":9,"rows_since":"2026-01-02T15:04:05Z"}`
	const current = `"disruption_limit":{"state":"throttled","since":"2026-01-02T15:04:05Z","indices":50,"release_at":6,"without_row":1,"without_row_of":9,"rows_since":"2026-01-02T15:04:05Z"}`
	for name, test := range map[string]struct {
		limit string
		want  apps.LimitStatus
	}{
		"old":           {old, limit},
		"current":       {current, limit},
		"old, off":      {`"brake":{"release_at":0}`, apps.LimitStatus{}},
		"current, off":  {`"disruption_limit":{"release_at":0}`, apps.LimitStatus{}},
		"current, both": {strings.Replace(old, "50", "51", 1) + "," + current, limit},
	} {
		t.Run(name, func(t *testing.T) {
			var got Status
			if err := json.Unmarshal([]byte("{"+rest+","+test.limit+"}"), &got); err != nil {
				t.Fatal(err)
			}
			want := Status{Complete: true, At: at, Counters: map[string]uint64{"heartbeats": 3}, Leading: true, Queue: QueueStatus{Starts: 1}, DisruptionLimit: test.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			encoded, err := json.Marshal(got)
			if err != nil || strings.Contains(string(encoded), "brake") || strings.Contains(string(encoded), "rowless") {
				t.Errorf("encoded %s, %v, want only current keys", encoded, err)
			}
			var again Status
			if err := json.Unmarshal(encoded, &again); err != nil || !cmp.Equal(again, got) {
				t.Errorf("decoded again %+v, %v, want %+v", again, err, got)
			}
		})
	}
	if err := json.Unmarshal([]byte(`{"brake":3}`), new(Status)); err == nil {
		t.Error("a number decodes as the disruption limit")
	}
}
