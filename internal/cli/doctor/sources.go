package doctor

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
)

// sourceWindows reads each window of the pool that comes from a source, as a tick does.
func sourceWindows(ctx context.Context, s Site) []Finding {
	trial, err := windowtrial.New(s.Service, s.Pool, "")
	if err != nil {
		return []Finding{{Result: Failed, Detail: err.Error(), Fix: "correct the key sources of weir.yaml"}}
	}
	trial.OfSources()
	var bad []Finding
	all := trial.Run(ctx, nil)
	for _, one := range all {
		if one.Problem != "" {
			bad = append(bad, Finding{Result: Failed, Detail: fmt.Sprintf("%s of %s: %s", one.Metric, one.App, one.Problem),
				Fix: `compare with "weir metrics try"; until it is read, the pool does not shrink`})
		}
	}
	if len(all) == 0 || len(bad) > 0 {
		return bad
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("the sources answer %d windows of the pool's signals", len(all))}}
}
