package web

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// An advisor has a lane below that of its app and a row in the decision, but no layer in the plot of requests.
func TestAdvisorsHaveLanes(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	request := func(x float64) api.RequestSummary { return api.RequestSummary{&x} }
	ring := series.NewRing(10)
	var last api.Summary
	for i := range 5 {
		last = api.Summary{
			At: start.Add(time.Duration(i) * time.Minute), Every: time.Minute, Before: new(2.0), Target: new(2.0), Joined: 2,
			Request: new(request(9)), Apps: []api.AppSummaryTick{
				{Name: "web", Request: request(4), Raise: []api.AppSummaryTick{
					{Name: "web~calendar", Request: request(4)},
					{Name: "web~forecast", Verdict: api.VerdictFailed, Request: request(3), Source: api.FromHeld},
				}},
				{Name: "mail", Request: request(5)},
			},
		}
		ring.Add(series.Reduce(last, condition.Facts{}))
	}
	d := drawer{name: Name{"here", "default"}, ring: ring, w: series.Window{From: start, To: start.Add(5 * time.Minute), Columns: 5}, at: ring.Last()}
	d.kinds()
	d.apps = d.sorted()
	if got := d.requests().Legend; len(got) != 2 {
		t.Errorf("the plot of requests has %d layers, want one for each app", len(got))
	}
	var lanes []string
	for _, l := range d.signals() {
		lanes = append(lanes, l.Name+" "+l.Value+" "+l.Href)
	}
	want := []string{
		"mail value /pools/here/default/apps/mail", "web value /pools/here/default/apps/web",
		"web~calendar value /pools/here/default/apps/web", "web~forecast failed /pools/here/default/apps/web",
	}
	if strings.Join(lanes, "\n") != strings.Join(want, "\n") {
		t.Errorf("lanes\n%s\nwant\n%s", strings.Join(lanes, "\n"), strings.Join(want, "\n"))
	}
	var v tickView
	v.signals(last, nil, 0, nil)
	var rows []string
	for _, s := range v.Signals {
		rows = append(rows, s.App+" "+s.Request+" "+s.Verdict)
	}
	if got := strings.Join(rows, ", "); got != "web 4 value, web~calendar 4 value, web~forecast 3 failed; last value counts, mail 5 value" {
		t.Errorf("rows %s", got)
	}
}
