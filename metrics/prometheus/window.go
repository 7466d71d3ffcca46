package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

// maxSeries bounds the series of an answer.
const maxSeries = 2000

// server is a source.Source.
type server struct {
	name    string
	timeout time.Duration
	api     v1.API
}

// open returns a client of the server.
func open(name string, s settings) (*server, error) {
	inner, err := s.roundTripper()
	if err != nil {
		return nil, fmt.Errorf("sources.%s.prometheus: %w", name, err)
	}
	client, err := api.NewClient(api.Config{Address: s.URL, RoundTripper: &checked{inner: inner, settings: s}})
	if err != nil {
		return nil, fmt.Errorf("sources.%s.prometheus.url: %w", name, err)
	}
	p := &server{name: name, timeout: s.Timeout, api: v1.NewAPI(client)}
	if p.timeout == 0 {
		p.timeout = defaultTimeout
	}
	return p, nil
}

// Window implements source.Source.
func (p *server) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	text, err := expand(q.Text, q.Dimensions)
	if err != nil {
		return nil, p.failure(q.Text, err)
	}
	from, to := source.Grid(q)
	if to < from {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no answer within %v", p.timeout))
	defer cancel()
	found, warnings, err := p.api.QueryRange(ctx, text, v1.Range{Start: time.Unix(from, 0), End: time.Unix(to, 0), Step: q.Step}, v1.WithTimeout(p.timeout))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, p.failure(text, reason(err))
	}
	if len(warnings) > 0 {
		return nil, p.failure(text, fmt.Errorf("the answer may be partial: %.500s", strings.Join(warnings, "; ")))
	}
	matrix, ok := found.(model.Matrix)
	if !ok {
		return nil, p.failure(text, fmt.Errorf("the answer is a %v, not series of points", found.Type()))
	}
	if len(matrix) > maxSeries {
		return nil, p.failure(text, fmt.Errorf("the answer has %d series, at most %d are possible: aggregate them, as in sum by (zone) (...)", len(matrix), maxSeries))
	}
	return p.series(q, text, matrix)
}

// series returns the series of an answer.
func (p *server) series(q metrics.Query, text string, matrix model.Matrix) ([]metrics.Series, error) {
	var out []metrics.Series
	for _, stream := range matrix {
		if len(stream.Histograms) > 0 {
			return nil, p.failure(text, errors.New("the answer has native histograms: want numbers, as from histogram_quantile(...)"))
		}
		s := metrics.Series{Dimensions: dimensions(stream.Metric), Times: make([]int64, 0, len(stream.Values)), Values: make([]float64, 0, len(stream.Values))}
		for _, point := range stream.Values {
			if v := float64(point.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
				s.Times, s.Values = append(s.Times, point.Timestamp.Unix()), append(s.Values, v)
			}
		}
		if len(s.Times) > 0 {
			out = append(out, q.Fold(s))
		}
	}
	slices.SortFunc(out, func(a, b metrics.Series) int {
		return metrics.Identify(a.Name, a.Dimensions).Compare(metrics.Identify(b.Name, b.Dimensions))
	})
	return out, nil
}

// dimensions returns the labels of a series without its name, which most expressions remove.
func dimensions(labels model.Metric) metrics.Dimensions {
	d := metrics.Dimensions{}
	for name, value := range labels {
		if name != model.MetricNameLabel {
			d[string(name)] = string(value)
		}
	}
	return d
}

// failure is the error of a window.
func (p *server) failure(text string, err error) error {
	return fmt.Errorf("source %s: query %.300q: %w", p.name, text, err)
}

// reason returns the server's own words about a query where it has some.
func reason(err error) error {
	answer, ok := errors.AsType[*v1.Error](err)
	if !ok {
		return err
	}
	if body := (struct {
		ErrorType v1.ErrorType
		Error     string
	}{}); json.Unmarshal([]byte(answer.Detail), &body) == nil && body.Error != "" { // the client reads it for some codes only
		answer = &v1.Error{Type: body.ErrorType, Msg: body.Error}
	}
	if answer.Type == v1.ErrBadData || strings.Contains(answer.Msg, "unparsed data") { // VictoriaMetrics has one type for all
		return fmt.Errorf("%w: %.500s", source.ErrQuery, answer.Msg)
	}
	what := map[v1.ErrorType]string{
		v1.ErrExec: "cannot be evaluated", v1.ErrTimeout: "takes too long", v1.ErrCanceled: "was cancelled by the server",
	}[answer.Type]
	if what == "" {
		what = "failed"
	}
	return fmt.Errorf("%s: %.500s", what, answer.Msg)
}
