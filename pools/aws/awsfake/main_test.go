package awsfake_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server, and Amazon's own clients for it.
type world struct {
	*awsfake.Server
	groups  *autoscaling.Client
	compute *ec2.Client
	balance *elasticloadbalancingv2.Client
	queue   *sqs.Client
	prices  *pricing.Client
	metrics *cloudwatch.Client
	seen    *recorder
}

func newWorld(t *testing.T, c awsfake.Config) *world {
	t.Helper()
	s := awstest.New(t, c)
	seen := newRecorder(t)
	config := aws.Config{
		Region: s.Region(), BaseEndpoint: new(s.URL()), HTTPClient: seen,
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "SECRET", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
	return &world{s, autoscaling.NewFromConfig(config), ec2.NewFromConfig(config), elasticloadbalancingv2.NewFromConfig(config), sqs.NewFromConfig(config),
		pricing.NewFromConfig(config, func(o *pricing.Options) { o.Region = "us-east-1" }), cloudwatch.NewFromConfig(config), seen}
}

// pass advances the time until all requested instances are in service.
func (w *world) pass() { w.Advance(2 * time.Minute) }

// alive returns the number of the owner's instances that exist and stay.
func (w *world) alive(owner string) (n int) {
	for _, i := range w.Instances(owner) {
		if i.State == "pending" || i.State == "running" {
			n++
		}
	}
	return n
}
