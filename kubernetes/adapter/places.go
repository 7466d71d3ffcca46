package adapter

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/pools/fit"
)

// codeNotReady refuses a question while the state of nodes and pods is not current.
const codeNotReady = "not_ready"

// answerPlaces answers where the pods of a pool fit.
func (a *Adapter) answerPlaces(p *Pool, m *nats.Msg) {
	var q api.PlacesQuestion
	err := json.Unmarshal(m.Data, &q)
	if err == nil {
		err = q.Validate()
	}
	if err != nil {
		a.respond(p, m, nil, call.Invalid("question: %v", err))
		return
	}
	now := time.Now()
	if s := a.mirror.State(now); !s.Fresh {
		a.respond(p, m, nil, &call.Error{Code: codeNotReady, Message: "the state of nodes and pods is not current: " + s.Why})
		return
	}
	a.respond(p, m, a.places(now, p.Name, q), nil)
}

// places returns where the pods of a pool fit.
func (a *Adapter) places(now time.Time, pool string, q api.PlacesQuestion) api.Places {
	in := core.PlacesInput{Pool: pool, Question: q, Budgets: a.mirror.Unknown(kube.Budgets, now), Volumes: a.mirror.Unknown(kube.Volumes, now)}
	var snapshot *core.Cluster
	a.mirror.Read(func(c *core.Cluster) { snapshot = c.Snapshot() }) // changes wait for nothing else
	w, all := snapshot.Places(now, in)
	answer := fit.Solve(w)
	answer.Held = all.Sub(answer.Unplaceable)
	for k, x := range answer.Held {
		answer.Held[k] = max(x, 0)
	}
	return answer
}
