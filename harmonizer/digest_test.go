package harmonizer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestMassLossFindings publishes the 150,000 findings of a mass loss: once of 500 apps, once
// of one app each. Each finding is published, alone or in the count of a summary.
func TestMassLossFindings(t *testing.T) {
	const lost = 150_000
	for _, tt := range []struct {
		name      string
		of        int           // apps
		most      int           // longest time until published
		byApp     int           // of app7, at least
		published time.Duration // after that
	}{
		{"of 500 apps", 500, 10_600, 300, 6 * time.Second},
		{"of an app each", lost, 110_100, 1, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				c := &counters{n: map[string]uint64{}}
				h := newPublisher(w.join("a"), c, discard)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- h.run(ctx) }()
				batch := make([]api.AppFinding, 0, 1000)
				for i := range lost {
					batch = append(batch, api.AppFinding{Kind: api.AppFindingMissing, Why: api.WhyNodeLost, Rule: api.AppRuleMissing,
						App: fmt.Sprintf("app%d", i%tt.of), Index: i / tt.of, Version: "v1"})
					if len(batch) == cap(batch) {
						h.reportFindings(batch)
						batch = batch[:0]
					}
				}
				h.reportFindings([]api.AppFinding{{Kind: api.AppFindingNodeLost, Node: "n1"}, {Kind: api.AppFindingNodeLost, Node: "n2"}, {Kind: api.AppFindingLimitHeld}})
				<-time.After(tt.published)
				h.reportFindings([]api.AppFinding{{Kind: api.AppFindingReleased}}) // a single finding again
				<-time.After(time.Second)
				cancel()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				all, app7, named := 0, 0, map[string]bool{}
				for _, f := range w.findings {
					all += max(f.Count, 1)
					if f.App == "app7" {
						app7 += max(f.Count, 1)
					}
					named[string(f.Kind)+f.Node] = true
				}
				if all != lost+4 || len(w.findings) > tt.most || app7 < tt.byApp {
					t.Errorf("%d findings in %d, %d of app7: want %d in at most %d, %d of app7", all, len(w.findings), app7, lost+4, tt.most, tt.byApp)
				}
				if !named["node_lostn1"] || !named["node_lostn2"] || !named["limit_held"] {
					t.Errorf("nodes or the disruption limit are not named: %v", named)
				}
				if last := w.findings[len(w.findings)-1]; last.Kind != api.AppFindingReleased {
					t.Errorf("the last finding is %v, want released", last)
				}
				if n := c.snapshot()["findings_summarised"]; int(n) != all-len(w.findings) {
					t.Errorf("%d summarised, want %d", n, all-len(w.findings))
				}
			})
		})
	}
}

func TestSummary(t *testing.T) {
	d := digest{waiting: make([]api.AppFinding, findingsLimit)}
	at := time.Unix(1000, 0)
	for _, f := range []api.AppFinding{
		{Kind: api.AppFindingMissing, App: "web", Index: 3, Version: "v1", Why: api.WhyNodeLost, Rule: api.AppRuleMissing},
		{Kind: api.AppFindingExtra, App: "web", Index: 9, Version: "v1", Instance: "i9", Node: "n1"},
		{Kind: api.AppFindingMissing, App: "web", Index: 4, Version: "v1", Why: api.WhyNodeLost, Rule: api.AppRuleMissing, Until: at},
		{Kind: api.AppFindingMissing, App: "web", Index: 5, Version: "v1", Why: api.WhyNodeLost, Rule: api.AppRuleMissing, Detail: "x"},
	} {
		d.addFinding(&f)
	}
	d.takeFindings(findingsLimit)
	want := []string{
		"missing web count=3 version=v1 rule=missing (node_lost)",
		"extra web/9 version=v1 instance=i9 node=n1",
	}
	var got []string
	for _, f := range d.takeFindings(findingsLimit) {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
}
