package harmonizerd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

// leadership returns the check of the harmonizer: whether its loop answers, whether it works or stands by for another
// one, and whether it may stop app instances.
func leadership(status func(ctx context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error)) admin.Check {
	return admin.Check{Name: "lease", Read: func(ctx context.Context) admin.Result {
		s, err := status(ctx, api.HarmonizerQuery{Totals: true})
		why := s.Unready()
		switch {
		case err != nil:
			return admin.Result{State: admin.Failed, Dead: true, Detail: "the harmonizer does not answer: " + err.Error(), Remedy: "see its log, and restart it if this lasts"}
		case len(why) > 0:
			return admin.Result{State: admin.Failed, Detail: strings.Join(why, "; ")}
		case !s.Leading:
			return admin.Result{State: admin.Standby, Detail: "another harmonizer leads: " + cmp.Or(s.Leader, "unknown")}
		case !s.Complete:
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("leads, epoch %d, but stops nothing: %s", s.Epoch, s.Why), Remedy: "see \"weir app status\""}
		case len(s.Wrong) > 0:
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("leads, epoch %d; %s", s.Epoch, s.Wrong[0]), Remedy: "see \"weir app status\""}
		case len(s.Unanswered) > 0:
			return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("leads, epoch %d, but no scheduler answers its requests for %d apps, such as %.80q", s.Epoch, s.UnansweredApps, s.Unanswered[0].App),
				Remedy: "start \"weir placer\" for the pool, or see its log"}
		}
		return admin.Result{State: admin.OK, Detail: fmt.Sprintf("leads, epoch %d", s.Epoch)}
	}}
}
