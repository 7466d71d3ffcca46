package cloudwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/metrics/source"
)

const (
	maxMetrics = 500 // of a call
	maxPages   = 200 // of a call; AWS has 100 800 points in a page
	maxHalved  = 20  // calls of a tick and class; nine find one metric of 500
)

// asked is a metric of a call.
type asked struct {
	key     string
	windows []*wanted
	class   class
	got     points
	most    int              // points that the answer may have
	status  types.StatusCode // of the last page that has the metric; empty: no page has it
	message string           // of AWS; empty: none
}

// call is a request for some metrics of one class.
type call []*asked

// class separates metrics that one call cannot have. A call has one begin for all metrics: periods are aligned by it, old
// points exist by long periods only, and a long window would make the answers of short ones longer.
type class struct {
	aligned int64  // the begin is a multiple of this, in seconds
	age     int    // index in ages
	alone   string // key of a metric that made AWS reject a call
}

// classOf returns the class of a window.
func classOf(w *wanted) class {
	c := class{aligned: w.period, age: ageOf(time.Duration(w.now-w.from) * time.Second)}
	for _, common := range []int64{300, 3600} {
		if common%w.period == 0 {
			c.aligned = common
			break
		}
	}
	return c
}

// callsOf returns the calls for windows. Windows of one metric and class share a place in a call.
func callsOf(windows []*wanted, alone map[string]bool) (calls []call) {
	type place struct {
		class class
		key   string
	}
	all := map[place]*asked{}
	for _, w := range windows {
		at := place{classOf(w), w.key}
		if alone[w.key] {
			at.class.alone = w.key
		}
		if all[at] == nil {
			all[at] = &asked{key: w.key, class: at.class}
		}
		all[at].windows = append(all[at].windows, w)
	}
	ordered := slices.SortedFunc(maps.Values(all), func(a, b *asked) int {
		return cmp.Or(cmp.Compare(a.class.aligned, b.class.aligned), cmp.Compare(a.class.age, b.class.age), strings.Compare(a.class.alone, b.class.alone), strings.Compare(a.key, b.key))
	})
	for i, a := range ordered {
		if i == 0 || a.class != ordered[i-1].class || len(calls[len(calls)-1]) == maxMetrics {
			calls = append(calls, nil)
		}
		calls[len(calls)-1] = append(calls[len(calls)-1], a)
	}
	return calls
}

// input returns the request of a call.
func (c call) input() *cloudwatch.GetMetricDataInput {
	start, end := int64(math.MaxInt64), int64(math.MinInt64)
	in := &cloudwatch.GetMetricDataInput{ScanBy: types.ScanByTimestampAscending}
	for i, a := range c {
		first := a.windows[0]
		a.status, a.message = "", ""
		a.got = points{from: math.MaxInt64, to: math.MinInt64, period: first.period}
		for _, w := range a.windows {
			a.got.from, a.got.to = min(a.got.from, w.from), max(a.got.to, w.to)
		}
		start, end = min(start, a.got.from), max(end, a.got.to+first.period)
		metric := &types.Metric{Namespace: &first.metric.Namespace, MetricName: &first.metric.Name}
		for _, name := range slices.Sorted(maps.Keys(first.metric.Dimensions)) {
			metric.Dimensions = append(metric.Dimensions, types.Dimension{Name: &name, Value: aws.String(first.metric.Dimensions[name])})
		}
		in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{
			Id: aws.String("m" + strconv.Itoa(i)), MetricStat: &types.MetricStat{Metric: metric, Stat: &first.metric.Stat, Period: aws.Int32(int32(first.period))},
		})
	}
	start -= start % c[0].class.aligned
	for _, a := range c {
		a.most = int((end-start)/a.got.period) + 1
	}
	in.StartTime, in.EndTime = aws.Time(time.Unix(start, 0)), aws.Time(time.Unix(end, 0))
	return in
}

// send sends a call, and gives each window its points or its error. If AWS rejects a call because of one metric, its halves
// are sent in its place, so that the metric is alone in the end. left is how many calls may be halved.
func (s *server) send(ctx context.Context, c call, left *int) {
	err := s.request(ctx, c)
	if rejected(err) && len(c) > 1 && *left > 0 {
		*left--
		s.send(ctx, c[:len(c)/2], left)
		s.send(ctx, c[len(c)/2:], left)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if awssdk.Throttled(err) {
		s.pause.lengthen(time.Now(), err)
	}
	switch {
	case err != nil:
		err = s.reason(ctx, err)
	case !time.Now().Before(s.pause.until): // else another call of the tick was throttled
		s.pause = pause{}
	}
	for _, a := range c {
		switch {
		case err == nil:
			delete(s.alone, a.key)
		case rejected(err) && len(c) == 1:
			s.alone[a.key] = true
		}
		problem := err
		if problem == nil {
			problem = a.problem()
		}
		if problem == nil {
			s.answers[a.key] = a.got
		}
		for _, w := range a.windows {
			w.points, w.err = a.got.within(w.from, w.to), problem
		}
	}
	now := c[0].windows[0].now
	maps.DeleteFunc(s.answers, func(_ string, p points) bool { return now-p.to-p.period > int64(remembered/time.Second) })
}

// request reads all pages of a call.
func (s *server) request(ctx context.Context, c call) error {
	in := c.input()
	for range maxPages {
		out, err := s.client.GetMetricData(ctx, in)
		if err != nil {
			return err
		}
		if there, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok && !there.IsZero() {
			if err := source.Skew(there, time.Now()); err != nil {
				return err
			}
		}
		if len(out.Messages) > 0 {
			return fmt.Errorf("CloudWatch reports about the call: %s", text(out.Messages))
		}
		for _, r := range out.MetricDataResults {
			if err := c.add(r); err != nil {
				return err
			}
		}
		token := aws.ToString(out.NextToken)
		if token == "" {
			return nil
		}
		if token == aws.ToString(in.NextToken) {
			return errors.New("CloudWatch answers a page that names itself as the next one")
		}
		in.NextToken = &token
	}
	return fmt.Errorf("CloudWatch answers more than %d pages: use longer periods or shorter ranges", maxPages)
}

// add adds a result of a page to its metric.
func (c call) add(r types.MetricDataResult) error {
	digits, ok := strings.CutPrefix(aws.ToString(r.Id), "m")
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || i < 0 || i >= len(c) {
		return fmt.Errorf("CloudWatch answers %.100q, which was not requested", aws.ToString(r.Id))
	}
	a := c[i]
	a.status, a.message = r.StatusCode, cmp.Or(a.message, text(r.Messages))
	if times, values := len(r.Timestamps), len(r.Values); times != values || len(a.got.times)+times > a.most {
		a.message = fmt.Sprintf("%d times and %d values more, of %d possible", times, values, a.most-len(a.got.times))
		return nil
	}
	for n, at := range r.Timestamps {
		a.got.times, a.got.values = append(a.got.times, at.Unix()), append(a.got.values, r.Values[n])
	}
	return nil
}

// text returns the messages of AWS as one line.
func text(messages []types.MessageData) string {
	var all []string
	for _, m := range messages {
		all = append(all, aws.ToString(m.Code)+": "+aws.ToString(m.Value))
	}
	return fmt.Sprintf("%.500s", strings.Join(all, "; "))
}

// problem returns what makes the answer useless; nil: it is complete.
func (a *asked) problem() error {
	status := string(a.status)
	if a.message != "" {
		status += " (" + a.message + ")"
	}
	switch {
	case a.status == "":
		return errors.New("CloudWatch answers nothing about the metric")
	case a.status == types.StatusCodeForbidden:
		return fmt.Errorf("CloudWatch answers %s; allow the action cloudwatch:GetMetricData", status)
	case a.status != types.StatusCodeComplete:
		return fmt.Errorf("CloudWatch answers %s: the points are not complete", status)
	case a.message != "":
		return fmt.Errorf("CloudWatch reports about the metric: %s", a.message)
	}
	for i, at := range a.got.times {
		if v := a.got.values[i]; math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("CloudWatch answers the value %v", v)
		}
		if i > 0 && at <= a.got.times[i-1] {
			return errors.New("CloudWatch answers points out of order")
		}
	}
	return nil
}

// rejected reports whether AWS rejected the content of a call.
func rejected(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (strings.HasPrefix(api.ErrorCode(), "Validation") || strings.HasPrefix(api.ErrorCode(), "InvalidParameter") || strings.HasPrefix(api.ErrorCode(), "MissingParameter"))
}

// reason returns why a call failed, and what to do.
func (s *server) reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, ok := errors.AsType[smithy.APIError](err); !ok {
		if _, ok := errors.AsType[*smithy.OperationError](err); !ok {
			return err
		}
	}
	explained := awssdk.Explain("GetMetricData in "+s.region, "cloudwatch:GetMetricData", err)
	if rejected(err) {
		return fmt.Errorf("%w: %w", source.ErrQuery, explained)
	}
	return explained
}

// pause is a time without requests, after AWS rejected one because there were too many.
type pause struct {
	until  time.Time
	length time.Duration // of the next pause, before its jitter
	why    error
}

const (
	firstPause   = 5 * time.Second
	longestPause = time.Minute
)

// problem returns why no request is sent now; nil: one is.
func (p *pause) problem(now time.Time) error {
	if now.Before(p.until) {
		return fmt.Errorf("no request before %s: %w", p.until.UTC().Format(time.TimeOnly+"Z"), p.why)
	}
	return nil
}

// lengthen begins a pause, unless one is under way. Consecutive ones double.
func (p *pause) lengthen(now time.Time, why error) {
	if now.Before(p.until) {
		return
	}
	p.length = max(firstPause, p.length)
	p.until, p.why = now.Add(p.length+rand.N(p.length/2)), awssdk.Explain("CloudWatch limits the rate of requests", "", why)
	p.length = min(2*p.length, longestPause)
}
