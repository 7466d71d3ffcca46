package daemon

import (
	"fmt"
	"os"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// OpenMetrics returns where windows come from.
func OpenMetrics(s config.Service, b *bus.Bus, cluster string) (metrics.Store, error) {
	if s.Metrics.Influx == nil {
		return embedded.NewClient(b.Conn(), cluster), nil
	}
	i := *s.Metrics.Influx
	var token string
	if i.TokenFile != "" {
		data, err := os.ReadFile(i.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("metrics.influx.token_file: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	return influx.New(influx.Config{URL: i.URL, Org: i.Org, Bucket: i.Bucket, Token: influx.Token(token)})
}
