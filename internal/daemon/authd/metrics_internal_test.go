package authd

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric/metrictest"
)

func TestEachMetricIsExported(t *testing.T) {
	metrictest.Complete(t, metric.Auth(), metrictest.Series(t, newCollector(func() authcallout.Status { return authcallout.Status{} })))
}
