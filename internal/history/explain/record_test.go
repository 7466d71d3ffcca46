package explain

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Numbers have at most six digits.
func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1.5: "1.5", 2.0 / 3: "0.67", -3.10: "-3.1", 9999.999: "10000", 12345.678: "12345.7", 123456.7: "123457", 1234567: "1234567", 999999.5: "1000000", 1e15: "1e+15", math.Inf(1): "+Inf",
	} {
		if got := Number(x); got != want {
			t.Errorf("Number(%v) = %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0.005: "0.005", 1.0 / 3: "0.333333", 262144: "262144"} {
		if got := Quantity(x); got != want {
			t.Errorf("Quantity(%v) = %s, want %s", x, got, want)
		}
	}
}

func TestEvaluationUnderWayIsShown(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r := api.TickRecord{
		At: noon, Result: &api.CaseResult{}, Detail: &api.TickDetail{},
		Case: &api.Case{Input: api.DecisionInput{Apps: []api.AppInput{{
			Name: "web", Configured: true,
			Opinion: api.Opinion{Signal: "shop/rps", Version: "v1", Why: "its first evaluation is in progress"},
		}}}},
		InProgress: []api.InProgress{{App: "web", Since: noon.Add(-40 * time.Second), Limit: time.Minute}},
	}
	var out strings.Builder
	Record(&out, r, noon)
	for _, want := range []string{
		"  web            shop/rps v1: no answer yet (its first evaluation is in progress)\n",
		"  web            evaluation under way for 40s, time limit 1m\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the explanation misses %q:\n%s", want, out.String())
		}
	}
}

func TestAdvisorsHaveALine(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	four := resource.Request{}.With(resource.CPUs, 4)
	r := api.TickRecord{
		At: noon, Result: &api.CaseResult{}, Detail: &api.TickDetail{},
		Case: &api.Case{Input: api.DecisionInput{Apps: []api.AppInput{{
			Name: "web", Configured: true, Opinion: api.Opinion{Signal: "shop/rps", Version: "v1", Verdict: api.VerdictValue, Request: four, At: noon},
			Raise: []api.AdvisorInput{
				{Name: "web~calendar", Opinion: api.Opinion{Signal: "weir/calendar", Verdict: api.VerdictNoOpinion, Why: "next is office hours"}},
				{Name: "web~forecast", Opinion: api.Opinion{Signal: "shop/forecast", Version: "v3", Verdict: api.VerdictValue, Request: four, At: noon, Explanation: "weekdays rise"}},
			},
		}}}},
	}
	var out strings.Builder
	Record(&out, r, noon)
	want := "  web            shop/rps v1: value cpus=4, in 0s, 0s ago\n" +
		"  web~calendar   advisor of web: weir/calendar shipped: no_opinion (next is office hours)\n" +
		"  web~forecast   advisor of web: shop/forecast v3: value cpus=4, in 0s, 0s ago; weekdays rise\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("the explanation misses\n%s:\n%s", want, out.String())
	}
}
