package cloudwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

const (
	// gather is how long the first window of a tick waits for the others.
	gather = 20 * time.Millisecond
	// remembered is how long the points of a metric are kept after the last request for it.
	remembered = 2 * time.Hour
)

// server is a source.Source.
type server struct {
	name, region string
	timeout      time.Duration
	client       *cloudwatch.Client

	mu      sync.Mutex
	pending *batch            // gathers windows; nil: no window waits
	answers map[string]points // newest of each metric, by its key
	alone   map[string]bool   // keys of metrics that made AWS reject a call
	pause   pause
}

// open returns a client. It does not connect.
func open(site source.Site, s settings) (*server, error) {
	account := awssdk.Config{Region: s.Region, Endpoint: s.EndpointURL, Keys: site.Keys}
	if s.AccessKeyFile != "" {
		account.Keys = awssdk.KeysOf(s.AccessKeyFile)
	}
	if account.Endpoint == "" && site.Endpoint != nil {
		account.Endpoint = site.Endpoint(key)
	}
	// A window that fails is requested at the next tick, so the SDK repeats nothing.
	loaded, err := awssdk.Load(context.Background(), account, awssdk.HTTPClient(), func() aws.Retryer { return aws.NopRetryer{} })
	if err != nil {
		return nil, fmt.Errorf("sources.%s.%s: %w", site.Name, key, err)
	}
	loaded.HTTPClient = awssdk.Bounded{Client: loaded.HTTPClient}
	return &server{
		name: site.Name, region: s.Region, timeout: cmp.Or(s.Timeout, defaultTimeout), answers: map[string]points{}, alone: map[string]bool{},
		client: cloudwatch.NewFromConfig(loaded, func(o *cloudwatch.Options) {
			if account.Endpoint != "" {
				o.BaseEndpoint = &account.Endpoint
			}
		}),
	}, nil
}

// points are points of a metric, in order of time.
type points struct {
	from, to int64 // first and last time that was requested
	period   int64
	times    []int64
	values   []float64
}

// within returns the points of a window.
func (p points) within(from, to int64) (out points) {
	for i, at := range p.times {
		if at >= from && at <= to {
			out.times, out.values = append(out.times, at), append(out.values, p.values[i])
		}
	}
	return out
}

// answer reports whether the points are those of a window, and have its newest one: a newest point that is missing may
// be late.
func (p points) answer(w *wanted) bool {
	return p.from <= w.from && p.to >= w.to && len(p.within(w.to, w.to).times) > 0
}

// wanted is a window to read. Times are unix seconds.
type wanted struct {
	key      string // of the metric
	metric   source.Metric
	period   int64
	now      int64
	from, to int64 // first and last point: multiples of the period
	points   points
	err      error
}

// want returns the window of a query.
func want(q metrics.Query) (*wanted, error) {
	w := &wanted{period: int64(q.Step / time.Second), now: q.To.Unix()}
	if err := json.Unmarshal([]byte(q.Text), &w.metric); err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrQuery, err)
	}
	w.metric.Dimensions = maps.Clone(w.metric.Dimensions)
	for name, value := range w.metric.Dimensions {
		w.metric.Dimensions[name] = expand(value, q.Dimensions)
		if !proper(w.metric.Dimensions[name], maxValue) {
			return nil, fmt.Errorf("%w: dimension %s is %.100q", source.ErrQuery, name, w.metric.Dimensions[name])
		}
	}
	text, _ := json.Marshal(w.metric) // texts only
	w.key = fmt.Sprintf("%s/%d", text, w.period)
	w.from, w.to = source.Grid(q)
	return w, nil
}

// Window implements source.Source.
func (s *server) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	w, err := want(q)
	if err != nil {
		return nil, s.failure(q.Text, err)
	}
	if w.to < w.from {
		return nil, nil
	}
	for {
		err = s.read(ctx, w)
		if !errors.Is(err, errLeft) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, errLeft) {
		err = context.Cause(ctx)
	}
	if err != nil {
		text, _ := json.Marshal(w.metric)
		return nil, s.failure(string(text), err)
	}
	if len(w.points.times) == 0 {
		return nil, nil
	}
	return []metrics.Series{q.Fold(metrics.Series{Times: w.points.times, Values: w.points.values})}, nil
}

// failure is the error of a window.
func (s *server) failure(metric string, err error) error {
	return fmt.Errorf("source %s: metric %.600s: %w", s.name, metric, err)
}

// batch are the windows of a tick.
type batch struct {
	windows []*wanted
	done    chan struct{} // closed after the calls
}

// errLeft: the caller that sent the calls of a batch gave up. The other windows are requested again.
var errLeft = errors.New("the tick ended")

// read reads a window, together with those of other callers.
func (s *server) read(ctx context.Context, w *wanted) error {
	s.mu.Lock()
	if known := s.answers[w.key]; known.answer(w) {
		s.mu.Unlock()
		w.points = known.within(w.from, w.to)
		return nil
	}
	if err := s.pause.problem(time.Now()); err != nil {
		s.mu.Unlock()
		return err
	}
	b, leads := s.pending, s.pending == nil
	if leads {
		b = &batch{done: make(chan struct{})}
		s.pending = b
	}
	b.windows = append(b.windows, w)
	s.mu.Unlock()
	if leads {
		s.lead(ctx, b)
	}
	select {
	case <-b.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lead gathers the windows of a batch, and requests them.
func (s *server) lead(ctx context.Context, b *batch) {
	defer close(b.done)
	_ = retry.Pause(ctx, gather) // send returns the end of ctx
	s.mu.Lock()
	s.pending = nil
	calls := callsOf(b.windows, s.alone)
	s.mu.Unlock()
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
	defer cancel()
	var running sync.WaitGroup
	for _, c := range calls {
		running.Go(func() { s.send(limited, c, new(maxHalved)) })
	}
	running.Wait()
	for _, w := range b.windows {
		if w.err != nil && ctx.Err() != nil {
			w.err = errLeft
		}
	}
}
