package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// failed returns the opinion of a signal that did not respond, with the reason.
func failed(s Signal, at Endpoint, why string, now time.Time) api.Opinion {
	return api.Opinion{
		Signal: s.Namespace + "/" + s.Name, Version: cmp.Or(at.Version, s.Version), // the running version, otherwise the pinned one
		Verdict: api.VerdictFailed, Why: why, At: now, Yanked: at.Yanked,
	}
}

// opinion converts a response to an opinion.
func (r *round) opinion(s Signal, x response) api.Opinion {
	o := failed(s, x.endpoint, "", r.now)
	o.Latency = x.latency
	if x.err != nil {
		o.Why = x.err.Error()
		if _, ok := errors.AsType[*staleError](x.err); ok {
			o.Verdict = api.VerdictStale
		}
		if errors.Is(x.err, context.DeadlineExceeded) && !x.unsent {
			o.Why = fmt.Sprintf("no answer within %v: %v", r.config.limit(s), x.err)
		}
		return o
	}
	if len(x.body.Unknown) > 0 {
		r.log.Warn("signal response has unknown keys", "signal", o.Signal, "app", s.App, "keys", x.body.Unknown)
	}
	o.Explanation = decide.OneLine(x.body.Explanation)
	switch x.body.Verdict {
	case sigproto.VerdictNoOpinion:
		o.Verdict, o.Why = api.VerdictNoOpinion, cmp.Or(o.Explanation, "no reason given")
	case sigproto.VerdictStale:
		o.Verdict, o.Why = api.VerdictStale, cmp.Or(o.Explanation, "no reason given")
	case sigproto.VerdictValue:
		o.Verdict, o.Request = api.VerdictValue, resources(x.body)
		if o.Request.IsEmpty() {
			o.Verdict, o.Why = api.VerdictNoOpinion, "every resource is null"
		}
	default:
		o.Why = fmt.Sprintf("returned unknown verdict %q", decide.OneLine(string(x.body.Verdict)))
	}
	return o
}

// resources returns the resources that a response requests from the pool.
func resources(r sigproto.Response) resource.Request {
	var out resource.Request
	for k, v := range map[resource.Kind]*float64{
		resource.CPUs: r.Resources.CPUs, resource.Mem: r.Resources.Mem,
		resource.Disk: r.Resources.Disk, resource.GPUs: r.Resources.GPUs,
	} {
		if v != nil {
			out = out.With(k, *v)
		}
	}
	return out
}

// resultOf returns the result of a response, for the directory.
func resultOf(s Signal, x response, o api.Opinion) Result {
	return Result{
		App: s.App, Version: x.endpoint.Version, Address: x.endpoint.Address, Group: x.endpoint.Group,
		Verdict: o.Verdict, Why: o.Why, Silent: x.silent(),
	}
}
