package aws

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
)

// Kind is the type of a group at AWS.
type Kind string

const (
	AutoScaling Kind = "asg" // an Auto Scaling group
	SpotFleet   Kind = "sfr" // a Spot Fleet request
)

// noun returns the kind for people.
func (k Kind) noun() string {
	if k == SpotFleet {
		return "Spot Fleet request"
	}
	return "Auto Scaling group"
}

// Selector finds groups of one pool: groups of a kind with a tag that names the pool, or the Spot
// Fleet requests of the pool in JSON objects in S3.
type Selector struct {
	Kind     Kind
	Tag      string // key
	S3Bucket string // instead of Tag
	S3Prefix string // prefix of the objects' keys; a folder
	// Isolation is the id of a security group without rules, which isolates instances of these
	// groups. Empty: they have no network fence.
	Isolation string
}

func (s Selector) String() string {
	if s.S3Bucket != "" {
		return fmt.Sprintf("the list s3://%s/%s", s.S3Bucket, s.folder())
	}
	return fmt.Sprintf("the tag %q", s.Tag)
}

// Claim is the tag selector of another pool of the cluster.
type Claim struct {
	Pool string
	Kind Kind
	Tag  string
}

// Request rates of one pool, in requests a second. AWS documents limits for EC2 of 20 reads and 5
// writes a second for an account and region. Several pools and people share them.
const (
	defaultReads  = 8
	defaultWrites = 2
	// burst is how many seconds of requests may be saved up. At AWS it is 5 to 10.
	burst = 5
)

// Config selects the pool's groups and the connection to AWS.
type Config struct {
	Cluster string
	Pool    string
	Region  string // empty: the SDK's default
	// Endpoint is http(s)://host[:port] of all services, in place of those of AWS.
	Endpoint string
	// Endpoints, if not nil, replaces Endpoint: it returns the endpoint of ec2, autoscaling,
	// elasticloadbalancing, sqs or s3. Empty: that of AWS.
	Endpoints func(service string) string
	// Keys returns the keys of each request. If it is nil or returns empty keys, the SDK's default
	// chain applies.
	Keys awssdk.Keys

	Groups []Selector
	Others []Claim
	Queue  string // name or URL of the SQS queue with EC2's warnings; may be empty

	// Reads and Writes are maximum rates in requests a second. 0: 8 and 2.
	Reads  float64
	Writes float64
	// Client sends the requests; nil: the SDK's, over the network.
	Client aws.HTTPClient
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Names of the services, for their endpoints.
const (
	serviceEC2         = "ec2"
	serviceAutoScaling = "autoscaling"
	serviceBalancing   = "elasticloadbalancing"
	serviceSQS         = "sqs"
	serviceS3          = "s3"
)

func (c Config) endpoint(service string) string {
	if c.Endpoints != nil {
		return c.Endpoints(service)
	}
	return c.Endpoint
}

// redirect sets a client's endpoint if one is configured.
func (c Config) redirect(service string, endpoint **string) {
	if e := c.endpoint(service); e != "" {
		*endpoint = &e
	}
}

func (c Config) withDefaults() Config {
	c.Reads = cmp.Or(c.Reads, defaultReads)
	c.Writes = cmp.Or(c.Writes, defaultWrites)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate returns all problems of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Cluster == "" || c.Pool == "" {
		problem("cluster %q, pool %q: want both", c.Cluster, c.Pool)
	}
	if len(c.Groups) == 0 {
		problem("no groups: want at least one tag or list to find them by")
	}
	for i, s := range c.Groups {
		switch {
		case s.Kind != AutoScaling && s.Kind != SpotFleet:
			problem("group %d: kind %q: want %q or %q", i, s.Kind, AutoScaling, SpotFleet)
		case (s.Tag == "") == (s.S3Bucket == ""):
			problem("group %d: want a tag or an S3 bucket, and not both", i)
		case s.S3Bucket != "" && s.Kind != SpotFleet:
			problem("group %d: only Spot Fleet requests are listed in S3", i)
		case s.Isolation != "" && !strings.HasPrefix(s.Isolation, "sg-"):
			problem("group %d: isolation %q: want the id of a security group, sg-...", i, s.Isolation)
		}
	}
	for _, service := range []string{serviceEC2, serviceAutoScaling, serviceBalancing, serviceSQS, serviceS3} {
		endpoint := c.endpoint(service)
		u, err := url.Parse(endpoint)
		if endpoint != "" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "") {
			problem("endpoint %q of %s: want http(s)://host[:port]", endpoint, service)
		}
	}
	for _, r := range []float64{c.Reads, c.Writes} {
		if !(r >= 0) || math.IsInf(r, 0) {
			problem("%v requests a second: want a number that is not negative", r)
		}
	}
	return errors.Join(errs...)
}

// limiter returns a token bucket of that many requests a second.
func limiter(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(perSecond*burst))))
}
