package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	callTimeout = time.Minute // one attempt, until the end of the response
	attempts    = 3
	maxBackoff  = time.Second
	maxPages    = 1000 // of one list
)

// clients sends the AWS requests of one pool, within its budgets.
type clients struct {
	pool                 string
	autoscaling          *autoscaling.Client
	ec2                  *ec2.Client
	elasticloadbalancing *elb.Client
	sqs                  *sqs.Client
	s3                   *s3.Client
	// once is for calls that must not be made twice. It retries only if AWS reported that it
	// changed nothing.
	once          aws.Retryer
	reads, writes *rate.Limiter
	pauses        pauses
	now           func() time.Time
}

func newClients(ctx context.Context, cfg Config) (*clients, error) {
	loaded, err := awssdk.Load(ctx, awssdk.Config{
		Region: cfg.Region, Endpoint: cfg.endpoint(serviceEC2), Keys: cfg.Keys,
	}, awssdk.HTTPClient().WithTimeout(callTimeout), func() aws.Retryer { return newRetryer(retry.DefaultRetryables...) })
	if err != nil {
		return nil, err
	}
	if cfg.Client != nil {
		loaded.HTTPClient = cfg.Client
	}
	loaded.HTTPClient = awssdk.Bounded{Client: loaded.HTTPClient}
	loaded.APIOptions = append(loaded.APIOptions, follow)
	query := loaded.Copy() // of services whose answers are XML
	query.APIOptions = append(slices.Clone(loaded.APIOptions), answers)
	return &clients{
		pool:                 cfg.Pool,
		autoscaling:          autoscaling.NewFromConfig(query, func(o *autoscaling.Options) { cfg.redirect(serviceAutoScaling, &o.BaseEndpoint) }),
		ec2:                  ec2.NewFromConfig(query, func(o *ec2.Options) { cfg.redirect(serviceEC2, &o.BaseEndpoint) }),
		elasticloadbalancing: elb.NewFromConfig(query, func(o *elb.Options) { cfg.redirect(serviceBalancing, &o.BaseEndpoint) }),
		sqs:                  sqs.NewFromConfig(loaded, func(o *sqs.Options) { cfg.redirect(serviceSQS, &o.BaseEndpoint) }),
		s3: s3.NewFromConfig(query, func(o *s3.Options) {
			cfg.redirect(serviceS3, &o.BaseEndpoint)
			o.UsePathStyle = o.BaseEndpoint != nil
		}),
		once:   newRetryer(retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes}),
		reads:  limiter(cfg.Reads),
		writes: limiter(cfg.Writes),
		now:    cfg.Now,
	}, nil
}

// newRetryer returns the SDK's adaptive retries for these errors only.
func newRetryer(of ...retry.IsErrorRetryable) aws.Retryer {
	return retryer{retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
		o.FailOnNoAttemptTokens = true // the retryer waits
		o.StandardOptions = append(o.StandardOptions, func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff, o.Retryables = attempts, maxBackoff, of
		})
	})}
}

// wait uses up one request of a budget.
func wait(ctx context.Context, budget *rate.Limiter) error {
	err := budget.Wait(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil: // the wait would exceed the context's deadline
		return fmt.Errorf("%w: the pool's own budget of %v requests a second is used up", pools.ErrThrottled, budget.Limit())
	}
	return &unsentError{err}
}

// read sends one request that changes nothing.
func (c *clients) read(ctx context.Context, action, resource string, call func() error) error {
	err := wait(ctx, c.reads)
	if err == nil {
		err = call()
	}
	return failure(action, resource, err)
}

// write sends one request that changes something. During a pause of its service it sends none: the error is pools.ErrThrottled.
func (c *clients) write(ctx context.Context, action, resource string, call func() error) error {
	service, _, _ := strings.Cut(action, ":")
	if err := c.pauses.check(service, c.now()); err != nil {
		return failure(action, resource, err)
	}
	err := wait(ctx, c.writes)
	if err == nil {
		err = call()
	}
	err = failure(action, resource, err)
	c.pauses.note(service, c.pool, c.now(), err)
	return err
}

// part bounds one of several reads to half of the remaining time, so that one that waits leaves time for the others.
func part(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// pages sends a request for each page of a list. get returns the token of the next page.
func (c *clients) pages(ctx context.Context, action, resource string, get func(token *string) (*string, error)) error {
	var token *string
	for range maxPages {
		var next *string
		err := c.read(ctx, action, resource, func() (err error) {
			next, err = get(token)
			return err
		})
		if err != nil || aws.ToString(next) == "" {
			return err
		}
		if token != nil && *token == *next {
			return failure(action, resource, errors.New("a page names itself as the next one"))
		}
		token = next
	}
	return failure(action, resource, fmt.Errorf("more than %d pages", maxPages))
}
