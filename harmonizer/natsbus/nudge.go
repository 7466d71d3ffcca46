package natsbus

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Dialect is the form that nudges take.
type Dialect string

const (
	// DialectHealth is message.Start on health.start, message.Stop on health.stop.
	DialectHealth Dialect = "health"
	// DialectCloudController is START and STOP objects on
	// cloudcontrollers.hm.requests.PARTITION, as the classic health manager
	// sent them.
	DialectCloudController Dialect = "cloudcontroller"
)

// request is a nudge of DialectCloudController.
type request struct {
	App         string   `json:"droplet"`
	Op          string   `json:"op"`           // START or STOP
	LastUpdated *int64   `json:"last_updated"` // unix seconds, null if unknown
	Version     string   `json:"version,omitempty"`
	Indices     []int    `json:"indices,omitempty"`
	Instances   []string `json:"instances,omitempty"`
	Flapping    bool     `json:"flapping,omitempty"`
}

// Nudge sends a start or stop. ErrDisconnected if it cannot go out at once.
func (b *Bus) Nudge(n apps.Nudge) error {
	switch {
	case b.cfg.Dialect == DialectCloudController:
		return b.publish("cloudcontrollers.hm.requests."+b.cfg.Partition, classic(n))
	case n.Start != nil:
		return b.publish(message.SubjectStart, n.Start)
	}
	return b.publish(message.SubjectStop, n.Stop)
}

func classic(n apps.Nudge) request {
	if n.Start != nil {
		return request{App: n.Start.App, Op: "START", LastUpdated: known(n.Start.LastUpdated),
			Version: n.Start.Version, Indices: n.Start.Indices, Flapping: n.Start.Flapping}
	}
	return request{App: n.Stop.App, Op: "STOP", LastUpdated: known(n.Stop.LastUpdated),
		Instances: slices.Sorted(maps.Keys(n.Stop.Instances))}
}

func known(seconds int64) *int64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}

// PublishCounts sends a pool's counts. ErrDisconnected if they cannot go out at
// once; nats.ErrMaxPayload if they are too many for one message.
func (b *Bus) PublishCounts(c message.Counts) error {
	return b.publish(message.CountsSubject(b.cfg.Cluster, c.Pool), c)
}

func (b *Bus) publish(subject string, v any) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("publish %s: %w", subject, ErrDisconnected)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
