// Package awssdk sets up the AWS SDK: with given keys, or as the SDK finds them in
// files, environment and roles, with deadlines, and without its own log lines. Keys that
// change in a file are in use with the next request.
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
	// Keys returns the keys of a request. If it is nil or returns empty keys, the SDK's
	// usual chain finds some.
	Keys Keys
}

// Keys returns an access key and its secret. It is called for each request, so it
// returns rotated keys as soon as it can read them. Both are empty if it has no keys.
type Keys func() (access, secret string, err error)

// Fixed returns Keys that never change.
func Fixed(access, secret string) Keys {
	return func() (string, string, error) { return access, secret, nil }
}

// HTTPClient returns a client that waits no longer than it should for a connection
// and for the head of an answer.
func HTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerTimeout })
}

// Load reads the SDK's files and environment, or, if there are keys, neither. It does not
// connect. ErrNoRegion if there is no region. The client is one whose transport the SDK
// can give the authorities of AWS_CA_BUNDLE; a wrapper of it belongs around the HTTPClient
// of what is returned.
//
// The credentials follow the shared credentials file and the shared configuration file:
// if one of them changed since the last request, the next request reads both again.
func Load(ctx context.Context, c Config, client *awshttp.BuildableClient, retryer func() aws.Retryer) (aws.Config, error) {
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithLogger(logging.Nop{}), config.WithRetryer(retryer),
	}
	if c.Region != "" {
		load = append(load, config.WithRegion(c.Region))
	}
	source := &credentialSource{keys: c.Keys, load: load}
	loaded := aws.Config{Region: c.Region, HTTPClient: client, Logger: logging.Nop{}, Retryer: retryer}
	if !source.given() {
		var err error
		if loaded, err = source.reload(ctx); err != nil {
			return aws.Config{}, err
		}
	}
	if loaded.Region == "" {
		if c.Endpoint == "" {
			return aws.Config{}, ErrNoRegion
		}
		loaded.Region = endpointRegion
	}
	loaded.Credentials = source
	return loaded, nil
}
