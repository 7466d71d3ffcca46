package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// ErrNoStore: no process serves the metrics of this cluster on this bus. A window is unknown, and nothing was
// written.
var ErrNoStore = errors.New("no metrics store answers on this bus: start \"weir metrics serve\", or \"weir up\"")

// maxPoints bounds the window that a Client assembles.
const maxPoints = 1 << 25

// Client is a metrics.Store that another process serves. Its errors are ErrNoStore, a *RemoteError, ErrBadAnswer, or
// errors of the connection. An error never becomes an empty window.
type Client struct {
	nc      *nats.Conn
	cluster string
	writer  store.Writer
}

// NewClient returns the store of that cluster on that bus. The server refuses series of another writer.
func NewClient(nc *nats.Conn, cluster string, w store.Writer) *Client {
	return &Client{nc: nc, cluster: cluster, writer: w}
}

// Write stores the samples; see metrics.Store. Many samples take several requests. After an error other than a
// *metrics.SampleError, the first samples may be stored. Writing them again is harmless.
func (c *Client) Write(ctx context.Context, samples []metrics.Sample) error {
	_, err := c.Put(ctx, samples)
	return err
}

// Put is Write that also returns the number of dropped samples; see Store.Put.
func (c *Client) Put(ctx context.Context, samples []metrics.Sample) (dropped int, err error) {
	if err := CheckSamples(time.Now(), samples); err != nil {
		return 0, fmt.Errorf("write metrics: %w", err)
	}
	if len(samples) == 0 {
		return 0, nil
	}
	requests, err := encodeWrites(samples, limit(maxRequest, c.nc))
	if err != nil {
		return 0, fmt.Errorf("write metrics: %w", err)
	}
	for _, request := range requests {
		data, err := c.request(ctx, writeSubject(c.cluster, c.writer), request)
		if err != nil {
			return 0, fmt.Errorf("write metrics: %w", err)
		}
		n, err := decodeWritten(data)
		if err != nil {
			return 0, fmt.Errorf("write metrics: %w", err)
		}
		dropped += n
	}
	return min(dropped, len(samples)), nil
}

// decodeWritten returns the number of dropped samples from the response of a write.
func decodeWritten(data []byte) (dropped int, err error) {
	var r reply
	if len(data) > maxMessage || json.Unmarshal(data, &r) != nil || data[0] != '{' || r.Dropped < 0 || r.Dropped > maxRequest {
		return 0, fmt.Errorf("%w: %.100q", ErrBadAnswer, data)
	}
	return r.Dropped, nil
}

// Window returns the matching series; see metrics.Store.
func (c *Client) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if _, err := q.Check(); err != nil {
		return nil, fmt.Errorf("read metrics: query: %w", err)
	}
	request := windowRequest{
		Type: q.Type, Name: q.Name, Dimensions: q.Dimensions,
		From: Second(q.From.Unix()), To: Second(q.To.Unix()), Regex: q.Regex, Prefix: q.Prefix,
		Resolution: int64(q.Resolution / time.Second),
	}
	g := windowAssembly{query: q}
	for {
		p, err := c.page(ctx, request)
		if err == nil {
			err = g.addPage(p)
		}
		if err != nil {
			return nil, fmt.Errorf("read window of metric %q: %w", q.Name, err)
		}
		if p.Next == nil {
			return g.series, nil
		}
		request.After = p.Next
	}
}

func (c *Client) page(ctx context.Context, request windowRequest) (Page, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return Page{}, err
	}
	answer, err := c.request(ctx, windowSubject(c.cluster), data)
	if err != nil {
		return Page{}, err
	}
	return decodePage(answer)
}

// request sends one request and returns a response that is not an error.
func (c *Client) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := bus.Request(ctx, c.nc, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("%w (cluster %s)", ErrNoStore, c.cluster)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the metrics store does not answer in time: %w; check its process (\"weir metrics serve\") and its log: it starts, hangs or is halted", err)
	}
	if err != nil {
		return nil, fmt.Errorf("request to the metrics store: %w", err)
	}
	if err := decodeError(msg.Data); err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// decodeError returns the error in a response, or nil.
func decodeError(data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	if len(data) > 8*maxMessage {
		return fmt.Errorf("%w: an error of %d bytes", ErrBadAnswer, len(data))
	}
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// windowAssembly assembles a window from its pages.
type windowAssembly struct {
	query  metrics.Query
	series []metrics.Series
	last   metrics.Identity // of the last series
	points int
}

// addPage appends a page, which must follow the previous one.
func (g *windowAssembly) addPage(p Page) error {
	for _, s := range p.Series {
		if err := g.addSeries(s); err != nil {
			return err
		}
	}
	if p.Next != nil && len(p.Series) == 0 {
		return fmt.Errorf("%w: an empty page that is not the end", ErrBadAnswer)
	}
	return nil
}

// addSeries accepts only series and points after the existing ones, so that every window ends.
func (g *windowAssembly) addSeries(s metrics.Series) error {
	if g.points += len(s.Times); g.points > maxPoints {
		return fmt.Errorf("more than %d points", maxPoints)
	}
	if !g.query.Regex && s.Name != g.query.Name {
		return fmt.Errorf("%w: a series of the name %.200q", ErrBadAnswer, s.Name)
	}
	if (s.Counts != nil) != (g.query.Resolution != 0) {
		return fmt.Errorf("%w: the resolution of %.200q", ErrBadAnswer, s.Name)
	}
	id := metrics.Identify(s.Name, s.Dimensions)
	order := 1
	if len(g.series) > 0 {
		order = id.Compare(g.last)
	}
	if order > 0 {
		if g.query.Regex && len(g.series) == metrics.MaxMatches {
			return fmt.Errorf("%w: more than %d", metrics.ErrTooMany, metrics.MaxMatches)
		}
		g.series, g.last = append(g.series, s), id
		return nil
	}
	end := &g.series[len(g.series)-1]
	if order < 0 || s.Times[0] <= end.Times[len(end.Times)-1] {
		return fmt.Errorf("%w: %.200q is out of order", ErrBadAnswer, id.Key())
	}
	end.Times, end.Values, end.Counts = append(end.Times, s.Times...), append(end.Values, s.Values...), append(end.Counts, s.Counts...)
	return nil
}
