package cloudwatch

import (
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"github.com/weirkeeper/weirkeeper/metrics/source"
)

// Direct lets a source send its requests with a client, without a network.
func Direct(s source.Source, client cloudwatch.HTTPClient) {
	of := s.(*server)
	of.client = cloudwatch.New(of.client.Options(), func(o *cloudwatch.Options) { o.HTTPClient = client })
}
