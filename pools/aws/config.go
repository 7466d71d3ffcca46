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

	"github.com/weirkeeper/weirkeeper/internal/awssdk"
)

// Kind is what a group is at Amazon.
type Kind string

const (
	AutoScaling Kind = "asg" // an Auto Scaling group
	SpotFleet   Kind = "sfr" // a Spot Fleet request
)

// noun is the kind for people.
func (k Kind) noun() string {
	if k == SpotFleet {
		return "Spot Fleet request"
	}
	return "Auto Scaling group"
}

// Selector finds groups of our pool: those of a kind with a tag that names it,
// or the Spot Fleet requests that JSON objects in S3 list for it.
type Selector struct {
	Kind     Kind
	Tag      string // key
	S3Bucket string // instead of Tag
	S3Prefix string // of the objects' keys; a folder
	// Isolation is the id of the security group that cuts instances of these groups
	// off: it has no rules. Empty: they cannot be fenced by the network.
	Isolation string
}

func (s Selector) String() string {
	if s.S3Bucket != "" {
		return fmt.Sprintf("the list s3://%s/%s", s.S3Bucket, s.folder())
	}
	return fmt.Sprintf("the tag %q", s.Tag)
}

// Claim is a selector by tag of another pool of our cluster.
type Claim struct {
	Pool string
	Kind Kind
	Tag  string
}

// Requests a second that one pool makes at most. Amazon's documented buckets of
// EC2 give an account and region 20 reads and 5 writes a second, which several
// pools and people share.
const (
	defaultReads  = 8
	defaultWrites = 2
	// burst is how many seconds' worth may be saved up: Amazon's are 5 to 10.
	burst = 5
)

// Config says which groups are the pool's, and how Amazon is reached.
type Config struct {
	Cluster string
	Pool    string
	Region  string // empty: as the SDK finds it
	// Endpoint is http(s)://host[:port] of all services, in place of Amazon's.
	Endpoint string
	// Endpoints, if not nil, takes Endpoint's place: it returns that of each of ec2,
	// autoscaling, elasticloadbalancing, sqs and s3; empty: Amazon's.
	Endpoints func(service string) string
	// Keys returns the keys of each request. If it is nil or returns empty keys, the
	// SDK's usual chain finds some.
	Keys awssdk.Keys

	Groups []Selector
	Others []Claim
	Queue  string // name or URL of the SQS queue with EC2's warnings; may be empty

	// Reads and Writes are requests a second at most; 0: 8 and 2.
	Reads  float64
	Writes float64
	// Client sends the requests; nil: the SDK's, over the network.
	Client aws.HTTPClient
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Services, as their endpoints are named.
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

// redirect sets a client's endpoint to the configured one, if there is one.
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

// Validate returns every problem of the configuration, joined.
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

// limiter is a token bucket of that many requests a second.
func limiter(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(perSecond*burst))))
}
