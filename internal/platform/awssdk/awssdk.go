// Package awssdk configures the AWS SDK: credentials, deadlines, and no log lines of the SDK. Credentials are given,
// or come from files, environment and roles in the SDK's order. Rotated keys in a file are used from the next request
// on.
//
//	loaded, err := awssdk.Load(ctx, awssdk.Config{Region: "eu-central-1"}, awssdk.HTTPClient(), retryer)
//
// Everything is safe for concurrent use.
//
// The provider of AWS, the bucket of releases and the metadata client use it.
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
	// CredentialsTimeout bounds the search for credentials.
	CredentialsTimeout = 5 * time.Second
	dialTimeout        = 5 * time.Second
	answerTimeout      = 30 * time.Second // from the end of a request to the header of its response

	// endpointRegion signs requests to an own endpoint without a region. Such servers rarely check it.
	endpointRegion = "us-east-1"
)

// ErrNoRegion: neither the configuration nor the environment has a region.
var ErrNoRegion = errors.New("no region is set: set it in the configuration or as AWS_REGION")

// Config selects the server and the credentials.
type Config struct {
	Region   string // empty: the SDK's choice
	Endpoint string // a server instead of AWS; it needs no region
	// Keys returns the keys of a request. If Keys is nil or returns empty keys, the SDK's usual chain applies.
	Keys Keys
}

// Keys returns an access key and its secret. It is called for each request, so rotated keys apply at once. Without
// keys both are empty.
type Keys func() (access, secret string, err error)

// Fixed returns Keys that never change.
func Fixed(access, secret string) Keys {
	return func() (string, string, error) { return access, secret, nil }
}

// HTTPClient returns a client with timeouts for the connection and for the header of a response.
func HTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerTimeout })
}

// Load reads the SDK's files and environment, or neither if there are keys. It does not connect. Without a region it
// returns ErrNoRegion. The SDK adds the authorities of AWS_CA_BUNDLE to the client's transport. To wrap the client,
// wrap HTTPClient of the result.
//
// If a shared credentials or configuration file changed since the last request, the next request reads both again.
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
