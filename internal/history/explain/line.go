package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Line formats one tick as one line: request, pool, applications, problems.
func Line(r api.TickRecord, c api.InstanceCounts) string {
	at := r.At.Local().Format(time.TimeOnly)
	if r.Failed != "" {
		return fmt.Sprintf("%s tick ended early: %s", at, r.Failed)
	}
	if r.Paused != nil {
		return fmt.Sprintf("%s paused %s", at, Note(*r.Paused))
	}
	if r.Case == nil || r.Result == nil || r.Detail == nil {
		return at + " tick record of an unknown version"
	}
	parts := []string{fmt.Sprintf("%s request %s; pool %s -> %s, %s joined", at, r.Detail.Request,
		Number(r.Case.Input.Capacity.Target+r.Case.State.Offset), Number(r.Result.Target), Number(r.Snapshot.Joined))}
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", name, c.Apps[name].Running, c.Apps[name].Expected))
	}
	if len(r.Drains) > 0 {
		parts = append(parts, fmt.Sprintf("%d leaving", len(r.Drains)))
	}
	for _, a := range r.Detail.Apps {
		if a.Fallback {
			parts = append(parts, fmt.Sprintf("app %s is served by %s", a.App, Source(a.Source)))
		}
	}
	if r.Configuration != nil {
		parts = append(parts, "configuration changed: "+r.Configuration.String())
	}
	if h := r.ConfigurationHold; h != nil && h.Left {
		parts = append(parts, "! "+h.Why)
	}
	for _, p := range r.Problems {
		parts = append(parts, "! "+p)
	}
	return strings.Join(parts, "; ")
}
