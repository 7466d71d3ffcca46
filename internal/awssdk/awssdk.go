// Package awssdk is how this house sets up the AWS SDK: with given keys, or as the
// SDK finds them in files, environment and roles, with deadlines, and without its own
// log lines.
//
//	loaded, err := awssdk.Load(ctx, awssdk.Config{Region: "eu-central-1"}, awssdk.HTTPClient(), retryer)
//
// All of it may be used concurrently.
package awssdk

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

const (
	// CredentialsTimeout bounds the search for keys.
	CredentialsTimeout = 5 * time.Second
	dialTimeout        = 5 * time.Second
	answerTimeout      = 30 * time.Second // from the end of a request to the head of its answer

	// endpointRegion signs requests to an endpoint of its own when no region is set
	// anywhere: such servers rarely mind.
	endpointRegion = "us-east-1"
)

// ErrNoRegion: neither the configuration nor the environment names a region.
var ErrNoRegion = errors.New("no region is set: set it in the configuration or as AWS_REGION")

// Config says where AWS is, and with which keys.
type Config struct {
	Region   string // empty: as the SDK finds it
	Endpoint string // a server in place of AWS; then a region need not be set
	// AccessKey and SecretKey are for keys that are known; without them the SDK's
	// usual chain finds some.
	AccessKey string
	SecretKey string
}

// HTTPClient returns a client that waits no longer than it should for a connection
// and for the head of an answer.
func HTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerTimeout })
}

// Load reads the SDK's files and environment, or, with keys given, neither. It does
// not connect. ErrNoRegion if there is no region. The client is one whose transport
// the SDK can give the authorities of AWS_CA_BUNDLE; a wrapper of it belongs around
// the HTTPClient of what is returned.
func Load(ctx context.Context, c Config, client *awshttp.BuildableClient, retryer func() aws.Retryer) (aws.Config, error) {
	loaded, err := c.load(ctx, client, retryer)
	if err != nil {
		return aws.Config{}, err
	}
	if loaded.Region == "" {
		if c.Endpoint == "" {
			return aws.Config{}, ErrNoRegion
		}
		loaded.Region = endpointRegion
	}
	loaded.Credentials = chain{loaded.Credentials}
	return loaded, nil
}

func (c Config) load(ctx context.Context, client *awshttp.BuildableClient, retryer func() aws.Retryer) (aws.Config, error) {
	if c.AccessKey != "" {
		return aws.Config{
			Region: c.Region, HTTPClient: client, Logger: logging.Nop{}, Retryer: retryer,
			Credentials: credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, ""),
		}, nil
	}
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithLogger(logging.Nop{}), config.WithRetryer(retryer),
	}
	if c.Region != "" {
		load = append(load, config.WithRegion(c.Region))
	}
	return config.LoadDefaultConfig(ctx, load...)
}

// chain bounds the SDK's credential chain, and marks its errors.
type chain struct{ provider aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (c chain) Retrieve(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, CredentialsTimeout)
	defer cancel()
	found, err := c.provider.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, &CredentialsError{err}
	}
	return found, nil
}

// CredentialsError is what a request fails with if no keys are found.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "no credentials: " + e.Err.Error() }

// Unwrap returns why none were found.
func (e *CredentialsError) Unwrap() error { return e.Err }
