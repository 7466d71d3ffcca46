package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

func TestEvaluationUnderWayIsShown(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	r := autoscaler.Record{
		At: noon, Result: &resolve.Result{}, Detail: &autoscaler.Detail{},
		Case: &resolve.Case{Input: decide.Input{Apps: []decide.App{{
			Name: "web", Configured: true,
			Opinion: decide.Opinion{Signal: "shop/rps", Version: "v1", Why: "its first evaluation is in progress"},
		}}}},
		InProgress: []ask.InProgress{{App: "web", Since: noon.Add(-40 * time.Second), Limit: time.Minute}},
	}
	var out strings.Builder
	Record(&out, r, noon)
	for _, want := range []string{
		"  web            shop/rps v1: no answer yet (its first evaluation is in progress)\n",
		"  web            evaluation under way for 40s, time limit 1m0s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the explanation misses %q:\n%s", want, out.String())
		}
	}
}
