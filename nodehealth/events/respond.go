package events

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const (
	answerTimeout = 50 * time.Second // maximum duration of an order or a status
	travelTime    = 2 * time.Second  // of a response
	// maxQuery is the maximum size of a request: MaxOrderNodes ids and some text.
	maxQuery = api.MaxOrderNodes*(6*api.MaxNodeID+4) + 16<<10
)

// headerError holds the reason why a request has no response.
const headerError = "Weir-Error"

func (b *Bus) answerOrder(ctx context.Context, m *nats.Msg, handler nodehealth.Handler) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var o api.RepairOrder
	var a api.RepairOrderResponse
	err := strictjson.Request(m.Data, maxQuery, &o)
	if err == nil {
		err = api.ValidateOrder(o)
	}
	if err != nil {
		b.warn("bad_request", "order refused", err)
	} else {
		a, err = handler.Order(ctx, o)
	}
	if err != nil {
		a = api.RepairOrderResponse{Error: prose.Line(err.Error(), api.MaxWhy)}
	}
	data, err := json.Marshal(a)
	if err == nil && int64(len(data)) > b.nc.MaxPayload() {
		data, err = json.Marshal(api.RepairOrderResponse{OK: a.OK, Error: "the response exceeds the maximum message size: name fewer nodes"})
	}
	b.respond(m, data, err)
}

func (b *Bus) answerStatus(ctx context.Context, m *nats.Msg, handler nodehealth.Handler) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var q api.HealthQuery
	err := strictjson.Request(m.Data, maxQuery, &q)
	if err == nil {
		err = api.ValidateQuery(q)
	}
	if err != nil {
		b.warn("bad_request", "status refused", err)
		b.respond(m, nil, err)
		return
	}
	s, err := handler.Status(ctx, q)
	if err != nil {
		b.respond(m, nil, err)
		return
	}
	s.Lost = maps.Clone(s.Lost)
	for what, n := range b.Counters() {
		if s.Lost == nil {
			s.Lost = map[string]uint64{}
		}
		s.Lost[what] += n
	}
	data, err := fitting(s, len(q.Nodes) == 0, b.nc.MaxPayload())
	b.respond(m, data, err)
}

// fitting returns a status that fits in a message. A page that is too long ends earlier.
func fitting(s api.HealthStatus, paged bool, most int64) ([]byte, error) {
	for {
		data, err := json.Marshal(s)
		if err != nil || int64(len(data)) <= most {
			return data, err
		}
		if !paged || len(s.Nodes) < 2 {
			return nil, errors.New("the status exceeds the maximum message size: name fewer nodes")
		}
		s.Nodes = s.Nodes[:len(s.Nodes)/2]
		s.Next = s.Nodes[len(s.Nodes)-1].Node
	}
}

// respond sends data, or the reason why there is no data.
func (b *Bus) respond(m *nats.Msg, data []byte, err error) {
	out := &nats.Msg{Subject: m.Reply, Data: data}
	if err != nil {
		out.Data, out.Header = nil, nats.Header{headerError: {prose.Line(err.Error(), api.MaxWhy)}}
	}
	if err := bus.PublishMsg(b.nc, out); err != nil {
		b.warn("unanswered", "request not answered", err)
	}
}
