package cloudwatch

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

// Whatever a variable is, only the value of its dimension has it, and other variables in it stay as they are.
func TestVariablesStayInTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app := rapid.StringMatching(`[ -9;-~][ -~]{0,40}`).Draw(t, "app")
		m := source.Metric{Namespace: "N", Name: "M", Dimensions: map[string]string{"Q": "a-$app-$", "P": "$pool"}, Stat: "Sum"}
		q, found := compile(source.Form{Metric: &m}, time.Hour)
		if len(found) > 0 {
			t.Fatal(found)
		}
		now := time.Unix(1_800_000_000, 0)
		w, err := want(metrics.Query{
			Text: q.Text, Step: q.Step, Lag: q.Lag, From: now.Add(-time.Hour), To: now,
			Dimensions: metrics.VariablesOf(q.Text, map[string]string{"app": app, "pool": "web", "cluster": "c"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.metric.Dimensions; len(got) != 2 || got["Q"] != "a-"+app+"-$" || got["P"] != "web" || w.metric.Name != "M" {
			t.Fatalf("%q became %+v", app, w.metric)
		}
	})
}

// A value that AWS would reject is an error, and no request.
func TestVariablesThatAWSRejects(t *testing.T) {
	for _, value := range []string{"", ":x", "\n", "ö"} {
		text, err := json.Marshal(source.Metric{Namespace: "N", Name: "M", Dimensions: map[string]string{"Q": "$app"}, Stat: "Sum"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := want(metrics.Query{Text: string(text), Step: time.Minute, Dimensions: metrics.Dimensions{"app": value}}); err == nil {
			t.Errorf("%q is accepted", value)
		}
	}
}
