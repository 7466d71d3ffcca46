package webd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// pool returns the reader of a pool now.
func (s source) pool(pool web.Name) view.Pool {
	return view.Pool{Bus: s.bus, Cluster: s.cluster, Name: pool.Pool}
}

// Nodes implements web.Details.
func (s source) Nodes(ctx context.Context, pool web.Name) ([]api.Node, error) {
	return s.pool(pool).Nodes(ctx)
}

// Health implements web.Details.
func (s source) Health(ctx context.Context, pool web.Name, q api.HealthQuery) (api.HealthStatus, error) {
	h, err := s.pool(pool).Health(ctx, q)
	if errors.Is(err, events.ErrNoResponse) {
		return api.HealthStatus{}, nil // without a policy
	}
	if q.History { // the response is of all nodes that the query names, and its history may have others
		h.History = slices.DeleteFunc(h.History, func(one api.HealthHistory) bool { return len(q.Nodes) > 0 && !slices.Contains(q.Nodes, one.Node) })
	}
	return h, err
}

// Apps implements web.Details.
func (s source) Apps(ctx context.Context, pool web.Name, app string) (api.HarmonizerStatus, error) {
	if app == "" {
		return s.pool(pool).Apps(ctx)
	}
	h, err := view.Harmonizer(ctx, s.bus, s.cluster, api.HarmonizerQuery{App: app, Crashes: true})
	if err == nil && h.App != nil && h.App.Pool != "" && h.App.Pool != pool.Pool {
		h.App = nil // it is an app of another pool
	}
	return h, err
}

// lastLines is how many lines of an ended instance its page has, besides how it ended.
const lastLines = 5

// Output implements web.Details.
func (s source) Output(ctx context.Context, pool web.Name, app string, nodes []string) (map[string][]string, error) {
	client := wire.NewClient(s.bus.Conn(), s.cluster, pool.Pool)
	copies, failed := wire.NewFollower(client, wire.LogsRequest{App: app, Lines: lastLines}).Read(ctx, nodes)
	lines := map[string][]string{}
	for _, c := range copies {
		if c.Ended && len(c.Lines) > 1 { // the last line is how it ended
			lines[c.Instance] = c.Lines[:len(c.Lines)-1]
		}
	}
	var errs []error
	for _, node := range slices.Sorted(maps.Keys(failed)) {
		if !errors.Is(failed[node], wire.ErrNoAgent) { // its output is gone with it
			errs = append(errs, failed[node])
		}
	}
	if len(errs) > 0 {
		return lines, fmt.Errorf("%w; try: weir app logs %s", errs[0], app)
	}
	return lines, nil
}

// Versions implements web.Details.
func (s source) Versions(ctx context.Context, _ web.Name, app string) ([]api.AppVersion, error) {
	if !names.Valid(app) {
		return nil, nil
	}
	found, err := integrity.Read(ctx, s.bus.JetStream(), names.AppsBucket(s.cluster), app)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil // another program has the expected state
	}
	if err != nil || len(found.Keys) == 0 || found.Keys[0].Deleted || found.Keys[0].Damaged {
		return nil, err
	}
	row, err := message.DecodeApp(found.Keys[0].Value)
	if err != nil {
		return nil, err
	}
	return append([]api.AppVersion{row.Live()}, row.History...), nil
}

// Events implements web.Details.
func (s source) Events(ctx context.Context, pool web.Name, from, to time.Time, visit func(api.Event) error) error {
	skipped, err := history.NewFeed(s.cluster).Events(ctx, s.past(pool.Pool), from, to, func(_ time.Time, list []api.Event) error {
		for _, e := range list {
			if e.Pool != "" && e.Pool != pool.Pool {
				continue
			}
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	})
	if skipped > 0 {
		s.log.Warn("events of another version omitted", "pool", pool.Pool, "events", skipped)
	}
	return err
}
